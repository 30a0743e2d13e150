//! Incoming commands.

use pilothouse_domain::{CommandId, MessageId, TraceParent};
use pilothouse_sqlite::rusqlite::{Connection, OptionalExtension as _, params};
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::event::MessagePhase;
use pilothouse_wire::{Command, RawEvent};

use super::envelopes::{insert_all, resend};
use super::{Outgoing, Spool, SpoolError};

/// The classification of an incoming command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// New and stored. The caller must execute it.
    New,
    /// A replay of this many envelopes. The caller executes nothing: a replay concerns only the spool, so it also works
    /// without an agent and while the sidecar stops.
    Replayed(usize),
    /// Known. If this is a later attempt, the spool has answered it again. The caller must not execute it.
    Repeat,
}

impl Spool {
    /// Accepts a command (decision 10). A new command is stored together with its acknowledgement `received`. A later
    /// attempt is answered with the stored acknowledgement in a new envelope.
    pub async fn take(
        &self,
        issued: IssuedCommand,
        traceparent: Option<TraceParent>,
        received: Option<RawEvent>,
    ) -> Result<Taken, SpoolError> {
        let sealer = self.sealer.clone();
        let taken = self
            .write(move |db| {
                if let Some((attempt, ack)) = stored(db, issued.command_id)? {
                    if attempt < issued.attempt {
                        db.prepare_cached("UPDATE commands SET attempt = ?2 WHERE command_id = ?1")?
                            .execute(params![issued.command_id.to_string(), issued.attempt])?;
                        let ack = ack.map(|ack| Outgoing::raw(ack).answering(issued.command_id));
                        insert_all(db, &sealer, ack.as_slice())?;
                    }
                    return Ok(Taken::Repeat);
                }
                insert(db, &issued, traceparent)?;
                if let Command::Replay { from_sequence, to_sequence } = issued.command {
                    let found = resend(db, from_sequence, to_sequence)?;
                    close(db, issued.command_id)?;
                    return Ok(Taken::Replayed(found));
                }
                if let Some(ack) = received.clone() {
                    record_ack(db, issued.command_id, &ack, false)?;
                    insert_all(db, &sealer, &[Outgoing::event(ack)?])?;
                }
                let Command::SteeringMessage { message_id, .. } = issued.command else {
                    return Ok(Taken::New);
                };
                let Some(phase) = known_message(db, message_id, issued.command_id)? else {
                    return Ok(Taken::New);
                };
                // Another command has carried this message, which the agent must not receive twice.
                let ack = RawEvent::MessageAck { command_id: issued.command_id, message_id, phase };
                record_ack(db, issued.command_id, &ack, true)?;
                insert_all(db, &sealer, &[Outgoing::event(ack)?])?;
                Ok(Taken::Repeat)
            })
            .await?;
        self.changed.notify_one();
        Ok(taken)
    }

    /// `over`: no further step follows.
    pub async fn acknowledge(
        &self,
        command_id: CommandId,
        ack: RawEvent,
        over: bool,
    ) -> Result<(), SpoolError> {
        let sealer = self.sealer.clone();
        // Redacted first, because repeats are answered with the stored acknowledgement.
        let ack = self.redactor().event(ack)?;
        self.write(move |db| {
            record_ack(db, command_id, &ack, over)?;
            insert_all(db, &sealer, &[Outgoing::event(ack.clone())?])
        })
        .await?;
        self.changed.notify_one();
        Ok(())
    }

    /// Commands that an earlier process of this run accepted and did not finish, in order. Excludes messages whose
    /// injection had begun, because it is unknown whether the agent has them (decision 30).
    pub async fn unfinished(&self) -> Result<Vec<IssuedCommand>, SpoolError> {
        self.write(|db| {
                let mut statement = db.prepare_cached(
                    "SELECT body FROM commands WHERE over = 0 AND ack ->> 'phase' IS NOT 'injecting' ORDER BY position",
                )?;
                let bodies = statement.query_map([], |row| row.get::<_, String>(0))?;
                bodies.map(|body| Ok(serde_json::from_str(&body?)?)).collect()
            })
            .await
    }

    /// Whether an agent was started in this run and a command to it was carried out: `begin`, or a pause or an interrupt during the start.
    /// Starting it again would undo such a stop.
    pub async fn begun(&self) -> Result<bool, SpoolError> {
        self.write(|db| {
            let sql = "SELECT EXISTS (SELECT 1 FROM commands WHERE over = 1
                 AND ack ->> 'type' IN ('begin_ack', 'pause_ack', 'interrupt_ack'))";
            Ok(db.query_row(sql, [], |row| row.get(0))?)
        })
        .await
    }
}

fn insert(
    db: &Connection,
    issued: &IssuedCommand,
    traceparent: Option<TraceParent>,
) -> Result<(), SpoolError> {
    db.prepare_cached(
        "INSERT INTO commands (command_id, attempt, body, traceparent) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        issued.command_id.to_string(),
        issued.attempt,
        serde_json::to_string(issued)?,
        traceparent.map(|place| place.to_string())
    ])?;
    Ok(())
}

/// Marks a command that has no acknowledgement as over.
fn close(db: &Connection, id: CommandId) -> Result<(), SpoolError> {
    db.prepare_cached("UPDATE commands SET over = 1 WHERE command_id = ?1")?.execute([id.to_string()])?;
    Ok(())
}

type StoredAck = Option<Box<serde_json::value::RawValue>>;

fn stored(db: &Connection, id: CommandId) -> Result<Option<(u8, StoredAck)>, SpoolError> {
    let row: Option<(u8, Option<String>)> = db
        .prepare_cached("SELECT attempt, ack FROM commands WHERE command_id = ?1")?
        .query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    row.map(|(attempt, ack)| Ok((attempt, ack.map(serde_json::value::RawValue::from_string).transpose()?)))
        .transpose()
}

fn record_ack(db: &Connection, id: CommandId, ack: &RawEvent, over: bool) -> Result<(), SpoolError> {
    db.prepare_cached("UPDATE commands SET ack = ?2, over = ?3 WHERE command_id = ?1")?.execute(params![
        id.to_string(),
        serde_json::to_string(ack)?,
        over
    ])?;
    if let RawEvent::MessageAck { command_id, message_id, phase } = ack
        && *phase != MessagePhase::Received
    {
        db.prepare_cached(
            "INSERT INTO messages (message_id, command_id, phase) VALUES (?1, ?2, ?3)
             ON CONFLICT (message_id) DO UPDATE SET phase = excluded.phase",
        )?
        .execute(params![
            message_id.to_string(),
            command_id.to_string(),
            serde_json::to_string(phase)?
        ])?;
    }
    Ok(())
}

fn known_message(db: &Connection, id: MessageId, by: CommandId) -> Result<Option<MessagePhase>, SpoolError> {
    let phase: Option<String> = db
        .prepare_cached("SELECT phase FROM messages WHERE message_id = ?1 AND command_id <> ?2")?
        .query_row(params![id.to_string(), by.to_string()], |row| row.get(0))
        .optional()?;
    Ok(phase.map(|p| serde_json::from_str(&p)).transpose()?)
}
