//! The requirements of a function that is deployed separately: permissions, memory and timeout. The roles of the templates are
//! derived from them. The embedded server is one process and ignores them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiles {
    Both,
    Embedded,
    Aws,
}

impl Profiles {
    pub const fn in_aws(self) -> bool {
        !matches!(self, Self::Embedded)
    }

    pub const fn embedded(self) -> bool {
        !matches!(self, Self::Aws)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableAccess {
    None,
    /// Reads items and both indexes.
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobAccess {
    None,
    Read,
    Write,
    Both,
}

/// The access of a function to queues that are created per run or per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DynamicQueueAccess {
    None,
    /// Creates queues, sends to them and removes them.
    Manage,
    /// Additionally lists queues and removes orphaned ones.
    Sweep,
}

/// A role that a function assumes, restricted by a session policy, to issue short-lived credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssumedRole {
    Sidecar,
    Worker,
}

/// The permissions of a function. The queues and the stream that trigger it are in its triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent permissions
pub struct Access {
    pub table: TableAccess,
    /// Bodies of sessions.
    pub blobs: BlobAccess,
    /// Contents of artifacts.
    pub artifacts: BlobAccess,
    /// The shared queues that it sends to, by logical name.
    pub sends: &'static [&'static str],
    /// The queues of commands to runs.
    pub run_queues: DynamicQueueAccess,
    pub worker_queues: DynamicQueueAccess,
    /// Whether it lists, redrives and deletes dead letters.
    pub dead_letters: bool,
    /// Whether it reads the root secret that keys are derived from.
    pub secret: bool,
    /// Whether it asks the configured model, and reads its key.
    pub model: bool,
    /// Whether it asks the configured embedding model, and reads its key.
    pub embeddings: bool,
    /// Whether it posts to live stream connections.
    pub connections: bool,
    /// Whether it publishes to the event bus and the topic of notifications.
    pub publishes: bool,
    /// Whether it queries, starts and stops processes (ECS, if configured).
    pub processes: bool,
    /// The roles that it issues credentials for.
    pub assumes: &'static [AssumedRole],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirements {
    pub profiles: Profiles,
    pub access: Access,
    /// The memory in MB. The share of a processor is proportional to it.
    pub memory_mb: u32,
    /// The visibility timeout of its queues is six times as long.
    pub timeout_seconds: u32,
}

/// Raw events of all sidecars, one group per session.
pub const EVENTS: &str = "events.fifo";
/// References to journal entries with reactions, one group per session.
pub const REACTIONS: &str = "reactions.fifo";
/// References to journal entries to publish, one group per owner.
pub const ANNOUNCEMENTS: &str = "announcements.fifo";
/// Deliveries to webhooks: one group per endpoint for first attempts, one per delivery for retries.
pub const WEBHOOKS: &str = "webhooks.fifo";
/// Sessions with new journal entries for their live streams, one group per session.
pub const PUSHES: &str = "pushes.fifo";
/// References to coherence issues that a model reviews, and to projects whose texts are compared by embeddings: one group of each per
/// project.
pub const REVIEWS: &str = "reviews.fifo";
/// Sessions and templates with a near deadline, as delayed messages.
pub const DEADLINES: &str = "deadlines";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedQueue {
    /// The logical name. A queue whose name ends in `.fifo` keeps the order of each group.
    pub name: &'static str,
    /// The number of receives after which a message becomes a dead letter.
    pub max_receives: u32,
}

/// Without their dead-letter queues.
pub const SHARED_QUEUES: &[SharedQueue] = &[
    // `intake` and `react` dead-letter failing messages themselves, with the cause (decision 9); this limit is a safeguard.
    SharedQueue { name: EVENTS, max_receives: 102 },
    SharedQueue { name: REACTIONS, max_receives: 102 },
    // As above. A delivery that an endpoint refuses is not a failure of its message, which waits for hours.
    SharedQueue { name: ANNOUNCEMENTS, max_receives: 102 },
    SharedQueue { name: WEBHOOKS, max_receives: 102 },
    // An issue may wait for an hour's limit several times.
    SharedQueue { name: REVIEWS, max_receives: 102 },
    // A client that misses a push reconnects with its cursor.
    SharedQueue { name: PUSHES, max_receives: 5 },
    // The sweep finds deadlines whose message was lost.
    SharedQueue { name: DEADLINES, max_receives: 5 },
];

