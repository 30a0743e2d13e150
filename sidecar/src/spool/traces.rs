//! Trace context: an answer to a command carries the command's span.

use pilothouse_domain::{CommandId, MessageId, TraceParent, TurnId};
use pilothouse_sqlite::rusqlite::{Connection, OptionalExtension as _, params};
use pilothouse_wire::RawEvent;

use super::SpoolError;

/// Schema step for traces. `turns` keeps the span of each turn until its end.
pub(super) const TABLES: &str = "
    ALTER TABLE commands ADD COLUMN traceparent TEXT;
    CREATE TABLE turns (turn_id TEXT PRIMARY KEY, traceparent TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// The cause of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answers {
    /// A command that the event acknowledges or refuses.
    Command(CommandId),
    /// The command that began the turn, either with its message or `begin`.
    Turn(TurnId, Option<MessageId>),
    /// Like `Turn`, for the event that ends the turn.
    TurnOver(TurnId),
    Nothing,
}

impl Answers {
    pub(super) fn of(event: &RawEvent) -> Self {
        match event {
            RawEvent::InterruptAck(ack)
            | RawEvent::PauseAck(ack)
            | RawEvent::ResumeAck(ack)
            | RawEvent::StopAck(ack)
            | RawEvent::ReloadConfigAck(ack)
            | RawEvent::AdjustAck(ack)
            | RawEvent::BeginAck(ack)
            | RawEvent::AnswerAck(ack)
            | RawEvent::ValidationAck(ack) => Self::Command(ack.command_id),
            RawEvent::MessageAck { command_id, .. }
            | RawEvent::CommandRefused { command_id, .. }
            | RawEvent::ValidationResult { command_id, .. } => Self::Command(*command_id),
            RawEvent::TurnStarted { turn_id, message_id } => Self::Turn(turn_id.clone(), *message_id),
            RawEvent::TurnCompleted { turn_id, .. } => Self::TurnOver(turn_id.clone()),
            _ => Self::Nothing,
        }
    }

    pub(super) fn place(&self, db: &Connection) -> Result<Option<TraceParent>, SpoolError> {
        let found = match self {
            Self::Nothing => return Ok(None),
            Self::Command(id) => db
                .prepare_cached("SELECT traceparent FROM commands WHERE command_id = ?1")?
                .query_row([id.to_string()], |row| row.get(0))
                .optional()?,
            Self::Turn(turn, message) => {
                let found: Option<Option<String>> = match message {
                    Some(message) => db
                        .prepare_cached(
                            "SELECT traceparent FROM commands JOIN messages USING (command_id) WHERE message_id = ?1",
                        )?
                        .query_row([message.to_string()], |row| row.get(0))
                        .optional()?,
                    None => db
                        .prepare_cached("SELECT traceparent FROM commands WHERE body ->> 'type' = 'begin'")?
                        .query_row([], |row| row.get(0))
                        .optional()?,
                };
                if let Some(Some(place)) = &found {
                    db.prepare_cached("INSERT OR REPLACE INTO turns (turn_id, traceparent) VALUES (?1, ?2)")?
                        .execute(params![turn.as_str(), place])?;
                }
                found
            }
            Self::TurnOver(turn) => db
                .prepare_cached("DELETE FROM turns WHERE turn_id = ?1 RETURNING traceparent")?
                .query_row([turn.as_str()], |row| row.get(0))
                .optional()?,
        };
        let text: Option<String> = found.flatten();
        Ok(text.and_then(|text| text.parse().ok()))
    }
}
