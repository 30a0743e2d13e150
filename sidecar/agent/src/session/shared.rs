//! State that a session's handles and its run share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::state::State;
use super::{SessionConfig, SessionError};
use crate::conversation::estimate_tools;
use crate::event::{AgentOutcome, Events, SessionEvent};
use crate::model::ToolSpec;
use crate::resources::{Expansion, ResourceLoader, Resources};
use crate::tool::SharedTool;

pub(crate) struct Shared {
    pub(crate) config: SessionConfig,
    pub(crate) events: Events,
    /// Includes the list of skills.
    pub(crate) system: String,
    resources: Arc<Resources>,
    tools: Vec<SharedTool>,
    pub(crate) specs: Arc<[ToolSpec]>,
    /// Estimated tokens of the tools in a request.
    pub(crate) tools_tokens: u64,
    pub(super) state: Mutex<State>,
    /// Cancelled when the session is closed. Ends the user's commands.
    pub(super) closing: CancellationToken,
}

impl Shared {
    /// Adds the tools and resources of the extensions.
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

    /// Expands skills and templates in a text for the agent (S1 6.3).
    pub(super) fn expanded(&self, text: &str) -> String {
        match self.resources.expand(text) {
            Expansion::Unchanged => text.to_owned(),
            Expansion::Skill { text, .. } | Expansion::Template { text, .. } => text,
        }
    }

    /// Never held across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<SharedTool> {
        self.tools.iter().find(|tool| tool.spec().name == name).map(Arc::clone)
    }

    /// Ends a run and emits its outcome. If new work has arrived, returns `None` and the run continues. One lock covers
    /// both, so that no new work is lost.
    pub(crate) fn end_run(&self, outcome: AgentOutcome) -> Option<AgentOutcome> {
        let mut state = self.state();
        let kept = state
            .repair(&self.events)
            .and_then(|()| state.flush_bash(&self.events))
            .and_then(|()| state.store_meters());
        let outcome = match (kept, outcome) {
            (Err(error), AgentOutcome::Completed) => AgentOutcome::Failed(error.to_string()),
            (Ok(()), AgentOutcome::Completed) if state.waits() && !state.closed => return None,
            (_, outcome) => outcome,
        };
        for request in state.compactions.drain(..) {
            // The caller may have ended.
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

/// The existing resources take precedence.
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

/// Removes tools whose name occurred before (decision 38).
fn distinct(tools: impl Iterator<Item = SharedTool>) -> Vec<SharedTool> {
    let mut kept: Vec<SharedTool> = Vec::new();
    for tool in tools {
        if !kept.iter().any(|known| known.spec().name == tool.spec().name) {
            kept.push(tool);
        }
    }
    kept
}
