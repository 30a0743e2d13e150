//! The whole system: the real aggregates, model sidecars, a network that loses, delays, repeats and reorders, a runtime, a clock,
//! and reactions that run later than their commit.

use std::time::Duration;

use pilothouse_domain::brake::{Brake, BrakeBehavior, BrakeScope, HoldStage, PoolBrake, ReleasedBy};
use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as L, Observation, ProcessState, Run, RunPhase,
    SessionError,
};
use pilothouse_domain::value::MessagePriority;
use pilothouse_domain::{
    CommandId, CommandRef, Deadlines, DomainContext, Events, RunId, SessionEvent as E, StopMode, Timestamp,
};
use serde::Serialize;

use super::canon::Canon;
use super::explore::Model;
use super::sidecar::{Agent, Order, Process};
use crate::scenario::{Ids, Scenario, new_brake, new_message};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Interrupt,
    Pause,
    Resume,
    Cancel,
    Force,
    Steer,
    FollowUp,
    /// Declare the machine of an unreachable run lost.
    Lose,
    /// Pull a brake that pauses.
    Brake,
    /// Pull a brake that ends processes.
    BrakeKill,
    /// Release the brake.
    Release,
}

/// Faults and other deviations, each for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies; its spool is published.
    Crash,
    /// The process is cut off from the network.
    CutOff,
    /// The process and its events are slower than the deadlines.
    Slow,
    /// The journal is slow: reactions run later than the deadlines.
    Lag,
    /// The process takes no commands any more.
    Deaf,
    /// The process does not execute a stop.
    Stuck,
    /// The next command is lost.
    LoseCommand,
    /// The next command arrives twice.
    RepeatCommand,
    /// The next acknowledgement is lost.
    LoseAck,
    /// The next fact arrives twice.
    RepeatFact,
    /// The next fact arrives after the one that follows it.
    Reorder,
    /// A stopped agent keeps working.
    Rebel,
    /// A resting sidecar hibernates.
    Hibernate,
}

/// One step. Numbers are indexes of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Owner(Ask),
    /// Run the next reaction to the journal.
    React,
    /// The control plane receives the next fact.
    Hear(usize),
    /// A sidecar takes a command.
    Take(usize),
    /// A sidecar executes its command.
    Act(usize),
    /// An agent ends its turn.
    Complete(usize),
    /// An agent that should have stopped sends a message.
    Speak(usize),
    /// The runtime reports the end of a process.
    Report(usize),
    /// A process that was cut off is connected again.
    Heal(usize),
    Tick,
    Fault(Fault, usize),
}

/// Deliberate bugs that the checker has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    /// Any acknowledgement confirms the pending command.
    AnyAckConfirms,
    /// The slot of a dead run is kept.
    SlotKept,
    /// Deadlines are not processed.
    NoClock,
    /// A sidecar acknowledges a stop before it stops.
    AckBeforeStop,
    /// A sidecar keeps working while it is cut off.
    NoSelfStop,
    /// An order to kill is lost.
    KillLost,
    /// The pool ignores brakes.
    BrakePassed,
    /// An unreachable run counts as ended.
    SilenceKills,
    /// The runtime does not know that the spool of a dead process was published.
    NeverDrained,
}

/// A pending reaction, in the order of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Reaction {
    Send(RunId, CommandId, Order),
    Launch(RunId),
    Kill(RunId),
    Ended(RunId),
    Allocate,
    LeaveLine,
    /// Put the hold of the brake on the session.
    Hold,
    /// Take it off.
    ReleaseHold,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    conv: Conversation,
    pool: SessionPool,
    now: Timestamp,
    ids: Ids,
    pub(crate) processes: Vec<Process>,
    brake: Option<Brake>,
    /// The rule that a step broke.
    violated: Option<&'static str>,
    reactions: Vec<Reaction>,
    asks: u8,
    faults: u8,
    messages: u8,
    /// Reactions are slower than the deadlines.
    lag: bool,
    limits: Deadlines,
    /// The stored session.
    stored: String,
    changed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    pub(crate) asks: u8,
    pub(crate) faults: u8,
    pub(crate) of: &'a [Ask],
    pub(crate) wrong: &'a [Fault],
    pub(crate) broken: Broken,
    /// Whether runs have a lease and stop when it expires. Otherwise, a process that is cut off is connected again at some time.
    pub(crate) leased: bool,
}

