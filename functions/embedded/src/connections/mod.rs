//! Accepts connections, and limits the file descriptors that they use.
//!
//! Anyone can open a connection, but only some callers can authenticate. Descriptors are therefore divided:
//!
//! | part | used by |
//! |---|---|
//! | anonymous | connections without an authenticated request. When the part is full, the oldest connection of the address with the most connections is closed, so that callers with a token still get in |
//! | owners | connections of owners, with a limit for each owner |
//! | the rest | connections of sessions (sidecars and agents), with a limit for each session; their processes; files |
//!
//! A connection moves from the first part to another with its first authenticated request. If that part is full, an idle
//! connection is closed in its favour, or the request is refused with `server-at-capacity`. A session start is refused in the
//! same way if it gets a slot and there is no room for another sidecar. The launch of a session that waited for its slot checks for
//! room itself.
//!
//! | module | content |
//! |---|---|
//! | `body` | request bodies with a time limit, and response bodies that keep their request active |
//! | `socket` | a socket that deregisters its connection when it is closed |
//! | `serve` | accepts connections and serves HTTP |

mod body;
mod serve;
mod socket;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pilothouse_app::http::peer::{Caller, Peer};
use pilothouse_runtime::AtCapacity;
use tokio::sync::Notify;

use super::file_descriptors;
pub(super) use serve::serve;

/// How long an anonymous connection may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an anonymous request may take, including its response.
const ANONYMOUS_REQUEST: Duration = Duration::from_secs(30);
/// How long an authenticated connection may be idle or send a head. Clients close theirs sooner.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// Connections of one session: its sidecar and its agent.
const PER_SESSION: usize = 16;
/// Descriptors reserved for a session while its sidecar starts.
const PER_RUN: usize = 3;
/// How long a count of the open descriptors is used while there is room for this many more, because counting takes as long as the rest
/// of a start.
const COUNT_VALIDITY: Duration = Duration::from_millis(100);
const COUNT_MARGIN: usize = 256;
/// How long a start reserves descriptors, and when a refused one may be retried.
const START_RESERVATION: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Limit of the process.
    descriptors: usize,
    /// Reserve for files.
    files: usize,
    pub(super) deliveries: usize,
    anonymous: usize,
    owners: usize,
    per_owner: usize,
    sessions: usize,
}

impl Limits {
    /// Divides `descriptors`, of which `open` are in use before the first connection.
    pub(super) fn of(descriptors: usize, open: usize) -> Self {
        let anonymous = (descriptors / 8).clamp(8, 512);
        let owners = (descriptors / 8).clamp(8, 4096);
        let deliveries = (descriptors / 16).clamp(2, 64);
        let files = 16 + (descriptors / 32).min(512);
        let taken = anonymous + owners + deliveries + files + open;
        let sessions = descriptors.saturating_sub(taken).max(PER_SESSION);
        Self { descriptors, files, deliveries, anonymous, owners, per_owner: owners.div_ceil(2), sessions }
    }
}

pub(super) struct Connections {
    limits: Limits,
    registry: Mutex<Registry>,
    closed: Notify,
}

#[derive(Default)]
struct Registry {
    next_id: u64,
    /// Ordered by age.
    all: BTreeMap<u64, Entry>,
    anonymous: usize,
    owners: usize,
    sessions: usize,
    by_caller: HashMap<Caller, usize>,
    /// Times of recent admitted starts, in order.
    starting: Vec<Instant>,
    /// The last count of the open descriptors.
    counted: Option<(Instant, usize)>,
}

struct Entry {
    address: IpAddr,
    caller: Option<Caller>,
    requests: usize,
    /// Start of the current activity or idle time.
    since: Instant,
    /// Upgraded to another protocol, so that idle time is unknown.
    upgraded: bool,
    /// Asked to close.
    closing: bool,
    close: Arc<Notify>,
}

impl Entry {
    /// Whether it was idle or slow for too long.
    fn is_overdue(&self, now: Instant) -> bool {
        let most = match (&self.caller, self.requests) {
            (None, 0) => HEAD_TIMEOUT,
            (None, _) => ANONYMOUS_REQUEST,
            (Some(_), 0) => IDLE_TIMEOUT,
            (Some(_), _) => return false,
        };
        !self.upgraded && now.saturating_duration_since(self.since) > most
    }

    fn is_idle(&self) -> bool {
        self.requests == 0 && !self.upgraded && !self.closing
    }

    fn close(&mut self) {
        self.closing = true;
        self.close.notify_one();
    }
}

