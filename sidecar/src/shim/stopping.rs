//! Pause and interrupt, the end of the shim, and shims that end unexpectedly.

use std::time::Duration;

use pilothouse_shim::error::Recovery;
use pilothouse_shim::message::AgentState;
use tokio::time::{Instant, sleep, timeout};

use super::driver::Driver;
use super::turn::Turn;
use crate::adapter::{Refusal, Reply};
use crate::kit::messages::refuse_interrupted;
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;

/// Limit for stopping the processes, and the interval of checks.
const STOPPED: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_millis(10);
/// How long the exit of a shim may take to show after another sign of it, such as a broken event stream.
const EXIT: Duration = Duration::from_millis(500);

impl Driver {
    /// A shim that can pause returns the state of its agent. Then the system stops all processes, so that nothing runs
    /// even if the shim is wrong or cannot pause.
    pub(super) async fn pause(&mut self, reply: Reply) -> Result<(), DriverExit> {
        let was_stopped = self.stops.any();
        self.stops.owner = true;
        let is_at_work = self.turn.as_ref().is_some_and(Turn::has_begun);
        let shim = self.shim.as_ref().filter(|shim| shim.plugin.capabilities.supports_pause);
        if let Some(shim) = shim.filter(|_| !was_stopped && is_at_work) {
            let client = shim.client.clone();
            let paused = self.uninterrupted(async move { client.pause().await }).await;
            match paused.ok_or(DriverExit::Over)? {
                Ok(state) => {
                    self.keep_state(&state).await?;
                    self.drain_before(&state).await?;
                    // A turn that ended meanwhile has nothing to resume.
                    self.paused_state = self.turn.is_some().then_some(state);
                }
                Err(error) => {
                    if error.recovery() != Recovery::Unsupported {
                        let summary = format!("the shim did not pause ({error}); its processes are stopped");
                        self.events.emit(notice("pause_failed", summary)).await?;
                    }
                }
            }
        }
        let until = Instant::now() + STOPPED;
        while !self.suspend() {
            if Instant::now() >= until {
                self.stops.owner = was_stopped;
                self.continue_processes();
                return Ok(reply.refuse(Refusal::invalid("failed to stop a process of the agent")).await?);
            }
            sleep(PERIOD).await;
        }
        Ok(reply.done().await?)
    }

    /// Stops all processes. Returns whether all are stopped.
    pub(super) fn suspend(&self) -> bool {
        let Some(shim) = &self.shim else { return true };
        let handle = shim.process.handle();
        handle.pause();
        handle.is_stopped()
    }

    fn continue_processes(&mut self) {
        if let Some(shim) = &self.shim {
            shim.process.handle().resume();
        }
        self.health_due = Instant::now() + self.launch.limits.health;
    }

    /// Continues after a pause, and delivers the answers and messages that arrived during it.
    pub(super) async fn resume(&mut self, reply: Option<Reply>) -> Result<(), DriverExit> {
        self.stops.owner = false;
        self.continue_processes();
        if let Some(state) = self.paused_state.take() {
            match self.resume_agent(&state).await? {
                Ok(true) => {}
                Ok(false) => {
                    // A stop has ended the start of the shim. The resume after it uses the state.
                    self.paused_state = Some(state);
                    if let Some(reply) = reply {
                        reply.done().await?;
                    }
                    return Ok(());
                }
                Err(why) => {
                    if let Some(reply) = reply {
                        reply.refuse(Refusal::invalid(why.clone())).await?;
                    }
                    return self.fail_turn("resume_failed", why).await;
                }
            }
        }
        if let Some(reply) = reply {
            reply.done().await?;
        }
        if let Some(turn) = &mut self.turn {
            turn.resume();
        }
        self.send_pending_resolutions().await?;
        self.deliver_messages().await
    }

    /// Ends a pause that the sidecar began on its own. That permits nothing: an agent that is held for its spend stays
    /// held (decision 32).
    pub(super) async fn resume_after_outage(&mut self, reply: Reply) -> Result<(), DriverExit> {
        self.stops.owner = false;
        if self.stops.any() {
            return Ok(reply.done().await?);
        }
        self.resume(Some(reply)).await
    }

    /// Gives a paused agent its state. A shim that ended or refuses it is started again once. Returns `false` if a stop has ended the
    /// start.
    async fn resume_agent(&mut self, state: &AgentState) -> Result<Result<bool, String>, DriverExit> {
        let body = state.to_resume(&self.brief(&self.config.objective), None);
        // The agent writes the text again that it was writing.
        self.events.drafts().discard();
        let mut has_restarted = self.shim.is_none();
        loop {
            match self.ensure_running().await? {
                Ok(true) => {}
                not_running => return Ok(not_running),
            }
            let Some(shim) = &self.shim else { return Ok(Err("the shim is not running".to_owned())) };
            let (client, body) = (shim.client.clone(), body.clone());
            let resumed = self.uninterrupted(async move { client.resume(&body).await }).await;
            match resumed.ok_or(DriverExit::Over)? {
                Ok(_) => return Ok(Ok(true)),
                Err(error) if has_restarted => return Ok(Err(error.to_string())),
                Err(error) => {
                    has_restarted = true;
                    let summary = format!("the shim did not resume and is started again: {error}");
                    self.events.emit(notice("shim_restarted", summary)).await?;
                    self.kill_shim().await;
                }
            }
        }
    }

