//! The session runner (S4 `SessionRunner`): goes on until every deliverable is passed or blocked. It stands around any
//! adapter, and works only where a session asks for it: `adapterOptions.deliverables: {"required": true}`.
//!
//! To the control plane the whole loop is one turn (ruling 39: a session of S4 is a turn). Within it the agent takes turns of
//! its own, *iterations*: when one ends and deliverables are open, the runner keeps its end to itself and sends the agent the
//! next instruction. Auto-continue of the control plane is the loop around that.
//!
//! | module | what it is |
//! |---|---|
//! | [`options`] | what a session asks for |
//! | [`instruction`] | what the agent is told at the beginning of an iteration |
//! | [`course`] | the state of the loop, without I/O: what is told, what is kept, and when it ends |
//! | [`gate`] | stands in the way of what the adapter tells |

pub mod course;
mod gate;
pub mod instruction;
pub mod options;

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
use gate::RunnerGate;
use options::RunnerOptions;

/// An adapter inside the runner.
pub struct Runner {
    inner: Box<dyn Adapter>,
}

impl Runner {
    /// Puts `inner` into the runner.
    pub fn around(inner: Box<dyn Adapter>) -> Self {
        Self { inner }
    }
}

/// What happened next.
enum Happened {
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
        let (forward, commands) = mpsc::unbounded_channel();
        let folder = Path::new(&context.launch.request.working_directory);
        let deliverables = Deliverables::new(folder, context.events.clone(), context.processes.user())
            .map_err(|e| AdapterError::Agent(format!("its deliverables cannot be looked after: {e}")))?;
        let (lost, mut losses) = mpsc::unbounded_channel();
        let (events, weak) = (context.events.clone(), forward.downgrade());
        let can_pause = self.inner.capabilities().pause;
        let gate = Arc::new(RunnerGate::new(can_pause, events, deliverables, weak, lost));
        let mut outer = std::mem::replace(&mut context.commands, commands);
        context.events = context.events.behind(Arc::clone(&gate) as _);
        let inner = self.inner.run(context);
        tokio::pin!(inner);
        // The agent's own end of the channel closes with this one: that is how it is stopped.
        let mut forward = Some(forward);
        loop {
            let happened = tokio::select! {
                biased;
                ended = &mut inner => Happened::Ended(ended),
                command = outer.recv(), if forward.is_some() => Happened::Command(command),
                Some(id) = losses.recv() => Happened::Lost(id),
                () = gate.due() => Happened::Due,
            };
            match happened {
                Happened::Ended(ended) => return ended,
                Happened::Command(None) => forward = None,
                Happened::Command(Some(command)) => {
                    if let (Some(forward), Some(command)) = (&forward, gate.command(command).await?) {
                        let resumed = matches!(command, AgentCommand::Resume(_));
                        // An agent that has just ended drops it, which refuses it.
                        let _ = forward.send(command);
                        if resumed {
                            gate.resumed().await?;
                        }
                    }
                }
                Happened::Lost(id) => gate.lost(id).await?,
                Happened::Due => gate.go_on_now().await?,
            }
        }
    }
}

/// Takes the runner's options out of a configuration: they are no concern of the adapter inside.
fn take_options(config: &mut AgentSessionConfig) -> Result<Option<RunnerOptions>, Refusal> {
    RunnerOptions::take(&mut config.adapter_options).map_err(|e| {
        warn!(error = %e, "the options of the runner are not valid");
        Refusal::invalid(e.to_string())
    })
}

/// Adds what the first iteration is told to what opens the turn.
fn instruct(begin: &mut Begin, instruction: Option<String>) {
    if let (Some(prompt), Some(instruction)) = (&mut begin.prompt, instruction) {
        *prompt = format!("{prompt}\n\n{instruction}");
    }
}

#[cfg(test)]
mod tests;
