//! Commands of the user (S1 7, decision 41).

use tokio::sync::mpsc;

use super::{AgentSession, SessionError};
use crate::bash::UserCommand;
use crate::event::SessionEvent;
use crate::message::{AgentMessage, BashExecution, now};

impl AgentSession {
    /// Stops the processes of background commands until [`Self::resume_commands`]. Returns whether all are stopped.
    pub async fn pause_commands(&self) -> bool {
        match &self.shared.config.bash {
            Some(bash) => bash.background().pause().await,
            None => true,
        }
    }

    /// Ends all background commands.
    pub async fn stop_commands(&self) {
        if let Some(bash) = &self.shared.config.bash {
            bash.background().stop_all().await;
        }
    }

    pub fn resume_commands(&self) {
        if let Some(bash) = &self.shared.config.bash {
            bash.background().resume();
        }
    }

    /// Runs a command of the user, `!command` or `!!command`, even while the agent is working. Its output enters the
    /// conversation after the current turn; output of `!!` is recorded but hidden from the model. Dropping the future
    /// kills the command and records nothing.
    pub async fn execute_bash(&self, input: &str) -> Result<BashExecution, SessionError> {
        let command = UserCommand::parse(input);
        let command =
            command.ok_or_else(|| SessionError::Bash("a command begins with `!` or `!!`".into()))?;
        let config = &self.shared.config;
        let runner =
            config.bash.as_ref().ok_or_else(|| SessionError::Bash("this agent has no shell".into()))?;
        if self.shared.state().closed {
            return Err(SessionError::Closed);
        }
        let line = match &config.shell_prefix {
            Some(prefix) => format!("{prefix}\n{}", command.command),
            None => command.command.clone(),
        };
        let (progress, mut chunks) = mpsc::unbounded_channel();
        let cancelled = self.shared.closing.clone();
        let running = runner.run(&line, None, &cancelled, &progress);
        tokio::pin!(running);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(chunk) = chunks.recv() => self.shared.events.emit(SessionEvent::BashUpdate { chunk }),
                outcome = &mut running => break outcome,
            }
        };
        while let Ok(chunk) = chunks.try_recv() {
            self.shared.events.emit(SessionEvent::BashUpdate { chunk });
        }
        let outcome =
            outcome.map_err(|error| SessionError::Bash(format!("the command could not be run: {error}")))?;
        let execution = outcome.into_execution(command, now());
        let mut state = self.shared.state();
        state.bash.push_back(AgentMessage::BashExecution(execution.clone()));
        if state.run.is_none() {
            state.flush_bash(&self.shared.events)?;
        }
        Ok(execution)
    }
}
