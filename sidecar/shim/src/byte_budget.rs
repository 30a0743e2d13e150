//! A bound on the bytes of messages that wait between the reader of a program's output and a slower consumer.

use tokio::sync::watch;

/// What a message costs besides its content, so that the number of small messages is bounded as well.
const OVERHEAD: usize = 1024;

/// Counts the bytes of waiting messages. The reader waits until the next message has room, which makes the program wait. A message
/// beyond the limit has room as soon as no other waits.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    limit: usize,
    used: watch::Sender<Used>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    bytes: usize,
    exemptions: usize,
}

impl ByteBudget {
    pub fn new(limit: usize) -> Self {
        Self { limit, used: watch::Sender::new(Used::default()) }
    }

    /// Waits until a message of this length has room, and counts it. Cancel-safe.
    pub async fn take(&self, bytes: usize) -> Held {
        self.wait_for(bytes.saturating_add(OVERHEAD)).await;
        self.hold(bytes)
    }

    /// Waits until there is room for a message whose length is not known yet. Cancel-safe.
    pub async fn room(&self) {
        self.wait_for(1).await;
    }

    async fn wait_for(&self, cost: usize) {
        let has_room = |used: &Used| {
            used.exemptions > 0 || used.bytes == 0 || used.bytes.saturating_add(cost) <= self.limit
        };
        let mut used = self.used.subscribe();
        // The sender is a part of `self`, so the wait succeeds.
        let _ = used.wait_for(has_room).await;
    }

    /// Counts a message at once, also beyond the limit.
    pub fn hold(&self, bytes: usize) -> Held {
        let cost = bytes.saturating_add(OVERHEAD);
        self.used.send_modify(|used| used.bytes = used.bytes.saturating_add(cost));
        Held { cost, used: self.used.clone() }
    }

    /// Lets the reader continue beyond the limit, while the consumer waits for a message behind the others.
    pub fn exempt(&self) -> Exemption {
        self.used.send_modify(|used| used.exemptions += 1);
        Exemption { used: self.used.clone() }
    }

    /// The cost of all waiting messages.
    pub fn used(&self) -> usize {
        self.used.borrow().bytes
    }
}

/// The bytes of one message. Dropping it releases them.
#[derive(Debug)]
pub struct Held {
    cost: usize,
    used: watch::Sender<Used>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let cost = self.cost;
        self.used.send_modify(|used| used.bytes = used.bytes.saturating_sub(cost));
    }
}

/// See [`ByteBudget::exempt`].
#[derive(Debug)]
pub struct Exemption {
    used: watch::Sender<Used>,
}

impl Drop for Exemption {
    fn drop(&mut self) {
        self.used.send_modify(|used| used.exemptions = used.exemptions.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn message_waits_until_earlier_ones_are_consumed() {
        let budget = ByteBudget::new(10_000);
        let first = budget.take(5_000).now_or_never().unwrap();
        assert!(budget.take(5_000).now_or_never().is_none());
        assert!(budget.room().now_or_never().is_some(), "a smaller message has room");
        drop(first);
        let second = budget.take(5_000).now_or_never().unwrap();
        assert_eq!(budget.used(), 5_000 + OVERHEAD);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn message_beyond_the_limit_passes_alone() {
        let budget = ByteBudget::new(10_000);
        let large = budget.take(usize::MAX).now_or_never().unwrap();
        assert!(budget.take(0).now_or_never().is_none() && budget.room().now_or_never().is_none());
        drop(large);
        let _small = budget.take(1).now_or_never().unwrap();
        assert!(budget.take(20_000).now_or_never().is_none(), "another one waits");
    }

    #[test]
    fn small_messages_are_bounded_in_number() {
        let budget = ByteBudget::new(10 * OVERHEAD);
        let empty: Vec<_> = std::iter::from_fn(|| budget.take(0).now_or_never()).take(100).collect();
        assert_eq!(empty.len(), 10);
    }

    #[tokio::test]
    async fn waiting_reader_continues_during_an_exemption() {
        let budget = ByteBudget::new(10_000);
        let held = budget.hold(20_000);
        let reader = tokio::spawn({
            let budget = budget.clone();
            async move { budget.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!reader.is_finished());
        let exemption = budget.exempt();
        reader.await.unwrap();
        drop(exemption);
        assert!(budget.room().now_or_never().is_none(), "the exemption is over");
        drop(held);
        assert!(budget.room().now_or_never().is_some());
    }
}
