//! Pause and interrupt; agents that do not end their work, or end unexpectedly.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::driver::Driver;
use super::waiting::Waiting;
use super::work::Interrupt;
use crate::adapter::{Refusal, Reply};
use crate::kit::messages::refuse_interrupted;
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;
use crate::process::ProcessHandle;

/// Limit for stopping the processes, and the interval of checks.
const STOPPED: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_millis(10);

impl Driver {
    /// Stops the agent and its descendants. Acknowledged when the system reports all processes as stopped and no file
    /// is accessed for the agent, so that no call is running.
    pub(super) async fn pause(&mut self, reply: Reply) -> Result<(), DriverExit> {
        let until = Instant::now() + STOPPED;
        loop {
            if self.suspend() {
                return Ok(reply.done().await?);
            }
            if Instant::now() >= until {
                self.resume_agent();
                return Ok(reply.refuse(Refusal::invalid("failed to stop a process of the agent")).await?);
            }
            sleep(PERIOD).await;
        }
    }

    /// Returns whether all processes are stopped, and no request for a file runs.
    pub(super) fn suspend(&mut self) -> bool {
        self.paused = true;
        let mut handles: Vec<_> = self.agent.iter().map(|agent| agent.process.handle()).collect();
        handles.extend(self.terminals.handles());
        handles.iter().for_each(ProcessHandle::pause);
        handles.iter().all(ProcessHandle::is_stopped) && self.files.is_idle()
    }

    pub(super) fn resume_agent(&mut self) {
        if self.paused {
            self.paused = false;
            for handle in self.terminals.handles() {
                handle.resume();
            }
            if let Some(agent) = &self.agent {
                agent.process.handle().resume();
            }
        }
    }

    fn interrupt_under_way(&self) -> Option<&Interrupt> {
        let turn = self.turn.as_ref().and_then(|turn| turn.interrupt.as_ref());
        let compaction = self.compaction.as_ref().and_then(|compaction| compaction.interrupt.as_ref());
        turn.or(compaction)
    }

    /// When the time for the agent to end interrupted work is over.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        self.interrupt_under_way().map(|interrupt| interrupt.gives_up_at)
    }

    /// When the time for the agent to end interrupted commands is over.
    pub(super) fn tools_end_at(&self) -> Option<Instant> {
        self.interrupt_under_way().and_then(|interrupt| interrupt.tools_end_at)
    }

    /// Ends the commands of the turn, because the agent may be waiting for one that it should end.
    pub(super) fn end_tools(&mut self) {
        if let Some(agent) = &self.agent {
            agent.process.tools.kill();
        }
        let turn = self.turn.as_mut().and_then(|turn| turn.interrupt.as_mut());
        let compaction = self.compaction.as_mut().and_then(|compaction| compaction.interrupt.as_mut());
        if let Some(interrupt) = turn.or(compaction) {
            interrupt.tools_end_at = None;
        }
    }

    /// Interrupts the current work. Open requests of the agent are answered as cancelled.
    pub(super) async fn interrupt(&mut self, reply: Reply) -> Result<(), DriverExit> {
        if self.paused {
            // Ends stopped commands without continuing them.
            self.end_tools();
        }
        self.resume_agent();
        self.compactions.refuse("the turn before it was interrupted").await?;
        let in_call = self.translator.calls.any_open();
        let mut new = Interrupt::new(reply, self.cancel, in_call);
        new.withdrew = self.cancel_requests();
        new.withdrew |= self.files.cancel().await;
        let (interrupt, answered) = match (&mut self.turn, &mut self.compaction) {
            (Some(turn), _) => {
                let answered = turn.is_answered_or_waits();
                (&mut turn.interrupt, answered)
            }
            (None, Some(compaction)) => (&mut compaction.interrupt, false),
            (None, None) => {
                self.withdraw_waiting().await?;
                return self.confirm(new).await;
            }
        };
        new.follow(interrupt).await?;
        self.terminals.kill_all().await;
        self.cancel_session();
        if answered {
            // Cancelling the session ends the remaining subagents.
            return self.interrupted().await;
        }
        Ok(())
    }

    /// Without a turn: refuses the messages that were to begin one. The adapter's own texts precede the next prompt.
    async fn withdraw_waiting(&mut self) -> Result<(), DriverExit> {
        for waiting in self.messages.waiting.take_all() {
            match waiting {
                Waiting::Message(message, reply) => refuse_interrupted(message, reply).await?,
                Waiting::Own(own) => self.withdrawn.push(own),
            }
        }
        Ok(())
    }

    pub(super) fn cancel_session(&self) {
        if let Some(agent) = &self.agent {
            agent.connection.notify("session/cancel", json!({ "sessionId": self.conversation.id }));
        }
    }

    /// Kills an agent that did not end the interrupted work (decision 15). The next message resumes its conversation.
    pub(super) async fn give_up(&mut self) -> Result<(), DriverExit> {
        self.kill_agent("the agent did not end its turn after an interrupt and was killed").await?;
        self.broken_off().await
    }

    /// The next message starts the agent again.
    pub(super) async fn kill_agent(&mut self, why: &str) -> Result<(), DriverExit> {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
        self.files.cancel().await;
        Ok(self
            .events
            .emit(notice("agent_killed", format!("{why}; the next message starts it again")))
            .await?)
    }

    /// Handles an agent that ended unexpectedly. Within a turn this ends its conversation, unless the turn waits for the
    /// model; otherwise the next message starts it again.
    pub(super) async fn agent_ended(&mut self) -> Result<(), DriverExit> {
        let Some(mut agent) = self.agent.take() else { return Ok(()) };
        let exit_reason = agent.process.exit_reason().await;
        agent.end().await;
        self.files.cancel().await;
        if self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_none() && turn.waits_for_model) {
            // No prompt runs, so no work is lost.
            let summary =
                format!("the agent ended unexpectedly ({exit_reason}); the next attempt starts it again");
            return Ok(self.events.emit(notice("agent_ended", summary)).await?);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_none()) {
            self.abandon_turn("the agent ended").await?;
            return Err(DriverExit::agent(format!("it ended unexpectedly: {exit_reason}")));
        }
        let summary =
            format!("the agent ended unexpectedly ({exit_reason}); the next message starts it again");
        self.events.emit(notice("agent_ended", summary)).await?;
        self.broken_off().await
    }

    /// Closes the agent's work, because the agent has ended.
    async fn broken_off(&mut self) -> Result<(), DriverExit> {
        self.interrupted().await?;
        self.refuse_steering().await?;
        if let Some(compaction) = self.compaction.take() {
            let interrupt = compaction.broken_off("the agent ended while it compacted").await?;
            if let Some(interrupt) = interrupt {
                self.confirm(interrupt).await?;
            }
        }
        Ok(())
    }
}
