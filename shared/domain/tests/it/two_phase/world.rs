//! Everything at once: the real aggregates on one side, sidecars on the other, and in between a network that loses, delays,
//! repeats and reorders, a runtime, a clock, and reactions that come later than their commit.

use std::time::Duration;

use pilothouse_domain::conversation::{Conversation, NewMessage};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::session::{
    AgentFact, AgentSessionStatus as S, LifecycleCommand as L, ProcessState, RunPhase, SessionError,
};
use pilothouse_domain::text::MessageContent;
use pilothouse_domain::value::{MessagePriority, MessageSource};
use pilothouse_domain::{
    CommandId, CommandRef, Deadlines, DomainEvent as E, Events, Occasion, RunId, StopMode, Timestamp,
};
use serde::Serialize;

use super::canon::Canon;
use super::explore::Model;
use super::sidecar::{Agent, Order, Process};
use crate::scene::{Ids, Scene, message};

/// What the owner may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Interrupt,
    Pause,
    Resume,
    Cancel,
    Force,
    Steer,
    FollowUp,
}

/// What may go wrong, or otherwise than expected, each with a process in mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process dies; its spool is published.
    Crash,
    /// The process cannot be reached, nor reach anybody.
    CutOff,
    /// It, and the way from it, is slower than the deadlines.
    Slow,
    /// The journal is: reactions come later than the deadlines.
    Lag,
    /// It takes no commands any more.
    Deaf,
    /// It carries no stop out.
    Stuck,
    /// The next command is lost.
    LoseCommand,
    /// The next command comes twice.
    RepeatCommand,
    /// The next acknowledgement is lost.
    LoseAck,
    /// What comes next comes twice.
    RepeatFact,
    /// What comes next comes after what follows it.
    Reorder,
    /// A stopped agent works on.
    Rebel,
    /// A resting sidecar goes.
    Hibernate,
}

/// One step. Numbers are places among the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Owner(Ask),
    /// The next reaction to the journal.
    React,
    /// The control plane hears what comes next.
    Hear(usize),
    /// A sidecar takes a command.
    Take(usize),
    /// A sidecar carries its command out.
    Act(usize),
    /// An agent ends its turn.
    Complete(usize),
    /// An agent that should have stopped says something.
    Speak(usize),
    /// The runtime tells the end of a process.
    Report(usize),
    /// A process that was cut off is back.
    Heal(usize),
    /// Time passes.
    Tick,
    Fault(Fault, usize),
}

/// What is broken on purpose, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    Nothing,
    /// Whatever acknowledgement comes confirms what is outstanding.
    AnyAckConfirms,
    /// The slot of a run that died is kept.
    SlotKept,
    /// Deadlines pass unseen.
    NoClock,
    /// A sidecar says that it stopped before it did.
    AckBeforeStop,
    /// A sidecar that cannot be heard works on.
    NoSelfStop,
    /// An order to kill is lost.
    KillLost,
}

/// A reaction that is still to come, in the order of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Reaction {
    Send(RunId, CommandId, Order),
    Launch(RunId),
    Kill(RunId),
    Ended(RunId),
    Allocate,
    LeaveLine,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    conv: Conversation,
    pool: SessionPool,
    now: Timestamp,
    ids: Ids,
    pub(crate) processes: Vec<Process>,
    reactions: Vec<Reaction>,
    asks: u8,
    faults: u8,
    messages: u8,
    /// Reactions are slower than the deadlines.
    lag: bool,
    /// The session, as it is stored.
    stored: String,
    changed: bool,
}

/// How much is explored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Requests of the owner.
    pub(crate) asks: u8,
    pub(crate) faults: u8,
    pub(crate) of: &'a [Ask],
    pub(crate) wrong: &'a [Fault],
    pub(crate) broken: Broken,
}

/// One tick each, as near to each other as the ruled ones: the order in which they fall due is what matters.
fn limits() -> Deadlines {
    let ticks = Duration::from_secs;
    Deadlines {
        received: ticks(1),
        stopped: ticks(1),
        reloaded: ticks(1),
        suspended: ticks(1),
        launched: ticks(2),
        silent: ticks(3),
        replayed: ticks(1),
        ..Deadlines::default()
    }
}

