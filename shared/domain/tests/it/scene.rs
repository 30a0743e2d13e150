//! Given, when, then: a session with its queue and its pool, driven as the functions drive it. Each step is one commit:
//! the change, what follows from it, and the pool's reactions.

use std::fmt::Debug;
use std::time::Duration;

use pilothouse_domain::conversation::{Conversation, EnqueueError, NewMessage, Outcome};
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::queue::{QueueError, SessionMessageQueue};
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as Command, NewSession, ProcessState, RunPhase,
    SessionError, SessionSettings, UsageReport,
};
use pilothouse_domain::text::{Feedback, MessageContent, ModelId, Objective, WorkingDirectory};
use pilothouse_domain::value::{
    Adjustment, Answer, AutoContinueConfig, Capabilities, CriterionResult, MessagePriority, MessageSource,
    Question, SessionBudget, SessionOutcome, SessionOutput, TokenUsage, ValidationCriterion, ValidationType,
};
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentSkillId, Deadlines, DomainEvent, Events, IdSource, MessageId, MeterId,
    Occasion, OutputId, RunId, SubAgentId, Timestamp, ToolCallId, TurnId, Usd, UserId,
};
use uuid::Uuid;

/// Ids that count.
#[derive(Debug, Clone)]
pub(crate) struct Ids(pub(crate) u128);

impl IdSource for Ids {
    fn fresh(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

/// The code of a refusal.
pub(crate) type Step = Result<(), &'static str>;

pub(crate) trait Coded {
    fn coded(&self) -> &'static str;
}

impl Coded for SessionError {
    fn coded(&self) -> &'static str {
        self.code()
    }
}

impl Coded for QueueError {
    fn coded(&self) -> &'static str {
        self.code()
    }
}

impl Coded for EnqueueError {
    fn coded(&self) -> &'static str {
        match self {
            Self::Session(e) => e.code(),
            Self::Queue(e) => e.code(),
            Self::TurnOver => "turn-over",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) conv: Conversation,
    pub(crate) pool: SessionPool,
    pub(crate) now: Timestamp,
    pub(crate) ids: Ids,
    /// What the latest step brought.
    pub(crate) last: Events,
    /// How the latest fact was taken.
    pub(crate) outcome: Option<Outcome>,
    /// The hash of the key that an agent which starts now is given.
    pub(crate) key: String,
}

pub(crate) fn usd(s: &str) -> Usd {
    s.parse().unwrap()
}

pub(crate) fn turn(id: &str) -> TurnId {
    TurnId::parse(id).unwrap()
}

pub(crate) fn call(id: &str) -> ToolCallId {
    ToolCallId::parse(id).unwrap()
}

/// The message with this number. Numbers keep clear of the counted ids.
pub(crate) fn message(n: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(1_000_000_000 + n))
}

/// The skill with this number.
pub(crate) fn skill(n: u8) -> AgentSkillId {
    AgentSkillId::new(Uuid::from_u128(3_000_000_000 + u128::from(n)))
}

pub(crate) fn can_all() -> Capabilities {
    Capabilities {
        steer_mid_turn: true,
        pause: true,
        resume_conversation: true,
        hot_reload: true,
        cost: true,
        context_usage: true,
        approvals: true,
        questions: true,
        plans: true,
        subagents: true,
        model_switch: true,
        thinking_levels: true,
        compaction: true,
        fork: true,
        budget_before_call: true,
    }
}

pub(crate) fn output(files_changed: u32) -> SessionOutput {
    SessionOutput { files_changed, ..SessionOutput::default() }
}

pub(crate) fn asks(id: &str) -> AgentFact {
    let question =
        Question { question: format!("{id}?"), header: None, options: Vec::new(), multi_select: false };
    AgentFact::QuestionAsked { request: call(id), questions: vec![question] }
}

pub(crate) fn shows(id: &str) -> AgentFact {
    AgentFact::PlanShown { request: call(id), content: None }
}

pub(crate) fn starts(id: &str) -> AgentFact {
    AgentFact::TurnStarted { turn: turn(id), message: None }
}

pub(crate) fn starts_with(id: &str, n: u128) -> AgentFact {
    AgentFact::TurnStarted { turn: turn(id), message: Some(message(n)) }
}

pub(crate) fn starts_with_id(id: &str, message: MessageId) -> AgentFact {
    AgentFact::TurnStarted { turn: turn(id), message: Some(message) }
}

