//! `pilothouse inbox --interactive`: shows one decision at a time, and takes single keys as answers.
//!
//! | module | content |
//! |---|---|
//! | `keys` | what the keys do |
//! | `resolving` | the resolution of a key |
//! | `terminal` | the terminal in raw mode, keys, lines, the editor |
//! | `waiting` | the decisions that wait, and the one that is shown |

mod keys;
mod resolving;
mod terminal;
mod waiting;

use pilothouse_client::inputs::{PageQuery, ResolveDecision};
use pilothouse_client::{ApiError, InboxEvent, RecordFilter};
use termion::event::Key;
use tokio::signal::unix::{SignalKind, signal};

use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::text::count;
use crate::output::{activity, interactive as view};
use keys::Action;
use resolving::NoResolution;
use terminal::Terminal;
use waiting::WaitingDecisions;

/// Lines of a session that are shown.
const LAST_LINES: u32 = 20;

/// Runs until the person quits, or a signal ends the program.
pub(super) async fn run(ctx: &Context) -> Result<Exit, CliError> {
    if ctx.json || !Terminal::is_available() {
        return Err(CliError::Usage(
            "the interactive inbox needs a terminal; `pilothouse inbox` lists what waits, and `pilothouse resolve` decides"
                .into(),
        ));
    }
    let mut inbox = ctx.client.watch_inbox();
    // The first event arrives before the terminal changes, so that a wrong address or token is an ordinary error.
    let mut waiting = WaitingDecisions::default();
    take(&mut waiting, inbox.next().await?);
    let mut terminate = signal(SignalKind::terminate()).map_err(CliError::Output)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(CliError::Output)?;
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    let mut terminal = Terminal::enter().map_err(CliError::Output)?;
    let mut screen = Screen::default();
    let mut decided = 0;
    loop {
        let text = view::screen(&waiting.view(), screen.extra.as_deref(), ctx.style, now());
        terminal.draw(&text, &mut screen.top).map_err(CliError::Output)?;
        let key = tokio::select! {
            event = inbox.next() => {
                take(&mut waiting, event?);
                continue;
            }
            key = terminal.key() => key.map_err(CliError::Output)?,
            _ = &mut stop => None,
            _ = terminate.recv() => None,
            _ = hang_up.recv() => None,
        };
        let Some(action) = key.map(|key| screen.action(key)) else { break };
        match action {
            Action::Quit => break,
            Action::None => {}
            Action::Next => waiting.next(),
            Action::Previous => waiting.previous(),
            Action::Help => screen.extra = Some(view::HELP.to_owned()),
            Action::LastLines => screen.extra = last_lines(ctx, &waiting).await,
            Action::Answer(answer) => {
                decided += usize::from(resolve(ctx, &mut terminal, &mut waiting, answer).await?);
            }
        }
        if matches!(action, Action::Next | Action::Previous) {
            screen.top = 0;
        }
    }
    drop(terminal);
    crate::context::write(&format!("You decided {}.\n", count(decided, "request")))?;
    Ok(Exit::Done)
}

/// What the screen shows besides the decision.
#[derive(Debug, Default)]
struct Screen {
    /// The first line that is shown.
    top: usize,
    /// A text in place of the decision, until the next key.
    extra: Option<String>,
}

impl Screen {
    fn action(&mut self, key: Key) -> Action {
        match key {
            Key::Down => self.top += 1,
            Key::Up => self.top = self.top.saturating_sub(1),
            _ if self.extra.take().is_some() => self.top = 0,
            _ => return Action::of(key),
        }
        Action::None
    }
}

fn take(waiting: &mut WaitingDecisions, event: InboxEvent) {
    match event {
        InboxEvent::Listed(all) => waiting.listed(all),
        InboxEvent::Decision(decision) => waiting.changed(*decision, now()),
        InboxEvent::Disconnected { reason, .. } => waiting.announce(format!("{reason}; connecting again")),
    }
}

/// Resolves the decision that is shown. Returns whether it did.
async fn resolve(
    ctx: &Context,
    terminal: &mut Terminal,
    waiting: &mut WaitingDecisions,
    answer: keys::Answer,
) -> Result<bool, CliError> {
    let shown = match waiting.answerable() {
        Ok(shown) => shown.clone(),
        Err(why) => {
            waiting.announce(why);
            return Ok(false);
        }
    };
    let resolution = match resolving::resolution(&shown, answer, terminal).await {
        Ok(resolution) => resolution,
        Err(NoResolution::Because(why)) => {
            waiting.announce(why);
            return Ok(false);
        }
        Err(NoResolution::Terminal(error)) => return Err(CliError::Output(error)),
    };
    match send(ctx, waiting, &shown, &resolution).await {
        Ok(sent) => Ok(sent),
        Err(error) if error.is_transient() || matches!(error, ApiError::Problem(_)) => {
            waiting.announce(format!("It was not done: {error}"));
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends a resolution, unless the decision is not the one that was shown any more.
async fn send(
    ctx: &Context,
    waiting: &mut WaitingDecisions,
    shown: &pilothouse_api::decisions::DecisionView,
    resolution: &ResolveDecision,
) -> Result<bool, ApiError> {
    let current = ctx.client.decision(shown.id).await?;
    if waiting::asks_something_else(&current, shown) {
        waiting.changed(current, now());
        return Ok(false);
    }
    let resolved = ctx.client.resolve_decision(shown.id, resolution).await?;
    waiting.changed(resolved, now());
    Ok(true)
}

async fn last_lines(ctx: &Context, waiting: &WaitingDecisions) -> Option<String> {
    let session = waiting.shown()?.session.as_ref()?.session_id;
    let filter = RecordFilter {
        page_query: PageQuery { limit: Some(LAST_LINES), cursor: None },
        ..RecordFilter::default()
    };
    Some(match ctx.client.activity(session, &filter).await {
        Ok(page) => page
            .items
            .iter()
            .rev()
            .map(|line| activity::activity(line, ctx.style, line.item.timestamp))
            .collect(),
        Err(error) => format!("The lines cannot be read: {error}\n"),
    })
}