/// One tick each, with the same order as the real deadlines; only their order matters.
fn limits(leased: bool) -> Deadlines {
    let ticks = Duration::from_secs;
    Deadlines {
        received_timeout: ticks(1),
        stop_timeout: ticks(1),
        reload_timeout: ticks(1),
        pause_timeout: ticks(1),
        launch_timeout: ticks(2),
        silence_timeout: ticks(3),
        unresponsive_timeout: ticks(3),
        lease: leased.then(|| ticks(2)),
        lease_margin: ticks(1),
        replay_interval: ticks(1),
        ..Deadlines::default()
    }
}

/// The same pool with other brakes.
fn with_brakes(pool: &SessionPool, brakes: Vec<PoolBrake>) -> SessionPool {
    SessionPool::from_parts(
        pool.max_concurrent_sessions(),
        pool.leases().clone(),
        pool.waiting().to_vec(),
        brakes,
    )
}

impl World {
    fn new(bounds: &Bounds<'_>) -> Self {
        let scenario = Scenario::new();
        let mut world = Self {
            conv: scenario.conv,
            pool: scenario.pool,
            now: scenario.now,
            ids: Ids(100),
            processes: Vec::new(),
            brake: None,
            violated: None,
            reactions: vec![Reaction::Allocate],
            asks: bounds.asks,
            faults: bounds.faults,
            messages: 0,
            lag: false,
            limits: limits(bounds.leased),
            stored: String::new(),
            changed: true,
        };
        world.react(Broken::Nothing);
        world.tidy();
        world
    }

    /// One commit: a change, what follows from it, and the reactions to its journal entry.
    fn commit<X>(
        &mut self,
        change: impl FnOnce(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, X>,
    ) -> bool {
        let cancels = self.conv.session.cancel_accepted() || self.conv.session.status() == S::Cancelling;
        let mut ctx = DomainContext::new(self.now, self.limits, &mut self.ids);
        let Ok(mut events) = change(&mut self.conv, &mut ctx) else { return false };
        events.extend(self.conv.settle(&events.clone(), &mut ctx));
        if cancels && self.conv.session.status() == S::Failed {
            self.violated = Some("a failure undid a cancellation");
        }
        self.conv.closed_messages.clear();
        self.changed = true;
        self.ask_for(&events);
        true
    }

    fn ask_for(&mut self, events: &Events) {
        let send = |command: &CommandRef, order| Reaction::Send(command.run_id, command.command_id, order);
        for event in events {
            let reactions = match event {
                E::InterruptRequested { command: Some(command) } => {
                    vec![send(command, Order::Do(L::Interrupt))]
                }
                E::PauseRequested { command: Some(command) } => vec![send(command, Order::Do(L::Pause))],
                E::ResumeRequested { command: Some(command) } => vec![send(command, Order::Do(L::Resume))],
                E::CancelRequested { command: Some(command) } => vec![send(command, Order::Do(L::Stop))],
                E::RunStopOrdered { command, mode: StopMode::Graceful } => {
                    vec![send(command, Order::Do(L::Stop))]
                }
                E::RunStopOrdered { command, mode: StopMode::Kill } => vec![Reaction::Kill(command.run_id)],
                E::RunReady { command } | E::CommandReissued { kind: L::Begin, command } => {
                    vec![send(command, Order::Begin(self.conv.session.opening().prompt.is_some()))]
                }
                E::CommandReissued { kind, command } => vec![send(command, Order::Do(*kind))],
                E::MessageDispatched { message_id, command } => {
                    vec![send(command, Order::Message(*message_id))]
                }
                E::RunRequested { run_id, .. } => vec![Reaction::Launch(*run_id)],
                E::RunEnded { run_id, .. } => vec![Reaction::Kill(*run_id), Reaction::Ended(*run_id)],
                E::SlotWanted { .. } => vec![Reaction::Allocate],
                E::Cancelled {} => vec![Reaction::LeaveLine],
                _ => Vec::new(),
            };
            for reaction in reactions {
                // A fact that is repeated before its first delivery is delivered once.
                if !self.reactions.contains(&reaction) {
                    self.reactions.push(reaction);
                }
            }
        }
    }

    fn process(&mut self, run: RunId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.run == run)
    }

