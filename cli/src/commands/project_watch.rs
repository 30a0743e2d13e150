//! `pilothouse project watch`.

use clap::Args;
use pilothouse_api::project_stream::{ProjectMessageBody, StateSync};
use pilothouse_client::ProjectWatchEvent;

use super::project_lookup::resolve_project;
use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Style;
use crate::output::project_stream::{Names, message};

/// Watch a project live. Reconnects automatically, and misses nothing.
///
/// Begins with the state of the project. Ctrl-C ends the watch, never the agents.
#[derive(Debug, Args)]
pub struct WatchProject {
    /// The project: its name or its id
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// Continue after this cursor (of an earlier watch with `--json`)
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// Include events for debugging: usage, logs and thinking
    #[arg(long)]
    pub debug: bool,
}

impl WatchProject {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = resolve_project(ctx, &self.project).await?;
        let mut names = Names::default();
        if self.after.is_some() && !ctx.json {
            names.read(&ctx.client.project_state(id).await?.state);
        }
        let mut watch = ctx.client.watch_project(id, self.after);
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        loop {
            let next = tokio::select! {
                next = watch.next() => next?,
                _ = &mut stop => return Ok(Exit::Stopped),
            };
            match next {
                ProjectWatchEvent::Disconnected { reason, retry_in } if !ctx.json => {
                    let text = format!("{reason}; retrying in {} ms", retry_in.as_millis());
                    eprintln!("{}", Style::for_stream(&std::io::stderr()).dim(&text));
                }
                ProjectWatchEvent::Disconnected { .. } => {}
                ProjectWatchEvent::Message(received) => {
                    let is_debug = matches!(&received.body, ProjectMessageBody::Event(event) if event.workspace.is_none());
                    if is_debug && !self.debug {
                        continue;
                    }
                    if ctx.json {
                        write_json(&received)?;
                        continue;
                    }
                    if let ProjectMessageBody::StateSync(state) = &received.body
                        && let StateSync::Whole(state) = &**state
                    {
                        names.read(state);
                    }
                    write(&message(&received.body, &names, ctx.style))?;
                }
            }
        }
    }
}
