//! Follows a session on the terminal or as JSON lines, until it reaches a given state.

use clap::ValueEnum;
use pilothouse_api::sessions::SessionView;
use pilothouse_api::stream::{StreamBody, StreamMessage};
use pilothouse_client::WatchEvent;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::value::ActivityItemType;

use super::lifecycle::exit_of;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::{next_steps, outcome};
use crate::output::sessions::short_id;
use crate::output::text::prefixed;
use crate::output::{Style, activity, logs, requests};

/// When a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    /// The session is over: Completed, Failed, Cancelled or out of context
    Terminal,
    /// Also when it is Idle, Interrupted or Paused
    Idle,
    /// Also when it waits for an answer or a decision
    Attention,
}

impl Until {
    /// Whether a watch ends at this status.
    pub const fn is_reached_at(self, status: AgentSessionStatus) -> bool {
        use AgentSessionStatus as S;
        match self {
            Self::Terminal => status.is_terminal(),
            Self::Idle => status.is_terminal() || matches!(status, S::Idle | S::Interrupted | S::Paused),
            Self::Attention => Self::Idle.is_reached_at(status) || status.is_waiting(),
        }
    }
}

/// The start and the end of a watch.
#[derive(Debug)]
pub(super) struct FollowOptions {
    pub(super) after: Option<String>,
    pub(super) until: Until,
    pub(super) logs: bool,
}

/// Detects the end of a watch in the stream. Replayed messages are in the past, so only the status after `CaughtUp` counts.
#[derive(Debug)]
struct Progress {
    until: Until,
    status: AgentSessionStatus,
    live: bool,
}

impl Progress {
    /// Applies a message. Returns whether the watch ends with it.
    const fn is_over_with(&mut self, body: &StreamBody) -> bool {
        match body {
            StreamBody::Status(view) => self.status = view.status,
            StreamBody::CaughtUp {} => self.live = true,
            _ => {}
        }
        self.live && self.until.is_reached_at(self.status)
    }
}

/// Follows a session until the end that `options` name. Its status becomes the exit code.
pub(super) async fn follow(
    ctx: &Context,
    session: &SessionView,
    options: FollowOptions,
) -> Result<Exit, CliError> {
    let mut progress = Progress { until: options.until, status: session.status, live: false };
    let mut printer = Printer { ctx, session, logs: options.logs, last_usage: String::new() };
    let mut following = ctx.client.watch(session.id, options.after);
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    loop {
        let next = tokio::select! {
            next = following.next() => next?,
            _ = &mut stop => {
                if !ctx.json {
                    let after = following.cursor().map(|cursor| format!(" --after {cursor}")).unwrap_or_default();
                    let id = short_id(session.id);
                    write(&format!("\nThe session continues. To watch the rest: pilothouse watch {id}{after}\n"))?;
                }
                return Ok(Exit::Stopped);
            }
        };
        match next {
            WatchEvent::Disconnected { reason, retry_in } if !ctx.json => {
                let text = format!("{reason}; retrying in {} ms", retry_in.as_millis());
                eprintln!("{}", Style::for_stream(&std::io::stderr()).dim(&text));
            }
            WatchEvent::Disconnected { .. } => {}
            WatchEvent::Message(message) => {
                printer.print(&message)?;
                let over = progress.is_over_with(&message.body);
                if let StreamBody::Status(view) = &message.body
                    && progress.live
                    && view.status.is_waiting()
                {
                    printer.print_requests().await?;
                }
                if over {
                    break;
                }
            }
        }
    }
    printer.print_end(progress.status).await?;
    Ok(exit_of(progress.status))
}

struct Printer<'a> {
    ctx: &'a Context,
    session: &'a SessionView,
    logs: bool,
    last_usage: String,
}

