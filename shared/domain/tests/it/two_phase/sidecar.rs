//! A model of a sidecar (S3, decisions 10, 12, 13, 15): it executes commands in order and once, acknowledges a stop after it
//! stopped, and stops its agent when the control plane is unreachable.

use pilothouse_domain::session::{AgentFact, LifecycleCommand as L};
use pilothouse_domain::{CommandId, MessageId, RunId};
use serde::Serialize;

use crate::scenario::{can_all, completes, said, starts, starts_with_id};

/// State of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Agent {
    NotBegun,
    Working,
    Resting,
    /// Paused; whether a turn continues with the resume.
    Suspended(bool),
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Order {
    /// Begin with a prompt, or wait for a message.
    Begin(bool),
    Do(L),
    Message(MessageId),
}

/// The process of a run, its command queue, and its spool.
#[allow(clippy::struct_excessive_bools)] // each is a separate fault
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Process {
    pub(crate) run: RunId,
    pub(crate) alive: bool,
    pub(crate) agent: Agent,
    /// Commands that were sent and not taken yet.
    pub(crate) commands: Vec<(CommandId, Order)>,
    /// The command in execution.
    pub(crate) doing: Option<(CommandId, Order)>,
    /// Executed commands with their acknowledgements, which answer a repeated command.
    pub(crate) done: Vec<(CommandId, AgentFact)>,
    /// Facts that the control plane has not received yet.
    pub(crate) spool: Vec<AgentFact>,
    /// Ticks since the process was cut off from the network.
    pub(crate) cut_off: Option<u8>,
    /// Executing commands and delivering facts may take longer than the deadlines.
    pub(crate) slow: bool,
    /// The process takes no commands any more.
    pub(crate) deaf: bool,
    /// The process does not execute stop and interrupt.
    pub(crate) stuck: bool,
    /// The agent acted although it was stopped.
    pub(crate) rebelled: bool,
    /// The runtime was ordered to kill the process and could not reach it.
    pub(crate) doomed: bool,
    /// The runtime reported the end of the process.
    pub(crate) reported: bool,
    /// The owner declared the machine lost.
    pub(crate) lost: bool,
    /// The process took a command to resume.
    pub(crate) resumed: bool,
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
            lost: false,
            resumed: false,
        }
    }

    /// Ends the process. Its spool is still delivered.
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

    /// Takes the next command. A command that was executed before is acknowledged again.
    pub(crate) fn take(&mut self) {
        let (id, order) = self.commands.remove(0);
        self.resumed |= matches!(order, Order::Do(L::Resume));
        // The turn that `begin` starts shows that it was executed.
        self.spool.push(AgentFact::CommandReceived(id));
        match self.done.iter().find(|(done, _)| *done == id) {
            Some((_, AgentFact::CommandReceived(_))) => {}
            Some((_, answer)) => self.spool.push(answer.clone()),
            None => self.doing = Some((id, order)),
        }
    }

    /// A pause may wait for a long call, but not for ever. A stuck process ends no turn.
    pub(crate) fn can_do(&self) -> bool {
        let refuses = self.stuck && matches!(self.doing, Some((_, Order::Do(L::Interrupt | L::Stop))));
        self.alive && self.cut_off.is_none() && self.doing.is_some() && !refuses
    }

    /// Executes the command and then acknowledges it.
    pub(crate) fn act(&mut self) {
        let Some((id, order)) = self.doing.take() else { return };
        let idle = matches!(self.agent, Agent::NotBegun | Agent::Ended);
        let answer = match order {
            // The facts of its turn show that it was executed.
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
            // Or a new run for the resume: the conversation continues.
            (Order::Do(L::Resume), Agent::Suspended(true) | Agent::Resting) => self.agent = Agent::Working,
            _ => {}
        }
    }

    /// The turn ends normally.
    pub(crate) fn complete(&mut self) {
        self.agent = Agent::Resting;
        self.rebelled = false;
        self.spool.push(completes("t"));
    }

    /// The agent keeps working although it was stopped.
    pub(crate) fn rebel(&mut self) {
        self.agent = Agent::Working;
        self.rebelled = true;
        self.speak();
    }

    /// A working agent sends messages from time to time.
    pub(crate) fn can_speak(&self) -> bool {
        self.rebelled && self.works() && self.cut_off.is_none() && !self.spool.contains(&said())
    }

    pub(crate) fn only_chatters(&self) -> bool {
        self.spool.iter().all(|fact| *fact == said())
    }

    pub(crate) fn speak(&mut self) {
        self.spool.push(said());
    }

    /// While cut off, a process with a lease stops its agent when the lease expires (decision 13).
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