    fn react(&mut self, broken: Broken) {
        match self.reactions.remove(0) {
            Reaction::Send(run, id, order) => {
                // A command that is repeated while it waits is kept once: the sidecar would answer both the same way.
                let takes =
                    |process: &&mut Process| process.alive && !process.commands.contains(&(id, order));
                if let Some(process) = self.process(run).filter(takes) {
                    process.commands.push((id, order));
                }
            }
            Reaction::Launch(run) => self.processes.push(Process::launched(run)),
            Reaction::Kill(_) if broken == Broken::KillLost => {}
            Reaction::Kill(run) => {
                if let Some(process) = self.process(run) {
                    if process.cut_off.is_some() {
                        process.doomed = true;
                    } else {
                        process.end();
                    }
                }
            }
            Reaction::Ended(run) => {
                if broken != Broken::SlotKept {
                    self.pool.release(self.conv.session.id(), run);
                }
                self.allocate(broken);
            }
            Reaction::Allocate => self.allocate(broken),
            Reaction::LeaveLine => {
                self.pool.stop_waiting(self.conv.session.id());
            }
            Reaction::Hold => {
                let held = self.brake.as_ref().map(|brake| (brake.id(), brake.behavior()));
                if let Some((id, behavior)) = held {
                    self.commit(|c, ctx| c.session.hold(id, behavior, ctx));
                }
            }
            Reaction::ReleaseHold => {
                let held = self.conv.session.held_by().first().map(|held| held.brake_id);
                if let Some(id) = held.filter(|_| self.brake.is_none()) {
                    self.commit::<SessionError>(|c, ctx| Ok(c.session.release_hold(id, ctx)));
                }
                self.allocate(broken);
            }
        }
    }

    fn pull(&mut self, behavior: BrakeBehavior) -> bool {
        if self.brake.is_some() || self.conv.session.is_held() {
            return false;
        }
        let (brake, _) =
            Brake::pull(new_brake(1, BrakeScope::All {}, behavior), &mut self.pool, self.now).unwrap();
        self.brake = Some(brake);
        self.reactions.push(Reaction::Hold);
        true
    }

    fn release(&mut self) -> bool {
        let Some(mut brake) = self.brake.take() else { return false };
        brake.release(ReleasedBy::Owner, &mut self.pool, self.now).unwrap();
        self.reactions.push(Reaction::ReleaseHold);
        true
    }

    /// How far the session has come in stopping for the brake in force.
    fn stage(&self) -> Option<HoldStage> {
        Some(self.conv.session.hold_stage(self.brake.as_ref()?.id()))
    }

    fn allocate(&mut self, broken: Broken) {
        let mut ctx = DomainContext::new(self.now, self.limits, &mut self.ids);
        if self.conv.session.slot_wanted().is_some() || !self.pool.waiting().is_empty() {
            let brakes = self.pool.brakes().to_vec();
            if broken == Broken::BrakePassed {
                self.pool = with_brakes(&self.pool, Vec::new());
            }
            let (_, events) = self.pool.allocate(&mut self.conv.session, &mut ctx).unwrap();
            self.pool = with_brakes(&self.pool, brakes);
            if self.brake.is_some() && events.iter().any(|e| matches!(e, E::RunRequested { .. })) {
                self.violated = Some("a run was created although a brake was in force");
            }
            self.changed = true;
            self.ask_for(&events);
        }
    }

