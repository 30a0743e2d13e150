//! A sidecar as its own rules have it (S3, rulings 10, 12, 13, 15): it takes commands in order and each once, stops before
//! it says so, and stops by itself when it cannot be heard.

use pilothouse_domain::session::{AgentFact, LifecycleCommand as L};
use pilothouse_domain::{CommandId, MessageId, RunId};
use serde::Serialize;

use crate::scene::{can_all, completes, said, starts, starts_with_id};

/// What its agent is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Agent {
    NotBegun,
    Working,
    Resting,
    /// Paused; whether a turn goes on with the resume.
    Suspended(bool),
    Ended,
}

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Order {
    /// With something to work on, or waiting for a message.
    Begin(bool),
    Do(L),
    Message(MessageId),
}

/// The process of a run, its queue of commands, and its spool.
#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Process {
    pub(crate) run: RunId,
    pub(crate) alive: bool,
    pub(crate) agent: Agent,
    /// Commands that were sent and not yet taken.
    pub(crate) commands: Vec<(CommandId, Order)>,
    /// The command that it is carrying out.
    pub(crate) doing: Option<(CommandId, Order)>,
    /// What it has done, with its answer: a repeat is answered with it.
    pub(crate) done: Vec<(CommandId, AgentFact)>,
    /// What it has told and nobody has heard yet.
    pub(crate) spool: Vec<AgentFact>,
    /// Ticks since it was cut off from everybody.
    pub(crate) cut_off: Option<u8>,
    /// What it is to do, and what it tells, may take longer than the deadlines.
    pub(crate) slow: bool,
    /// It takes no commands any more.
    pub(crate) deaf: bool,
    /// It carries no stop and no interrupt out.
    pub(crate) stuck: bool,
    /// Its agent acted although it was stopped.
    pub(crate) rebelled: bool,
    /// The runtime was told to kill it and could not reach it.
    pub(crate) doomed: bool,
    /// The runtime has told its end.
    pub(crate) reported: bool,
}

impl Process {
    pub(crate) fn launched(run: RunId) -> Self {
        Self {
            run,
            alive: true,
            agent: Agent::NotBegun,
            commands: Vec::new(),
            doing: None,
            done: Vec::new(),
            spool: vec![AgentFact::SidecarReady(can_all())],
            cut_off: None,
            slow: false,
            deaf: false,
            stuck: false,
            rebelled: false,
            doomed: false,
            reported: false,
        }
    }

    /// Nothing goes on in it any more; what it has told is still to be heard.
    pub(crate) fn end(&mut self) {
        self.alive = false;
        self.agent = Agent::Ended;
        self.doing = None;
        self.commands.clear();
        self.done.clear();
        (self.deaf, self.stuck) = (false, false);
    }

    pub(crate) fn can_take(&self) -> bool {
        self.alive
            && self.cut_off.is_none()
            && !self.deaf
            && self.doing.is_none()
            && !self.commands.is_empty()
    }

    /// Takes the next command into its spool; one that was done is answered as before.
    pub(crate) fn take(&mut self) {
        let (id, order) = self.commands.remove(0);
        // That the opening was done is told by the turn that it opens.
        self.spool.push(AgentFact::CommandReceived(id));
        match self.done.iter().find(|(done, _)| *done == id) {
            Some((_, AgentFact::CommandReceived(_))) => {}
            Some((_, answer)) => self.spool.push(answer.clone()),
            None => self.doing = Some((id, order)),
        }
    }

    /// A pause may wait for a long call, but not for ever; what is stuck ends no turn.
    pub(crate) fn can_do(&self) -> bool {
        let refuses = self.stuck && matches!(self.doing, Some((_, Order::Do(L::Interrupt | L::Stop))));
        self.alive && self.cut_off.is_none() && self.doing.is_some() && !refuses
    }

    /// Carries its command out, and says so then.
    pub(crate) fn act(&mut self) {
        let Some((id, order)) = self.doing.take() else { return };
        let idle = matches!(self.agent, Agent::NotBegun | Agent::Ended);
        let answer = match order {
            // What its turn tells says that it was done.
            Order::Begin(_) => AgentFact::CommandReceived(id),
            Order::Do(L::Stop) => AgentFact::CommandDone(L::Stop, id),
            _ if idle => {
                AgentFact::CommandRefused { command: id, code: "no-agent".to_owned(), message: String::new() }
            }
            Order::Do(kind) => AgentFact::CommandDone(kind, id),
            Order::Message(message) => AgentFact::MessageInjected(message),
        };
        if !matches!(order, Order::Begin(_)) {
            self.spool.push(answer.clone());
        }
        self.done.push((id, answer));
        self.carry_out(order, idle);
    }

    fn carry_out(&mut self, order: Order, idle: bool) {
        match (order, self.agent) {
            (Order::Begin(true), _) => {
                self.agent = Agent::Working;
                self.spool.push(starts("t"));
            }
            (Order::Begin(false), _) => self.agent = Agent::Resting,
            (Order::Do(L::Stop), _) => self.end(),
            _ if idle => {}
            (Order::Message(message), Agent::Resting) => {
                self.agent = Agent::Working;
                self.spool.push(starts_with_id("t", message));
            }
            (Order::Do(L::Interrupt), Agent::Working | Agent::Suspended(_)) => {
                self.agent = Agent::Resting;
                self.rebelled = false;
            }
            (Order::Do(L::Pause), Agent::Working) => {
                self.agent = Agent::Suspended(true);
                self.rebelled = false;
            }
            (Order::Do(L::Pause), Agent::Resting) => self.agent = Agent::Suspended(false),
            (Order::Do(L::Resume), Agent::Suspended(false)) => self.agent = Agent::Resting,
            // Or woken for it: the conversation goes on.
            (Order::Do(L::Resume), Agent::Suspended(true) | Agent::Resting) => self.agent = Agent::Working,
            _ => {}
        }
    }

    /// The turn ends by itself.
    pub(crate) fn complete(&mut self) {
        self.agent = Agent::Resting;
        self.rebelled = false;
        self.spool.push(completes("t"));
    }

    /// An agent that was stopped works on.
    pub(crate) fn rebel(&mut self) {
        self.agent = Agent::Working;
        self.rebelled = true;
        self.speak();
    }

    /// Who works on says something from time to time.
    pub(crate) fn can_speak(&self) -> bool {
        self.rebelled && self.works() && self.cut_off.is_none() && !self.spool.contains(&said())
    }

    pub(crate) fn only_chatters(&self) -> bool {
        self.spool.iter().all(|fact| *fact == said())
    }

    pub(crate) fn speak(&mut self) {
        self.spool.push(said());
    }

    /// Nobody can be reached: after a while it stops its agent by itself (ruling 13).
    pub(crate) fn tick(&mut self, stops_itself: bool) {
        if let Some(ticks) = &mut self.cut_off {
            *ticks = (*ticks + 1).min(3);
            if *ticks >= 2 && stops_itself && self.alive {
                self.end();
            }
        }
    }

    pub(crate) fn works(&self) -> bool {
        self.alive && self.agent == Agent::Working
    }
}