/// The logical name of a queue's dead-letter queue: `events-dead.fifo`, `deadlines-dead`.
pub fn dead_letters_of(queue: &str) -> String {
    match queue.strip_suffix(".fifo") {
        Some(name) => format!("{name}-dead.fifo"),
        None => format!("{queue}-dead"),
    }
}

/// No access to anything.
const NOTHING: Access = Access {
    table: TableAccess::None,
    blobs: BlobAccess::None,
    artifacts: BlobAccess::None,
    sends: &[],
    run_queues: DynamicQueueAccess::None,
    worker_queues: DynamicQueueAccess::None,
    dead_letters: false,
    secret: false,
    model: false,
    embeddings: false,
    connections: false,
    publishes: false,
    processes: false,
    assumes: &[],
};
const READS: Access = Access { table: TableAccess::Read, ..NOTHING };
const WRITES: Access = Access { table: TableAccess::Write, ..NOTHING };

const fn of(access: Access) -> Requirements {
    Requirements { profiles: Profiles::Both, access, memory_mb: 512, timeout_seconds: 10 }
}

const fn of_cloud(access: Access) -> Requirements {
    Requirements { profiles: Profiles::Aws, ..of(access) }
}

/// Responds without access to any resource.
pub const STATIC: Requirements = of(NOTHING);
/// Reads state.
pub const QUERY: Requirements = of(READS);
/// Returns a public key that is derived from the root secret.
pub const PUBLIC_KEY: Requirements = of(Access { secret: true, ..NOTHING });
/// Reads a large body.
pub const BLOB: Requirements = of(Access { blobs: BlobAccess::Read, ..READS });
/// Exports a session.
pub const EXPORT: Requirements =
    Requirements { memory_mb: 2048, timeout_seconds: 29, ..of(Access { blobs: BlobAccess::Both, ..READS }) };
/// Reads the content of an artifact.
pub const ARTIFACT_CONTENT: Requirements =
    Requirements { memory_mb: 1024, ..of(Access { artifacts: BlobAccess::Read, ..READS }) };
/// Stores a version of an artifact, or prepares its upload.
pub const ARTIFACT_WRITE: Requirements = Requirements {
    memory_mb: 1024,
    timeout_seconds: 25,
    ..of(Access { artifacts: BlobAccess::Both, ..WRITES })
};
/// Lets an agent read an artifact, and logs it.
pub const ARTIFACT_READ: Requirements =
    Requirements { memory_mb: 1024, ..of(Access { artifacts: BlobAccess::Read, ..WRITES }) };
/// Compares the texts of a project. It waits for embeddings for at most 15 seconds.
pub const COHERENCE_SCAN: Requirements =
    Requirements { memory_mb: 1024, timeout_seconds: 29, ..of(Access { embeddings: true, ..WRITES }) };
/// Commits a change.
pub const COMMAND: Requirements = Requirements { timeout_seconds: 20, ..of(WRITES) };
/// Commits a change and returns a session's API key.
pub const COMMAND_WITH_KEY: Requirements =
    Requirements { access: Access { secret: true, ..WRITES }, ..COMMAND };
/// Stores images and commits a message with them.
pub const COMMAND_WITH_IMAGES: Requirements = Requirements {
    memory_mb: 1024,
    timeout_seconds: 25,
    access: Access { blobs: BlobAccess::Write, ..WRITES },
    ..COMMAND
};
/// Stores images, starts a session and returns its API key.
pub const START: Requirements = Requirements {
    access: Access { blobs: BlobAccess::Write, secret: true, ..WRITES },
    ..COMMAND_WITH_IMAGES
};
/// Exists only on the embedded server, where it replaces a service of the cloud.
pub const EMBEDDED: Requirements = Requirements { profiles: Profiles::Embedded, ..of(NOTHING) };
/// Issues a sidecar short-lived credentials for its own run.
pub const CREDENTIALS: Requirements =
    of_cloud(Access { secret: true, assumes: &[AssumedRole::Sidecar], ..READS });