pub(crate) fn completes(id: &str) -> AgentFact {
    AgentFact::TurnCompleted { turn: turn(id), output: None, outcome: SessionOutcome::Completed }
}

pub(crate) fn ends(is_error: bool) -> AgentFact {
    AgentFact::SessionEnded { is_error, reason: "max_turns".to_owned(), message: None, output: None }
}

/// The result of the validation that was ordered last.
pub(crate) fn validated(scene: &Scene, passed: bool) -> AgentFact {
    let ordered = |event: &DomainEvent| match event {
        DomainEvent::ValidationRequested { command } => Some(command.command_id),
        _ => None,
    };
    let command = scene.last.iter().find_map(ordered).expect("a validation was ordered just now");
    AgentFact::Validated { command, results: vec![criterion(passed)] }
}

pub(crate) fn criterion(passed: bool) -> CriterionResult {
    CriterionResult {
        kind: ValidationType::TestsPassing,
        passed,
        reason: (!passed).then(|| "`make test` failed with exit code 2".to_owned()),
        output: None,
        coverage: None,
    }
}

pub(crate) fn said() -> AgentFact {
    AgentFact::Said { subagent: None }
}

pub(crate) fn calls(id: &str) -> AgentFact {
    AgentFact::ToolStarted { call: call(id), name: "Bash".to_owned(), subagent: None }
}

pub(crate) fn results(id: &str) -> AgentFact {
    AgentFact::ToolEnded { call: call(id), is_error: false, subagent: None }
}

/// Running totals of the main meter.
pub(crate) fn used(total: &str) -> AgentFact {
    used_by(None, total)
}

pub(crate) fn used_by(subagent: Option<&str>, total: &str) -> AgentFact {
    AgentFact::Used(UsageReport {
        meter: MeterId::parse(subagent.unwrap_or("main")).unwrap(),
        model: "m".to_owned(),
        subagent: subagent.map(|id| SubAgentId::parse(id).unwrap()),
        cost: usd(total),
        tokens: TokenUsage { input_tokens: 10, ..TokenUsage::default() },
        context_window: None,
    })
}

/// A new session with a cap of one dollar, and an owner with room for one run.
impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(SessionSettings::default())
    }

    pub(crate) fn with(settings: SessionSettings) -> Self {
        Self::created(settings, None)
    }

    /// Turn `t1` of a session that goes on by itself, at most `max` times, is under way.
    pub(crate) fn looping(max: u32) -> Self {
        Self::looping_launching(max).told(AgentFact::SidecarReady(can_all())).told(starts("t1"))
    }

    /// The sidecar of a session that goes on by itself, at most `max` times, is being launched.
    pub(crate) fn looping_launching(max: u32) -> Self {
        let criterion = ValidationCriterion {
            kind: ValidationType::TestsPassing,
            threshold: None,
            custom_command: Some("make test".to_owned()),
            coverage_pattern: None,
        };
        let auto = AutoContinueConfig {
            validation_criteria: vec![criterion],
            max_continuations: max,
            current_continuation_count: 0,
            validation_timeout_seconds: 600,
            is_enabled: true,
        };
        auto.check().unwrap();
        let mut scene = Self::created(SessionSettings::default(), Some(auto));
        scene.allocate();
        scene
    }

    fn created(settings: SessionSettings, auto_continue: Option<AutoContinueConfig>) -> Self {
        let mut ids = Ids(0);
        let now = Timestamp::from_millis(1_795_291_200_000);
        let cx = Occasion::new(now, Deadlines::default(), &mut ids);
        let (session, last) = AgentSession::create(
            NewSession {
                id: AgentSessionId::new(Uuid::from_u128(7)),
                owner_id: UserId::parse("owner").unwrap(),
                template_id: None,
                name: None,
                working_directory: WorkingDirectory::parse("/work").unwrap(),
                objective: Objective::parse("Make it so").unwrap(),
                model_id: ModelId::parse("m").unwrap(),
                budget: SessionBudget::new(usd("1"), 80).unwrap(),
                auto_continue,
                settings,
            },
            &cx,
        );
        let mut pool = SessionPool::default();
        pool.configure(1).unwrap();
        let conv = Conversation::new(session, SessionMessageQueue::default());
        Self { conv, pool, now, ids, last, outcome: None, key: "hash".to_owned() }
    }

    /// The sidecar is being launched.
    pub(crate) fn launching() -> Self {
        let mut scene = Self::new();
        scene.allocate();
        scene
    }

    /// Turn `t1` is under way.
    pub(crate) fn running() -> Self {
        Self::launching().told(AgentFact::SidecarReady(can_all())).told(starts("t1"))
    }

    /// Turn `t1` is over.
    pub(crate) fn idle() -> Self {
        Self::running().told(completes("t1"))
    }

    /// Turn `t1` brought output.
    pub(crate) fn reviewable() -> Self {
        Self::running().told(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: Some(output(1)),
            outcome: SessionOutcome::Completed,
        })
    }

    pub(crate) fn interrupted() -> Self {
        Self::running().when(Self::interrupt).told_done(Command::Interrupt)
    }

    pub(crate) fn paused() -> Self {
        Self::running().when(Self::pause).told_done(Command::Pause)
    }

    /// In `status`, by the shortest way.
    pub(crate) fn in_status(status: S) -> Self {
        let scene = match status {
            S::Queued => Self::launching(),
            S::Running => Self::running(),
            S::Interrupting => Self::running().when(Self::interrupt),
            S::Interrupted => Self::interrupted(),
            S::Pausing => Self::running().when(Self::pause),
            S::Paused => Self::paused(),
            S::Resuming => Self::paused().when(Self::resume),
            S::Cancelling => Self::running().when(Self::cancel),
            S::Cancelled => Self::running().when(Self::cancel).told_done(Command::Stop),
            S::WaitingForInput => Self::running().told(asks("q1")),
            S::WaitingForApproval => Self::running().told(shows("p1")),
            S::Idle => Self::idle(),
            S::ContextExhausted => Self::running().told(AgentFact::ContextExhausted),
            S::Completed => Self::idle().when(Self::close),
            S::Failed => Self::running().told(ends(true)),
        };
        scene.then_status(status)
    }
}