impl Registry {
    /// The number of open descriptors, of which `room` is the most that leaves room for the caller.
    fn open_descriptors(&mut self, now: Instant, room: usize) -> usize {
        if let Some((at, open)) = self.counted
            && now.saturating_duration_since(at) < COUNT_VALIDITY
            && open + COUNT_MARGIN <= room
        {
            return open;
        }
        let open = file_descriptors::open().unwrap_or(self.all.len());
        self.counted = Some((now, open));
        open
    }

    /// The connection counter of the part that `caller` belongs to.
    fn part(&mut self, caller: Option<&Caller>) -> &mut usize {
        match caller {
            None => &mut self.anonymous,
            Some(Caller::Owner(_)) => &mut self.owners,
            Some(Caller::Session(_)) => &mut self.sessions,
        }
    }

    /// Closes the oldest anonymous connection of the address with the most. Returns whether there was one.
    fn close_anonymous(&mut self) -> bool {
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        let anonymous = || self.all.iter().filter(|(_, entry)| entry.caller.is_none() && !entry.closing);
        for (_, entry) in anonymous() {
            *of_address.entry(entry.address).or_default() += 1;
        }
        let Some(most) = of_address.values().max() else { return false };
        let oldest = anonymous().find(|(_, entry)| of_address.get(&entry.address) == Some(most));
        let oldest = oldest.map(|(id, _)| *id);
        self.close(oldest)
    }

    /// Closes the longest idle connection of the callers that `of` selects. Returns whether there was one.
    fn close_idle(&mut self, of: impl Fn(&Caller) -> bool) -> bool {
        let known = |entry: &Entry| entry.caller.as_ref().is_some_and(&of);
        let resting = self.all.iter().filter(|(_, entry)| entry.is_idle() && known(entry));
        let longest = resting.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id);
        self.close(longest)
    }

    fn close(&mut self, id: Option<u64>) -> bool {
        let entry = id.and_then(|id| self.all.get_mut(&id));
        entry.map(Entry::close).is_some()
    }
}

impl Connections {
    /// Creates an empty set. Descriptors that are open now count as files.
    pub(super) fn new(descriptors: usize) -> Arc<Self> {
        let limits = Limits::of(descriptors, file_descriptors::open().unwrap_or(0));
        tracing::debug!(?limits, "file descriptors");
        Arc::new(Self { limits, registry: Mutex::default(), closed: Notify::new() })
    }

    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    /// A panic leaves the registry consistent: no change in here can fail halfway.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for another anonymous connection, and closes one if necessary.
    async fn wait_for_room(&self) {
        loop {
            let closed = self.closed.notified();
            {
                let mut registry = self.registry();
                if registry.anonymous < self.limits.anonymous {
                    return;
                }
                registry.close_anonymous();
            }
            closed.await;
        }
    }

    /// Closes a connection after the process ran out of descriptors. Returns whether one was closed.
    fn make_room(&self) -> bool {
        let mut registry = self.registry();
        registry.close_anonymous() || registry.close_idle(|_| true)
    }

    fn close_overdue(&self) {
        let now = Instant::now();
        for entry in self.registry().all.values_mut().filter(|entry| entry.is_overdue(now)) {
            entry.close();
        }
    }

    fn register(self: &Arc<Self>, address: IpAddr) -> Arc<Connection> {
        let close = Arc::new(Notify::new());
        let mut registry = self.registry();
        let id = registry.next_id;
        registry.next_id += 1;
        registry.anonymous += 1;
        let entry = Entry {
            address: network_of(address),
            caller: None,
            requests: 0,
            since: Instant::now(),
            upgraded: false,
            closing: false,
            close: Arc::clone(&close),
        };
        registry.all.insert(id, entry);
        Arc::new(Connection { id, close, close_socket: Arc::default(), all: Arc::clone(self) })
    }

    /// Reserves room for the sidecar of a session that has a slot.
    pub(super) fn admit_start(&self) -> Result<(), AtCapacity> {
        let mut registry = self.registry();
        let now = Instant::now();
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= START_RESERVATION;
        let over = registry.starting.partition_point(is_over);
        registry.starting.drain(..over);
        let limits = self.limits;
        // Keep the unused shares of the other parts.
        let kept = limits.files
            + limits.deliveries
            + limits.anonymous.saturating_sub(registry.anonymous)
            + limits.owners.saturating_sub(registry.owners);
        let wanted = (registry.starting.len() + 1) * PER_RUN;
        let room = limits.descriptors.saturating_sub(kept + wanted);
        if kept + wanted > limits.descriptors || registry.open_descriptors(now, room) > room {
            return Err(NO_ROOM_FOR_SESSIONS);
        }
        registry.starting.push(now);
        Ok(())
    }

