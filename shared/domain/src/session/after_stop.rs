//! Activity of an agent that had confirmed its stop (decision 15).

use serde::{Deserialize, Serialize};

use super::{AgentSession, AgentSessionStatus, LifecycleCommand};
use crate::{DomainContext, Events, SessionEvent};

/// How the control plane reacted to a stopped agent that acted (decision 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AfterStop {
    /// The command was sent once more.
    Reasserted,
    /// The process is being killed.
    Killed,
}

impl AgentSession {
    /// Handles activity of a stopped agent (decision 15): the command is sent once more, then the process is killed. While a brake
    /// holds the session, the process is killed at once (decision 72).
    pub(crate) fn record_activity_after_stop(&mut self, what: &str, ctx: &mut DomainContext<'_>) -> Events {
        let kind = match self.status() {
            AgentSessionStatus::Interrupted => LifecycleCommand::Interrupt,
            AgentSessionStatus::Paused => LifecycleCommand::Pause,
            _ => LifecycleCommand::Stop,
        };
        match self.run_state.after_stop {
            // A brake's confirmation must hold, so the process is not asked again.
            None if self.is_held() => {
                self.run_state.after_stop = Some(AfterStop::Killed);
                let mut events = vec![SessionEvent::AfterStopActivity { what: what.to_owned() }];
                events.extend(self.enforce_stop(ctx));
                events
            }
            None => {
                self.run_state.after_stop = Some(AfterStop::Reasserted);
                let mut events = vec![SessionEvent::AfterStopActivity { what: what.to_owned() }];
                events.extend(
                    self.run_state
                        .command(ctx)
                        .map(|command| SessionEvent::CommandReissued { kind, command }),
                );
                events
            }
            Some(AfterStop::Reasserted) => {
                self.run_state.after_stop = Some(AfterStop::Killed);
                let mut events = vec![SessionEvent::AfterStopActivity { what: what.to_owned() }];
                events.extend(self.order_kill(false, ctx));
                events
            }
            Some(AfterStop::Killed) => Vec::new(),
        }
    }
}
