//! Intercepts the adapter's events, and its commands on their way in.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{MessagePriority, MessageSource, SessionOutcome};
use pilothouse_domain::{CommandId, MessageId, ToolCallId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};
use tokio::sync::watch;
use tracing::{Level, debug, enabled, warn};
use uuid::Uuid;

use super::file_reports::FileReports;
use super::state::{IterationOutcome, RunnerState};
use super::{instruct, instruction, take_options};
use crate::adapter::{AdapterError, AgentCommand, EventFilter, EventSink, Message, MessageReply};
use crate::clock;
use crate::deliverables::{Deliverables, DeliverablesError};
use crate::spool::SpoolError;

/// In characters, in the debug log (S4).
const MAX_THOUGHT: usize = 200;

pub(super) struct RunnerEventFilter {
    state: Mutex<RunnerState>,
    /// Notified whenever the time of the next instruction may have changed.
    changed: watch::Sender<()>,
    events: EventSink,
    deliverables: Deliverables,
    reports: FileReports,
    /// Commands to the adapter. Weak, because dropping the last strong sender stops the adapter.
    forward: WeakUnboundedSender<AgentCommand>,
    lost: UnboundedSender<CommandId>,
}

impl RunnerEventFilter {
    pub(super) fn new(
        can_pause: bool,
        events: EventSink,
        (deliverables, reports): (Deliverables, FileReports),
        forward: WeakUnboundedSender<AgentCommand>,
        lost: UnboundedSender<CommandId>,
    ) -> Self {
        let (state, changed) = (Mutex::new(RunnerState::new(can_pause)), watch::Sender::new(()));
        Self { state, changed, events, deliverables, reports, forward, lost }
    }

