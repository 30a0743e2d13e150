//! The browsers that are logged in. Each request of a browser is admitted only while its login exists, and the streams of a login are
//! closed when it is ended (decision 99).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::http::peer::Peer;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::console_login::{ConsoleLogin, ConsoleLogins};
use pilothouse_domain::web_push::WebPushSubscriptions;
use pilothouse_domain::{ConsoleLoginId, DomainContext, Timestamp, UserId};
use pilothouse_store::{Commit, Loaded};
use tokio::sync::Mutex;

/// The logins of all owners. The store has them; this server, the only one with its data folder, remembers which ones it has admitted.
#[derive(Clone)]
pub(super) struct KnownLogins {
    app: App,
    admitted: Arc<Mutex<HashMap<ConsoleLoginId, Admitted>>>,
}

struct Admitted {
    owner: UserId,
    expires_at: Timestamp,
    /// When the store was told that the browser was seen.
    seen_at: Timestamp,
    /// The connections of its live streams.
    streams: Vec<Weak<dyn Peer>>,
}

/// The logins of an owner, and the browsers that receive notifications.
type LoginsAndBrowsers = (Loaded<ConsoleLogins>, Loaded<WebPushSubscriptions>);

/// Forgets that a login was admitted, and closes its streams.
fn dismiss(admitted: &mut HashMap<ConsoleLoginId, Admitted>, id: ConsoleLoginId) {
    if let Some(known) = admitted.remove(&id) {
        known.streams.iter().filter_map(Weak::upgrade).for_each(|stream| stream.close());
    }
}

impl KnownLogins {
    pub(super) fn new(app: App) -> Self {
        Self { app, admitted: Arc::default() }
    }

    /// Returns when a login expires, or `None` if it does not exist. `stream` is the connection of the request if it opens a live
    /// stream.
    pub(super) async fn admit(
        &self,
        owner: &UserId,
        id: ConsoleLoginId,
        stream: Option<&Arc<dyn Peer>>,
    ) -> Result<Option<Timestamp>, Problem> {
        let now = self.app.now();
        // Held while the store is read, so that a login which is ended meanwhile is not remembered.
        let mut admitted = self.admitted.lock().await;
        let is_current =
            |known: &Admitted| known.expires_at > now && known.seen_at + ConsoleLogins::SEEN_STEP > now;
        if !admitted.get(&id).is_some_and(is_current) {
            admitted.retain(|known_id, known| *known_id == id || known.expires_at > now);
            let Some(login) = self.see(owner, id).await? else {
                dismiss(&mut admitted, id);
                return Ok(None);
            };
            let known = admitted.entry(id).or_insert_with(|| Admitted {
                owner: owner.clone(),
                expires_at: login.expires_at,
                seen_at: now,
                streams: Vec::new(),
            });
            known.seen_at = now;
        }
        let Some(known) = admitted.get_mut(&id) else { return Ok(None) };
        if let Some(stream) = stream {
            known.streams.retain(|known| known.strong_count() > 0);
            known.streams.push(Arc::downgrade(stream));
        }
        Ok(Some(known.expires_at))
    }