    /// Checks that a sidecar can be launched, whether or not room was reserved for it. Only the reserve for files must remain.
    pub(super) fn admit_launch(&self) -> Result<(), AtCapacity> {
        let open = file_descriptors::open().unwrap_or_else(|| self.registry().all.len());
        if open + self.limits.files + PER_RUN > self.limits.descriptors {
            return Err(NO_ROOM_FOR_SESSIONS);
        }
        Ok(())
    }
}

const NO_ROOM_FOR_SESSIONS: AtCapacity = AtCapacity {
    message: "this server has no room for another session, as its limit of open files is nearly reached; end sessions, or \
               raise the limit (`ulimit -n`) and restart it",
    retry_after: START_RESERVATION,
};

const NO_ROOM_FOR_CONNECTIONS: AtCapacity = AtCapacity {
    message: "you have too many connections to this server; close some, and try again",
    retry_after: Duration::from_secs(1),
};

/// The network that counts as one address: IPv6 clients control a whole /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.into(),
            None => IpAddr::from((u128::from(v6) >> 64 << 64).to_be_bytes()),
        },
    }
}

struct Connection {
    id: u64,
    /// Notified when the connection must close at once.
    close: Arc<Notify>,
    /// Notified when its socket must close, which an upgrade does not prevent.
    close_socket: Arc<Notify>,
    all: Arc<Connections>,
}

impl Connection {
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.all.registry().all.get_mut(&self.id) {
            change(entry);
        }
    }

    /// Starts a request, which lasts until the returned value is dropped.
    fn request(self: &Arc<Self>) -> Request {
        self.change(|entry| {
            if entry.requests == 0 {
                entry.since = Instant::now();
            }
            entry.requests += 1;
        });
        Request(Arc::clone(self))
    }

    fn upgraded(&self) {
        self.change(|entry| entry.upgraded = true);
    }

    /// Deregisters the connection after its socket was closed.
    fn deregister(&self) {
        let mut registry = self.all.registry();
        if let Some(entry) = registry.all.remove(&self.id) {
            *registry.part(entry.caller.as_ref()) -= 1;
            if let Some(caller) = &entry.caller
                && let Some(count) = registry.by_caller.get_mut(caller)
            {
                *count -= 1;
                if *count == 0 {
                    registry.by_caller.remove(caller);
                }
            }
        }
        drop(registry);
        self.all.closed.notify_waiters();
    }
}

impl Peer for Connection {
    fn authenticated(&self, caller: Caller) -> Result<(), AtCapacity> {
        let limits = self.all.limits;
        let mut registry = self.all.registry();
        // A proxy may send requests of several callers; the connection counts for the first.
        match registry.all.get(&self.id) {
            Some(entry) if entry.caller.is_none() && !entry.upgraded => {}
            _ => return Ok(()),
        }
        let (all, own) = match &caller {
            Caller::Owner(_) => (limits.owners, limits.per_owner),
            Caller::Session(_) => (limits.sessions, PER_SESSION),
        };
        let has = registry.by_caller.get(&caller).copied().unwrap_or(0);
        let there = *registry.part(Some(&caller));
        let has_room = if has >= own {
            registry.close_idle(|other| *other == caller)
        } else if there >= all {
            let alike = std::mem::discriminant(&caller);
            registry.close_idle(|other| std::mem::discriminant(other) == alike)
        } else {
            true
        };
        if !has_room {
            return Err(NO_ROOM_FOR_CONNECTIONS);
        }
        if has == 0 && matches!(caller, Caller::Session(_)) && !registry.starting.is_empty() {
            // The sidecar has connected: its descriptors are counted from here on.
            registry.starting.remove(0);
        }
        registry.anonymous -= 1;
        *registry.part(Some(&caller)) += 1;
        *registry.by_caller.entry(caller.clone()).or_default() += 1;
        if let Some(entry) = registry.all.get_mut(&self.id) {
            entry.caller = Some(caller);
        }
        drop(registry);
        self.all.closed.notify_waiters();
        Ok(())
    }

    fn close(&self) {
        self.close_socket.notify_one();
    }
}

