//! Given-when-then scenarios: a session with its queue and pool, driven as the functions drive it. Each step is one commit: the
//! change, what follows from it, and the reactions of the pool.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use pilothouse_domain::brake::{
    Brake, BrakeBehavior, BrakeInitiator, BrakeScope, HoldStage, NewBrake, ReleaseCondition, ReleasedBy,
};
use pilothouse_domain::conversation::{Conversation, EnqueueError, FactOutcome, NewMessage};
use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::pool::{Allocation, SessionPool};
use pilothouse_domain::project::AgentStatus;
use pilothouse_domain::queue::{QueueError, SessionMessageQueue};
use pilothouse_domain::session::{
    Absence, AgentFact, AgentSessionStatus as S, BudgetChange, LifecycleCommand as Command, NewSession,
    Observation, ProcessState, RunPhase, SessionError, SessionSettings, UsageReport,
};
use pilothouse_domain::text::{
    AdapterName, BrakeReason, Feedback, MessageContent, ModelId, Objective, WorkingDirectory,
};
use pilothouse_domain::tick::TickClock;
use pilothouse_domain::value::{
    Adjustment, Answer, AutoContinueConfig, Capabilities, CriterionResult, MessagePriority, MessageSource,
    Question, SessionBudget, SessionOutcome, TokenUsage, ValidationCriterion, ValidationType,
};
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentSkillId, BrakeId, Deadlines, DomainContext, Events, IdSource,
    MessageId, MeterId, OutputId, ProjectAgentId, RunId, SessionEvent, SubAgentId, Timestamp, ToolCallId,
    TurnId, Usd, UserId,
};
use uuid::Uuid;

/// The agent of the project whose session a scenario plays.
pub(crate) const PROJECT_AGENT: ProjectAgentId = ProjectAgentId::new(Uuid::from_u128(7));

/// Ids from a counter.
#[derive(Debug, Clone)]
pub(crate) struct Ids(pub(crate) u128);

impl IdSource for Ids {
    fn fresh(&mut self) -> Uuid {
        self.0 += 1;
        Uuid::from_u128(self.0)
    }
}

/// `Err` is the error code of a refusal.
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
pub(crate) struct Scenario {
    pub(crate) conv: Conversation,
    pub(crate) pool: SessionPool,
    /// The brakes in force, of the owner's pool.
    pub(crate) brakes: Vec<Brake>,
    pub(crate) now: Timestamp,
    pub(crate) ids: Ids,
    pub(crate) last: Events,
    pub(crate) outcome: Option<FactOutcome>,
    /// API key hash for an agent that starts now.
    pub(crate) key: String,
    /// The clock of the session's project.
    pub(crate) ticks: Option<TickClock>,
}

pub(crate) fn usd(s: &str) -> Usd {
    s.parse().unwrap()
}

pub(crate) fn cap(usd: &str) -> BudgetChange {
    BudgetChange { cap_usd: Some(self::usd(usd)), ..BudgetChange::default() }
}

pub(crate) fn turn(id: &str) -> TurnId {
    TurnId::parse(id).unwrap()
}

pub(crate) fn call(id: &str) -> ToolCallId {
    ToolCallId::parse(id).unwrap()
}

/// The message with this number. The ids do not overlap with those of the counter.
pub(crate) fn message(n: u128) -> MessageId {
    MessageId::new(Uuid::from_u128(1_000_000_000 + n))
}

/// A message of the owner that waits for the end of the turn.
pub(crate) fn new_message(n: u128, content: &str) -> NewMessage {
    NewMessage {
        message_id: message(n),
        content: MessageContent::parse(content).unwrap(),
        images: Vec::new(),
        priority: MessagePriority::Queued,
        source: MessageSource::User,
        expected_turn_id: None,
    }
}

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
        conversations: true,
        budget_before_call: true,
        allowance: true,
        unmetered: false,
    }
}

pub(crate) fn output(files_changed: u32) -> SessionOutput {
    SessionOutput { files_changed, ..SessionOutput::default() }
}

pub(crate) fn asks(id: &str) -> AgentFact {
    let question =
        Question { question: format!("{id}?"), header: None, options: Vec::new(), multi_select: false };
    AgentFact::QuestionAsked {
        request: call(id),
        questions: vec![question],
        approval: None,
        proposal: None,
        timeout: None,
    }
}