/// Gives a sidecar an image of its session.
pub const IMAGE: Requirements = of(Access { secret: true, blobs: BlobAccess::Read, ..READS });
/// Tells a container which run to execute.
pub const LAUNCH: Requirements = of_cloud(Access { secret: true, ..READS });
/// Registers a worker, manages its queue, issues its credentials, assigns pending runs, and reports lost runs.
pub const WORKER: Requirements = Requirements {
    timeout_seconds: 20,
    ..of(Access {
        worker_queues: DynamicQueueAccess::Manage,
        assumes: &[AssumedRole::Worker],
        secret: true,
        sends: &[EVENTS],
        ..WRITES
    })
};
/// Lets a worker claim a run and returns the run's keys.
pub const CLAIM: Requirements = of(Access { secret: true, ..WRITES });
/// Judges a tool call of a run, and logs the verdict.
pub const JUDGE: Requirements = of(Access { secret: true, ..WRITES });
/// Signs a worker's report that a run ended, for the intake, and assigns pending runs to the worker.
pub const EXIT: Requirements =
    of(Access { worker_queues: DynamicQueueAccess::Manage, secret: true, sends: &[EVENTS], ..WRITES });
/// Removes a worker with its queue and ends the runs that are lost with it.
pub const WORKER_REMOVAL: Requirements =
    of(Access { worker_queues: DynamicQueueAccess::Manage, secret: true, sends: &[EVENTS], ..WRITES });
pub const DEAD_LETTERS: Requirements = Requirements {
    timeout_seconds: 25,
    ..of(Access {
        dead_letters: true,
        sends: &[EVENTS, REACTIONS, ANNOUNCEMENTS, WEBHOOKS, REVIEWS, PUSHES, DEADLINES],
        ..WRITES
    })
};

/// Applies events. The only function that verifies their signatures.
pub const INTAKE: Requirements = Requirements {
    memory_mb: 1024,
    timeout_seconds: 15,
    ..of(Access { secret: true, blobs: BlobAccess::Write, ..WRITES })
};
pub const RELAY: Requirements = Requirements {
    timeout_seconds: 30,
    ..of(Access { sends: &[REACTIONS, ANNOUNCEMENTS, REVIEWS, PUSHES, DEADLINES], ..READS })
};
/// Launches runs, sends commands, allocates slots, ends runs, requests comparisons of texts.
pub const REACT: Requirements = Requirements {
    memory_mb: 1024,
    timeout_seconds: 30,
    ..of(Access {
        secret: true,
        run_queues: DynamicQueueAccess::Manage,
        worker_queues: DynamicQueueAccess::Manage,
        processes: true,
        sends: &[REVIEWS],
        ..WRITES
    })
};
/// Processes due deadlines and removes orphaned queues.
pub const CLOCK: Requirements = Requirements {
    timeout_seconds: 60,
    ..of(Access {
        secret: true,
        run_queues: DynamicQueueAccess::Sweep,
        worker_queues: DynamicQueueAccess::Manage,
        processes: true,
        sends: &[EVENTS, DEADLINES],
        ..WRITES
    })
};
/// Appends to the event feed and queues deliveries to webhooks.
pub const EVENT_FEED: Requirements =
    Requirements { timeout_seconds: 30, ..of(Access { sends: &[WEBHOOKS], ..WRITES }) };
/// Delivers to webhooks, the event bus and the topic: a batch has at most ten deliveries of at most ten seconds each, which run
/// concurrently except for a first trial. Failed deliveries return to the queue.
pub const WEBHOOK_DELIVERY: Requirements = Requirements {
    timeout_seconds: 120,
    ..of(Access { publishes: true, secret: true, sends: &[WEBHOOKS], ..WRITES })
};
/// Asks a model about coherence issues, and compares texts by embeddings. A review takes two requests of at most 45 seconds, a comparison
/// waits for embeddings for at most 80 seconds, and a batch begins none after 10 seconds.
pub const COHERENCE_REVIEW: Requirements = Requirements {
    memory_mb: 1024,
    timeout_seconds: 120,
    ..of(Access { model: true, embeddings: true, artifacts: BlobAccess::Read, ..WRITES })
};
/// Pushes journal entries to live stream connections.
pub const PUSH: Requirements = Requirements {
    timeout_seconds: 30,
    ..of_cloud(Access { connections: true, sends: &[PUSHES], ..WRITES })
};
/// Signs the report of ECS that a run ended, for the intake.
pub const TASK_STOPPED: Requirements = of_cloud(Access { secret: true, sends: &[EVENTS], ..NOTHING });
/// Authorizes live streams by the issuer's public keys.
pub const AUTHORIZE: Requirements = of_cloud(NOTHING);
/// Accepts a connection and stores its owner.
pub const OPEN: Requirements = of_cloud(WRITES);
/// Subscribes a connection to a session.
pub const SUBSCRIBE: Requirements = of_cloud(Access { connections: true, sends: &[PUSHES], ..WRITES });
/// Deletes the record of a connection.
pub const CLOSED: Requirements = of_cloud(WRITES);