    fn ask(&mut self, ask: Ask) -> bool {
        self.asks -= 1;
        let id = u128::from(self.messages);
        let new = |priority| NewMessage { priority, ..new_message(id, "More") };
        let says = matches!(ask, Ask::Steer | Ask::FollowUp);
        self.messages += u8::from(says);
        match ask {
            Ask::Interrupt => self.commit(|c, ctx| c.session.request_interrupt(ctx)),
            Ask::Pause => self.commit(|c, ctx| c.session.request_pause(ctx)),
            Ask::Resume => self.commit(|c, ctx| c.session.request_resume(ctx)),
            Ask::Cancel => self.commit(|c, ctx| c.session.request_cancel(false, ctx)),
            Ask::Force => self.commit(|c, ctx| c.session.request_cancel(true, ctx)),
            Ask::Steer => self.commit(|c, ctx| c.enqueue(new(MessagePriority::Immediate), ctx)),
            Ask::FollowUp => self.commit(|c, ctx| c.enqueue(new(MessagePriority::Queued), ctx)),
            Ask::Brake => self.pull(BrakeBehavior::Pause),
            Ask::BrakeKill => self.pull(BrakeBehavior::Kill),
            Ask::Release => self.release(),
            Ask::Lose => {
                let Some(run) = self.conv.session.run().map(|run| run.id) else { return false };
                let Some(process) = self.process(run).filter(|p| p.cut_off.is_some()) else { return false };
                process.lost = true;
                self.commit(|c, ctx| c.run_lost(run, None, ctx))
            }
        }
    }

    fn observe(&mut self, run: RunId, mut fact: AgentFact, broken: Broken) {
        let session = &self.conv.session;
        if let (Broken::AnyAckConfirms, AgentFact::CommandDone(..), Some(outstanding)) =
            (broken, &fact, session.pending_command())
        {
            let kind = match session.status() {
                S::Interrupting => L::Interrupt,
                S::Pausing => L::Pause,
                S::Resuming => L::Resume,
                _ => L::Stop,
            };
            fact = AgentFact::CommandDone(kind, outstanding.command_id);
        }
        let current = session.run().is_some_and(|current| current.id == run);
        self.commit::<SessionError>(|conv, ctx| {
            let mut events = if current { conv.session.heard(ctx) } else { Events::new() };
            let observed = if current { conv.observe(fact, "hash", ctx) } else { conv.reprocess(fact, ctx) };
            events.extend(observed.events);
            Ok(events)
        });
    }

    /// The runtime reports the end of a process, whose spool was published.
    fn report(&mut self, at: usize, broken: Broken) {
        let process = &mut self.processes[at];
        process.reported = true;
        let (run, resumed) = (process.run, process.resumed);
        let live = |current: &Run| current.id == run && current.phase == RunPhase::Live;
        let session = &self.conv.session;
        let waits = session.status() == S::Resuming && session.run().is_some_and(live) && !resumed;
        self.commit(|conv, ctx| conv.run_ended(run, broken != Broken::NeverDrained, None, ctx));
        if waits && self.conv.session.status() == S::Failed {
            self.violated = Some("failed with a process that had not received the resume");
        }
    }

    fn tick(&mut self, broken: Broken) {
        self.now = self.now + Duration::from_secs(1);
        let leased = self.limits.lease.is_some();
        for process in &mut self.processes {
            process.tick(leased && broken != Broken::NoSelfStop);
        }
        let Some(run) = self.conv.session.run().map(|run| run.id) else {
            return self.look(ProcessState::Unknown, broken);
        };
        let process = self.processes.iter().find(|process| process.run == run);
        let state = match process {
            None => ProcessState::Unknown,
            Some(process) if process.cut_off.is_some() && broken != Broken::SilenceKills => {
                ProcessState::Unreachable
            }
            Some(process) if process.cut_off.is_some() => ProcessState::Unknown,
            Some(process) if process.alive => ProcessState::Alive,
            Some(_) => ProcessState::Dead,
        };
        if state == ProcessState::Alive {
            // A heartbeat.
            self.commit::<SessionError>(|conv, ctx| Ok(conv.session.heard(ctx)));
        }
        self.look(state, broken);
    }

