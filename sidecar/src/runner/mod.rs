//! The session runner (S4 `SessionRunner`): keeps an agent working until every deliverable is passed or blocked. It
//! wraps any adapter, and is active in sessions with `adapterOptions.deliverables: {"required": true}`.
//!
//! To the control plane the whole loop is one turn (decision 39: a session of S4 is a turn). Within it, the agent takes
//! its own turns, called *iterations*. When an iteration ends and deliverables are open, the runner withholds the end
//! and sends the agent the next instruction. The control plane's auto-continue is the outer loop.
//!
//! | module | purpose |
//! |---|---|
//! | [`options`] | the session's options |
//! | [`instruction`] | the instruction that begins an iteration |
//! | [`state`] | state of the loop, without I/O: which events pass, and when the loop ends |
//! | [`event_filter`] | intercepts the adapter's events and commands |
//! | [`file_reports`] | stores files that the agent writes as artifacts, if the brief asks for it |

mod event_filter;
mod file_reports;
pub mod instruction;
pub mod options;
pub mod state;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_domain::CommandId;
use pilothouse_domain::value::Capabilities;
use pilothouse_wire::command::{AgentSessionConfig, Begin};
use tokio::sync::mpsc;
use tracing::warn;

use crate::adapter::{Adapter, AdapterError, AgentCommand, AgentContext, Refusal};
use crate::deliverables::Deliverables;
use crate::own_tools::report_artifact;
use crate::script::Script;
use event_filter::RunnerEventFilter;
use file_reports::FileReports;
use options::RunnerOptions;

/// An adapter wrapped in the runner.
pub struct Runner {
    inner: Box<dyn Adapter>,
}

impl Runner {
    pub fn wrap(inner: Box<dyn Adapter>) -> Self {
        Self { inner }
    }
}

enum RunnerEvent {
    Command(Option<AgentCommand>),
    Lost(CommandId),
    Due,
    Ended(Result<(), AdapterError>),
}

#[async_trait]
impl Adapter for Runner {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn run(self: Box<Self>, mut context: AgentContext) -> Result<(), AdapterError> {
        // A script starts no processes.
        if self.inner.name() != Script::NAME
            && let Err(why) = context.processes.check()
        {
            if let Some(AgentCommand::Begin(_, reply)) = context.commands.recv().await {
                reply.refuse(Refusal::invalid(why.clone())).await?;
            }
            return Err(AdapterError::Configuration(why));
        }
        let (forward, commands) = mpsc::unbounded_channel();
        let folder = Path::new(&context.launch.request.working_directory);
        let deliverables = Deliverables::new(folder, context.events.clone(), &context.processes)
            .map_err(|e| AdapterError::Agent(format!("failed to track its deliverables: {e}")))?;
        let (lost, mut losses) = mpsc::unbounded_channel();
        let (events, weak) = (context.events.clone(), forward.downgrade());
        let can_pause = self.inner.capabilities().pause;
        let reports = FileReports::new(self.inner.name(), folder, report_artifact(&context)?);
        let event_filter =
            Arc::new(RunnerEventFilter::new(can_pause, events, (deliverables, reports), weak, lost));
        let mut outer = std::mem::replace(&mut context.commands, commands);
        context.events = context.events.with_filter(Arc::clone(&event_filter) as _);
        let inner = self.inner.run(context);
        tokio::pin!(inner);
        // Dropping this sender closes the agent's end of the channel, which stops the agent.
        let mut forward = Some(forward);
        loop {
            let event = tokio::select! {
                biased;
                ended = &mut inner => RunnerEvent::Ended(ended),
                command = outer.recv(), if forward.is_some() => RunnerEvent::Command(command),
                Some(id) = losses.recv() => RunnerEvent::Lost(id),
                () = event_filter.due() => RunnerEvent::Due,
            };
            match event {
                RunnerEvent::Ended(ended) => return ended,
                RunnerEvent::Command(None) => forward = None,
                RunnerEvent::Command(Some(command)) => {
                    if let (Some(forward), Some(command)) = (&forward, event_filter.command(command).await?) {
                        let resumed = matches!(command, AgentCommand::Resume(_));
                        // If the agent has just ended, dropping the command refuses it.
                        let _ = forward.send(command);
                        if resumed {
                            event_filter.resumed().await?;
                        }
                    }
                }
                RunnerEvent::Lost(id) => event_filter.lost(id).await?,
                RunnerEvent::Due => event_filter.send_pending_instruction().await?,
            }
        }
    }
}

/// The wrapped adapter does not know the runner's options.
fn take_options(config: &mut AgentSessionConfig) -> Result<Option<RunnerOptions>, Refusal> {
    RunnerOptions::take(&mut config.adapter_options).map_err(|e| {
        warn!(error = %e, "invalid options for the runner");
        Refusal::invalid(e.to_string())
    })
}

/// Appends the first iteration's instruction to the prompt that begins the turn.
fn instruct(begin: &mut Begin, instruction: Option<String>) {
    if let (Some(prompt), Some(instruction)) = (&mut begin.prompt, instruction) {
        *prompt = format!("{prompt}\n\n{instruction}");
    }
}

#[cfg(test)]
mod tests;