pub(crate) fn shows(id: &str) -> AgentFact {
    AgentFact::PlanShown { request: call(id), content: None, timeout: None }
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

/// The result of the validation that was requested last.
pub(crate) fn validated(scenario: &Scenario, passed: bool) -> AgentFact {
    let ordered = |event: &SessionEvent| match event {
        SessionEvent::ValidationRequested { command } => Some(command.command_id),
        _ => None,
    };
    let command = scenario.last.iter().find_map(ordered).expect("a validation was ordered just now");
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

/// The brake with this number.
pub(crate) fn brake(n: u8) -> BrakeId {
    BrakeId::new(Uuid::from_u128(4_000_000_000 + u128::from(n)))
}

/// A brake of the owner.
pub(crate) fn new_brake(n: u8, scope: BrakeScope, behavior: BrakeBehavior) -> NewBrake {
    NewBrake {
        id: brake(n),
        owner_id: UserId::parse("owner").unwrap(),
        initiator: BrakeInitiator::Owner,
        scope,
        behavior,
        reason: BrakeReason::parse("Something is wrong").unwrap(),
        release: ReleaseCondition::Manual {},
        agents: BTreeMap::new(),
    }
}

/// The defaults of a session that the script adapter drives.
pub(crate) fn settings() -> SessionSettings {
    SessionSettings::new(AdapterName::script())
}

/// Auto-continue until the tests pass, at most `max` times.
fn auto_continue(max: u32) -> AutoContinueConfig {
    let criterion = ValidationCriterion {
        kind: ValidationType::TestsPassing,
        threshold: None,
        custom_command: Some("make test".to_owned()),
        coverage_pattern: None,
    };
    AutoContinueConfig {
        validation_criteria: vec![criterion],
        max_continuations: max,
        current_continuation_count: 0,
        validation_timeout_seconds: 600,
        is_enabled: true,
    }
}

/// A new session with a cap of one dollar, and an owner with one slot.
impl Scenario {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: SessionSettings) -> Self {
        Self::created(settings, None)
    }

    /// A session with auto-continue, at most `max` times, in turn `t1`.
    pub(crate) fn looping(max: u32) -> Self {
        Self::looping_launching(max).observes(AgentFact::SidecarReady(can_all())).observes(starts("t1"))
    }

    /// A session in turn `t1` whose auto-continue is switched off.
    pub(crate) fn looping_disabled() -> Self {
        let auto = AutoContinueConfig { is_enabled: false, ..auto_continue(5) };
        Self::launching_with(auto).observes(AgentFact::SidecarReady(can_all())).observes(starts("t1"))
    }

    /// A session with auto-continue, at most `max` times, whose sidecar is being launched.
    pub(crate) fn looping_launching(max: u32) -> Self {
        Self::launching_with(auto_continue(max))
    }

    fn launching_with(auto: AutoContinueConfig) -> Self {
        auto.check().unwrap();
        let mut scenario = Self::created(settings(), Some(auto));
        scenario.allocate();
        scenario
    }

    fn created(settings: SessionSettings, auto_continue: Option<AutoContinueConfig>) -> Self {
        let mut ids = Ids(0);
        let now = Timestamp::from_millis(1_795_291_200_000);
        let ctx = DomainContext::new(now, Deadlines::default(), &mut ids);
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
            &ctx,
        );
        let mut pool = SessionPool::default();
        pool.configure(1).unwrap();
        let conv = Conversation::new(session, SessionMessageQueue::default());
        Self {
            conv,
            pool,
            brakes: Vec::new(),
            now,
            ids,
            last,
            outcome: None,
            key: "hash".to_owned(),
            ticks: None,
        }
    }

    /// A session whose sidecar is being launched.
    pub(crate) fn launching() -> Self {
        let mut scenario = Self::new();
        scenario.allocate();
        scenario
    }

    /// A session in turn `t1`.
    pub(crate) fn running() -> Self {
        Self::launching().observes(AgentFact::SidecarReady(can_all())).observes(starts("t1"))
    }

    /// A session after turn `t1`.
    pub(crate) fn idle() -> Self {
        Self::running().observes(completes("t1"))
    }

    /// A session whose turn `t1` produced output.
    pub(crate) fn reviewable() -> Self {
        Self::running().observes(AgentFact::TurnCompleted {
            turn: turn("t1"),
            output: Some(output(1)),
            outcome: SessionOutcome::Completed,
        })
    }

    pub(crate) fn interrupted() -> Self {
        Self::running().when(Self::interrupt).confirms(Command::Interrupt)
    }

    pub(crate) fn paused() -> Self {
        Self::running().when(Self::pause).confirms(Command::Pause)
    }

    /// A session in `status`, reached by the shortest path.
    pub(crate) fn in_status(status: S) -> Self {
        let scenario = match status {
            S::Queued => Self::launching(),
            S::Running => Self::running(),
            S::Interrupting => Self::running().when(Self::interrupt),
            S::Interrupted => Self::interrupted(),
            S::Pausing => Self::running().when(Self::pause),
            S::Paused => Self::paused(),
            S::Resuming => Self::paused().when(Self::resume),
            S::Cancelling => Self::running().when(Self::cancel),
            S::Cancelled => Self::running().when(Self::cancel).confirms(Command::Stop),
            S::WaitingForInput => Self::running().observes(asks("q1")),
            S::WaitingForApproval => Self::running().observes(shows("p1")),
            S::Idle => Self::idle(),
            S::ContextExhausted => Self::running().observes(AgentFact::ContextExhausted),
            S::Completed => Self::idle().when(Self::close),
            S::Failed => Self::running().observes(ends(true)),
        };
        scenario.then_status(status)
    }
}

