//! The life cycle of a session: status changes, auto-continue, hibernation.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! lifecycle_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// The session was created, with or without a slot.
            SessionCreated = "AgentSessionCreatedEvent" {
                objective: String,
                model_id: String,
            };
            /// The agent started.
            SessionStarted = "AgentSessionStartedEvent" {
                working_directory: String,
                objective: String,
                model_id: String,
            };
            TurnCompleted = "AgentSessionTurnCompletedEvent" {
                /// Number of completed turns.
                turn_count: u32,
                /// When this turn ended.
                last_turn_at: Timestamp,
                /// How the turn ended (S4).
                #[serde(default, skip_serializing_if = "SessionOutcome::is_completed")]
                outcome: SessionOutcome,
            };
            /// A turn started.
            TurnStarted = "AgentSessionTurnStartedEvent" {
                turn_id: TurnId,
                /// The message that started the turn.
                message_id: Option<MessageId>,
            };
            /// The owner requested an interrupt.
            InterruptRequested = "SessionInterruptRequestedEvent" {
                command: Option<CommandRef>,
            };
            /// The turn was interrupted.
            Interrupted = "SessionInterruptedEvent" {};
            /// The owner or the budget requested a pause.
            PauseRequested = "SessionPauseRequestedEvent" {
                command: Option<CommandRef>,
            };
            /// The session was paused.
            Paused = "SessionPausedEvent" {};
            /// A resume was requested.
            ResumeRequested = "SessionResumeRequestedEvent" {
                /// The command to send; `null` while the session is hibernated.
                command: Option<CommandRef>,
            };
            /// The session was resumed.
            Resumed = "SessionResumedEvent" {};
            /// The process was stopped before the session resumed; the session stays paused.
            ResumeAbandoned = "SessionResumeAbandonedEvent" {};
            /// The owner requested a cancellation.
            CancelRequested = "SessionCancelRequestedEvent" {
                /// The command to send; `null` if no sidecar is running.
                command: Option<CommandRef>,
            };
            /// A cancellation waits for another request to resolve (decision 16).
            CancelAccepted = "SessionCancelAcceptedEvent" {};
            /// The session was cancelled.
            Cancelled = "SessionCancelledEvent" {};
            /// An output waits for review.
            OutputReady = "AgentSessionOutputReadyEvent" {
                output_id: OutputId,
                files_changed: u32,
                tests_added: u32,
                all_tests_passing: bool,
            };
            /// The output was approved.
            Approved = "AgentSessionApprovedEvent" {
                output_id: OutputId,
                /// The commit that contains the output.
                commit_sha: Option<CommitSha>,
            };
            /// The session was closed without output.
            Closed = "AgentSessionClosedEvent" {};
            /// The output was rejected.
            Rejected = "AgentSessionRejectedEvent" {
                output_id: OutputId,
                reason: Option<Feedback>,
            };
            /// The session failed.
            Failed = "AgentSessionFailedEvent" {
                failure_reason: FailureReason,
                /// Explanation for a person.
                message: Option<String>,
            };
            /// The owner retried the session.
            Retried = "AgentSessionRetriedEvent" {
                /// Number of retries, including this one.
                retry_count: u32,
                /// Instruction for the agent.
                additional_instruction: Option<Feedback>,
            };
            /// A turn ended, and its criteria are being checked (decision 36).
            ValidationRequested = "SessionValidationRequestedEvent" {
                command: CommandRef,
            };
            ValidationPassed = "SessionValidationPassedEvent" {};
            /// Criteria are not met, and the agent continues.
            ValidationFailed = "SessionValidationFailedEvent" {
                /// The criteria that are not met, and why.
                reason: String,
                /// Number of continuations, including this one.
                continuation: u32,
                /// Most continuations.
                max_continuations: u32,
            };
            /// A validation was given up because something else takes precedence.
            ValidationAbandoned = "SessionValidationAbandonedEvent" {
                reason: String,
            };
            /// Auto-continue stopped although the criteria are not met; the owner has to look at the session.
            AutoContinueStopped = "SessionAutoContinueStoppedEvent" {
                cause: AutoContinueEnd,
                /// The unmet criteria, or the problem.
                reason: Option<String>,
                /// Number of continuations.
                continuations: u32,
            };
            /// The sidecar never received an answer or decision. It is sent to the agent as a message (decisions 12, 26).
            AnswerReturned = "SessionAnswerReturnedEvent" {
                request_id: ToolCallId,
            };
            /// The session was inactive for its idle timeout, so its sidecar is stopped (decision 22).
            HibernationOrdered = "SessionHibernationOrderedEvent" {
                idle_seconds: u64,
            };
        } $($rest)* }
    };
}