    fn state(&self) -> MutexGuard<'_, RunnerState> {
        self.changed.send_replace(());
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a held instruction is due.
    pub(super) async fn due(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let due = self.state.lock().unwrap_or_else(PoisonError::into_inner).due();
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

    /// Inspects a command on its way to the adapter, and returns the command to forward, if any.
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
                self.state().set_max_iterations(options.map(|it| it.max_iterations));
                self.reports.configure(&begin.config.policies.artifact_files);
                // Publishes the deliverables of an earlier run, even if the session does not use the runner.
                let (_, next) = self.read_progress().await?;
                if options.is_some() {
                    instruct(&mut begin, next);
                }
                AgentCommand::Begin(begin, reply)
            }
            AgentCommand::Reload(mut config, reply) => match take_options(&mut config) {
                Ok(options) => {
                    self.state().set_max_iterations(options.map(|it| it.max_iterations));
                    self.reports.configure(&config.policies.artifact_files);
                    AgentCommand::Reload(config, reply)
                }
                Err(refusal) => {
                    reply.refuse(refusal).await?;
                    return Ok(None);
                }
            },
            AgentCommand::Message(mut message, reply) => {
                message.expected_turn = self.state().expected(message.expected_turn);
                AgentCommand::Message(message, reply)
            }
            AgentCommand::Pause(reply) => {
                self.state().pause();
                AgentCommand::Pause(reply)
            }
            AgentCommand::Resume(reply) => {
                self.state().resume();
                AgentCommand::Resume(reply)
            }
            AgentCommand::Interrupt(reply) => {
                self.state().interrupt();
                AgentCommand::Interrupt(reply)
            }
            other => other,
        }))
    }

    /// Call after the adapter was resumed.
    pub(super) async fn resumed(&self) -> Result<(), SpoolError> {
        self.send_pending_instruction().await
    }

    pub(super) async fn send_pending_instruction(&self) -> Result<(), SpoolError> {
        if !self.state().take_held() {
            return Ok(());
        }
        let (_, next) = self.read_progress().await?;
        // If all deliverables were settled meanwhile, the agent reports it.
        let next = next.unwrap_or_else(|| "Go on where you were.".to_owned());
        let emitted = self.send(next);
        self.events.emit_all(emitted).await
    }

    /// Call when the agent did not get an instruction.
    pub(super) async fn lost(&self, command: CommandId) -> Result<(), SpoolError> {
        let ended = self.state().lost(command);
        let Some(IterationOutcome::TurnEnded(turn_id, output, outcome)) = ended else { return Ok(()) };
        let summary = "the agent did not accept the instruction to continue with its deliverables".to_owned();
        let notice = RawEvent::Notice { name: "deliverables_held".into(), summary, detail: None };
        self.events.emit_all(vec![notice, completed(turn_id, output, outcome)]).await
    }

    /// Reads the deliverables: whether all are settled and, if not, the next instruction.
    async fn read_progress(&self) -> Result<(bool, Option<String>), SpoolError> {
        match self.deliverables.refresh().await {
            Ok(status) => Ok((status.is_settled(), instruction::select(&status))),
            Err(DeliverablesError::Spool(e)) => Err(e),
            Err(e) => {
                warn!(error = %e, "failed to read the deliverables");
                Ok((false, Some(instruction::repair(&e.to_string()))))
            }
        }
    }

    /// Sends the next instruction to the agent. Returns the events that report it.
    fn send(&self, instruction: String) -> Vec<RawEvent> {
        let Some(forward) = self.forward.upgrade() else { return Vec::new() };
        let (command_id, id) = (CommandId::new(Uuid::now_v7()), MessageId::new(Uuid::now_v7()));
        let (done, max) = {
            let mut state = self.state();
            state.sent(command_id, id);
            state.iterations()
        };
        let notice = RawEvent::Notice {
            name: "deliverables_iteration".into(),
            summary: format!("Iteration {} of at most {max}: not every deliverable is settled.", done + 1),
            detail: Some(serde_json::json!({ "instruction": instruction })),
        };
        let message = Message {
            id,
            content: instruction,
            images: Vec::new(),
            priority: MessagePriority::Queued,
            source: MessageSource::System,
            expected_turn: None,
        };
        let reply = MessageReply::internal(command_id, id, self.lost.clone());
        // If the agent has just ended, the message counts as lost, because its reply is dropped.
        let _ = forward.send(AgentCommand::Message(message, reply));
        vec![notice]
    }

    /// Handles the end of one of the agent's own turns.
    async fn ended(
        &self,
        turn_id: TurnId,
        output: Option<SessionOutput>,
        outcome: SessionOutcome,
    ) -> Result<Vec<RawEvent>, SpoolError> {
        if !self.state().is_active() {
            return Ok(vec![completed(turn_id, output, outcome)]);
        }
        let (settled, next) = self.read_progress().await?;
        let ended = self.state().ended(turn_id, output, outcome, settled);
        Ok(match (ended, next) {
            (IterationOutcome::TurnEnded(turn_id, output, outcome), _) => {
                vec![completed(turn_id, output, outcome)]
            }
            (IterationOutcome::Continue, Some(next)) => self.send(next),
            (IterationOutcome::Continue | IterationOutcome::Wait, _) => Vec::new(),
        })
    }
}

fn completed(turn_id: TurnId, output: Option<SessionOutput>, outcome: SessionOutcome) -> RawEvent {
    RawEvent::TurnCompleted { turn_id, output, outcome }
}