impl Scenario {
    pub(crate) fn commit<E: Coded>(
        &mut self,
        change: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, E>,
    ) -> Step {
        let was_active = self.is_active();
        let mut ctx = DomainContext::new(self.now, Deadlines::default(), &mut self.ids);
        let mut events = change(&mut self.conv, &mut ctx).map_err(|e| e.coded())?;
        events.extend(self.conv.settle(&events.clone(), &mut ctx));
        let settled = self.conv.clone();
        assert_eq!(self.conv.settle(&Vec::new(), &mut ctx), Vec::new(), "settling twice after {events:?}");
        assert_eq!(self.conv, settled, "settling twice changes nothing");
        self.last = events;
        self.check_project_events(was_active);
        self.react();
        Ok(())
    }

    /// Whether the session lets the ticks of its project advance.
    fn is_active(&self) -> bool {
        let session = &self.conv.session;
        AgentStatus::of(session).advances_ticks()
    }

    /// The reactions for projects see every change of activity, and find the decision that an answer resolves.
    fn check_project_events(&self, was_active: bool) {
        if self.is_active() != was_active {
            assert!(self.last.iter().any(AgentStatus::may_change_activity), "{:?}", self.last);
        }
        for event in &self.last {
            if let SessionEvent::InputReceived { decision_id, .. } = event {
                let mut changed = self.conv.session.changed_decisions();
                assert!(changed.any(|decision| Some(decision.id) == *decision_id), "{event:?}");
            }
        }
    }

    /// Runs the reactions to the journal: allocating slots and creating runs.
    fn react(&mut self) {
        for event in self.last.clone() {
            match event {
                SessionEvent::RunEnded { run_id, .. } => {
                    let released = self.pool.release(self.conv.session.id(), run_id);
                    self.last.extend(released);
                    if self.conv.session.slot_wanted().is_some() {
                        self.allocate();
                    }
                }
                SessionEvent::SlotWanted { .. } | SessionEvent::Retried { .. } => {
                    self.allocate();
                }
                _ => {}
            }
        }
    }

    pub(crate) fn allocate(&mut self) -> Allocation {
        let mut ctx = DomainContext::new(self.now, Deadlines::default(), &mut self.ids);
        let (allocation, events) = self.pool.allocate(&mut self.conv.session, &mut ctx).unwrap();
        self.last.extend(events);
        allocation
    }

    pub(crate) fn observe(&mut self, fact: AgentFact) {
        let mut outcome = None;
        let key = self.key.clone();
        self.commit::<SessionError>(|conv, ctx| {
            let mut events = conv.session.heard(ctx);
            let observed = conv.observe(fact, &key, ctx);
            outcome = Some(observed.outcome);
            events.extend(observed.events);
            Ok(events)
        })
        .unwrap();
        self.outcome = outcome;
    }

