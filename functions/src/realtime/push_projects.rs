//! Posts what is new in a project to the connections that follow it (decision 82).
//!
//! The pushes queue has one group per project. A cursor moves after its messages were posted, as in [`super::push`].

use std::sync::Arc;

use pilothouse_api::project_stream::{
    AgentEventContent, ProjectMessage, ProjectMessageBody, StateLocation, StateSync,
};
use pilothouse_app::App;
use pilothouse_app::connections::{Connections, MAX_MESSAGE_BYTES, PostError};
use pilothouse_app::http::Problem;
use pilothouse_app::project_stream::ProjectSource;
use pilothouse_domain::ProjectId;
use pilothouse_store::{CommitError, Followed, Loaded, Watcher};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::push_queue::{self, PushOf};
use super::pusher::{PushError, PushTarget, Served, TURN};

/// A larger state is not posted: the client reads it.
const MAX_STATE_BYTES: usize = 100 * 1024;

/// Posts the new entries of `source`, or of everything, to every connection that follows a project.
pub(super) async fn push_project(
    app: &App,
    connections: &Arc<dyn Connections>,
    project: ProjectId,
    source: Option<ProjectSource>,
) -> Result<(), Problem> {
    let followed = Followed::Project(project);
    let mut serving = JoinSet::new();
    for (id, watcher) in app.store.watchers(&followed).await? {
        let pusher = ProjectPusher {
            app: app.clone(),
            connection: PushTarget::new(app, connections, &followed, id),
            project,
            source,
        };
        serving.spawn(async move { pusher.serve(watcher).await });
    }
    let (mut more, mut failed) = (false, None);
    while let Some(served) = serving.join_next().await {
        match served.map_err(|error| Problem::internal(PushError::from(error))).and_then(|served| served) {
            Ok(served) => more |= served == Served::InPart,
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let rest = PushOf::Project { project_id: project, source: None };
    if more { push_queue::send(&*app.broker, &rest).await } else { Ok(()) }
}

struct ProjectPusher {
    app: App,
    connection: PushTarget,
    project: ProjectId,
    source: Option<ProjectSource>,
}

impl ProjectPusher {
    async fn serve(&self, mut watcher: Loaded<Watcher>) -> Result<Served, Problem> {
        if watcher.value.token_ends <= self.app.now() {
            self.connection.dismiss("its token has ended").await.map_err(Problem::internal)?;
            return Ok(Served::Whole);
        }
        let before = watcher.value.project_cursor.clone();
        let served = self.post_news(&mut watcher.value).await?;
        if watcher.value.project_cursor != before {
            let followed = Followed::Project(self.project);
            match self.app.store.move_watcher(&followed, self.connection.id(), &watcher).await {
                // The connection was closed, or subscribed again, which triggers another push.
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match served {
            Ok(served) => Ok(served),
            Err(error) => {
                self.connection.end(error).await.map_err(Problem::internal)?;
                Ok(Served::Whole)
            }
        }
    }

    /// Posts messages, and moves the cursor of `at` with each of them.
    async fn post_news(&self, at: &mut Watcher) -> Result<Result<Served, PostError>, Problem> {
        let began = Instant::now();
        let cursor = at.project_cursor.as_deref();
        let (mut stream, state) = self.app.project_stream(&at.owner, self.project, cursor).await?;
        // A push that was interrupted may have left an entry of another source in part.
        if let Some(source) = self.source.filter(|_| state.is_none() && stream.position().within.is_none()) {
            stream.read_only([source]);
        }
        let mut messages: Vec<_> = state.into_iter().collect();
        loop {
            for message in messages {
                let cursor = message.cursor.clone();
                if let Some(text) = frame(message, self.project).map_err(Problem::internal)?
                    && let Err(error) = self.connection.post(&text).await
                {
                    return Ok(Err(error));
                }
                at.project_cursor = Some(cursor);
                if began.elapsed() >= TURN {
                    return Ok(Ok(Served::InPart));
                }
            }
            match stream.read().await? {
                Some(next) => messages = next,
                None => break,
            }
        }
        at.project_cursor = Some(stream.position().encode());
        Ok(Ok(Served::Whole))
    }
}

/// The text of a message within the limits. Content that is too large is left out; the client can read it. `None` if that is not
/// enough.
fn frame(mut message: ProjectMessage, project: ProjectId) -> Result<Option<String>, serde_json::Error> {
    let text = serde_json::to_string(&message)?;
    let max = match &message.body {
        ProjectMessageBody::StateSync(_) => MAX_STATE_BYTES,
        _ => MAX_MESSAGE_BYTES,
    };
    if text.len() <= max {
        return Ok(Some(text));
    }
    match &mut message.body {
        ProjectMessageBody::StateSync(state) => {
            **state = StateSync::At(StateLocation { state_path: format!("/api/projects/{project}/state") });
        }
        ProjectMessageBody::Event(event) => {
            if let AgentEventContent::Decision { decision, .. } = &mut event.envelope.event.content {
                *decision = None;
            }
        }
        ProjectMessageBody::DecisionResolved(resolved) => resolved.resolution = None,
        ProjectMessageBody::Brake(_) | ProjectMessageBody::TrustUpdate(_) => {}
    }
    let text = serde_json::to_string(&message)?;
    if text.len() > MAX_MESSAGE_BYTES {
        tracing::error!(%project, bytes = text.len(), "dropped a message that is too large to post");
        return Ok(None);
    }
    Ok(Some(text))
}