    fn look(&mut self, state: ProcessState, broken: Broken) {
        if broken == Broken::NoClock {
            return;
        }
        for _ in 0..16 {
            if self.conv.session.next_deadline(&self.limits).is_none_or(|(at, _)| at > self.now) {
                break;
            }
            let processed_until = Some(self.now);
            let observed =
                Observation { process: state, heard_at: None, processed_until, absence: None, ticks: None };
            self.commit(|conv, ctx| conv.on_deadline(&observed, ctx));
        }
    }

    /// Drops what can have no effect any more.
    fn tidy(&mut self) {
        let current = self.conv.session.run().map(|run| run.id);
        let reactions = &self.reactions;
        let awaited = |run: RunId| {
            reactions.iter().any(|r| match r {
                Reaction::Send(of, ..) | Reaction::Launch(of) | Reaction::Kill(of) | Reaction::Ended(of) => {
                    *of == run
                }
                Reaction::Allocate | Reaction::LeaveLine | Reaction::Hold | Reaction::ReleaseHold => false,
            })
        };
        self.processes.retain(|p| p.alive || !p.spool.is_empty() || current == Some(p.run) || awaited(p.run));
        if std::mem::take(&mut self.changed) {
            self.stored = serde_json::to_string(&self.conv.session).unwrap();
        }
        for process in &mut self.processes {
            let comes = |id: CommandId| {
                process.commands.iter().any(|(other, _)| *other == id)
                    || reactions.iter().any(|r| matches!(r, Reaction::Send(_, other, _) if *other == id))
                    || self.stored.contains(&id.to_string())
            };
            let keep: Vec<_> = process.done.iter().map(|(id, _)| comes(*id)).collect();
            let mut keep = keep.into_iter();
            process.done.retain(|_| keep.next().unwrap_or_default());
        }
    }

    /// Whether a stop is confirmed while a process keeps working.
    fn lie(&self) -> Option<&'static str> {
        let session = &self.conv.session;
        let says_stopped = match session.status() {
            S::Paused => "Paused",
            S::Interrupted => "Interrupted",
            S::Cancelled => "Cancelled",
            // The model of a new run works after a resume, also if its turn had ended before: it reports no turn of its own.
            status if status != S::Idle && self.stage() == Some(HoldStage::Confirmed) => "held",
            _ if session.hibernated() => "hibernated",
            _ => return None,
        };
        let sent = self.conv.queue.messages().iter().any(|m| m.sent);
        let explained = |process: &Process| {
            // A message made it work; the fact about that is on its way.
            let by_message = sent || process.spool.iter().any(|f| matches!(f, AgentFact::TurnStarted { .. }));
            session.status() == S::Interrupted && !session.hibernated() && by_message
        };
        // The owner declared the machine lost, so a working process is expected.
        let works = self.processes.iter().any(|p| p.works() && !p.lost && !explained(p));
        works.then_some(says_stopped)
    }

    fn rebel(&self) -> bool {
        self.processes.iter().any(|p| p.rebelled)
    }
}

