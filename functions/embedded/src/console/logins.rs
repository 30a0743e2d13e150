//! The browsers that are logged in. Each request of a browser is admitted only while its login exists, and the streams of a login are
//! closed when it is removed (decision 99).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::http::peer::Peer;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_domain::console_login::{ConsoleLogin, ConsoleLogins};
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
    expires_at: Timestamp,
    /// When the store was told that the browser was seen.
    seen_at: Timestamp,
    /// The connections of its live streams.
    streams: Vec<Weak<dyn Peer>>,
}

impl KnownLogins {
    pub(super) fn new(app: App) -> Self {
        Self { app, admitted: Arc::default() }
    }

    /// Whether a login exists. `stream` is the connection of the request if it opens a live stream.
    pub(super) async fn admit(
        &self,
        owner: &UserId,
        id: ConsoleLoginId,
        stream: Option<&Arc<dyn Peer>>,
    ) -> Result<bool, Problem> {
        let now = self.app.now();
        // Held while the store is read, so that a login which is removed meanwhile is not remembered.
        let mut admitted = self.admitted.lock().await;
        let is_current =
            |known: &Admitted| known.expires_at > now && known.seen_at + ConsoleLogins::SEEN_STEP > now;
        if !admitted.get(&id).is_some_and(is_current) {
            admitted.retain(|_, known| known.expires_at > now);
            let Some(login) = self.see(owner, id).await? else {
                admitted.remove(&id);
                return Ok(false);
            };
            let known = admitted.entry(id).or_insert_with(|| Admitted {
                expires_at: login.expires_at,
                seen_at: now,
                streams: Vec::new(),
            });
            known.seen_at = now;
        }
        if let (Some(known), Some(stream)) = (admitted.get_mut(&id), stream) {
            known.streams.retain(|known| known.strong_count() > 0);
            known.streams.push(Arc::downgrade(stream));
        }
        Ok(true)
    }

    /// Records that the browser sent a request. Returns its login, or `None` if there is none.
    async fn see(&self, owner: &UserId, id: ConsoleLoginId) -> Result<Option<ConsoleLogin>, Problem> {
        self.change(owner, |logins, now| {
            let is_changed = logins.see(id, now);
            (is_changed, logins.get(id, now).cloned())
        })
        .await
    }

    pub(super) async fn add(&self, owner: &UserId, login: ConsoleLogin) -> Result<(), Problem> {
        self.change(owner, |logins, now| {
            logins.add(login.clone(), now);
            (true, ())
        })
        .await
    }

    pub(super) async fn list(&self, owner: &UserId) -> Result<Vec<ConsoleLogin>, Problem> {
        let known = self.app.store.console_logins(owner).await?;
        Ok(known.value.items(self.app.now()).cloned().collect())
    }

    /// Ends a login, closes its streams and sends its browser no more notifications. Returns whether it existed.
    pub(super) async fn remove(&self, owner: &UserId, id: ConsoleLoginId) -> Result<bool, Problem> {
        let mut admitted = self.admitted.lock().await;
        let is_removed = self
            .change(owner, |logins, _| {
                let is_removed = logins.remove(id);
                (is_removed, is_removed)
            })
            .await?;
        self.app.change_web_push_subscriptions(owner, |browsers| browsers.remove_of_login(id)).await?;
        if is_removed && let Some(known) = admitted.remove(&id) {
            known.streams.iter().filter_map(Weak::upgrade).for_each(|stream| stream.close());
        }
        Ok(is_removed)
    }

    /// Changes the logins of an owner by a function that returns whether it changed them, and a result.
    async fn change<T>(
        &self,
        owner: &UserId,
        mut change: impl FnMut(&mut ConsoleLogins, Timestamp) -> (bool, T),
    ) -> Result<T, Problem> {
        let load = async || self.app.store.console_logins(owner).await.map_err(Problem::from);
        let decide = |mut known: Loaded<ConsoleLogins>, ctx: &mut DomainContext<'_>| {
            let (is_changed, result) = change(&mut known.value, ctx.now);
            if !is_changed {
                return Ok(Decision::Unchanged(result));
            }
            let mut commit = Commit::new();
            commit.console_logins(owner, &known)?;
            Ok(Decision::Commit(commit, result))
        };
        self.app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
    }
}