impl Printer<'_> {
    fn print(&mut self, message: &StreamMessage) -> Result<(), CliError> {
        if self.ctx.json {
            let unwanted = matches!(message.body, StreamBody::Log(_)) && !self.logs;
            return if unwanted { Ok(()) } else { write_json(message) };
        }
        let style = self.ctx.style;
        let text = match &message.body {
            // Status and metrics have separate messages with more detail.
            StreamBody::Activity(view)
                if matches!(
                    view.item.kind,
                    ActivityItemType::StatusChange | ActivityItemType::MetricsUpdate
                ) =>
            {
                return Ok(());
            }
            StreamBody::Activity(view) => activity::activity(view, style, self.session.created_at),
            StreamBody::Log(chunk) if self.logs => logs::chunk(chunk, style),
            StreamBody::Status(view) => activity::status(view, style),
            StreamBody::Metrics(view) => {
                let text = activity::usage(view, style);
                if text == self.last_usage {
                    return Ok(());
                }
                self.last_usage.clone_from(&text);
                text
            }
            StreamBody::Queue(change) => activity::queue(change, style),
            StreamBody::Log(_) | StreamBody::Draft(_) | StreamBody::CaughtUp {} => return Ok(()),
        };
        write(&text)
    }

    /// Prints the session at the end of the watch, with the next commands.
    async fn print_end(&self, status: AgentSessionStatus) -> Result<(), CliError> {
        if self.ctx.json {
            return Ok(());
        }
        let Some(session) = self.current().await? else {
            return write(&format!("\n{} is {status}\n", short_id(self.session.id)));
        };
        let steps = prefixed(&next_steps(&session).join("\n"), "  ");
        write(&format!("\n{}{}", outcome(&session, self.ctx.style), self.ctx.style.dim(&steps)))
    }

    /// The current session. `None` if the server does not respond: the stream has already said what the watch waited for, so a
    /// server that ends meanwhile must not change the exit code.
    async fn current(&self) -> Result<Option<SessionView>, CliError> {
        match self.ctx.client.session(self.session.id).await {
            Ok(session) => Ok(Some(session)),
            Err(error) if error.is_transient() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Prints open requests, with the commands that answer them.
    async fn print_requests(&self) -> Result<(), CliError> {
        if self.ctx.json {
            return Ok(());
        }
        let id = short_id(self.session.id);
        let Some(session) = self.current().await? else {
            return write(&format!("To see what it waits for: pilothouse show {id}\n"));
        };
        for request in &session.pending_requests {
            write(&requests::request(request, &id, self.ctx.style, now()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::stream::{StatusView, StreamBody};
    use pilothouse_domain::session::AgentSessionStatus as S;

    use super::{Progress, Until};

    fn status(status: S) -> StreamBody {
        StreamBody::Status(StatusView { status, event: "e".into() })
    }

    #[test]
    fn replayed_messages_do_not_end_a_watch() {
        let mut progress = Progress { until: Until::Idle, status: S::Running, live: false };
        let replayed = [status(S::Running), status(S::Idle), status(S::Running), StreamBody::CaughtUp {}];
        assert!(replayed.iter().all(|body| !progress.is_over_with(body)));
        assert!(progress.is_over_with(&status(S::Idle)));
    }

    #[test]
    fn watch_of_an_ended_session_ends_after_the_replay() {
        let mut progress = Progress { until: Until::Terminal, status: S::Failed, live: false };
        assert!(!progress.is_over_with(&status(S::Failed)));
        assert!(progress.is_over_with(&StreamBody::CaughtUp {}));
    }

    #[test]
    fn watch_stops_at_the_requested_point() {
        let reached = |until: Until| S::ALL.into_iter().filter(|s| until.is_reached_at(*s)).count();
        assert_eq!([reached(Until::Terminal), reached(Until::Idle), reached(Until::Attention)], [4, 7, 9]);
        assert!(!Until::Attention.is_reached_at(S::Queued) && !Until::Attention.is_reached_at(S::Pausing));
    }
}
