//! The runner around a fake agent: each of its turns takes the next step of a list. The spool, the status file and the
//! runner are real.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_domain::deliverable::{CreateDeliverableInput, DeliverableInput, SetDeliverableStatusInput};
use pilothouse_domain::value::{DeliverableState, MessagePriority, MessageSource, SessionOutcome};
use pilothouse_domain::{MessageId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::*;
use crate::adapter::{EventSink, Message, MessageReply, Reply};
use crate::clock;
use crate::process::Processes;
use crate::spool::Spool;
use crate::spool::tests::{launch, open};

#[derive(Clone)]
enum Step {
    Create(&'static [&'static str]),
    Set(&'static str, DeliverableState),
    Nothing,
    /// Ends its turn with another outcome.
    Ends(SessionOutcome),
    /// Reports an exceeded quota for this long.
    Quota(Duration),
    HandsOff,
    /// Waits for an interrupt or a message.
    Waits,
    /// Refuses the next message.
    Deaf,
    Dies,
}

struct Agent {
    steps: VecDeque<Step>,
    turns: u32,
    messages: UnboundedSender<String>,
}

impl Agent {
    async fn turn(
        &mut self,
        context: &mut AgentContext,
        prompt: &str,
        message: Option<MessageId>,
    ) -> Result<bool, AdapterError> {
        self.turns += 1;
        let _ = self.messages.send(prompt.to_owned());
        let turn_id = TurnId::parse(format!("inner-{}", self.turns)).unwrap();
        let events = context.events.clone();
        events.emit(RawEvent::TurnStarted { turn_id: turn_id.clone(), message_id: message }).await?;
        let folder = Path::new(&context.launch.request.working_directory).to_owned();
        let deliverables = Deliverables::new(&folder, events.clone(), &Processes::unguarded()).unwrap();
        let mut outcome = SessionOutcome::Completed;
        match self.steps.pop_front().unwrap_or(Step::Nothing) {
            Step::Create(ids) => {
                let one = |id: &&str| DeliverableInput {
                    id: (*id).to_owned(),
                    description: format!("Do {id}"),
                    acceptance_criteria: vec!["works".into()],
                };
                let deliverables_in = ids.iter().map(one).collect();
                let made =
                    deliverables.create(CreateDeliverableInput { deliverables: deliverables_in }).await;
                assert!(made.success, "{}", made.message);
            }
            Step::Set(id, status) => {
                let set = SetDeliverableStatusInput { deliverable_id: id.into(), status };
                assert!(deliverables.set_status(set).await.success);
            }
            Step::Nothing => {}
            Step::Ends(other) => outcome = other,
            Step::Quota(time) => {
                let reset_at = Some(clock::now() + time);
                events.emit(RawEvent::QuotaExceeded { message: None, reset_at }).await?;
                outcome = SessionOutcome::QuotaExceeded;
            }
            Step::HandsOff => {
                let document = pilothouse_wire::event::HandoffDocument {
                    summary: "s".into(),
                    remaining_work: "r".into(),
                    key_decisions: None,
                };
                events.emit(RawEvent::VoluntaryHandoff { reason: "x".into(), document }).await?;
            }
            Step::Waits => loop {
                match context.commands.recv().await {
                    Some(AgentCommand::Interrupt(reply)) => {
                        reply.done().await?;
                        return Ok(true);
                    }
                    Some(AgentCommand::Message(message, reply)) => {
                        let expected = message.expected_turn.map(|id| id.to_string()).unwrap_or_default();
                        let _ = self.messages.send(format!("steered {expected}"));
                        reply.injected().await?;
                        break;
                    }
                    Some(AgentCommand::Pause(reply) | AgentCommand::Resume(reply)) => reply.done().await?,
                    Some(_) => {}
                    None => return Ok(false),
                }
            },
            Step::Deaf => {
                let completed = RawEvent::TurnCompleted { turn_id, output: None, outcome };
                events.emit(completed).await?;
                let Some(AgentCommand::Message(_, reply)) = context.commands.recv().await else {
                    return Ok(false);
                };
                reply.refuse(Refusal::no_agent()).await?;
                return Ok(true);
            }
            Step::Dies => {
                let end = SessionEnd { is_error: true, reason: "error".into(), message: None, output: None };
                events.emit(RawEvent::SessionEnd(end)).await?;
                return Ok(false);
            }
        }
        events.emit(RawEvent::TurnCompleted { turn_id, output: None, outcome }).await?;
        Ok(true)
    }
}

#[async_trait]
impl Adapter for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { pause: true, ..Capabilities::default() }
    }
    async fn run(mut self: Box<Self>, mut context: AgentContext) -> Result<(), AdapterError> {
        while let Some(command) = context.commands.recv().await {
            let goes_on = match command {
                AgentCommand::Begin(begin, reply) => {
                    assert!(
                        begin.config.adapter_options.get("deliverables").is_none(),
                        "they are the runner's"
                    );
                    reply.done().await?;
                    match begin.prompt {
                        Some(prompt) => self.turn(&mut context, &prompt, None).await?,
                        None => true,
                    }
                }
                AgentCommand::Message(message, mut reply) => {
                    reply.injecting().await?;
                    reply.injected().await?;
                    self.turn(&mut context, &message.content, Some(message.id)).await?
                }
                AgentCommand::Interrupt(reply)
                | AgentCommand::Pause(reply)
                | AgentCommand::Resume(reply)
                | AgentCommand::Reload(_, reply) => {
                    reply.done().await?;
                    true
                }
                _ => true,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}

struct Given {
    spool: Spool,
    commands: Option<UnboundedSender<AgentCommand>>,
    abandoned: UnboundedSender<CommandId>,
    messages: mpsc::UnboundedReceiver<String>,
    running: JoinHandle<Result<(), AdapterError>>,
    work: TempDir,
    _run: TempDir,
}

impl Given {
    fn new(options: Value, steps: &[Step]) -> Self {
        let (work, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Self::within(work, run, options, steps)
    }

    #[allow(clippy::needless_pass_by_value)] // called inline
    fn within(work: TempDir, run: TempDir, options: Value, steps: &[Step]) -> Self {
        let spool = open(run.path());
        let (commands, receiver) = mpsc::unbounded_channel();
        let (abandoned, _) = mpsc::unbounded_channel();
        let (message_sender, messages) = mpsc::unbounded_channel();
        let mut launch = launch();
        launch.request.working_directory = work.path().to_string_lossy().into_owned();
        let agent = Agent { steps: steps.iter().cloned().collect(), turns: 0, messages: message_sender };
        let context = AgentContext {
            launch: Arc::new(launch),
            events: EventSink::new(spool.clone()),
            commands: receiver,
            processes: Processes::unguarded(),
            lease: crate::lease::Lease::default(),
        };
        let running = tokio::spawn(Box::new(Runner::wrap(Box::new(agent))).run(context));
        let given = Self { spool, commands: Some(commands), abandoned, messages, running, work, _run: run };
        let begin = Begin {
            config: serde_json::from_value(json!({
                "modelId": "m",
                "composedSystemPrompt": "",
                "allowedTools": [],
                "workingDirectory": "/",
                "objective": "x",
                "planApprovalRequired": false,
                "contextWarnAtPercent": 80,
                "adapterOptions": { "deliverables": options },
            }))
            .unwrap(),
            resume_conversation: false,
            prompt: Some("Do it.".into()),
            images: Vec::new(),
            allowance_usd: None,
            allow_unmetered: false,
        };
        given.send(AgentCommand::Begin(Box::new(begin), given.reply(RawEvent::BeginAck)));
        given
    }

    fn send(&self, command: AgentCommand) {
        self.commands.as_ref().unwrap().send(command).unwrap();
    }

    fn reply(&self, ack: crate::adapter::AckEvent) -> Reply {
        Reply::new(CommandId::new(Uuid::now_v7()), ack, self.spool.clone(), self.abandoned.clone())
    }

    fn message(&self, text: &str, expected_turn: Option<&str>) {
        let id = MessageId::new(Uuid::now_v7());
        let message = Message {
            id,
            content: text.into(),
            images: Vec::new(),
            priority: MessagePriority::Immediate,
            source: MessageSource::User,
            expected_turn: expected_turn.map(|turn| TurnId::parse(turn).unwrap()),
        };
        let command_id = CommandId::new(Uuid::now_v7());
        let reply = MessageReply::new(command_id, id, self.spool.clone(), self.abandoned.clone());
        self.send(AgentCommand::Message(message, reply));
    }

    /// The next message to the agent.
    async fn next_message(&mut self) -> String {
        let message = tokio::time::timeout(Duration::from_secs(20), self.messages.recv());
        message.await.expect("the agent gets a message").unwrap()
    }

    async fn events(&self) -> Vec<Value> {
        let batch = self.spool.batch(1000, usize::MAX).await.unwrap();
        let body = |body: &str| {
            let signed = pilothouse_wire::Signed::parse(body).unwrap();
            let envelope: Value = serde_json::from_str(signed.envelope.get()).unwrap();
            envelope["body"].clone()
        };
        batch.entries.iter().map(|entry| body(&entry.body)).collect()
    }

    /// Waits for an event of that type and returns all events so far.
    async fn until(&self, kind: &str) -> Vec<Value> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let events = self.events().await;
            if events.iter().any(|event| event["type"] == kind) {
                return events;
            }
            assert!(tokio::time::Instant::now() < deadline, "no {kind}: {events:#?}");
            tokio::task::yield_now().await;
        }
    }

    /// Stops the agent and returns all events of turns.
    async fn stopped(mut self) -> Vec<String> {
        self.commands = None;
        self.running.await.unwrap().unwrap();
        let batch = self.spool.batch(1000, usize::MAX).await.unwrap();
        let mut turns = Vec::new();
        for entry in batch.entries {
            let signed = pilothouse_wire::Signed::parse(&entry.body).unwrap();
            let envelope: Value = serde_json::from_str(signed.envelope.get()).unwrap();
            turns.extend(line(&envelope["body"]));
        }
        turns
    }
}

fn line(event: &Value) -> Option<String> {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    match text("type") {
        "turn_started" => Some(format!("started {}", text("turnId"))),
        "turn_completed" => {
            let outcome = event["outcome"].as_str().unwrap_or("completed");
            Some(format!("{outcome} {}", text("turnId")))
        }
        "notice" => Some(text("name").to_owned()),
        "interrupt_ack" => Some("interrupted".to_owned()),
        "session_end" => Some("session_end".to_owned()),
        _ => None,
    }
}

fn required(max: u32) -> Value {
    json!({ "required": true, "maxIterations": max })
}

use DeliverableState::{Blocked, Passed};

#[tokio::test]
async fn runner_creates_deliverables_and_works_until_all_are_settled() {
    let steps = [Step::Create(&["DL-1", "DL-2"]), Step::Set("DL-1", Passed), Step::Set("DL-2", Blocked)];
    let mut given = Given::new(required(10), &steps);
    given.until("turn_completed").await;
    let first = given.next_message().await;
    assert!(first.starts_with("Do it.\n\n") && first.contains("There are none yet"), "{first}");
    let second = given.next_message().await;
    assert!(second.contains("- DL-1: Do DL-1") && second.contains("- DL-2: Do DL-2"), "{second}");
    let third = given.next_message().await;
    assert!(!third.contains("- DL-1:") && third.contains("- DL-2: Do DL-2"), "{third}");
    assert_eq!(
        given.stopped().await,
        ["started inner-1", "deliverables_iteration", "deliverables_iteration", "completed inner-1"]
    );
}

#[tokio::test]
async fn runner_reports_and_continues_deliverables_of_an_earlier_run() {
    let (work, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let before = Given::within(work, run, required(1), &[Step::Create(&["DL-1"])]);
    before.until("turn_completed").await;
    let Given { work, .. } = before;
    let run = tempfile::tempdir().unwrap();
    let mut given = Given::within(work, run, required(10), &[Step::Set("DL-1", Passed)]);
    let events = given.until("turn_completed").await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["deliverables", "begin_ack"]);
    let first = given.next_message().await;
    assert!(first.starts_with("Do it.") && first.contains("These are open:\n- DL-1"), "{first}");
}

#[tokio::test]
async fn turn_reports_when_the_iterations_are_used_up() {
    let given = Given::new(required(3), &[Step::Create(&["DL-1"])]);
    given.until("turn_completed").await;
    assert_eq!(
        given.stopped().await,
        ["started inner-1", "deliverables_iteration", "deliverables_iteration", "max_iterations inner-1"]
    );
}

#[tokio::test]
async fn other_agent_outcome_ends_the_loop() {
    for (outcome, name) in [
        (SessionOutcome::BudgetExceeded, "budget_exceeded inner-1"),
        (SessionOutcome::ExecutionError, "execution_error inner-1"),
    ] {
        let given = Given::new(required(9), &[Step::Create(&["DL-1"]), Step::Ends(outcome)]);
        given.until("turn_completed").await;
        assert_eq!(given.stopped().await, ["started inner-1", "deliverables_iteration", name]);
    }
    let given = Given::new(required(9), &[Step::Dies]);
    given.until("session_end").await;
    assert_eq!(given.stopped().await, ["started inner-1", "session_end"]);
}

#[tokio::test]
async fn turn_waits_for_the_quota_reset_and_continues() {
    let steps = [Step::Create(&["DL-1"]), Step::Quota(Duration::from_millis(50)), Step::Set("DL-1", Passed)];
    let given = Given::new(required(9), &steps);
    let events = given.until("turn_completed").await;
    assert!(events.iter().any(|event| event["type"] == "quota_exceeded"));
    assert_eq!(
        given.stopped().await,
        ["started inner-1", "deliverables_iteration", "deliverables_iteration", "completed inner-1"]
    );
}

#[tokio::test]
async fn resume_ends_the_wait_for_the_quota() {
    let steps = [Step::Create(&["DL-1"]), Step::Quota(Duration::from_hours(1)), Step::Set("DL-1", Passed)];
    let given = Given::new(required(9), &steps);
    given.until("quota_exceeded").await;
    given.send(AgentCommand::Pause(given.reply(RawEvent::PauseAck)));
    given.until("pause_ack").await;
    given.send(AgentCommand::Resume(given.reply(RawEvent::ResumeAck)));
    given.until("turn_completed").await;
    assert_eq!(given.stopped().await.last().unwrap(), "completed inner-1");
}

#[tokio::test]
async fn interrupt_within_an_iteration_stops_the_loop() {
    let mut given = Given::new(required(9), &[Step::Create(&["DL-1"]), Step::Waits]);
    given.next_message().await;
    given.next_message().await;
    given.send(AgentCommand::Interrupt(given.reply(RawEvent::InterruptAck)));
    given.until("interrupt_ack").await;
    given.message("and now this", None);
    assert_eq!(given.next_message().await, "and now this");
    let turns = given.stopped().await;
    assert_eq!(turns[..4], ["started inner-1", "deliverables_iteration", "interrupted", "started inner-3"]);
}

#[tokio::test]
async fn message_for_the_turn_reaches_a_later_iteration() {
    let steps = [Step::Create(&["DL-1"]), Step::Waits, Step::Set("DL-1", Passed)];
    let mut given = Given::new(required(9), &steps);
    given.next_message().await;
    given.next_message().await;
    given.message("look here", Some("inner-1"));
    assert_eq!(given.next_message().await, "steered inner-2");
    given.until("turn_completed").await;
    assert_eq!(given.stopped().await.last().unwrap(), "completed inner-1");
}

#[tokio::test]
async fn handoff_ends_the_loop() {
    let given = Given::new(required(9), &[Step::HandsOff]);
    given.until("turn_completed").await;
    assert_eq!(given.stopped().await, ["started inner-1", "completed inner-1"]);
}

#[tokio::test]
async fn unaccepted_instruction_ends_the_turn_with_the_reason() {
    let given = Given::new(required(9), &[Step::Deaf]);
    given.until("turn_completed").await;
    assert_eq!(
        given.stopped().await,
        ["started inner-1", "deliverables_iteration", "deliverables_held", "completed inner-1"]
    );
}

#[tokio::test]
async fn agent_is_asked_to_repair_an_invalid_status_file() {
    let mut given = Given::new(required(9), &[Step::Waits]);
    given.next_message().await;
    let folder = given.work.path().join(".pilothouse");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("status.json"), "{").unwrap();
    given.message("go on", None);
    assert_eq!(given.next_message().await, "steered ");
    let next = given.next_message().await;
    assert!(next.contains("status.json is broken"), "{next}");
    assert_eq!(std::fs::read_to_string(folder.join("status.json")).unwrap(), "{");
}

#[tokio::test]
async fn runner_changes_nothing_when_deliverables_are_not_required() {
    let mut given = Given::new(json!({ "required": false }), &[Step::Create(&["DL-1"])]);
    given.until("turn_completed").await;
    assert_eq!(given.next_message().await, "Do it.");
    assert_eq!(given.stopped().await, ["started inner-1", "completed inner-1"]);
}

#[tokio::test]
async fn invalid_runner_options_are_refused_at_begin() {
    let given = Given::new(json!({ "required": "yes" }), &[]);
    let events = given.until("command_refused").await;
    assert_eq!(events[0]["code"], "invalid");
    assert!(matches!(given.running.await.unwrap(), Err(AdapterError::Configuration(_))));
}