    /// Ends the turn with its shim, so that no process of the turn is left. The next message starts the shim again with
    /// the state of the agent.
    pub(super) async fn interrupt(&mut self, reply: Reply) -> Result<(), DriverExit> {
        self.decisions.clear();
        self.own_requests.close();
        let has_turn = self.turn.is_some();
        if has_turn {
            // The turn may end regularly meanwhile, which counts (decision 17). No other one begins yet.
            self.end_shim().await?;
            self.decisions.clear();
        }
        (self.stops.owner, self.stops.spent, self.stops.unmetered) = (false, false, false);
        self.paused_state = None;
        self.continue_processes();
        // The agent never had it.
        self.withdrawn.extend(self.prompt.take());
        if let Some(turn) = self.turn.take() {
            let events = self.translator.end_turn("the turn was interrupted");
            self.emit(events).await?;
            let Turn { id, waiting } = turn;
            // Neither the message of a turn that the agent has not begun nor later ones follow it (decision 29).
            let (text, waiting) = waiting.map(|waiting| (waiting.text, waiting.reply)).unzip();
            let waiting = waiting.flatten();
            if waiting.is_none() {
                // The prompt of such a turn has no owner who could send it again.
                self.withdrawn.extend(text);
            }
            for reply in waiting.into_iter().chain(self.messages.take_all().into_iter().map(|held| held.1)) {
                reply.refuse(Refusal::turn_over(&id)).await?;
            }
        }
        if !has_turn {
            // Nor do messages that were to begin one.
            for (message, waiting) in self.messages.take_all() {
                refuse_interrupted(message, waiting).await?;
            }
        }
        reply.done().await?;
        self.next_turn().await
    }

    /// Asks the agent to end, keeps its state, and ends the process with everything that it started. A stopped agent is
    /// not asked, because it would continue.
    pub(super) async fn end_shim(&mut self) -> Result<(), DriverExit> {
        let is_stopped = self.stops.any();
        // No turn begins before the shim has ended.
        let was_paused = std::mem::replace(&mut self.stops.owner, true);
        let ended = self.ask_to_end(is_stopped).await;
        self.stops.owner = was_paused;
        ended?;
        self.save().await?;
        self.kill_shim().await;
        Ok(())
    }

    async fn ask_to_end(&mut self, is_stopped: bool) -> Result<(), DriverExit> {
        let Some(shim) = self.shim.as_ref().filter(|_| !is_stopped) else { return Ok(()) };
        let grace = self.launch.limits.grace;
        match shim.client.kill(grace).await {
            Ok(response) => {
                if let Some(state) = response.state.and_then(|state| AgentState::try_from(state).ok()) {
                    self.keep_state(&state).await?;
                    self.drain_before(&state).await?;
                }
            }
            Err(error) => {
                let error = self.events.redacted(&error.to_string());
                tracing::warn!(error, "the shim did not end its agent in time");
            }
        }
        Ok(())
    }

    pub(super) async fn kill_shim(&mut self) {
        // Nothing completes the text that the agent was writing.
        self.events.drafts().discard();
        self.skipped_draft = None;
        self.gap = None;
        self.replays.abort_all();
        if let Some(mut shim) = self.shim.take() {
            shim.process.kill().await;
            shim.process.end().await;
        }
    }

    /// Whether the process of the shim has ended. Waits a moment for an exit to show.
    pub(super) async fn has_ended(&mut self) -> bool {
        match &mut self.shim {
            Some(shim) => timeout(EXIT, shim.process.wait()).await.is_ok(),
            None => true,
        }
    }

    /// Handles a shim that ended unexpectedly, or that must be ended for `why`. Within a turn this ends the conversation;
    /// otherwise the next message or the resume starts it again.
    pub(super) async fn shim_ended(&mut self, why: Option<String>) -> Result<(), DriverExit> {
        if why.is_none() && !self.stops.any() {
            // Its last events may still be on their way, such as the completion.
            self.drain(None).await?;
        }
        let Some(shim) = &mut self.shim else { return Ok(()) };
        let how = match why {
            Some(why) => {
                tokio::select! {
                    // If it has ended, its last words say more.
                    _ = shim.process.wait() => format!("{why}; {}", shim.process.exit_reason().await),
                    () = sleep(EXIT) => why,
                }
            }
            None => shim.process.exit_reason().await,
        };
        self.save().await?;
        self.kill_shim().await;
        let is_at_work = self.turn.as_ref().is_some_and(Turn::has_begun);
        if is_at_work && self.paused_state.is_none() {
            let events = self.translator.end_turn("the agent ended");
            self.decisions.clear();
            self.own_requests.close();
            self.emit(events).await?;
            return Err(DriverExit::agent(format!("the shim ended unexpectedly: {how}")));
        }
        let summary = format!("the shim ended unexpectedly ({how}); it is started again when it is needed");
        Ok(self.events.emit(notice("agent_ended", summary)).await?)
    }
}
