//! What all handles of a session and its run have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::state::{Events, State};
use super::{SessionConfig, SessionError};
use crate::conversation::estimate_tools;
use crate::event::{AgentOutcome, SessionEvent};
use crate::message::{AgentMessage, UserContent, UserMessage};
use crate::model::ToolSpec;
use crate::resources::{Expansion, ResourceLoader, Resources};
use crate::tool::SharedTool;

pub(crate) struct Shared {
    pub(crate) config: SessionConfig,
    pub(crate) events: Events,
    /// The system prompt, with the skills that there are.
    pub(crate) system: String,
    resources: Arc<Resources>,
    tools: Vec<SharedTool>,
    /// The tools as models get to see them.
    pub(crate) specs: Arc<[ToolSpec]>,
    /// An estimate of what they take in a request.
    pub(crate) tools_tokens: u64,
    pub(super) state: Mutex<State>,
    /// Told when the session is closed: commands of the user end then.
    pub(super) closing: CancellationToken,
}

impl Shared {
    /// Reads what extensions bring along.
    pub(super) fn new(config: SessionConfig, events: Events, state: State) -> Self {
        let extensions = &config.extensions;
        let resources = with_more(&config.resources, &extensions.resources());
        let tools = distinct(config.tools.iter().cloned().chain(extensions.tools()));
        let specs: Arc<[ToolSpec]> = tools.iter().map(|tool| tool.spec().clone()).collect();
        let tools_tokens = estimate_tools(&specs);
        let sections = [config.system_prompt.clone(), resources.skills_section()];
        let system = sections.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n");
        let closing = CancellationToken::new();
        let state = Mutex::new(state);
        Self { config, events, system, resources, tools, specs, tools_tokens, state, closing }
    }

    /// The text that the agent gets when it is told this (S1 6.3).
    pub(super) fn expanded(&self, text: &str) -> String {
        match self.resources.expand(text) {
            Expansion::Unchanged => text.to_owned(),
            Expansion::Skill { text, .. } | Expansion::Template { text, .. } => text,
        }
    }

    /// Held only for moments, and never over an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<SharedTool> {
        self.tools.iter().find(|tool| tool.spec().name == name).map(Arc::clone)
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

/// What the loader finds comes after what is there.
fn with_more(resources: &Arc<Resources>, loader: &ResourceLoader) -> Arc<Resources> {
    if *loader == ResourceLoader::default() {
        return Arc::clone(resources);
    }
    let mut all = Resources::clone(resources);
    let more = loader.load();
    for skill in more.skills() {
        all.add_skill(skill.clone());
    }
    for template in more.templates() {
        all.add_template(template.clone());
    }
    for notice in all.notices().iter().chain(more.notices()) {
        tracing::warn!("{notice}");
    }
    Arc::new(all)
}

/// Of two tools with the same name the first counts (ruling 38).
fn distinct(tools: impl Iterator<Item = SharedTool>) -> Vec<SharedTool> {
    let mut kept: Vec<SharedTool> = Vec::new();
    for tool in tools {
        if !kept.iter().any(|known| known.spec().name == tool.spec().name) {
            kept.push(tool);
        }
    }
    kept
}

/// Another text in a message of the user; its images stay.
pub(crate) fn with_text(message: AgentMessage, text: &str) -> AgentMessage {
    let AgentMessage::User(user) = message else { return message };
    let images = user.content.into_iter().filter(|block| matches!(block, UserContent::Image { .. }));
    user_message(text, images.collect())
}

/// What the agent is told.
pub(crate) fn user_message(text: &str, images: Vec<UserContent>) -> AgentMessage {
    let text = UserContent::Text { text: text.to_owned() };
    AgentMessage::User(UserMessage {
        content: std::iter::once(text).chain(images).collect(),
        timestamp: super::state::now(),
    })
}