struct Request(Arc<Connection>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.change(|entry| {
            entry.requests = entry.requests.saturating_sub(1);
            if entry.requests == 0 {
                entry.since = Instant::now();
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::UserId;

    use super::*;

    fn connections(descriptors: usize) -> Arc<Connections> {
        Arc::new(Connections {
            limits: Limits::of(descriptors, 40),
            registry: Mutex::default(),
            closed: Notify::new(),
        })
    }

    fn owner(name: &str) -> Caller {
        Caller::Owner(UserId::parse(name).unwrap())
    }

    fn closing(connection: &Connection) -> bool {
        connection.all.registry().all[&connection.id].closing
    }

    #[test]
    fn the_parts_fit_into_the_limit() {
        for descriptors in [128, 160, 256, 1024, 4096, 65_536, MODEST, 1 << 20] {
            let Limits { files, deliveries, anonymous, owners, per_owner, sessions, .. } =
                Limits::of(descriptors, 40);
            assert!(files + deliveries + anonymous + owners + sessions + 40 <= descriptors, "{descriptors}");
            assert!(per_owner < owners && anonymous >= 8 && sessions >= PER_SESSION, "{descriptors}");
        }
    }
    const MODEST: usize = 10_240;

    #[test]
    fn the_busiest_anonymous_address_loses_a_connection() {
        let all = connections(256);
        let few = all.register("10.0.0.1".parse().unwrap());
        let crowd: Vec<_> =
            (0..5).map(|at| all.register(format!("2001:db8::{at}").parse().unwrap())).collect();
        let known = all.register("2001:db8::77".parse().unwrap());
        known.authenticated(owner("ada")).unwrap();
        assert!(all.registry().close_anonymous());
        assert!(closing(&crowd[0]) && !closing(&crowd[1]) && !closing(&few) && !closing(&known));
        (0..5).for_each(|_| assert!(all.registry().close_anonymous()));
        assert!(closing(&few) && !closing(&known));
        assert!(!all.registry().close_anonymous(), "no anonymous connection remains");
    }

    #[test]
    fn a_new_connection_closes_idle_ones_of_the_same_owner() {
        let all = connections(256);
        let ada: Vec<_> = (0..all.limits.per_owner)
            .map(|_| {
                let connection = all.register("10.0.0.1".parse().unwrap());
                connection.authenticated(owner("ada")).unwrap();
                connection
            })
            .collect();
        let bob = all.register("10.0.0.1".parse().unwrap());
        bob.authenticated(owner("bob")).unwrap();
        let mut requests: Vec<_> = ada.iter().map(Connection::request).collect();
        let one_more = all.register("10.0.0.1".parse().unwrap());
        assert_eq!(one_more.authenticated(owner("ada")), Err(NO_ROOM_FOR_CONNECTIONS));
        requests.remove(3);
        assert_eq!(one_more.authenticated(owner("ada")), Ok(()));
        assert!(closing(&ada[3]) && !closing(&ada[2]) && !closing(&bob));
        assert_eq!(one_more.authenticated(owner("ada")), Ok(()), "it counts once");
        for connection in &ada {
            connection.deregister();
        }
        one_more.deregister();
        bob.deregister();
        let registry = all.registry();
        assert_eq!((registry.anonymous, registry.owners, registry.sessions), (0, 0, 0));
        assert!(registry.by_caller.is_empty());
    }

    #[test]
    fn descriptors_are_counted_again_after_a_while_and_when_they_become_few() {
        let (mut registry, now) = (Registry::default(), Instant::now());
        let mut counted = |after: Duration, room: usize| {
            // This process has more.
            registry.counted = Some((now, 0));
            registry.open_descriptors(now + after, room)
        };
        assert_eq!(counted(COUNT_VALIDITY / 2, COUNT_MARGIN), 0);
        assert!(counted(COUNT_VALIDITY, COUNT_MARGIN) > 0);
        assert!(counted(COUNT_VALIDITY / 2, COUNT_MARGIN - 1) > 0);
    }

    #[test]
    fn silent_connections_become_overdue() {
        let all = connections(256);
        let connection = all.register("10.0.0.1".parse().unwrap());
        let overdue = |after: Duration| all.registry().all[&connection.id].is_overdue(Instant::now() + after);
        assert!(!overdue(HEAD_TIMEOUT / 2) && overdue(HEAD_TIMEOUT * 2));
        let request = connection.request();
        assert!(!overdue(HEAD_TIMEOUT * 2) && overdue(ANONYMOUS_REQUEST * 2));
        connection
            .authenticated(Caller::Session(pilothouse_domain::AgentSessionId::new(uuid::Uuid::nil())))
            .unwrap();
        assert!(!overdue(IDLE_TIMEOUT * 10), "a long poll may be long");
        drop(request);
        assert!(!overdue(IDLE_TIMEOUT / 2) && overdue(IDLE_TIMEOUT * 2));
    }
}
