//! The message queue of a session.

/// Adds the declarations of this file to `done`, and passes them on to the macro `next`.
macro_rules! message_events {
    ({ $($done:tt)* } $next:ident $($rest:ident)*) => {
        $next! { {
            $($done)*
            /// A message was added to the queue.
            MessageEnqueued = "MessageEnqueuedEvent" {
                message_id: MessageId,
                priority: MessagePriority,
                source: MessageSource,
                content: MessageContent,
            };
            /// A pending message was edited.
            MessageEdited = "MessageEditedEvent" {
                message_id: MessageId,
                /// The new text.
                content: MessageContent,
            };
            /// A pending message was moved.
            MessageMoved = "MessageMovedEvent" {
                message_id: MessageId,
            };
            /// A message was sent to the sidecar.
            MessageDispatched = "MessageDispatchedEvent" {
                message_id: MessageId,
                command: CommandRef,
            };
            /// The agent received a message.
            MessageDelivered = "MessageDeliveredEvent" {
                message_id: MessageId,
                source: MessageSource,
                content: MessageContent,
                delivered_at: Timestamp,
            };
            /// It is unknown whether the agent received a message (decision 30).
            MessageUncertain = "MessageDeliveryUncertainEvent" {
                message_id: MessageId,
            };
            /// A message that was sent but not received is pending again.
            MessageReturned = "MessageReturnedEvent" {
                message_id: MessageId,
                reason: String,
            };
            /// A message was cancelled.
            MessageCancelled = "MessageCancelledEvent" {
                message_id: MessageId,
                /// The reason, if the owner did not request it: `turn-over` or `session-ended`.
                reason: Option<String>,
            };
            /// A queued message became immediate.
            MessagePromoted = "MessagePromotedToImmediateEvent" {
                message_id: MessageId,
            };
            /// Messages are held until the owner acts (decision 29).
            MessagesHeld = "MessagesHeldEvent" {};
            /// The owner lifted the hold.
            MessagesReleased = "MessagesReleasedEvent" {};
        } $($rest)* }
    };
}
