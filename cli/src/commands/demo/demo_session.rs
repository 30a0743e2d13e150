//! A session of the demo: prints its live stream, and waits for conditions with a deadline.

use std::time::Duration;

use pilothouse_api::sessions::SessionView;
use pilothouse_api::stream::StreamBody;
use pilothouse_client::{ApiError, Client, SessionWatch, WatchEvent};
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::value::ActivityItemType;
use tokio::time::{Instant, timeout};

use super::narrator::Narrator;
use crate::error::CliError;
use crate::output::activity;
use crate::output::sessions::short_id;
use crate::output::text::line;

/// The deadline of a condition.
const STEP: Duration = Duration::from_secs(20);
/// The time between two checks of a condition.
const TICK: Duration = Duration::from_millis(100);
/// The maximum length of a summary in characters.
const LIVE_WIDTH: usize = 90;

pub(super) struct DemoSession<'a> {
    pub(super) client: &'a Client,
    pub(super) id: AgentSessionId,
    /// The name in the output.
    pub(super) name: &'static str,
    session: SessionView,
    following: SessionWatch,
}

impl<'a> DemoSession<'a> {
    pub(super) fn new(client: &'a Client, name: &'static str, session: SessionView) -> Self {
        Self { client, id: session.id, name, following: client.watch(session.id, None), session }
    }

    /// The short id, as a person would type it.
    pub(super) fn short_id(&self) -> String {
        short_id(self.id)
    }

    /// Waits until `condition` holds, and returns the session. Fails with an error that names `what` after the deadline.
    pub(super) async fn until(
        &mut self,
        narrator: &Narrator,
        what: &str,
        condition: impl AsyncFn(&SessionView) -> Result<bool, ApiError>,
    ) -> Result<SessionView, CliError> {
        let deadline = Instant::now() + STEP;
        loop {
            let session = self.client.session(self.id).await?;
            if condition(&session).await? {
                // The events that led to this state may still be on the way.
                self.show(narrator, TICK).await?;
                return Ok(session);
            }
            if Instant::now() >= deadline {
                let (name, status, seconds) = (self.name, session.status, STEP.as_secs());
                return Err(CliError::Failed(format!(
                    "the demo failed: {what} did not happen within {seconds} s; the session `{name}` is {status}"
                )));
            }
            self.show(narrator, TICK).await?;
        }
    }

    /// Prints the messages of the live stream that arrive within this time.
    async fn show(&mut self, narrator: &Narrator, time: Duration) -> Result<(), CliError> {
        let end = Instant::now() + time;
        while let Ok(followed) =
            timeout(end.saturating_duration_since(Instant::now()), self.following.next()).await
        {
            let WatchEvent::Message(mut message) = followed? else { continue };
            let style = narrator.style;
            let text = match &mut message.body {
                StreamBody::Activity(view)
                    if !matches!(
                        view.item.kind,
                        ActivityItemType::StatusChange | ActivityItemType::MetricsUpdate
                    ) =>
                {
                    view.item.summary = line(&view.item.summary, LIVE_WIDTH);
                    activity::activity(view, style, self.session.created_at)
                }
                StreamBody::Status(view) => activity::status(view, style),
                _ => continue,
            };
            narrator.live(self.name, &text)?;
        }
        Ok(())
    }
}
