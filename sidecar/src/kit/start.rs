//! Commands that arrive while an agent starts.
//!
//! A start can take some minutes. The agent does not work before its end, so pauses and interrupts are confirmed at once. The end of the command channel ends the start.

use std::collections::VecDeque;

use pilothouse_domain::value::Adjustment;
use tokio::sync::mpsc;

use super::messages::refuse_interrupted;
use crate::adapter::{AgentCommand, Refusal};
use crate::spool::SpoolError;

/// Why a command was refused whose start was given up.
pub(crate) const GIVEN_UP: &str = "the agent was being started, and a pause or an interrupt ended the start";

/// Stops that were confirmed during the first start of an agent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfirmedStops {
    /// No work begins before the resume.
    pub(crate) paused: bool,
    /// The first prompt begins no turn.
    pub(crate) interrupted: bool,
}

impl ConfirmedStops {
    async fn take(
        &mut self,
        command: AgentCommand,
        deferred_commands: &mut VecDeque<AgentCommand>,
    ) -> Result<(), SpoolError> {
        match command {
            AgentCommand::Pause(reply) => {
                self.paused = true;
                reply.done().await
            }
            AgentCommand::Resume(reply) if self.paused => {
                self.paused = false;
                reply.done().await
            }
            AgentCommand::Interrupt(reply) => {
                *self = Self { paused: false, interrupted: true };
                withdraw(deferred_commands).await?;
                reply.done().await
            }
            command => {
                deferred_commands.push_back(command);
                Ok(())
            }
        }
    }
}

/// Waits for the first start of an agent. Pauses, resumes and interrupts are confirmed at once, and other commands are queued. `None`
/// if the adapter must stop, which drops the start.
pub(crate) async fn first_start<T>(
    commands: &mut mpsc::UnboundedReceiver<AgentCommand>,
    deferred_commands: &mut VecDeque<AgentCommand>,
    start: impl Future<Output = T>,
) -> Result<Option<(T, ConfirmedStops)>, SpoolError> {
    let mut stops = ConfirmedStops::default();
    tokio::pin!(start);
    loop {
        let command = tokio::select! {
            started = &mut start => return Ok(Some((started, stops))),
            command = commands.recv() => command,
        };
        let Some(command) = command else { return Ok(None) };
        stops.take(command, deferred_commands).await?;
    }
}

/// How the wait for another start ended.
#[derive(Debug)]
pub(crate) enum Restart<T> {
    Done(T),
    /// A pause or an interrupt is among the deferred commands. The start was dropped.
    GivenUp,
    /// The adapter must stop. The start was dropped.
    Over,
}

/// Waits for another start of an agent while commands are queued. A pause or an interrupt drops the start and becomes the next command;
/// the caller keeps the work for which it started the agent.
pub(crate) async fn later_start<T>(
    commands: &mut mpsc::UnboundedReceiver<AgentCommand>,
    deferred_commands: &mut VecDeque<AgentCommand>,
    start: impl Future<Output = T>,
) -> Result<Restart<T>, SpoolError> {
    if deferred_commands.iter().any(is_stop) {
        return Ok(Restart::GivenUp);
    }
    tokio::pin!(start);
    loop {
        let command = tokio::select! {
            started = &mut start => return Ok(Restart::Done(started)),
            command = commands.recv() => command,
        };
        let Some(command) = command else { return Ok(Restart::Over) };
        if !is_stop(&command) {
            deferred_commands.push_back(command);
            continue;
        }
        if matches!(command, AgentCommand::Interrupt(_)) {
            withdraw(deferred_commands).await?;
        }
        deferred_commands.push_front(command);
        return Ok(Restart::GivenUp);
    }
}

const fn is_stop(command: &AgentCommand) -> bool {
    matches!(command, AgentCommand::Pause(_) | AgentCommand::Interrupt(_))
}