    /// Reports a fact of an earlier run.
    pub(crate) fn observe_late(&mut self, fact: AgentFact) {
        let mut outcome = None;
        self.commit::<SessionError>(|conv, ctx| {
            let observed = conv.reprocess(fact, ctx);
            outcome = Some(observed.outcome);
            Ok(observed.events)
        })
        .unwrap();
        self.outcome = outcome;
    }

    pub(crate) fn interrupt(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.request_interrupt(ctx))
    }

    pub(crate) fn pause(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.request_pause(ctx))
    }

    pub(crate) fn hold(&mut self, n: u8, behavior: BrakeBehavior) -> Step {
        self.commit(|conv, ctx| conv.session.hold(brake(n), behavior, ctx))
    }

    pub(crate) fn release_hold(&mut self, n: u8) -> Step {
        self.commit::<SessionError>(|conv, ctx| Ok(conv.session.release_hold(brake(n), ctx)))
    }

    /// Pulls a brake on the session: on the pool first, then on the session, unless it has ended.
    pub(crate) fn pull(&mut self, n: u8, behavior: BrakeBehavior) -> Step {
        let scope = BrakeScope::Session { session_id: self.conv.session.id() };
        let pulled = Brake::pull(new_brake(n, scope, behavior), &mut self.pool, self.now);
        self.brakes.push(pulled.map_err(|e| e.code())?.0);
        match self.hold(n, behavior) {
            Err("invalid-transition") => Ok(()),
            held => held,
        }
    }

    /// Releases a brake, if it is in force.
    pub(crate) fn release_brake(&mut self, n: u8) -> Step {
        let Some(at) = self.brakes.iter().position(|pulled| pulled.id() == brake(n)) else { return Ok(()) };
        self.brakes.remove(at).release(ReleasedBy::Owner, &mut self.pool, self.now).map_err(|e| e.code())?;
        self.release_hold(n)?;
        if self.pool.next_waiting() == Some(self.conv.session.id()) {
            self.allocate();
        }
        Ok(())
    }

    pub(crate) fn stage(&self, n: u8) -> HoldStage {
        self.conv.session.hold_stage(brake(n))
    }

    pub(crate) fn resume(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.request_resume(ctx))
    }

    pub(crate) fn cancel(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.request_cancel(false, ctx))
    }

    pub(crate) fn force_cancel(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.request_cancel(true, ctx))
    }

    pub(crate) fn close(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.close(ctx))
    }

    pub(crate) fn approve(&mut self, id: OutputId) -> Step {
        self.commit(|conv, ctx| conv.resolve(OwnerDecision::ApproveOutput { output: id }, ctx))
    }

    pub(crate) fn reject(&mut self, id: OutputId) -> Step {
        self.commit(|conv, ctx| conv.resolve(OwnerDecision::RejectOutput { output: id, reason: None }, ctx))
    }

    pub(crate) fn retry(&mut self) -> Step {
        self.commit(|conv, ctx| conv.session.retry(Some(Feedback::parse("Again").unwrap()), false, ctx))
    }

    pub(crate) fn raise_cap(&mut self, cap: &str) -> Step {
        let change = self::cap(cap);
        self.commit(|conv, _| conv.session.change_budget(change))
    }

    pub(crate) fn allow_unmetered(&mut self, allow: bool) -> Step {
        let change = BudgetChange { allow_unmetered: Some(allow), ..BudgetChange::default() };
        self.commit(|conv, _| conv.session.change_budget(change))
    }

    pub(crate) fn send(&mut self, n: u128, priority: MessagePriority, expected: Option<&str>) -> Step {
        let expected_turn_id = expected.map(turn);
        let new = NewMessage { priority, expected_turn_id, ..new_message(n, &format!("message {n}")) };
        self.commit(|conv, ctx| conv.enqueue(new, ctx))
    }

    pub(crate) fn steer(&mut self, n: u128) -> Step {
        self.send(n, MessagePriority::Immediate, None)
    }

    pub(crate) fn follow_up(&mut self, n: u128) -> Step {
        self.send(n, MessagePriority::Queued, None)
    }

    pub(crate) fn reload(&mut self) -> Step {
        self.commit(|c, ctx| c.session.request_reload(ctx))
    }

    pub(crate) fn adjust(&mut self, adjustments: &[Adjustment]) -> Step {
        self.commit(|c, ctx| c.session.adjust(adjustments, ctx))
    }

    pub(crate) fn enable(&mut self, n: u8) -> Step {
        self.commit(|c, _| c.session.enable_skill(skill(n)))
    }

    pub(crate) fn disable(&mut self, n: u8) -> Step {
        self.commit(|c, _| c.session.disable_skill(skill(n)))
    }

    pub(crate) fn answer(&mut self, id: &str) -> Step {
        let answers = vec![Answer { question: format!("{id}?"), answer: "yes".to_owned() }];
        self.commit(|conv, ctx| conv.resolve(OwnerDecision::Answer { request: call(id), answers }, ctx))
    }

    pub(crate) fn decide(&mut self, decision: OwnerDecision) -> Step {
        self.commit(|conv, ctx| conv.resolve(decision, ctx))
    }

    pub(crate) fn approve_plan(&mut self, id: &str) -> Step {
        self.commit(|conv, ctx| conv.resolve(OwnerDecision::ApprovePlan { request: call(id) }, ctx))
    }

    pub(crate) fn reject_plan(&mut self, id: &str) -> Step {
        self.commit(|conv, ctx| {
            conv.resolve(
                OwnerDecision::RejectPlan {
                    request: call(id),
                    feedback: Feedback::parse("Smaller").unwrap(),
                },
                ctx,
            )
        })
    }

    /// Ends the process of the current run.
    pub(crate) fn die(&mut self, drained: bool) -> Step {
        let Some(run) = self.conv.session.run().map(|run| run.id) else { return Ok(()) };
        self.commit(|conv, ctx| conv.run_ended(run, drained, None, ctx))
    }

    /// Lets time pass and processes deadlines.
    pub(crate) fn clock(&mut self, seconds: u64, process: ProcessState) -> Step {
        self.now = self.now + Duration::from_secs(seconds);
        // Repeat as long as a deadline is due.
        let mut happened = Vec::new();
        for _ in 0..16 {
            let observed = self.observed(process);
            self.commit(|conv, ctx| conv.on_deadline(&observed, ctx))?;
            happened.append(&mut self.last);
            if self.conv.session.next_deadline(&Deadlines::default()).is_none_or(|(at, _)| at > self.now) {
                break;
            }
        }
        self.last = happened;
        Ok(())
    }

    /// Lets time pass while heartbeats arrive.
    pub(crate) fn clock_with_heartbeats(&mut self, seconds: u64) -> Step {
        self.now = self.now + Duration::from_secs(seconds);
        let observed = Observation { heard_at: Some(self.now), ..self.observed(ProcessState::Alive) };
        self.commit(|conv, ctx| conv.on_deadline(&observed, ctx))
    }

    /// Lets time pass while events wait to be processed.
    pub(crate) fn clock_over_a_backlog(&mut self, seconds: u64, process: ProcessState) -> Step {
        self.now = self.now + Duration::from_secs(seconds);
        let observed = Observation { processed_until: None, ..self.observed(process) };
        self.commit(|conv, ctx| conv.on_deadline(&observed, ctx))
    }

    /// Lets time pass while the control plane does not watch.
    pub(crate) fn clock_after_absence(&mut self, seconds: u64, process: ProcessState) -> Step {
        let from = self.now;
        self.now = self.now + Duration::from_secs(seconds);
        let absence = Some(Absence { from, until: self.now });
        let observed = Observation { absence, ..self.observed(process) };
        self.commit(|conv, ctx| conv.on_deadline(&observed, ctx))
    }

    /// The observation of a run whose events are all processed, on a machine that never slept.
    pub(crate) fn observed(&self, process: ProcessState) -> Observation {
        let ticks = self.ticks.as_ref().map(|clock| clock.read_for(PROJECT_AGENT, self.now));
        Observation { process, heard_at: None, processed_until: Some(self.now), absence: None, ticks }
    }

    /// Changes the clock of the project, and lets open requests follow it.
    pub(crate) fn tick(&mut self, change: impl FnOnce(&mut TickClock, Timestamp)) -> Step {
        let clock = self.ticks.as_mut().expect("the session is in a project");
        change(clock, self.now);
        let ticks = clock.read_for(PROJECT_AGENT, self.now);
        self.commit(|conv, ctx| conv.follow_ticks(ticks, ctx).map(Option::unwrap_or_default))
    }

    /// Declares the machine of the current run lost.
    pub(crate) fn lose(&mut self) -> Step {
        let Some(run) = self.conv.session.run().map(|run| run.id) else { return Ok(()) };
        self.commit(|conv, ctx| conv.run_lost(run, None, ctx))
    }

    pub(crate) fn pending_command(&self) -> pilothouse_domain::CommandId {
        self.conv.session.pending_command().expect("a command is outstanding").command_id
    }

    pub(crate) fn run(&self) -> RunId {
        self.conv.session.run().expect("there is a run").id
    }

    pub(crate) fn output_id(&self) -> OutputId {
        self.conv.session.output().expect("there is output").output_id
    }
}

