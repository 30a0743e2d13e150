//! Runs, commands, envelopes and slots.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! run_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// A run was created and has to be launched (decision 7).
            RunRequested = "SessionRunRequestedEvent" {
                run_id: RunId,
                /// Number of the run within its session, from 1.
                ordinal: u32,
                cause: RunCause,
            };
            /// The session needs a pool slot for a new run.
            SlotWanted = "SessionSlotWantedEvent" {
                cause: RunCause,
            };
            /// The sidecar of a run is ready and receives `begin`.
            RunReady = "SessionRunReadyEvent" {
                command: CommandRef,
            };
            /// A run has to stop.
            RunStopOrdered = "SessionRunStopOrderedEvent" {
                /// The run, and the `stop` command for a graceful stop.
                command: CommandRef,
                mode: StopMode,
            };
            /// A run ended.
            RunEnded = "SessionRunEndedEvent" {
                run_id: RunId,
                /// Status of the session afterwards.
                status: AgentSessionStatus,
                /// Explanation for a person.
                detail: Option<String>,
                /// Whether the owner declared the run's machine lost, so that the end of its process was not observed.
                #[serde(default, skip_serializing_if = "std::ops::Not::not")]
                end_uncertain: bool,
            };
            /// Nothing was received from a run for too long. Its deadlines stop until something is (decision 13).
            RunUnreachable = "SessionRunUnreachableEvent" {
                run_id: RunId,
            };
            /// Something was received from a run that was unreachable. Its deadlines restart.
            RunReachable = "SessionRunReachableEvent" {
                run_id: RunId,
                /// How long it was unreachable.
                after_seconds: u64,
            };
            /// A command was not acknowledged and is sent once more (decision 12).
            CommandReissued = "SessionCommandReissuedEvent" {
                kind: LifecycleCommand,
                command: CommandRef,
            };
            /// A command takes longer than expected (decision 12).
            CommandLate = "SessionCommandLateEvent" {
                kind: LifecycleCommand,
            };
            /// The sidecar refused a command.
            CommandRefused = "SessionCommandRefusedEvent" {
                command_id: CommandId,
                /// Stable code of the reason.
                code: String,
                /// Explanation for a person.
                message: String,
            };
            /// The session needs a capability that its agent lacks.
            CapabilityMissing = "SessionCapabilityMissingEvent" {
                /// The capability, as the session's view names it.
                capability: String,
                /// Consequence of the missing capability, for a person.
                consequence: String,
            };
            /// The agent acted after it had been stopped (decision 15).
            AfterStopActivity = "SessionAfterStopActivityEvent" {
                /// What it did: `a message`, `a tool call` or `a turn`.
                what: String,
            };
            /// Missing envelopes are requested from the sidecar (decision 9).
            ReplayRequested = "SessionReplayRequestedEvent" {
                command: CommandRef,
                /// First missing sequence.
                from_sequence: u64,
                /// Last missing sequence.
                to_sequence: u64,
            };
            /// Missing envelopes were given up (decision 9).
            EventsLost = "SessionEventsLostEvent" {
                /// First lost sequence.
                from_sequence: u64,
                /// Last lost sequence.
                to_sequence: u64,
            };
            /// A deferred fact changed nothing when it was applied (decision 17).
            FactIgnored = "SessionFactIgnoredEvent" {
                /// Name of the fact.
                fact: String,
                reason: String,
            };
            /// An authentic envelope could not be read and was quarantined.
            EventQuarantined = "SessionEventQuarantinedEvent" {
                /// What is wrong with it.
                errors: Vec<String>,
            };
            /// A quarantined event was sent again by an operator and applied (decision 9). Its effects are in the same entry.
            EventRedriven = "SessionEventRedrivenEvent" {
                /// Sequence of the event in its run.
                sequence: u64,
            };
            /// A slot of the pool was allocated.
            SlotAllocated = "SessionAllocatedEvent" {
                /// Slots in use.
                active_count: usize,
                /// Total number of slots.
                max_count: u32,
            };
            /// A slot of the pool was released.
            SlotReleased = "SessionReleasedEvent" {
                /// Slots in use.
                active_count: usize,
                /// Total number of slots.
                max_count: u32,
            };
            /// No slot was free, so the session waits in line.
            PoolExhausted = "SessionPoolExhaustedEvent" {
                /// Slots in use.
                current_count: usize,
                /// Total number of slots.
                max_count: u32,
            };
            /// The number of slots was changed.
            PoolConfigured = "SessionPoolConfiguredEvent" {
                /// Total number of slots.
                max_count: u32,
                /// The next session in line, if a slot is free.
                next: Option<AgentSessionId>,
            };
        } $($rest)* }
    };
}
