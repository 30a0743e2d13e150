//! Questions and plans of the agent.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! request_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// The agent asked questions and waits for the answers.
            WaitingForInput = "SessionWaitingForInputEvent" {
                /// Id of the request; answers have to name it.
                request_id: ToolCallId,
                questions: Vec<Question>,
                /// When the request times out.
                expires_at: Timestamp,
            };
            /// The owner answered, or the default answer was used.
            InputReceived = "SessionInputReceivedEvent" {
                request_id: ToolCallId,
                answers: Vec<Answer>,
                /// Whether the request timed out and the default answer was used.
                by_default: bool,
                /// The command to send; `null` if the answer is sent as a message.
                command: Option<CommandRef>,
            };
            /// A request of the agent was closed without a decision of the owner.
            RequestClosed = "SessionRequestClosedEvent" {
                request_id: ToolCallId,
            };
            /// The agent entered plan mode.
            PlanCreated = "SessionPlanCreatedEvent" {};
            /// The agent submitted a plan.
            PlanPendingApproval = "SessionPlanPendingApprovalEvent" {
                /// Id of the request; decisions have to name it.
                request_id: ToolCallId,
                /// Whether the plan needs approval.
                requires_approval: bool,
                /// Revision of the plan.
                version: u32,
            };
            /// The plan was approved.
            PlanApproved = "SessionPlanApprovedEvent" {
                request_id: ToolCallId,
                /// The command to send; `null` if the decision is sent as a message.
                command: Option<CommandRef>,
            };
            /// The plan was rejected.
            PlanRejected = "SessionPlanRejectedEvent" {
                request_id: ToolCallId,
                feedback: Feedback,
                /// The command to send; `null` if the decision is sent as a message.
                command: Option<CommandRef>,
            };
        } $($rest)* }
    };
}