impl Scenario {
    #[track_caller]
    pub(crate) fn when(mut self, step: impl FnOnce(&mut Self) -> Step) -> Self {
        if let Err(code) = step(&mut self) {
            panic!("refused: {code} while {}", self.conv.session.status());
        }
        self
    }

    /// Expects a refusal with this code that changes nothing.
    #[track_caller]
    pub(crate) fn refuses(mut self, code: &str, step: impl FnOnce(&mut Self) -> Step) -> Self {
        let before = self.conv.clone();
        assert_eq!(step(&mut self), Err(code), "while {}", before.session.status());
        assert_eq!(self.conv, before, "a refusal changes nothing");
        self
    }

    #[track_caller]
    pub(crate) fn observes(mut self, fact: AgentFact) -> Self {
        self.observe(fact);
        self
    }

    #[track_caller]
    pub(crate) fn observes_late(mut self, fact: AgentFact) -> Self {
        self.observe_late(fact);
        self
    }

    /// Starts turn `id` with a message that was sent to the agent.
    #[track_caller]
    pub(crate) fn begins_turn_with(self, id: &str, message: MessageId) -> Self {
        self.observes(AgentFact::MessageInjecting(message))
            .observes(starts_with_id(id, message))
            .observes(AgentFact::MessageInjected(message))
    }