impl Model for Bounds<'_> {
    type State = World;
    type Action = Action;

    fn start(&self) -> World {
        World::new(self)
    }

    fn next(&self, world: &World) -> Vec<(Action, World)> {
        let mut actions = Vec::new();
        if !Self::urgent(world) {
            actions.push(Action::Tick);
        }
        if !world.reactions.is_empty() {
            actions.push(Action::React);
        }
        if world.asks > 0 {
            actions.extend(self.of.iter().copied().map(Action::Owner));
        }
        for (at, process) in world.processes.iter().enumerate() {
            let reachable = process.cut_off.is_none();
            if reachable && !process.spool.is_empty() {
                actions.push(Action::Hear(at));
            }
            if process.can_take() {
                actions.push(Action::Take(at));
            }
            if process.can_do() {
                actions.push(Action::Act(at));
            }
            if process.works() {
                actions.push(Action::Complete(at));
            }
            if process.can_speak() {
                actions.push(Action::Speak(at));
            }
            if reachable && !process.alive && process.spool.is_empty() && !process.reported {
                actions.push(Action::Report(at));
            }
            if !reachable {
                actions.push(Action::Heal(at));
            }
            if world.faults > 0 {
                let possible = self.wrong.iter().filter(|fault| possible(**fault, process));
                actions.extend(possible.map(|fault| Action::Fault(*fault, at)));
            }
        }
        actions.into_iter().filter_map(|action| Some((action, self.step(world, action)?))).collect()
    }

    fn canonical(&self, world: &World) -> String {
        let mut canon = Canon::default();
        let now = world.now;
        if !world.stored.contains("\"phase\":\"Launching\"") {
            // This affects the run until its sidecar is ready.
            canon.leave_out.push("requestedAt");
        }
        canon.json(&world.stored, now);
        canon.json(&serde_json::to_string(&world.conv.queue).unwrap(), now);
        let leases: Vec<_> = world.pool.leases().values().map(|lease| lease.run_id).collect();
        canon.json(&serde_json::to_string(&(leases, world.pool.waiting().len())).unwrap(), now);
        canon
            .json(&serde_json::to_string(&(&world.brake, world.pool.brakes(), world.violated)).unwrap(), now);
        let rest = (&world.processes, &world.reactions, world.asks, world.faults, world.lag);
        canon.json(&serde_json::to_string(&rest).unwrap(), now);
        canon.text
    }

    /// Owners, faults, working agents and, if runs have a lease, broken connections need not act. All other actors act at some
    /// time.
    fn fair(&self, action: Action) -> Option<u8> {
        let place = |at: usize| u8::try_from(at).unwrap();
        match action {
            Action::React => Some(0),
            Action::Tick => Some(1),
            Action::Hear(at) => Some(2 + 6 * place(at)),
            Action::Take(at) => Some(3 + 6 * place(at)),
            Action::Act(at) => Some(4 + 6 * place(at)),
            Action::Report(at) => Some(5 + 6 * place(at)),
            Action::Speak(at) => Some(6 + 6 * place(at)),
            Action::Heal(at) if !self.leased => Some(7 + 6 * place(at)),
            Action::Owner(_) | Action::Complete(_) | Action::Heal(_) | Action::Fault(..) => None,
        }
    }

    fn unsettled(&self, world: &World) -> bool {
        let session = &world.conv.session;
        let in_change =
            matches!(session.run().map(|r| r.phase), Some(RunPhase::Launching | RunPhase::Ending { .. }));
        let wants = session.slot_wanted().is_some() && world.pool.leases().is_empty();
        session.status().is_intermediate()
            || session.cancel_accepted()
            || in_change
            || wants
            || !world.reactions.is_empty()
            || world.conv.queue.messages().iter().any(|m| m.sent)
            || world.lie().is_some()
            || world.stage().is_some_and(|stage| stage != HoldStage::Confirmed)
            || (world.brake.is_none() && session.is_held())
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let session = &world.conv.session;
        if let Some(says) = world.lie().filter(|_| !world.rebel()) {
            return Err(format!("{says}, and a process works on"));
        }
        if let Some(what) = world.violated {
            return Err(what.to_owned());
        }
        let with_agent =
            |p: &&Process| p.alive && !p.lost && !matches!(p.agent, Agent::NotBegun | Agent::Ended);
        if world.processes.iter().filter(with_agent).count() > 1 {
            return Err("two agents at once".to_owned());
        }
        let lease = world.pool.leases().get(&session.id()).map(|lease| lease.run_id);
        let run = session.run().map(|run| run.id);
        let handed_back = |held| world.reactions.contains(&Reaction::Ended(held));
        match lease {
            Some(held) if run != Some(held) && !handed_back(held) => {
                Err("the slot of a run that is over is kept".to_owned())
            }
            None if run.is_some() => Err("a run without a slot".to_owned()),
            _ => Ok(()),
        }
    }
}

