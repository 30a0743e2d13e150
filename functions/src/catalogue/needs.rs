//! What a function needs where it is deployed by itself: what it may touch, how much memory, how much time. The roles
//! of the templates are made of this; the embedded server, being one process, needs none of it.

/// Where a function exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiles {
    /// On the embedded server and in the cloud.
    Both,
    /// On the embedded server only.
    Embedded,
    /// In the cloud only.
    Aws,
}

impl Profiles {
    /// Whether the cloud has it.
    pub const fn in_aws(self) -> bool {
        !matches!(self, Self::Embedded)
    }

    /// Whether the embedded server has it.
    pub const fn embedded(self) -> bool {
        !matches!(self, Self::Aws)
    }
}

/// What a function does with the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableAccess {
    /// Nothing.
    None,
    /// It reads items and both indexes.
    Read,
    /// It reads and commits.
    Write,
}

/// What a function does with the bucket of large bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobAccess {
    /// Nothing.
    None,
    /// It reads them.
    Read,
    /// It writes them.
    Write,
    /// It writes and reads them.
    Both,
}

/// What a function does with queues that come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassingQueues {
    /// Nothing.
    None,
    /// It makes them, sends to them and removes them.
    Manage,
    /// It also lists them, and removes those that were left behind.
    Sweep,
}

/// A role that a function takes on, narrowed by a session policy, to hand out short-lived credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssumedRole {
    /// That of sidecars.
    Sidecar,
    /// That of workers.
    Worker,
}

/// What a function may touch. What it takes from (queues, the stream) stands in its triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a permission of its own
pub struct Access {
    /// The table.
    pub table: TableAccess,
    /// Large bodies.
    pub blobs: BlobAccess,
    /// The shared queues that it sends to, by logical name.
    pub sends: &'static [&'static str],
    /// The queues of commands to runs.
    pub run_queues: PassingQueues,
    /// The queues of workers.
    pub worker_queues: PassingQueues,
    /// Whether it handles dead letters: lists them, sends them again, deletes them.
    pub dead_letters: bool,
    /// Whether it reads the root secret, which keys are derived from.
    pub secret: bool,
    /// Whether it pushes to connections of the live stream.
    pub connections: bool,
    /// Whether it publishes: to the bus and to the topic of notifications.
    pub publishes: bool,
    /// Whether it asks the runtime about processes, starts and stops them (ECS, where that is chosen).
    pub processes: bool,
    /// The roles that it hands out credentials of.
    pub assumes: &'static [AssumedRole],
}

/// What a function needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Where it exists.
    pub profiles: Profiles,
    /// What it may touch.
    pub access: Access,
    /// Its memory, in MB. Processor time comes in proportion.
    pub memory_mb: u32,
    /// After how many seconds it is ended. A queue's messages are out of sight for six times that.
    pub timeout_seconds: u32,
}

/// Raw events of all sidecars; a group a session.
pub const EVENTS: &str = "events.fifo";
/// Journal entries that something follows from; a group a session.
pub const REACTIONS: &str = "reactions.fifo";
/// Journal entries that are told beyond their sessions; a group an owner.
pub const ANNOUNCEMENTS: &str = "announcements.fifo";
/// Deliveries to webhooks; a group each.
pub const WEBHOOKS: &str = "webhooks.fifo";
/// Sessions whose live streams have something to tell; a group a session.
pub const PUSHES: &str = "pushes.fifo";
/// Sessions that have something due soon, as delayed messages.
pub const DEADLINES: &str = "deadlines";

/// A queue that is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedQueue {
    /// Its logical name. One that ends in `.fifo` keeps the order of each group.
    pub name: &'static str,
    /// At which receive a message goes to the dead letters.
    pub max_receives: u32,
}

/// Every queue that is always there, without those of dead letters.
pub const SHARED_QUEUES: &[SharedQueue] = &[
    // `intake` and `react` bury what keeps failing themselves, with its cause (ruling 9); the limit is a belt.
    SharedQueue { name: EVENTS, max_receives: 102 },
    SharedQueue { name: REACTIONS, max_receives: 102 },
    // These too. What an endpoint does not take is no failure of its message, which waits for hours.
    SharedQueue { name: ANNOUNCEMENTS, max_receives: 102 },
    SharedQueue { name: WEBHOOKS, max_receives: 102 },
    // A client that misses a push comes back with its cursor.
    SharedQueue { name: PUSHES, max_receives: 5 },
    // The sweep finds what a message has lost.
    SharedQueue { name: DEADLINES, max_receives: 5 },
];

/// The logical name of a shared queue's dead letters: `events-dead.fifo`, `deadlines-dead`.
pub fn dead_letters_of(queue: &str) -> String {
    match queue.strip_suffix(".fifo") {
        Some(name) => format!("{name}-dead.fifo"),
        None => format!("{queue}-dead"),
    }
}

/// Touches nothing.
const NOTHING: Access = Access {
    table: TableAccess::None,
    blobs: BlobAccess::None,
    sends: &[],
    run_queues: PassingQueues::None,
    worker_queues: PassingQueues::None,
    dead_letters: false,
    secret: false,
    connections: false,
    publishes: false,
    processes: false,
    assumes: &[],
};
const READS: Access = Access { table: TableAccess::Read, ..NOTHING };
const WRITES: Access = Access { table: TableAccess::Write, ..NOTHING };