    /// Completes the validation that was requested last.
    #[track_caller]
    pub(crate) fn validates(self, passed: bool) -> Self {
        let result = validated(&self, passed);
        self.observes(result)
    }

    /// Reports that the sidecar received the pending command.
    #[track_caller]
    pub(crate) fn receives(self) -> Self {
        let command = self.pending_command();
        self.observes(AgentFact::CommandReceived(command))
    }

    #[track_caller]
    pub(crate) fn confirms(self, kind: Command) -> Self {
        let command = self.pending_command();
        self.observes(AgentFact::CommandReceived(command)).observes(AgentFact::CommandDone(kind, command))
    }

    /// Makes the sidecar of the next run ready.
    #[track_caller]
    pub(crate) fn wakes(self) -> Self {
        assert!(
            matches!(self.conv.session.run().map(|run| run.phase), Some(RunPhase::Launching)),
            "no run is launching"
        );
        self.observes(AgentFact::SidecarReady(can_all()))
    }

    /// The names of the latest step's events.
    #[track_caller]
    pub(crate) fn then_events(self, expected: &[&str]) -> Self {
        let names: Vec<_> = self.last.iter().map(|e| e.name()).collect();
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
        self.last.iter().any(|e| e.name() == name)
    }

    #[track_caller]
    pub(crate) fn then_status(self, status: S) -> Self {
        assert_eq!(self.conv.session.status(), status, "after {:#?}", self.last);
        self
    }

    #[track_caller]
    pub(crate) fn then_hibernated(self, status: S) -> Self {
        let scenario = self.then_status(status);
        assert!(scenario.conv.session.hibernated() && !scenario.conv.session.is_live());
        scenario
    }

    #[track_caller]
    pub(crate) fn then_taken(self, outcome: FactOutcome) -> Self {
        assert_eq!(self.outcome, Some(outcome));
        self
    }

    #[track_caller]
    pub(crate) fn then_ignored(self, reason: &str) -> Self {
        self.then_taken(FactOutcome::Ignored(reason.to_owned()))
    }

    /// The open messages in delivery order, and those of them that were sent.
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
