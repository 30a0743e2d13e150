//! `WS /ws/projects/{id}?after=CURSOR`: follows a project on the embedded server (S2, "WebSocket message protocol"; decision 82).

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::future::select_all;
use pilothouse_api::project_stream::ProjectMessage;
use pilothouse_app::App;
use pilothouse_app::change_notifier::ChangeSubscription;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_app::project_stream::{ProjectSource, ProjectStream};
use pilothouse_domain::{ProjectId, UserId};

use crate::realtime::socket::{send, wait_for_change};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-stream", Verb::Get, "/ws/projects/{id}", |verb| verb.route(stream_project))
        .owner()
        .summary("Follow a project live (WebSocket)")
        .query(&["after"])
        .statuses(&[101])
        .requires(EMBEDDED);

/// Without `after`, and if it is unknown or too old, the stream starts with the state of the project.
async fn stream_project(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    parameters: Parameters,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let (stream, state) = app.project_stream(&owner, id, parameters.text("after")).await?;
    let upgrade = upgrade.map_err(|_| Problem::invalid("Upgrade", "this address speaks WebSocket only"))?;
    Ok(upgrade.on_upgrade(move |socket| async move {
        if let Err(cause) = follow(&app, &owner, stream, state, socket).await {
            tracing::debug!(project = %id, cause = %error_chain(&cause), "a stream of a project ended");
        }
    }))
}

async fn follow(
    app: &App,
    owner: &UserId,
    mut stream: ProjectStream,
    state: Option<ProjectMessage>,
    mut socket: WebSocket,
) -> Result<(), Problem> {
    let mut changes = SourceChanges::default();
    if let Some(state) = state {
        send(&mut socket, &state).await?;
    }
    loop {
        // A source is read after it is watched, so that no change is missed.
        changes.watch_sources(app, owner, &mut stream);
        while let Some(messages) = stream.read().await? {
            for message in messages {
                send(&mut socket, &message).await?;
            }
            changes.watch_sources(app, owner, &mut stream);
        }
        if !wait_for_change(&mut socket, &mut changes).await? {
            return Ok(());
        }
        for source in std::mem::take(&mut changes.changed) {
            stream.mark_changed(source);
        }
    }
}

/// The changes of everything that a stream shows.
#[derive(Default)]
struct SourceChanges {
    watches: BTreeMap<ProjectSource, Box<dyn ChangeSubscription>>,
    changed: Vec<ProjectSource>,
}

impl SourceChanges {
    /// Watches what the stream shows, and nothing else. New sources have to be read.
    fn watch_sources(&mut self, app: &App, owner: &UserId, stream: &mut ProjectStream) {
        let sources: BTreeSet<_> = stream.sources().into_iter().collect();
        self.watches.retain(|source, _| sources.contains(source));
        for source in sources {
            self.watches.entry(source).or_insert_with(|| {
                stream.mark_changed(source);
                let notifier = &app.change_notifier;
                match source {
                    ProjectSource::Project => notifier.subscribe_to_project(stream.position().project_id),
                    ProjectSource::Agent(id) => notifier.subscribe_to_agent(id),
                    ProjectSource::Session(id) => notifier.subscribe(id),
                    ProjectSource::Brakes => notifier.subscribe_to_brakes(owner),
                }
            });
        }
    }
}

#[async_trait]
impl ChangeSubscription for SourceChanges {
    async fn changed(&mut self) -> bool {
        let (sources, waiting): (Vec<_>, Vec<_>) =
            self.watches.iter_mut().map(|(source, watch)| (*source, watch.changed())).unzip();
        let (open, first, others) = select_all(waiting).await;
        let mut changed = vec![sources[first]];
        // All that changed are read, so that a busy agent does not delay the others. `select_all` has swapped the last future into the
        // place of the first one.
        let mut rest = sources;
        rest.swap_remove(first);
        changed.extend(
            rest.into_iter().zip(others).filter_map(|(source, other)| other.now_or_never().map(|_| source)),
        );
        self.changed.extend(changed);
        open
    }
}