#[async_trait]
impl EventFilter for RunnerEventFilter {
    async fn filter(&self, event: RawEvent) -> Result<Vec<RawEvent>, SpoolError> {
        Ok(vec![match event {
            RawEvent::TurnStarted { turn_id, message_id } => {
                if !self.state().started(&turn_id, message_id) {
                    return Ok(Vec::new());
                }
                RawEvent::TurnStarted { turn_id, message_id }
            }
            RawEvent::TurnCompleted { turn_id, output, outcome } => {
                // The notices precede the end, so that they belong to the turn.
                let mut passed = self.reports.turn_ended().await;
                passed.extend(self.ended(turn_id, output, outcome).await?);
                return Ok(passed);
            }
            RawEvent::AssistantMessage { content, turn_id } => {
                if let AssistantContent::Thinking { text } = &content
                    && enabled!(Level::DEBUG)
                {
                    let thought = self.events.redacted(&text.text());
                    debug!(thinking = cut(&thought, MAX_THOUGHT), "the agent thinks");
                }
                self.reports.called(&content);
                let turn_id = turn_id.map(|id| self.state().published_id(id));
                RawEvent::AssistantMessage { content, turn_id }
            }
            RawEvent::Deliverables { deliverables } => {
                // The tool and the runner publish the deliverables, so only a new snapshot passes.
                if !self.deliverables.record_published(&deliverables).await {
                    return Ok(Vec::new());
                }
                RawEvent::Deliverables { deliverables }
            }
            RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id } => {
                // The notices precede the result, so that they belong to its turn.
                let mut passed = self.reports.ended(&tool_call_id, is_error).await;
                passed.push(RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id });
                return Ok(passed);
            }
            event => {
                match &event {
                    RawEvent::SubagentMessage { content, .. } => self.reports.called(content),
                    RawEvent::QuotaExceeded { reset_at, .. } => self.state().quota_exceeded(*reset_at),
                    RawEvent::VoluntaryHandoff { .. } | RawEvent::ContextExhausted {} => {
                        self.state().leaving();
                    }
                    RawEvent::SessionEnd(_) => self.state().conversation_ended(),
                    _ => {}
                }
                event
            }
        }])
    }

    fn call_writes(&self, call: &ToolCallId, paths: &[String]) {
        self.reports.writes(call, paths.iter().map(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::process::Processes;
    use crate::spool::tests::open;

    /// A log writer that tests can read.
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

    /// Returns the events of a thought, and the log at this level.
    async fn thinks(thought: &str, level: Level) -> (Vec<RawEvent>, String) {
        let dir = tempfile::tempdir().unwrap();
        let events = EventSink::new(open(dir.path()));
        events.keep_secret("what-nobody-may-see");
        let deliverables = Deliverables::new(dir.path(), events.clone(), &Processes::unguarded()).unwrap();
        let ((forward, _commands), (lost, _)) = (unbounded_channel(), unbounded_channel());
        let event_filter = RunnerEventFilter::new(
            true,
            events,
            (deliverables, FileReports::none()),
            forward.downgrade(),
            lost,
        );
        let content = AssistantContent::Thinking { text: thought.to_owned().into() };
        let log = Written::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let emitted = {
            let _logged = tracing::subscriber::set_default(subscriber);
            event_filter.filter(RawEvent::AssistantMessage { content, turn_id: None }).await.unwrap()
        };
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        (emitted, log)
    }

    /// S4, `StreamEventThinking`.
    #[tokio::test]
    async fn thought_is_reported_whole_and_logged_up_to_200_characters() {
        let thought = "ü".repeat(300);
        let (emitted, log) = thinks(&thought, Level::DEBUG).await;
        let [RawEvent::AssistantMessage { content: AssistantContent::Thinking { text }, .. }] = &emitted[..]
        else {
            panic!("told: {emitted:?}")
        };
        assert_eq!(text.text(), thought);
        assert!(log.contains("the agent thinks"), "{log}");
        // One less, because the ellipsis takes a character.
        assert!(log.matches('ü').count() == 199 && log.contains("ü…"), "{log}");
        assert_eq!(thinks(&thought, Level::INFO).await.1, "", "only who debugs sees it");
    }

    #[tokio::test]
    async fn secret_in_a_thought_is_redacted_before_truncation() {
        let thought = format!("{}what-nobody-may-see and more", "x".repeat(195));
        let (_, log) = thinks(&thought, Level::DEBUG).await;
        assert!(log.contains("xxx[sec") && !log.contains("what-"), "{log}");
    }
}
