//! A session of the demo: shows live what it does, and waits for what must happen, each with a deadline.

use std::time::Duration;

use pilothouse_domain::AgentSessionId;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_functions::api::sessions::SessionView;
use pilothouse_functions::api::stream::StreamBody;
use tokio::time::{Instant, timeout};

use super::narrator::Narrator;
use crate::client::{ApiError, Client, Followed, Following};
use crate::error::CliError;
use crate::output::activity;
use crate::output::sessions::short_id;
use crate::output::text::line;

/// How long one thing may take to happen.
const STEP: Duration = Duration::from_secs(20);
/// How often it is looked for.
const TICK: Duration = Duration::from_millis(100);
/// The characters of a live line.
const LIVE_WIDTH: usize = 90;

/// A session of the demo.
pub(super) struct Scene<'a> {
    pub(super) client: &'a Client,
    pub(super) id: AgentSessionId,
    /// How the demo calls it.
    pub(super) name: &'static str,
    session: SessionView,
    following: Following,
}

impl<'a> Scene<'a> {
    pub(super) fn new(client: &'a Client, name: &'static str, session: SessionView) -> Self {
        Self { client, id: session.id, name, following: client.follow(session.id, None), session }
    }

    /// What a person would type for the session.
    pub(super) fn short_id(&self) -> String {
        short_id(self.id)
    }

    /// The session once `condition` holds; an error that names `what` when it does not in time.
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
                // What led there has been sent or is about to be.
                self.show(narrator, TICK).await?;
                return Ok(session);
            }
            if Instant::now() >= deadline {
                let (name, status, seconds) = (self.name, session.status, STEP.as_secs());
                return Err(CliError::Failed(format!(
                    "the demo is at an end: {what} did not happen within {seconds} s; the session `{name}` is {status}"
                )));
            }
            self.show(narrator, TICK).await?;
        }
    }

    /// Shows what the live stream brings within this time.
    async fn show(&mut self, narrator: &Narrator, time: Duration) -> Result<(), CliError> {
        let end = Instant::now() + time;
        while let Ok(followed) =
            timeout(end.saturating_duration_since(Instant::now()), self.following.next()).await
        {
            let Followed::Message(mut message) = followed? else { continue };
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