fn possible(fault: Fault, process: &Process) -> bool {
    let ack = |fact: &AgentFact| matches!(fact, AgentFact::CommandDone(..) | AgentFact::CommandReceived(_));
    let reachable = process.cut_off.is_none();
    match fault {
        Fault::Crash | Fault::CutOff => process.alive && reachable,
        Fault::Slow => reachable && !process.slow && process.agent != Agent::NotBegun,
        Fault::Lag => true,
        Fault::Deaf => process.alive && !process.deaf,
        Fault::Stuck => process.alive && !process.stuck,
        Fault::LoseCommand | Fault::RepeatCommand => reachable && !process.commands.is_empty(),
        Fault::LoseAck => reachable && process.spool.first().is_some_and(ack),
        Fault::RepeatFact => reachable && !process.spool.is_empty(),
        Fault::Reorder => reachable && process.spool.len() > 1 && process.spool.iter().take(2).all(ack),
        Fault::Rebel => process.alive && matches!(process.agent, Agent::Resting | Agent::Suspended(_)),
        Fault::Hibernate => {
            let rests = matches!(process.agent, Agent::Resting | Agent::Suspended(_));
            process.alive && reachable && rests && process.doing.is_none() && process.spool.is_empty()
        }
    }
}

impl Bounds<'_> {
    /// Whether an actor can act quickly. Deadlines are long in comparison, unless an actor is slow.
    fn urgent(world: &World) -> bool {
        let by = |p: &Process| {
            let reachable = p.cut_off.is_none();
            // An actor that only sends messages does not stop the time.
            let tells = reachable && (!p.only_chatters() || (!p.alive && !p.reported));
            !p.slow && (tells || p.can_take() || p.can_do())
        };
        (!world.lag && !world.reactions.is_empty()) || world.processes.iter().any(by)
    }

    fn step(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Tick => next.tick(self.broken),
            Action::React => next.react(self.broken),
            Action::Owner(ask) => {
                if !next.ask(ask) {
                    return None;
                }
            }
            Action::Hear(at) => {
                let process = &mut next.processes[at];
                let (run, fact) = (process.run, process.spool.remove(0));
                next.observe(run, fact, self.broken);
            }
            Action::Take(at) => {
                let process = &mut next.processes[at];
                process.take();
                if let (Broken::AckBeforeStop, Some((id, Order::Do(kind)))) = (self.broken, process.doing) {
                    process.spool.push(AgentFact::CommandDone(kind, id));
                }
            }
            Action::Act(at) => next.processes[at].act(),
            Action::Complete(at) => next.processes[at].complete(),
            Action::Speak(at) => next.processes[at].speak(),
            Action::Report(at) => next.report(at, self.broken),
            Action::Heal(at) => {
                let process = &mut next.processes[at];
                process.cut_off = None;
                if process.doomed {
                    process.end();
                }
            }
            Action::Fault(fault, at) => {
                next.faults -= 1;
                next.goes_wrong(fault, at, self.broken);
            }
        }
        next.tidy();
        Some(next)
    }
}

impl World {
    fn goes_wrong(&mut self, fault: Fault, at: usize, broken: Broken) {
        let process = &mut self.processes[at];
        match fault {
            Fault::Crash | Fault::Hibernate => process.end(),
            Fault::CutOff => process.cut_off = Some(0),
            Fault::Slow => process.slow = true,
            Fault::Lag => self.lag = true,
            Fault::Deaf => process.deaf = true,
            Fault::Stuck => process.stuck = true,
            Fault::LoseCommand => {
                process.commands.remove(0);
            }
            Fault::RepeatCommand => {
                let command = process.commands[0];
                process.commands.push(command);
            }
            Fault::LoseAck => {
                process.spool.remove(0);
            }
            Fault::RepeatFact => {
                let (run, fact) = (process.run, process.spool[0].clone());
                self.observe(run, fact, broken);
            }
            Fault::Reorder => process.spool.swap(0, 1),
            Fault::Rebel => process.rebel(),
        }
    }
}
