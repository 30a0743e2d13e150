//! Stands in the way of what the adapter tells, and between it and its commands.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{MessagePriority, MessageSource, SessionOutcome, SessionOutput};
use pilothouse_domain::{CommandId, MessageId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};
use tokio::sync::watch;
use tracing::{Level, debug, enabled, warn};
use uuid::Uuid;

use super::course::{Course, Ended};
use super::{instruct, instruction, take_options};
use crate::adapter::{AdapterError, AgentCommand, EventSink, Gate, Message, MessageReply};
use crate::clock;
use crate::deliverables::{Deliverables, DeliverablesError};
use crate::spool::SpoolError;

/// The most characters of a thought in the debug log (S4).
const MOST_THOUGHT: usize = 200;

/// The gate of one agent.
pub(super) struct RunnerGate {
    course: Mutex<Course>,
    /// Changes whenever the time of the next instruction may have changed.
    changed: watch::Sender<()>,
    events: EventSink,
    deliverables: Deliverables,
    /// To the adapter; it closes when the adapter is to stop.
    forward: WeakUnboundedSender<AgentCommand>,
    lost: UnboundedSender<CommandId>,
}

impl RunnerGate {
    pub(super) fn new(
        can_pause: bool,
        events: EventSink,
        deliverables: Deliverables,
        forward: WeakUnboundedSender<AgentCommand>,
        lost: UnboundedSender<CommandId>,
    ) -> Self {
        let (course, changed) = (Mutex::new(Course::new(can_pause)), watch::Sender::new(()));
        Self { course, changed, events, deliverables, forward, lost }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.changed.send_replace(());
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when an instruction that was held back is due.
    pub(super) async fn due(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let due = self.course.lock().unwrap_or_else(PoisonError::into_inner).due();
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep(at.since(clock::now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => return,
                _ = changed.changed() => {}
            }
        }
    }

    /// Sees a command on its way to the adapter, and changes it where the runner has to. None: it goes no further.
    pub(super) async fn command(&self, command: AgentCommand) -> Result<Option<AgentCommand>, AdapterError> {
        Ok(Some(match command {
            AgentCommand::Begin(mut begin, reply) => {
                let options = match take_options(&mut begin.config) {
                    Ok(options) => options,
                    Err(refusal) => {
                        let message = refusal.message.clone();
                        reply.refuse(refusal).await?;
                        return Err(AdapterError::Configuration(message));
                    }
                };
                self.course().set_max_iterations(options.map(|it| it.max_iterations));
                // What a former run left is told in any case.
                let (_, next) = self.stand().await?;
                if options.is_some() {
                    instruct(&mut begin, next);
                }
                AgentCommand::Begin(begin, reply)
            }
            AgentCommand::Reload(mut config, reply) => match take_options(&mut config) {
                Ok(options) => {
                    self.course().set_max_iterations(options.map(|it| it.max_iterations));
                    AgentCommand::Reload(config, reply)
                }
                Err(refusal) => {
                    reply.refuse(refusal).await?;
                    return Ok(None);
                }
            },
            AgentCommand::Message(mut message, reply) => {
                message.expected_turn = self.course().expected(message.expected_turn);
                AgentCommand::Message(message, reply)
            }
            AgentCommand::Pause(reply) => {
                self.course().pause();
                AgentCommand::Pause(reply)
            }
            AgentCommand::Resume(reply) => {
                self.course().resume();
                AgentCommand::Resume(reply)
            }
            AgentCommand::Interrupt(reply) => {
                self.course().interrupt();
                AgentCommand::Interrupt(reply)
            }
            other => other,
        }))
    }

    /// The adapter was told to go on.
    pub(super) async fn resumed(&self) -> Result<(), SpoolError> {
        self.go_on_now().await
    }

    /// Sends the instruction that was held back, if there is one.
    pub(super) async fn go_on_now(&self) -> Result<(), SpoolError> {
        if !self.course().take_held() {
            return Ok(());
        }
        let (_, next) = self.stand().await?;
        // All may have been settled meanwhile; the agent says so itself then.
        let next = next.unwrap_or_else(|| "Go on where you were.".to_owned());
        let told = self.send(next);
        self.events.emit_all(told).await
    }

    /// An instruction was lost.
    pub(super) async fn lost(&self, command: CommandId) -> Result<(), SpoolError> {
        let ended = self.course().lost(command);
        let Some(Ended::Over(turn_id, output, outcome)) = ended else { return Ok(()) };
        let summary = "the agent did not take the instruction to go on with its deliverables".to_owned();
        let notice = RawEvent::Notice { name: "deliverables_held".into(), summary, detail: None };
        self.events.emit_all(vec![notice, completed(turn_id, output, outcome)]).await
    }

    /// Where the deliverables stand: whether all are settled, and the next instruction when they are not.
    async fn stand(&self) -> Result<(bool, Option<String>), SpoolError> {
        match self.deliverables.refresh().await {
            Ok(status) => Ok((status.is_settled(), instruction::select(&status))),
            Err(DeliverablesError::Spool(e)) => Err(e),
            Err(e) => {
                warn!(error = %e, "the deliverables cannot be read");
                Ok((false, Some(instruction::repair(&e.to_string()))))
            }
        }
    }

    /// Sends the agent its next instruction, and answers what is told of it.
    fn send(&self, instruction: String) -> Vec<RawEvent> {
        let Some(forward) = self.forward.upgrade() else { return Vec::new() };
        let (command_id, id) = (CommandId::new(Uuid::now_v7()), MessageId::new(Uuid::now_v7()));
        let (done, max) = {
            let mut course = self.course();
            course.sent(command_id, id);
            course.iterations()
        };
        let notice = RawEvent::Notice {
            name: "deliverables_iteration".into(),
            summary: format!("Iteration {} of at most {max}: not every deliverable is settled.", done + 1),
            detail: Some(serde_json::json!({ "instruction": instruction })),
        };
        let message = Message {
            id,
            content: instruction,
            priority: MessagePriority::Queued,
            source: MessageSource::System,
            expected_turn: None,
        };
        let reply = MessageReply::internal(command_id, id, self.lost.clone());
        // When the agent has just ended, the message is dropped with its reply, and counts as lost.
        let _ = forward.send(AgentCommand::Message(message, reply));
        vec![notice]
    }

    /// The agent ended a turn of its own.
    async fn ended(
        &self,
        turn_id: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
    ) -> Result<Vec<RawEvent>, SpoolError> {
        if !self.course().is_active() {
            return Ok(vec![completed(turn_id, output, outcome)]);
        }
        let (settled, next) = self.stand().await?;
        let ended = self.course().ended(turn_id, output, outcome, settled);
        Ok(match (ended, next) {
            (Ended::Over(turn_id, output, outcome), _) => vec![completed(turn_id, output, outcome)],
            (Ended::GoOn, Some(next)) => self.send(next),
            (Ended::GoOn | Ended::Hold, _) => Vec::new(),
        })
    }
}

fn completed(turn_id: TurnId, output: Option<SessionOutput>, outcome: SessionOutcome) -> RawEvent {
    RawEvent::TurnCompleted { turn_id, output, outcome }
}

#[async_trait]
impl Gate for RunnerGate {
    async fn pass(&self, event: RawEvent) -> Result<Vec<RawEvent>, SpoolError> {
        Ok(vec![match event {
            RawEvent::TurnStarted { turn_id, message_id } => {
                if !self.course().started(&turn_id, message_id) {
                    return Ok(Vec::new());
                }
                RawEvent::TurnStarted { turn_id, message_id }
            }
            RawEvent::TurnCompleted { turn_id, output, outcome } => {
                return self.ended(turn_id, output, outcome).await;
            }
            RawEvent::AssistantMessage { content, turn_id } => {
                if let AssistantContent::Thinking { text } = &content
                    && enabled!(Level::DEBUG)
                {
                    let thought = self.events.redacted(&text.text());
                    debug!(thinking = cut(&thought, MOST_THOUGHT), "the agent thinks");
                }
                let turn_id = turn_id.map(|id| self.course().told_as(id));
                RawEvent::AssistantMessage { content, turn_id }
            }
            RawEvent::Deliverables { deliverables } => {
                // The tool tells them, and so does the runner when it looks.
                if !self.deliverables.hears(&deliverables).await {
                    return Ok(Vec::new());
                }
                RawEvent::Deliverables { deliverables }
            }
            event => {
                match &event {
                    RawEvent::QuotaExceeded { reset_at, .. } => self.course().quota_exceeded(*reset_at),
                    RawEvent::VoluntaryHandoff { .. } | RawEvent::ContextExhausted {} => {
                        self.course().leaving();
                    }
                    RawEvent::SessionEnd(_) => self.course().over_and_out(),
                    _ => {}
                }
                event
            }
        }])
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::spool::tests::open;

    /// Where the log is written to.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a gate tells of a thought, and what the log says at this level.
    async fn thinks(thought: &str, level: Level) -> (Vec<RawEvent>, String) {
        let dir = tempfile::tempdir().unwrap();
        let events = EventSink::new(open(dir.path()));
        events.keep_secret("what-nobody-may-see");
        let deliverables = Deliverables::new(dir.path(), events.clone(), None).unwrap();
        let ((forward, _commands), (lost, _)) = (unbounded_channel(), unbounded_channel());
        let gate = RunnerGate::new(true, events, deliverables, forward.downgrade(), lost);
        let content = AssistantContent::Thinking { text: thought.to_owned().into() };
        let log = Written::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let told = {
            let _logged = tracing::subscriber::set_default(subscriber);
            gate.pass(RawEvent::AssistantMessage { content, turn_id: None }).await.unwrap()
        };
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        (told, log)
    }

    /// S4, `StreamEventThinking`.
    #[tokio::test]
    async fn a_thought_is_told_whole_and_the_debug_log_has_its_first_200_characters() {
        let thought = "ü".repeat(300);
        let (told, log) = thinks(&thought, Level::DEBUG).await;
        let [RawEvent::AssistantMessage { content: AssistantContent::Thinking { text }, .. }] = &told[..]
        else {
            panic!("told: {told:?}")
        };
        assert_eq!(text.text(), thought);
        assert!(log.contains("the agent thinks"), "{log}");
        // With the ellipsis that stands for the rest.
        assert!(log.matches('ü').count() == MOST_THOUGHT - 1 && log.contains("ü…"), "{log}");
        assert_eq!(thinks(&thought, Level::INFO).await.1, "", "only who debugs sees it");
    }

    #[tokio::test]
    async fn a_secret_in_a_thought_is_left_out_before_the_thought_is_cut() {
        let thought = format!("{}what-nobody-may-see and more", "x".repeat(195));
        let (_, log) = thinks(&thought, Level::DEBUG).await;
        assert!(log.contains("xxx[sec") && !log.contains("what-"), "{log}");
    }
}