    /// Records that the browser sent a request. Returns its login, or `None` if there is none.
    async fn see(&self, owner: &UserId, id: ConsoleLoginId) -> Result<Option<ConsoleLogin>, Problem> {
        let load = async || self.app.store.console_logins(owner).await.map_err(Problem::from);
        let decide = |mut known: Loaded<ConsoleLogins>, ctx: &mut DomainContext<'_>| {
            let is_changed = known.value.see(id, ctx.now);
            let login = known.value.get(id, ctx.now).cloned();
            if !is_changed {
                return Ok(Decision::Unchanged(login));
            }
            let mut commit = Commit::new();
            commit.console_logins(owner, &known)?;
            Ok(Decision::Commit(commit, login))
        };
        match self.app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await {
            // The time is not worth that a full disk locks its owner out of the console.
            Err(Problem::StorageFull) => {
                let known = self.app.store.console_logins(owner).await?;
                Ok(known.value.get(id, self.app.now()).cloned())
            }
            seen => seen,
        }
    }

    /// Adds a login. Returns whether it was added: not if the login that created its code, `created_by`, has ended.
    pub(super) async fn add(
        &self,
        owner: &UserId,
        login: ConsoleLogin,
        created_by: Option<ConsoleLoginId>,
    ) -> Result<bool, Problem> {
        self.change(owner, None, move |logins, now| {
            let may_add = created_by.is_none_or(|id| logins.get(id, now).is_some());
            may_add.then(|| logins.add(login.clone(), now))
        })
        .await
    }

    pub(super) async fn list(&self, owner: &UserId) -> Result<Vec<ConsoleLogin>, Problem> {
        let known = self.app.store.console_logins(owner).await?;
        Ok(known.value.items(self.app.now()).cloned().collect())
    }

    /// Ends a login, closes its streams and sends its browser no more notifications. Returns whether it existed.
    pub(super) async fn remove(&self, owner: &UserId, id: ConsoleLoginId) -> Result<bool, Problem> {
        self.change(owner, Some(id), move |logins, _| logins.remove(id).then(|| vec![id])).await
    }

    /// Changes the logins of an owner by a function that returns the logins which it ended, or `None` if it changed nothing. Ends them
    /// completely, and `also` if the owner has no such login any more. Returns whether anything was changed.
    async fn change(
        &self,
        owner: &UserId,
        also: Option<ConsoleLoginId>,
        change: impl FnMut(&mut ConsoleLogins, Timestamp) -> Option<Vec<ConsoleLoginId>> + Send + 'static,
    ) -> Result<bool, Problem> {
        let (logins, owner) = (self.clone(), owner.clone());
        // A task of its own, because a client that disconnects ends the task of its request, but must not leave a login half ended.
        tokio::spawn(async move {
            let mut admitted = logins.admitted.lock().await;
            let ended = logins.commit(&owner, change).await?;
            for id in ended.iter().flatten() {
                dismiss(&mut admitted, *id);
            }
            // An earlier attempt may have removed the record, although it failed.
            let left = also.filter(|id| admitted.get(id).is_some_and(|known| known.owner == owner));
            if let Some(id) = left {
                dismiss(&mut admitted, id);
            }
            Ok::<_, Problem>(ended.is_some() || left.is_some())
        })
        .await
        .map_err(Problem::internal)?
    }

    /// Commits a change of the logins of an owner. The subscriptions of ended logins are removed in the same commit.
    async fn commit(
        &self,
        owner: &UserId,
        mut change: impl FnMut(&mut ConsoleLogins, Timestamp) -> Option<Vec<ConsoleLoginId>>,
    ) -> Result<Option<Vec<ConsoleLoginId>>, Problem> {
        let load = async || {
            // Before the subscriptions: a browser that subscribes also writes the logins, so this commit then loses its race.
            let logins = self.app.store.console_logins(owner).await?;
            Ok::<_, Problem>((logins, self.app.store.web_push_subscriptions(owner).await?))
        };
        let decide = |(mut logins, mut browsers): LoginsAndBrowsers, ctx: &mut DomainContext<'_>| {
            let Some(ended) = change(&mut logins.value, ctx.now) else {
                return Ok(Decision::Unchanged(None));
            };
            let mut commit = Commit::new();
            commit.console_logins(owner, &logins)?;
            let mut were_subscribed = false;
            for id in &ended {
                were_subscribed |= browsers.value.remove_of_login(*id);
            }
            if were_subscribed {
                commit.web_push_subscriptions(owner, &browsers)?;
            }
            Ok(Decision::Commit(commit, Some(ended)))
        };
        self.app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use pilothouse_app::Parts;
    use pilothouse_domain::WebPushSubscriptionId;
    use pilothouse_domain::text::DeviceName;
    use pilothouse_domain::web_push::{BrowserPublicKey, BrowserSecret, WebPushKeys, WebPushSubscription};
    use pilothouse_domain::webhook::WebhookUrl;
    use pilothouse_store::Store;
    use pilothouse_test_support::{CrashPoint, EmbeddedEngines, FaultyTable, TestClock};
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::super::recording_peer::RecordingPeer;
    use super::*;

    const LIFETIME: Duration = Duration::from_hours(7 * 24);

    struct Fixture {
        known: KnownLogins,
        table: FaultyTable,
        clock: TestClock,
        _engines: EmbeddedEngines,
    }

    fn ada() -> UserId {
        UserId::parse("ada").unwrap()
    }

    fn id(number: usize) -> ConsoleLoginId {
        ConsoleLoginId::new(Uuid::from_u128(number as u128))
    }

    impl Fixture {
        async fn new() -> Self {
            let clock = TestClock::at(Timestamp::from_millis(1_800_000_000_000));
            let engines = EmbeddedEngines::open(clock.as_fn()).await;
            let table = FaultyTable::new(engines.table.clone());
            let store = Store::new(Arc::new(table.clone()));
            let known = KnownLogins::new(App::new(Parts { store, ..engines.parts() }));
            Self { known, table, clock, _engines: engines }
        }

        async fn log_in(&self, number: usize, created_by: Option<ConsoleLoginId>) -> bool {
            let now = self.known.app.now();
            let device = DeviceName::try_from("A phone".to_owned()).unwrap();
            let expires_at = now + LIFETIME;
            let login =
                ConsoleLogin { id: id(number), device, created_at: now, last_seen_at: now, expires_at };
            self.known.add(&ada(), login, created_by).await.unwrap()
        }

        /// Opens a live stream of a login.
        async fn stream(&self, number: usize) -> (Arc<RecordingPeer>, Arc<dyn Peer>) {
            let (peer, stream) = RecordingPeer::open();
            let admitted = self.known.admit(&ada(), id(number), Some(&stream)).await.unwrap();
            assert!(admitted.is_some());
            (peer, stream)
        }

        async fn is_admitted(&self, number: usize) -> bool {
            self.known.admit(&ada(), id(number), None).await.unwrap().is_some()
        }

        async fn subscribe(&self, number: usize) {
            let subscription = WebPushSubscription {
                id: WebPushSubscriptionId::new(Uuid::from_u128(number as u128)),
                device: DeviceName::try_from("A phone".to_owned()).unwrap(),
                endpoint: WebhookUrl::parse(format!("https://push.example/{number}")).unwrap(),
                keys: WebPushKeys {
                    p256dh: BrowserPublicKey::try_from(format!("B{}", "A".repeat(86))).unwrap(),
                    auth: BrowserSecret::try_from("A".repeat(22)).unwrap(),
                },
                kinds: BTreeSet::new(),
                created_at: self.known.app.now(),
                login_id: Some(id(number)),
            };
            let subscribe =
                |browsers: &mut WebPushSubscriptions| browsers.subscribe(subscription.clone()).is_ok();
            assert!(self.known.app.change_web_push_subscriptions(&ada(), subscribe).await.unwrap());
        }

        /// The logins of the browsers that receive notifications.
        async fn subscribed(&self) -> Vec<ConsoleLoginId> {
            let browsers = self.known.app.store.web_push_subscriptions(&ada()).await.unwrap().value;
            browsers.items().iter().filter_map(|browser| browser.login_id).collect()
        }
    }

    /// The client disconnects while the removal is committed.
    #[tokio::test]
    async fn end_of_a_login_does_not_depend_on_its_client() {
        let fixture = Fixture::new().await;
        for number in [1, 2] {
            fixture.log_in(number, None).await;
            fixture.subscribe(number).await;
        }
        let (lost, _lost_stream) = fixture.stream(1).await;
        let (kept, _kept_stream) = fixture.stream(2).await;
        let (reached, commit_reached) = oneshot::channel();
        let (release, released) = oneshot::channel::<()>();
        fixture.table.before_next_commit(Box::pin(async move {
            reached.send(()).unwrap();
            released.await.unwrap();
        }));
        let known = fixture.known.clone();
        let request = tokio::spawn(async move { known.remove(&ada(), id(1)).await });
        commit_reached.await.unwrap();
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        release.send(()).unwrap();
        lost.until_closed().await;
        assert!(!fixture.is_admitted(1).await && fixture.is_admitted(2).await);
        assert_eq!(fixture.subscribed().await, [id(2)]);
        assert!(!kept.is_closed());
    }

    #[tokio::test]
    async fn failed_end_of_a_login_can_be_repeated() {
        let fixture = Fixture::new().await;
        fixture.log_in(1, None).await;
        let (lost, _stream) = fixture.stream(1).await;
        fixture.table.crash_at(1, CrashPoint::AfterCommit);
        assert!(fixture.known.remove(&ada(), id(1)).await.is_err());
        assert!(fixture.table.restart());
        let stranger = UserId::parse("mallory").unwrap();
        assert!(!fixture.known.remove(&stranger, id(1)).await.unwrap());
        assert!(!lost.is_closed());
        assert!(fixture.known.remove(&ada(), id(1)).await.unwrap());
        assert!(lost.is_closed());
        assert!(!fixture.known.remove(&ada(), id(1)).await.unwrap());
    }

    #[tokio::test]
    async fn missing_login_loses_its_streams() {
        let fixture = Fixture::new().await;
        fixture.log_in(1, None).await;
        let (lost, _stream) = fixture.stream(1).await;
        fixture.table.crash_at(1, CrashPoint::AfterCommit);
        assert!(fixture.known.remove(&ada(), id(1)).await.is_err());
        assert!(fixture.table.restart());
        fixture.clock.advance(ConsoleLogins::SEEN_STEP);
        assert!(!fixture.is_admitted(1).await);
        assert!(lost.is_closed());
    }

    #[tokio::test]
    async fn login_that_makes_room_for_another_is_ended() {
        let fixture = Fixture::new().await;
        for number in 1..=ConsoleLogins::MAX {
            fixture.log_in(number, None).await;
        }
        fixture.subscribe(1).await;
        fixture.subscribe(2).await;
        let (oldest, _stream) = fixture.stream(1).await;
        assert!(fixture.log_in(ConsoleLogins::MAX + 1, None).await);
        assert!(oldest.is_closed());
        assert!(!fixture.is_admitted(1).await && fixture.is_admitted(2).await);
        assert_eq!(fixture.subscribed().await, [id(2)]);
    }

    #[tokio::test]
    async fn ended_login_pairs_no_other_browser() {
        let fixture = Fixture::new().await;
        fixture.log_in(1, None).await;
        assert!(fixture.log_in(2, Some(id(1))).await);
        assert!(fixture.known.remove(&ada(), id(1)).await.unwrap());
        assert!(!fixture.log_in(3, Some(id(1))).await);
        assert!(!fixture.is_admitted(3).await);
    }

    #[tokio::test]
    async fn full_disk_locks_nobody_out() {
        let fixture = Fixture::new().await;
        fixture.log_in(1, None).await;
        fixture.table.set_disk_full(true);
        fixture.clock.advance(ConsoleLogins::SEEN_STEP);
        assert!(fixture.is_admitted(1).await);
        assert!(!fixture.is_admitted(2).await);
        fixture.clock.advance(LIFETIME);
        assert!(!fixture.is_admitted(1).await, "it has expired");
    }
}