/// Steps.
impl Scene {
    pub(crate) fn commit<E: Coded>(
        &mut self,
        change: impl FnOnce(&mut Conversation, &mut Occasion<'_>) -> Result<Events, E>,
    ) -> Step {
        let mut cx = Occasion::new(self.now, Deadlines::default(), &mut self.ids);
        let mut events = change(&mut self.conv, &mut cx).map_err(|e| e.coded())?;
        events.extend(self.conv.settle(&events.clone(), &mut cx));
        let settled = self.conv.clone();
        assert_eq!(self.conv.settle(&Vec::new(), &mut cx), Vec::new(), "settling twice after {events:?}");
        assert_eq!(self.conv, settled, "settling twice changes nothing");
        self.last = events;
        self.react();
        Ok(())
    }

    /// What the reactions to the journal do: hand on slots, and mint runs.
    fn react(&mut self) {
        for event in self.last.clone() {
            match event {
                DomainEvent::RunEnded { run_id, .. } => {
                    let released = self.pool.release(self.conv.session.id(), run_id);
                    self.last.extend(released);
                    if self.conv.session.slot_wanted().is_some() {
                        self.allocate();
                    }
                }
                DomainEvent::SlotWanted { .. } | DomainEvent::Retried { .. } => {
                    self.allocate();
                }
                _ => {}
            }
        }
    }

    pub(crate) fn allocate(&mut self) -> Allocation {
        let mut cx = Occasion::new(self.now, Deadlines::default(), &mut self.ids);
        let (allocation, events) = self.pool.allocate(&mut self.conv.session, &mut cx).unwrap();
        self.last.extend(events);
        allocation
    }

    pub(crate) fn tell(&mut self, fact: AgentFact) {
        let mut outcome = None;
        let key = self.key.clone();
        self.commit::<SessionError>(|conv, cx| {
            let observed = conv.observe(fact, &key, cx);
            outcome = Some(observed.outcome);
            Ok(observed.events)
        })
        .unwrap();
        self.outcome = outcome;
    }

    /// A fact of an earlier run.
    pub(crate) fn tell_late(&mut self, fact: AgentFact) {
        let mut outcome = None;
        self.commit::<SessionError>(|conv, cx| {
            let observed = conv.observe_late(fact, cx);
            outcome = Some(observed.outcome);
            Ok(observed.events)
        })
        .unwrap();
        self.outcome = outcome;
    }

    pub(crate) fn interrupt(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.request_interrupt(cx))
    }

