//! The running calls of a server, and how long they have waited for the user.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    calls: usize,
    /// Cancelled when the last call has ended.
    over: CancellationToken,
    /// Number of questions that wait for the user, and since when at least one does.
    asking: usize,
    since: Option<Instant>,
    /// Total time in which at least one question was waiting.
    waited: Duration,
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call. Dropping the result ends it.
    pub(super) fn begin(self: &Arc<Self>) -> Call {
        let mut open = self.open();
        if open.calls == 0 {
            open.over = CancellationToken::new();
        }
        open.calls += 1;
        Call { calls: Arc::clone(self), begun: Instant::now(), waited_before: open.waited_until_now() }
    }

    /// Waits for the user. `None` if no call is running, or if the last one ends before the answer.
    pub(super) async fn asking<T>(&self, question: impl Future<Output = T>) -> Option<T> {
        let (over, _asking) = {
            let mut open = self.open();
            if open.calls == 0 {
                return None;
            }
            open.asking += 1;
            open.since.get_or_insert_with(Instant::now);
            (open.over.clone(), Asking(self))
        };
        over.run_until_cancelled(question).await
    }
}

impl Open {
    fn waited_until_now(&self) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[derive(Debug)]
pub(super) struct Call {
    calls: Arc<Calls>,
    begun: Instant,
    waited_before: Duration,
}

impl Call {
    /// `after` its start, extended by the time of questions to the user.
    pub(super) fn deadline(&self, after: Duration) -> Instant {
        self.begun + after + self.calls.open().waited_until_now().saturating_sub(self.waited_before)
    }

    /// Waits until the deadline has passed.
    pub(super) async fn timed_out(&self, after: Duration) {
        loop {
            let deadline = self.deadline(after);
            let asking = self.calls.open().asking > 0;
            if !asking && deadline <= Instant::now() {
                return;
            }
            // While a question is open, the deadline moves with the clock, so this checks again later.
            let least = Instant::now() + Duration::from_millis(if asking { 1_000 } else { 0 });
            tokio::time::sleep_until(deadline.max(least)).await;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut open = self.calls.open();
        open.calls -= 1;
        if open.calls == 0 {
            open.over.cancel();
        }
    }
}

/// A question that waits for the user.
struct Asking<'a>(&'a Calls);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut open = self.0.open();
        open.asking -= 1;
        if open.asking == 0
            && let Some(since) = open.since.take()
        {
            open.waited += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn user_response_time_does_not_count_for_a_call() {
        let calls = Arc::new(Calls::default());
        let call = calls.begin();
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let asked = calls.asking(tokio::time::sleep(Duration::from_hours(1)));
        tokio::select! {
            () = call.timed_out(LIMIT) => panic!("it waits for the user"),
            answered = asked => assert_eq!(answered, Some(())),
        }
        call.timed_out(LIMIT).await;
        assert_eq!(begun.elapsed().as_secs(), 3_610);
    }

    #[tokio::test(start_paused = true)]
    async fn user_is_not_asked_for_ended_calls() {
        let calls = Arc::new(Calls::default());
        assert_eq!(calls.asking(async {}).await, None, "no call is under way");
        let (first, second) = (calls.begin(), calls.begin());
        drop(first);
        assert_eq!(calls.asking(async {}).await, Some(()));
        let end = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(second);
        };
        let (answered, ()) = tokio::join!(calls.asking(std::future::pending::<()>()), end);
        assert_eq!(answered, None, "the last call is over");
    }
}
