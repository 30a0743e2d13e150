//! Drafts: the texts that agents are writing, on their way from the sidecars to the live streams of an embedded server (decision 95).
//! They are not stored. Each text follows as an event when it is complete.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_api::stream::DraftView;
use pilothouse_domain::AgentSessionId;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Parts that a slow stream can be behind. One that is further behind misses parts, and gets the whole text again.
const CAPACITY: usize = 64;

/// The followers of each session. Clones share them.
#[derive(Clone, Default)]
pub struct Drafts(Arc<Mutex<Registry>>);

#[derive(Default)]
struct Registry {
    subscriptions: u64,
    followed: BTreeMap<AgentSessionId, Followed>,
}

struct Followed {
    parts: broadcast::Sender<DraftView>,
    /// The number of the latest subscription, or of the latest missed part.
    latest: u64,
}

/// Receives the drafts of one session until it is dropped.
pub struct DraftSubscription {
    drafts: Drafts,
    session: AgentSessionId,
    /// Absent only while it is dropped.
    parts: Option<broadcast::Receiver<DraftView>>,
}

impl Registry {
    const fn next_number(&mut self) -> u64 {
        self.subscriptions += 1;
        self.subscriptions
    }
}

impl Drafts {
    pub fn subscribe(&self, session: AgentSessionId) -> DraftSubscription {
        let mut registry = self.registry();
        let latest = registry.next_number();
        let new = || Followed { parts: broadcast::Sender::new(CAPACITY), latest };
        let followed = registry.followed.entry(session).or_insert_with(new);
        followed.latest = latest;
        let parts = Some(followed.parts.subscribe());
        DraftSubscription { drafts: self.clone(), session, parts }
    }

    /// A number that changes with each new follower of a session; `None` while nobody follows it.
    pub fn followers(&self, session: AgentSessionId) -> Option<u64> {
        self.registry().followed.get(&session).map(|followed| followed.latest)
    }

    /// Lets the sidecar send everything so far again, because a follower missed a part.
    fn begin_again(&self, session: AgentSessionId) {
        let mut registry = self.registry();
        let latest = registry.next_number();
        if let Some(followed) = registry.followed.get_mut(&session) {
            followed.latest = latest;
        }
    }

    pub fn publish(&self, session: AgentSessionId, draft: DraftView) {
        if let Some(followed) = self.registry().followed.get(&session) {
            // It fails if the last follower leaves now.
            drop(followed.parts.send(draft));
        }
    }

    /// A panic leaves the registry consistent: no change in here can fail halfway.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DraftSubscription {
    /// Waits for the next part. Dropping the future loses nothing.
    pub async fn next(&mut self) -> DraftView {
        let Some(parts) = &mut self.parts else { return std::future::pending().await };
        loop {
            match parts.recv().await {
                Ok(draft) => return draft,
                Err(RecvError::Lagged(_)) => self.drafts.begin_again(self.session),
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for DraftSubscription {
    fn drop(&mut self) {
        let mut registry = self.drafts.registry();
        // Under the lock, so that of two followers who leave at once one is the last.
        drop(self.parts.take());
        let is_unused = |followed: &Followed| followed.parts.receiver_count() == 0;
        if registry.followed.get(&self.session).is_some_and(is_unused) {
            registry.followed.remove(&self.session);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::value::DraftKind;
    use uuid::Uuid;

    use super::*;

    fn session(n: u128) -> AgentSessionId {
        AgentSessionId::new(Uuid::from_u128(n))
    }

    fn draft(part: u32) -> DraftView {
        DraftView { kind: DraftKind::Text, part, text: "word ".to_owned() }
    }

    #[tokio::test]
    async fn drafts_reach_the_followers_of_their_session_only() {
        let drafts = Drafts::default();
        drafts.publish(session(1), draft(0));
        assert_eq!(drafts.followers(session(1)), None);
        let mut first = drafts.subscribe(session(1));
        let mut other = drafts.subscribe(session(2));
        let before = drafts.followers(session(1)).unwrap();
        let mut second = drafts.subscribe(session(1));
        assert_ne!(drafts.followers(session(1)), Some(before), "the sidecar learns of the new follower");
        drafts.publish(session(1), draft(1));
        drafts.publish(session(2), draft(7));
        assert_eq!((first.next().await.part, second.next().await.part, other.next().await.part), (1, 1, 7));
        drop(first);
        assert!(drafts.followers(session(1)).is_some());
        drop(second);
        assert_eq!(drafts.followers(session(1)), None);
        assert_eq!(drafts.registry().followed.len(), 1);
    }

    #[tokio::test]
    async fn slow_follower_misses_parts_and_gets_the_text_again() {
        let drafts = Drafts::default();
        let mut slow = drafts.subscribe(session(1));
        let before = drafts.followers(session(1));
        (0..100).for_each(|part| drafts.publish(session(1), draft(part)));
        assert_eq!(slow.next().await.part, 36);
        assert_ne!(drafts.followers(session(1)), before, "the sidecar sends the whole text again");
    }
}