    pub(crate) fn pause(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.request_pause(cx))
    }

    pub(crate) fn resume(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.request_resume(cx))
    }

    pub(crate) fn cancel(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.request_cancel(false, cx))
    }

    pub(crate) fn force_cancel(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.request_cancel(true, cx))
    }

    pub(crate) fn close(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.close(cx))
    }

    pub(crate) fn approve(&mut self, id: OutputId) -> Step {
        self.commit(|conv, cx| conv.session.approve_output(id, cx))
    }

    pub(crate) fn reject(&mut self, id: OutputId) -> Step {
        self.commit(|conv, cx| conv.session.reject_output(id, None, cx))
    }

    pub(crate) fn retry(&mut self) -> Step {
        self.commit(|conv, cx| conv.session.retry(Some(Feedback::parse("Again").unwrap()), false, cx))
    }

    pub(crate) fn raise_cap(&mut self, cap: &str) -> Step {
        let cap = usd(cap);
        self.commit(|conv, _| conv.session.change_budget(cap, None))
    }

    pub(crate) fn send(&mut self, n: u128, priority: MessagePriority, expected: Option<&str>) -> Step {
        let new = NewMessage {
            message_id: message(n),
            content: MessageContent::parse(format!("message {n}")).unwrap(),
            priority,
            source: MessageSource::User,
            expected_turn_id: expected.map(turn),
        };
        self.commit(|conv, cx| conv.enqueue(new, cx))
    }

    pub(crate) fn steer(&mut self, n: u128) -> Step {
        self.send(n, MessagePriority::Immediate, None)
    }

    pub(crate) fn follow_up(&mut self, n: u128) -> Step {
        self.send(n, MessagePriority::Queued, None)
    }

    pub(crate) fn reload(&mut self) -> Step {
        self.commit(|c, cx| c.session.request_reload(cx))
    }

    pub(crate) fn adjust(&mut self, adjustments: &[Adjustment]) -> Step {
        self.commit(|c, cx| c.session.adjust(adjustments, cx))
    }

    pub(crate) fn enable(&mut self, n: u8) -> Step {
        self.commit(|c, _| c.session.enable_skill(skill(n)))
    }

    pub(crate) fn disable(&mut self, n: u8) -> Step {
        self.commit(|c, _| c.session.disable_skill(skill(n)))
    }

    pub(crate) fn answer(&mut self, id: &str) -> Step {
        let answers = vec![Answer { question: format!("{id}?"), answer: "yes".to_owned() }];
        self.commit(|conv, cx| conv.answer(&call(id), answers, cx))
    }

    pub(crate) fn approve_plan(&mut self, id: &str) -> Step {
        self.commit(|conv, cx| conv.approve_plan(&call(id), cx))
    }

    pub(crate) fn reject_plan(&mut self, id: &str) -> Step {
        self.commit(|conv, cx| conv.reject_plan(&call(id), Feedback::parse("Smaller").unwrap(), cx))
    }

    /// The process of the current run is gone.
    pub(crate) fn die(&mut self, drained: bool) -> Step {
        let Some(run) = self.conv.session.run().map(|run| run.id) else { return Ok(()) };
        self.commit(|conv, cx| conv.run_ended(run, drained, None, cx))
    }

    /// Time passes; the clock carries out what is due.
    pub(crate) fn clock(&mut self, seconds: u64, process: ProcessState) -> Step {
        self.now = self.now + Duration::from_secs(seconds);
        // It looks again as long as something is due.
        let mut happened = Vec::new();
        for _ in 0..16 {
            self.commit(|conv, cx| conv.on_due(process, None, cx))?;
            happened.append(&mut self.last);
            if self.conv.session.next_due(&Deadlines::default()).is_none_or(|(at, _)| at > self.now) {
                break;
            }
        }
        self.last = happened;
        Ok(())
    }

    /// Time passes while heartbeats arrive.
    pub(crate) fn clock_with_heartbeats(&mut self, seconds: u64) -> Step {
        self.now = self.now + Duration::from_secs(seconds);
        let now = self.now;
        self.commit(|conv, cx| conv.on_due(ProcessState::Alive, Some(now), cx))
    }

    pub(crate) fn outstanding(&self) -> pilothouse_domain::CommandId {
        self.conv.session.outstanding().expect("a command is outstanding").command_id
    }

    pub(crate) fn run(&self) -> RunId {
        self.conv.session.run().expect("there is a run").id
    }

    pub(crate) fn output_id(&self) -> OutputId {
        self.conv.session.output().expect("there is output").output_id
    }
}