/// Refuses the queued commands that must not follow an interrupt (decision 29).
async fn withdraw(deferred_commands: &mut VecDeque<AgentCommand>) -> Result<(), SpoolError> {
    for command in std::mem::take(deferred_commands) {
        match command {
            AgentCommand::Message(message, reply) => refuse_interrupted(message, reply).await?,
            AgentCommand::Adjust(Adjustment::Compact { .. }, reply) => {
                reply.refuse(Refusal::invalid("the turn was interrupted")).await?;
            }
            command => deferred_commands.push_back(command),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use pilothouse_domain::value::{MessagePriority, MessageSource};
    use pilothouse_domain::{CommandId, MessageId};
    use pilothouse_wire::RawEvent;
    use uuid::Uuid;

    use super::*;
    use crate::adapter::{AckEvent, Message, MessageReply, Reply};
    use crate::spool::Spool;
    use crate::spool::tests::{bodies, open};

    /// Sends commands to a start, and reads their acknowledgements.
    struct Desk {
        _dir: tempfile::TempDir,
        spool: Spool,
        commands: mpsc::UnboundedSender<AgentCommand>,
        receiver: mpsc::UnboundedReceiver<AgentCommand>,
        deferred: VecDeque<AgentCommand>,
        abandoned: mpsc::UnboundedSender<CommandId>,
        _lost: mpsc::UnboundedReceiver<CommandId>,
    }

    impl Desk {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let spool = open(dir.path());
            let (commands, receiver) = mpsc::unbounded_channel();
            let (abandoned, lost) = mpsc::unbounded_channel();
            let deferred = VecDeque::new();
            Self { _dir: dir, spool, commands, receiver, deferred, abandoned, _lost: lost }
        }

        fn reply(&self, ack: AckEvent) -> Reply {
            let id = CommandId::new(Uuid::now_v7());
            Reply::new(id, ack, self.spool.clone(), self.abandoned.clone())
        }

        fn pause(&self) -> AgentCommand {
            AgentCommand::Pause(self.reply(RawEvent::PauseAck))
        }

        fn resume(&self) -> AgentCommand {
            AgentCommand::Resume(self.reply(RawEvent::ResumeAck))
        }

        fn interrupt(&self) -> AgentCommand {
            AgentCommand::Interrupt(self.reply(RawEvent::InterruptAck))
        }

        fn message(&self, content: &str) -> AgentCommand {
            let (command, id) = (CommandId::new(Uuid::now_v7()), MessageId::new(Uuid::now_v7()));
            let message = Message {
                id,
                content: content.to_owned(),
                images: Vec::new(),
                priority: MessagePriority::Queued,
                source: MessageSource::User,
                expected_turn: None,
            };
            let reply = MessageReply::new(command, id, self.spool.clone(), self.abandoned.clone());
            AgentCommand::Message(message, reply)
        }

        /// The acknowledgements so far: type, and step or code.
        async fn acknowledged(&self) -> Vec<String> {
            let part =
                |body: &serde_json::Value, name: &str| body[name].as_str().unwrap_or_default().to_owned();
            let bodies = bodies(&self.spool).await;
            bodies
                .iter()
                .map(|body| format!("{} {}{}", part(body, "type"), part(body, "step"), part(body, "code")))
                .collect()
        }

        fn queued(&self) -> Vec<&'static str> {
            let name = |command: &AgentCommand| match command {
                AgentCommand::Message(..) => "message",
                AgentCommand::Pause(_) => "pause",
                AgentCommand::Resume(_) => "resume",
                AgentCommand::Interrupt(_) => "interrupt",
                _ => "other",
            };
            self.deferred.iter().map(name).collect()
        }
    }

    #[tokio::test]
    async fn stops_are_confirmed_before_the_first_start_ends() {
        let interrupted = vec!["pause_ack done", "command_refused interrupted", "interrupt_ack done"];
        for (sent, stops, acknowledged, queued) in [
            ("pause", (true, false), vec!["pause_ack done"], vec!["message"]),
            ("pause resume", (false, false), vec!["pause_ack done", "resume_ack done"], vec!["message"]),
            ("pause interrupt", (false, true), interrupted, vec![]),
        ] {
            let mut desk = Desk::new();
            desk.commands.send(desk.message("hello")).unwrap();
            for command in sent.split(' ') {
                let command = match command {
                    "pause" => desk.pause(),
                    "resume" => desk.resume(),
                    _ => desk.interrupt(),
                };
                desk.commands.send(command).unwrap();
            }
            let spool = desk.spool.clone();
            // Ends only once the commands are acknowledged.
            let start = async {
                while bodies(&spool).await.len() < acknowledged.len() {
                    tokio::task::yield_now().await;
                }
            };
            let waited = first_start(&mut desk.receiver, &mut desk.deferred, start).await;
            let ((), confirmed) = waited.unwrap().unwrap();
            assert_eq!((confirmed.paused, confirmed.interrupted), stops, "{sent}");
            assert_eq!(desk.acknowledged().await, acknowledged, "{sent}");
            assert_eq!(desk.queued(), queued, "{sent}");
        }
    }

    #[tokio::test]
    async fn end_of_the_channel_drops_a_start() {
        let mut desk = Desk::new();
        desk.commands = mpsc::unbounded_channel().0;
        let waited = first_start(&mut desk.receiver, &mut desk.deferred, pending::<()>()).await;
        assert!(waited.unwrap().is_none());
        let waited = later_start(&mut desk.receiver, &mut desk.deferred, pending::<()>()).await;
        assert!(matches!(waited.unwrap(), Restart::Over));
    }

    #[tokio::test]
    async fn stop_drops_a_later_start_and_is_the_next_command() {
        let mut desk = Desk::new();
        desk.commands.send(desk.message("hello")).unwrap();
        desk.commands.send(desk.pause()).unwrap();
        let waited = later_start(&mut desk.receiver, &mut desk.deferred, pending::<()>()).await;
        assert!(matches!(waited.unwrap(), Restart::GivenUp));
        assert_eq!(desk.queued(), ["pause", "message"]);
        assert!(desk.acknowledged().await.is_empty(), "the driver confirms it");
        // A start that a stop precedes does not begin.
        let waited = later_start(&mut desk.receiver, &mut desk.deferred, ready(())).await;
        assert!(matches!(waited.unwrap(), Restart::GivenUp));

        let mut desk = Desk::new();
        desk.commands.send(desk.message("hello")).unwrap();
        desk.commands.send(desk.interrupt()).unwrap();
        let waited = later_start(&mut desk.receiver, &mut desk.deferred, pending::<()>()).await;
        assert!(matches!(waited.unwrap(), Restart::GivenUp));
        assert_eq!(desk.queued(), ["interrupt"]);
        assert_eq!(desk.acknowledged().await, ["command_refused interrupted"]);
    }
}
