//! The built-in tools: read, write, edit, bash with its background commands, list, find, grep.

mod bash;
mod diff;
mod edit;
mod find;
mod grep;
mod list;
mod read;
mod search;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{SharedTool, ToolContext, ToolOutput};
use crate::bash::BashRunner;
use crate::model::ToolSpec;
use crate::workspace::Workspace;

pub fn builtin_tools(workspace: &Arc<Workspace>, bash: &BashRunner) -> Vec<SharedTool> {
    vec![
        Arc::new(read::Read::new(workspace.clone())),
        Arc::new(write::Write::new(workspace.clone())),
        Arc::new(edit::Edit::new(workspace.clone())),
        Arc::new(bash::Bash::new(bash.clone())),
        Arc::new(bash::BashOutput::new(bash.background().clone())),
        Arc::new(bash::BashStop::new(bash.background().clone())),
        Arc::new(list::List::new(workspace.clone())),
        Arc::new(find::Find::new(workspace.clone())),
        Arc::new(grep::Grep::new(workspace.clone())),
    ]
}

/// The error is a sentence.
type Answer = Result<ToolOutput, String>;

fn spec(name: &str, description: &str, input_schema: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema }
}

/// Runs blocking work outside the runtime's threads. A cancellation notifies the work and does not wait for it.
async fn blocking<A: DeserializeOwned + Send + 'static>(
    arguments: Value,
    context: &ToolContext,
    work: impl FnOnce(A, &CancellationToken) -> Answer + Send + 'static,
) -> ToolOutput {
    let arguments = match serde_json::from_value(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
    };
    let cancelled = context.cancelled.clone();
    let worker = tokio::task::spawn_blocking(move || work(arguments, &cancelled));
    tokio::select! {
        biased;
        () = context.cancelled.cancelled() => ToolOutput::error(STOPPED),
        done = worker => match done {
            Ok(Ok(output)) => output,
            Ok(Err(sentence)) => ToolOutput::error(sentence),
            Err(error) => ToolOutput::error(format!("the tool failed: {error}")),
        },
    }
}

const STOPPED: &str = "The call was stopped.";