/// The story.
impl Scene {
    #[track_caller]
    pub(crate) fn when(mut self, step: impl FnOnce(&mut Self) -> Step) -> Self {
        if let Err(code) = step(&mut self) {
            panic!("refused: {code} while {}", self.conv.session.status());
        }
        self
    }

    /// Refused with this code, and nothing has changed.
    #[track_caller]
    pub(crate) fn refuses(mut self, code: &str, step: impl FnOnce(&mut Self) -> Step) -> Self {
        let before = self.conv.clone();
        assert_eq!(step(&mut self), Err(code), "while {}", before.session.status());
        assert_eq!(self.conv, before, "a refusal changes nothing");
        self
    }

    #[track_caller]
    pub(crate) fn told(mut self, fact: AgentFact) -> Self {
        self.tell(fact);
        self
    }

    #[track_caller]
    pub(crate) fn told_late(mut self, fact: AgentFact) -> Self {
        self.tell_late(fact);
        self
    }

    /// The validation that was ordered last is over.
    #[track_caller]
    pub(crate) fn validates(self, passed: bool) -> Self {
        let result = validated(&self, passed);
        self.told(result)
    }

    #[track_caller]
    pub(crate) fn told_done(self, kind: Command) -> Self {
        let command = self.outstanding();
        self.told(AgentFact::CommandReceived(command)).told(AgentFact::CommandDone(kind, command))
    }

    /// The next run's sidecar is up.
    #[track_caller]
    pub(crate) fn wakes(self) -> Self {
        assert!(
            matches!(self.conv.session.run().map(|run| run.phase), Some(RunPhase::Launching)),
            "no run is launching"
        );
        self.told(AgentFact::SidecarReady(can_all()))
    }

    /// The names of the latest step's events, without `Event`, `Session` and `Agent`.
    #[track_caller]
    pub(crate) fn then_events(self, expected: &[&str]) -> Self {
        let names: Vec<_> = self.last.iter().map(|e| short(e.name())).collect();
        assert_eq!(names, expected);
        self
    }

    #[track_caller]
    pub(crate) fn then_event(self, expected: &str) -> Self {
        assert!(self.happened(expected), "no {expected} in {:#?}", self.last);
        self
    }

    #[track_caller]
    pub(crate) fn then_no_event(self, expected: &str) -> Self {
        assert!(!self.happened(expected), "{expected} in {:#?}", self.last);
        self
    }

    pub(crate) fn happened(&self, name: &str) -> bool {
        self.last.iter().any(|e| short(e.name()) == name)
    }

    #[track_caller]
    pub(crate) fn then_status(self, status: S) -> Self {
        assert_eq!(self.conv.session.status(), status, "after {:#?}", self.last);
        self
    }

    #[track_caller]
    pub(crate) fn then_hibernated(self, status: S) -> Self {
        let scene = self.then_status(status);
        assert!(scene.conv.session.hibernated() && !scene.conv.session.is_live());
        scene
    }

    #[track_caller]
    pub(crate) fn then_taken(self, outcome: Outcome) -> Self {
        assert_eq!(self.outcome, Some(outcome));
        self
    }

    #[track_caller]
    pub(crate) fn then_ignored(self, reason: &str) -> Self {
        self.then_taken(Outcome::Ignored(reason.to_owned()))
    }

    /// The open messages in delivery order, and of them those that were sent.
    #[track_caller]
    pub(crate) fn then_queue(self, open: &[u128], sent: &[u128]) -> Self {
        let ids = |sent: bool| {
            let messages =
                self.conv.queue.messages().iter().filter(|m| !sent || m.sent).map(|m| m.message_id);
            messages.collect::<Vec<_>>()
        };
        assert_eq!(ids(false), open.iter().copied().map(message).collect::<Vec<_>>(), "open");
        assert_eq!(ids(true), sent.iter().copied().map(message).collect::<Vec<_>>(), "sent");
        self
    }

    #[track_caller]
    pub(crate) fn then<T: Debug + PartialEq>(self, what: impl FnOnce(&Self) -> T, expected: &T) -> Self {
        assert_eq!(what(&self), *expected);
        self
    }
}

fn short(name: &str) -> String {
    let name = name.strip_suffix("Event").unwrap_or(name);
    name.strip_prefix("AgentSession").or(name.strip_prefix("Session")).unwrap_or(name).to_owned()
}
