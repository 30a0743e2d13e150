//! Holding and breaking off what runs, and what happens when the agent does not end it, or ends by itself.

use serde_json::json;
use tokio::time::Instant;

use super::driver::{Break, Driver};
use super::session::notice;
use crate::adapter::{Refusal, Reply};

impl Driver {
    /// Stops the agent where it is, with everything that it started.
    pub(super) fn pause(&mut self) {
        if !self.paused {
            self.paused = true;
            if let Some(agent) = &self.agent {
                agent.process.pause();
            }
            self.terminals.pause();
        }
    }

    /// Lets the agent go on where it was stopped.
    pub(super) fn go_on(&mut self) {
        if self.paused {
            self.paused = false;
            self.terminals.resume();
            if let Some(agent) = &self.agent {
                agent.process.resume();
            }
        }
    }

    /// When the agent has had its time to end what is broken off.
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        let turn = self.turn.as_ref().and_then(|turn| turn.interrupt.as_ref());
        let compaction = self.compaction.as_ref().and_then(|compaction| compaction.interrupt.as_ref());
        turn.or(compaction).map(|(_, at)| *at)
    }

    /// The owner wants what runs to end: whatever the agent waits for is answered with that.
    pub(super) async fn interrupt(&mut self, reply: Reply) -> Result<(), Break> {
        self.go_on();
        for (_, waiting) in std::mem::take(&mut self.compactions) {
            waiting.refuse(Refusal::invalid("the turn before it was interrupted")).await?;
        }
        let until = Instant::now() + self.cancel;
        let (interrupt, answered) = match (&mut self.turn, &mut self.compaction) {
            (Some(turn), _) => {
                let answered = turn.is_answered();
                (&mut turn.interrupt, answered)
            }
            (None, Some(compaction)) => (&mut compaction.interrupt, false),
            (None, None) => return Ok(reply.done().await?),
        };
        if let Some((first, _)) = interrupt.replace((reply, until)) {
            first.done().await?;
        }
        self.requests.cancel_all();
        self.terminals.kill_all().await;
        self.cancel_session();
        if answered {
            // Only subagents are left, and they are cancelled with the session.
            return self.interrupted().await;
        }
        Ok(())
    }

    /// Tells the agent to end what it does.
    pub(super) fn cancel_session(&self) {
        if let Some(agent) = &self.agent {
            agent.connection.tell("session/cancel", json!({ "sessionId": self.conversation.id }));
        }
    }

    /// The agent did not end what was broken off: it is killed, which ends it provably (ruling 15). Its conversation goes on
    /// with the next message.
    pub(super) async fn give_up(&mut self) -> Result<(), Break> {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
        let why = "the agent did not end its turn when it was told to, and was killed; the next message starts it again";
        self.events.emit(notice("agent_killed", why.into())).await?;
        self.broken_off().await
    }

    /// The agent ended by itself. In a turn that is the end of its conversation; else the next message starts it again.
    pub(super) async fn agent_ended(&mut self) -> Result<(), Break> {
        let Some(mut agent) = self.agent.take() else { return Ok(()) };
        let obituary = agent.process.obituary().await;
        agent.end().await;
        if self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_none()) {
            self.abandon_turn("the agent ended").await?;
            return Err(Break::agent(format!("it ended by itself: {obituary}")));
        }
        let summary = format!("the agent ended by itself ({obituary}); the next message starts it again");
        self.events.emit(notice("agent_ended", summary)).await?;
        self.broken_off().await
    }

    /// The agent is gone: what it was doing is over.
    async fn broken_off(&mut self) -> Result<(), Break> {
        self.interrupted().await?;
        if let Some(compaction) = self.compaction.take() {
            compaction.broken_off("the agent ended while it compacted").await?;
        }
        Ok(())
    }
}
