//! What all handles of a session and its run have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::{Events, State};
use super::{SessionConfig, SessionError};
use crate::event::{AgentOutcome, SessionEvent};
use crate::message::{AgentMessage, UserContent, UserMessage};
use crate::model::ToolSpec;
use crate::tool::SharedTool;

pub(crate) struct Shared {
    pub(crate) config: SessionConfig,
    pub(crate) events: Events,
    pub(super) tools: Vec<SharedTool>,
    pub(super) state: Mutex<State>,
}

impl Shared {
    /// Held only for moments, and never over an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<SharedTool> {
        self.tools.iter().find(|tool| tool.spec().name == name).map(Arc::clone)
    }

    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// Ends a run and tells of it, unless something came that it goes on with: then there is no outcome yet. Both is
    /// decided under one lock, so that nothing that comes is left waiting for nobody.
    pub(crate) fn end_run(&self, outcome: AgentOutcome) -> Option<AgentOutcome> {
        let mut state = self.state();
        let kept = state
            .repair(&self.events)
            .and_then(|()| state.flush_bash(&self.events))
            .and_then(|()| state.keep_meters());
        let outcome = match (kept, outcome) {
            (Err(error), AgentOutcome::Completed) => AgentOutcome::Failed(error.to_string()),
            (Ok(()), AgentOutcome::Completed) if state.waits() && !state.closed => return None,
            (_, outcome) => outcome,
        };
        for request in state.compactions.drain(..) {
            // Whoever asked may have gone.
            let _ =
                request.reply.send(Err(SessionError::Compaction("the agent was stopped before it".into())));
        }
        let run = state.run.take();
        self.events.emit(SessionEvent::AgentEnd { outcome: outcome.clone() });
        drop(state);
        if let Some(run) = run {
            run.done.cancel();
        }
        Some(outcome)
    }
}

/// Of two tools with the same name the first counts (ruling 38).
pub(super) fn distinct(tools: &[SharedTool]) -> Vec<SharedTool> {
    let mut kept: Vec<SharedTool> = Vec::with_capacity(tools.len());
    for tool in tools {
        if !kept.iter().any(|known| known.spec().name == tool.spec().name) {
            kept.push(Arc::clone(tool));
        }
    }
    kept
}

/// What the agent is told.
pub(crate) fn user_message(text: &str, images: Vec<UserContent>) -> AgentMessage {
    let text = UserContent::Text { text: text.to_owned() };
    AgentMessage::User(UserMessage {
        content: std::iter::once(text).chain(images).collect(),
        timestamp: super::state::now(),
    })
}
