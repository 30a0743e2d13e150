//! Failures with a process (decision 14): a paused agent that did not receive its resume fails with nothing.

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::session::LifecycleCommand;
use pilothouse_domain::value::FailureReason;
use pilothouse_domain::{CommandId, SessionEvent};

use super::Findings;
use super::world::Session;

/// No session fails because of the end of a process whose complete spool shows that it did not receive the resume.
pub(super) fn none_fails_unreceived(session: &Session, found: &mut Findings<'_>) {
    let mut unreceived: Option<CommandId> = None;
    for entry in &session.journal {
        if unreceived.is_some_and(|command| acknowledges(entry, command)) {
            unreceived = None;
        }
        for event in &entry.events {
            match event {
                SessionEvent::ResumeRequested { command } => {
                    unreceived = command.map(|sent| sent.command_id);
                }
                // A resume that waited for a run. Others are sent again while they count as unreceived.
                SessionEvent::CommandReissued { kind: LifecycleCommand::Resume, command }
                    if command.attempt == 1 =>
                {
                    unreceived = Some(command.command_id);
                }
                SessionEvent::Failed { failure_reason: FailureReason::InfrastructureError, message }
                    if unreceived.is_some() && is_drained(entry) && !in_a_row(message.as_deref()) =>
                {
                    let what = "a session failed with a process that had not received its resume";
                    found.session(session, Some(entry.sequence), what, &format!("{event:?}"));
                }
                SessionEvent::Resumed {}
                | SessionEvent::ResumeAbandoned {}
                | SessionEvent::Failed { .. }
                | SessionEvent::RunEnded { .. } => unreceived = None,
                _ => {}
            }
        }
    }
}

/// Each failure comes with the end of a sidecar that the test killed.
pub(super) fn only_killed_sidecars_fail(session: &Session, found: &mut Findings<'_>) {
    for entry in &session.journal {
        let failed = entry.events.iter().any(|event| matches!(event, SessionEvent::Failed { .. }));
        let killed = entry.events.iter().any(|event| {
            matches!(event, SessionEvent::RunEnded { run_id, .. } if found.history.killed(&run_id.to_string()))
        });
        if failed && !killed {
            found.session(session, Some(entry.sequence), "a session failed whose sidecar was not killed", "");
        }
    }
}

fn acknowledges(entry: &JournalEntry, command: CommandId) -> bool {
    let Cause::Agent { body, .. } = &entry.cause else { return false };
    body["type"] == "resume_ack" && body["commandId"] == command.to_string()
}

/// Whether the entry reports the end of a process whose spool was published.
fn is_drained(entry: &JournalEntry) -> bool {
    let Cause::Agent { body, .. } = &entry.cause else { return false };
    body["type"] == "run_exited" && body["drained"] == true
}

/// Whether several processes ended like this, so that another one would too.
fn in_a_row(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.contains("sidecars in a row"))
}