impl World {
    fn new(bounds: &Bounds<'_>) -> Self {
        let scene = Scene::new();
        let mut world = Self {
            conv: scene.conv,
            pool: scene.pool,
            now: scene.now,
            ids: Ids(100),
            processes: Vec::new(),
            reactions: vec![Reaction::Allocate],
            asks: bounds.asks,
            faults: bounds.faults,
            messages: 0,
            lag: false,
            stored: String::new(),
            changed: true,
        };
        world.react(Broken::Nothing);
        world.tidy();
        world
    }

    /// One commit: a change, what follows from it, and what the journal then asks for.
    fn commit<X>(
        &mut self,
        change: impl FnOnce(&mut Conversation, &mut Occasion<'_>) -> Result<Events, X>,
    ) -> bool {
        let mut cx = Occasion::new(self.now, limits(), &mut self.ids);
        let Ok(mut events) = change(&mut self.conv, &mut cx) else { return false };
        events.extend(self.conv.settle(&events.clone(), &mut cx));
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
                // What is told again before it was heard the first time is told once.
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
                // One that is sent again while it still waits is one: the sidecar would answer both alike.
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
                self.allocate();
            }
            Reaction::Allocate => self.allocate(),
            Reaction::LeaveLine => {
                self.pool.leave_line(self.conv.session.id());
            }
        }
    }

    fn allocate(&mut self) {
        let mut cx = Occasion::new(self.now, limits(), &mut self.ids);
        if self.conv.session.slot_wanted().is_some() || !self.pool.waiting().is_empty() {
            let (_, events) = self.pool.allocate(&mut self.conv.session, &mut cx).unwrap();
            self.changed = true;
            self.ask_for(&events);
        }
    }

    fn ask(&mut self, ask: Ask) -> bool {
        self.asks -= 1;
        let id = message(u128::from(self.messages));
        let new = |priority| NewMessage {
            message_id: id,
            content: MessageContent::parse("More").unwrap(),
            priority,
            source: MessageSource::User,
            expected_turn_id: None,
        };
        let says = matches!(ask, Ask::Steer | Ask::FollowUp);
        self.messages += u8::from(says);
        match ask {
            Ask::Interrupt => self.commit(|c, cx| c.session.request_interrupt(cx)),
            Ask::Pause => self.commit(|c, cx| c.session.request_pause(cx)),
            Ask::Resume => self.commit(|c, cx| c.session.request_resume(cx)),
            Ask::Cancel => self.commit(|c, cx| c.session.request_cancel(false, cx)),
            Ask::Force => self.commit(|c, cx| c.session.request_cancel(true, cx)),
            Ask::Steer => self.commit(|c, cx| c.enqueue(new(MessagePriority::Immediate), cx)),
            Ask::FollowUp => self.commit(|c, cx| c.enqueue(new(MessagePriority::Queued), cx)),
        }
    }

    fn observe(&mut self, run: RunId, mut fact: AgentFact, broken: Broken) {
        let session = &self.conv.session;
        if let (Broken::AnyAckConfirms, AgentFact::CommandDone(..), Some(outstanding)) =
            (broken, &fact, session.outstanding())
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
        self.commit::<SessionError>(|conv, cx| {
            conv.session.heard(cx);
            let observed = if current { conv.observe(fact, "hash", cx) } else { conv.observe_late(fact, cx) };
            Ok(observed.events)
        });
    }

    fn tick(&mut self, broken: Broken) {
        self.now = self.now + Duration::from_secs(1);
        for process in &mut self.processes {
            process.tick(broken != Broken::NoSelfStop);
        }
        let Some(run) = self.conv.session.run().map(|run| run.id) else {
            return self.look(ProcessState::Unknown, broken);
        };
        let process = self.processes.iter().find(|process| process.run == run);
        let state = match process {
            None => ProcessState::Unknown,
            Some(process) if process.cut_off.is_some() => ProcessState::Unknown,
            Some(process) if process.alive => ProcessState::Alive,
            Some(_) => ProcessState::Dead,
        };
        if state == ProcessState::Alive {
            // A heartbeat.
            let cx = Occasion::new(self.now, limits(), &mut self.ids);
            self.conv.session.heard(&cx);
            self.changed = true;
        }
        self.look(state, broken);
    }

    fn look(&mut self, state: ProcessState, broken: Broken) {
        if broken == Broken::NoClock {
            return;
        }
        for _ in 0..16 {
            if self.conv.session.next_due(&limits()).is_none_or(|(at, _)| at > self.now) {
                break;
            }
            self.commit(|conv, cx| conv.on_due(state, None, cx));
        }
    }

    /// Forgets what can have no effect any more.
    fn tidy(&mut self) {
        let current = self.conv.session.run().map(|run| run.id);
        let reactions = &self.reactions;
        let awaited = |run: RunId| {
            reactions.iter().any(|r| match r {
                Reaction::Send(of, ..) | Reaction::Launch(of) | Reaction::Kill(of) | Reaction::Ended(of) => {
                    *of == run
                }
                Reaction::Allocate | Reaction::LeaveLine => false,
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

    /// A confirmed stop, and a process that works on all the same.
    fn lie(&self) -> Option<&'static str> {
        let session = &self.conv.session;
        let says_stopped = match session.status() {
            S::Paused => "Paused",
            S::Interrupted => "Interrupted",
            S::Cancelled => "Cancelled",
            _ if session.hibernated() => "hibernated",
            _ => return None,
        };
        let sent = self.conv.queue.messages().iter().any(|m| m.sent);
        let explained = |process: &Process| {
            // Told to by a message; the word of it is on its way.
            let by_message = sent || process.spool.iter().any(|f| matches!(f, AgentFact::TurnStarted { .. }));
            session.status() == S::Interrupted && !session.hibernated() && by_message
        };
        let works = self.processes.iter().any(|p| p.works() && !explained(p));
        works.then_some(says_stopped)
    }

    fn rebel(&self) -> bool {
        self.processes.iter().any(|p| p.rebelled)
    }
}

/// The model.
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
            // It matters until the sidecar is there.
            canon.leave_out.push("requestedAt");
        }
        canon.json(&world.stored, now);
        canon.json(&serde_json::to_string(&world.conv.queue).unwrap(), now);
        let leases: Vec<_> = world.pool.leases().values().map(|lease| lease.run_id).collect();
        canon.json(&serde_json::to_string(&(leases, world.pool.waiting().len())).unwrap(), now);
        let rest = (&world.processes, &world.reactions, world.asks, world.faults, world.lag);
        canon.json(&serde_json::to_string(&rest).unwrap(), now);
        canon.text
    }

    /// Owners, faults, agents at work and broken lines owe nothing. Everybody else acts at some time.
    fn fair(&self, action: Action) -> Option<u8> {
        let place = |at: usize| u8::try_from(at).unwrap();
        match action {
            Action::React => Some(0),
            Action::Tick => Some(1),
            Action::Hear(at) => Some(2 + 5 * place(at)),
            Action::Take(at) => Some(3 + 5 * place(at)),
            Action::Act(at) => Some(4 + 5 * place(at)),
            Action::Report(at) => Some(5 + 5 * place(at)),
            Action::Speak(at) => Some(6 + 5 * place(at)),
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
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let session = &world.conv.session;
        if let Some(says) = world.lie().filter(|_| !world.rebel()) {
            return Err(format!("{says}, and a process works on"));
        }
        let with_agent = |p: &&Process| p.alive && !matches!(p.agent, Agent::NotBegun | Agent::Ended);
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
    /// Something that takes no time to speak of: deadlines are long, unless something is slow.
    fn urgent(world: &World) -> bool {
        let by = |p: &Process| {
            let reachable = p.cut_off.is_none();
            // Who only chatters does not stop the time.
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
            Action::Report(at) => {
                let process = &mut next.processes[at];
                process.reported = true;
                let run = process.run;
                next.commit(|conv, cx| conv.run_ended(run, true, None, cx));
            }
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