const fn of(access: Access) -> Needs {
    Needs { profiles: Profiles::Both, access, memory_mb: 512, timeout_seconds: 10 }
}

const fn of_cloud(access: Access) -> Needs {
    Needs { profiles: Profiles::Aws, ..of(access) }
}

/// Answers from itself.
pub const STATIC: Needs = of(NOTHING);
/// Reads state.
pub const QUERY: Needs = of(READS);
/// Reads a large body.
pub const BLOB: Needs = of(Access { blobs: BlobAccess::Read, ..READS });
/// Makes a document of a whole session.
pub const EXPORT: Needs =
    Needs { memory_mb: 2048, timeout_seconds: 29, ..of(Access { blobs: BlobAccess::Both, ..READS }) };
/// Commits a change.
pub const COMMAND: Needs = Needs { timeout_seconds: 20, ..of(WRITES) };
/// Commits a change and shows a session's API key.
pub const COMMAND_WITH_KEY: Needs = Needs { access: Access { secret: true, ..WRITES }, ..COMMAND };
/// What an agent calls with its session's key, whose hash the session knows.
pub const AGENT: Needs = COMMAND;
/// What only the embedded server has: it stands in for a service of the cloud.
pub const EMBEDDED: Needs = Needs { profiles: Profiles::Embedded, ..of(NOTHING) };
/// Hands a sidecar short-lived credentials of its own run.
pub const CREDENTIALS: Needs = of_cloud(Access { secret: true, assumes: &[AssumedRole::Sidecar], ..READS });
/// Tells a container what it is to run.
pub const LAUNCH: Needs = of_cloud(Access { secret: true, ..READS });
/// Registers a worker, keeps its queue, hands it credentials for that, gives it what waits, and tells of runs that it has
/// lost.
pub const WORKER: Needs = Needs {
    timeout_seconds: 20,
    ..of(Access {
        worker_queues: PassingQueues::Manage,
        assumes: &[AssumedRole::Worker],
        secret: true,
        sends: &[EVENTS],
        ..WRITES
    })
};
/// Lets a worker claim a run and gives it the run's keys.
pub const CLAIM: Needs = of(Access { secret: true, ..WRITES });
/// Takes a worker's word that a run is over, signs it for the intake, and gives the worker what waits.
pub const EXIT: Needs =
    of(Access { worker_queues: PassingQueues::Manage, secret: true, sends: &[EVENTS], ..WRITES });
/// Removes a worker with its queue.
pub const WORKER_REMOVAL: Needs = of(Access { worker_queues: PassingQueues::Manage, ..WRITES });
/// Lists dead letters, or sends them again.
pub const DEAD_LETTERS: Needs = Needs {
    timeout_seconds: 25,
    ..of(Access {
        dead_letters: true,
        sends: &[EVENTS, REACTIONS, ANNOUNCEMENTS, WEBHOOKS, PUSHES, DEADLINES],
        ..WRITES
    })
};

/// Applies events: the one who checks their signatures.
pub const INTAKE: Needs = Needs {
    memory_mb: 1024,
    timeout_seconds: 15,
    ..of(Access { secret: true, blobs: BlobAccess::Write, ..WRITES })
};
/// Hands journal entries on.
pub const RELAY: Needs = Needs {
    timeout_seconds: 30,
    ..of(Access { sends: &[REACTIONS, ANNOUNCEMENTS, PUSHES, DEADLINES], ..READS })
};
/// Launches, sends commands, hands on slots, ends runs.
pub const REACT: Needs = Needs {
    memory_mb: 1024,
    timeout_seconds: 30,
    ..of(Access {
        secret: true,
        run_queues: PassingQueues::Manage,
        worker_queues: PassingQueues::Manage,
        processes: true,
        ..WRITES
    })
};
/// Carries out what is due, and sweeps up what was left behind.
pub const CLOCK: Needs = Needs {
    timeout_seconds: 60,
    ..of(Access {
        secret: true,
        run_queues: PassingQueues::Sweep,
        worker_queues: PassingQueues::Manage,
        processes: true,
        sends: &[EVENTS, DEADLINES],
        ..WRITES
    })
};
/// Tells owners and other contexts what happened, and has webhooks told.
pub const ANNOUNCE: Needs = Needs { timeout_seconds: 30, ..of(Access { sends: &[WEBHOOKS], ..WRITES }) };
/// Tells webhooks, the bus and the topic: ten deliveries at most, each for ten seconds at most.
pub const DELIVER: Needs =
    Needs { timeout_seconds: 120, ..of(Access { publishes: true, secret: true, ..WRITES }) };
/// Pushes a journal to the connections that follow it.
pub const PUSH: Needs =
    Needs { timeout_seconds: 30, ..of_cloud(Access { connections: true, sends: &[PUSHES], ..WRITES }) };
/// Signs the word of ECS that a run is over, for the intake.
pub const TASK_STOPPED: Needs = of_cloud(Access { secret: true, sends: &[EVENTS], ..NOTHING });
/// Decides who may open a live stream, by the issuer's public keys.
pub const AUTHORIZE: Needs = of_cloud(NOTHING);
/// Accepts a connection and remembers whose it is.
pub const OPEN: Needs = of_cloud(WRITES);
/// Has a connection follow a session.
pub const SUBSCRIBE: Needs = of_cloud(Access { connections: true, sends: &[PUSHES], ..WRITES });
/// Forgets a connection.
pub const CLOSED: Needs = of_cloud(WRITES);
