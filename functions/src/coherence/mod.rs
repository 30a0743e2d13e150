//! Finds coherence issues and records each once (S2, "Coherence Monitoring"; decision 88).

mod embeddings;
pub(crate) mod input;
pub(crate) mod review_request;
pub(crate) mod scan;
pub(crate) mod structural;

use futures_util::future::try_join_all;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::coherence::{CoherenceIssue, CoherenceState, Detected};
use pilothouse_domain::journal::Cause;
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{DomainContext, Events, ProjectId, SessionEvent, UserId};
use pilothouse_store::{Commit, LoadedAggregate};

/// The most texts or vectors that are read at the same time.
const CONCURRENT_READS: usize = 16;

/// Detected issues, each with its stored state, if it exists already.
pub(crate) struct Detection {
    place: (UserId, ProjectId),
    tick: Tick,
    found: Vec<(Detected, Option<LoadedAggregate<CoherenceIssue>>)>,
}

impl Detection {
    /// One read for each issue.
    pub(crate) async fn load(
        app: &App,
        (owner, project): (&UserId, ProjectId),
        tick: Tick,
        detected: Vec<Detected>,
    ) -> Result<Self, Problem> {
        let reads = detected.into_iter().map(|detected| async move {
            let known = app.store.aggregate::<CoherenceIssue>(owner, detected.id).await?;
            Ok::<_, Problem>((detected, known))
        });
        Ok(Self { place: (owner.clone(), project), tick, found: try_join_all(reads).await? })
    }

    /// The state of the first issue before the commit.
    pub(crate) fn known_state(&self) -> Option<CoherenceState> {
        let (_, known) = self.found.first()?;
        known.as_ref().map(|known| known.value.status().state())
    }

    /// Adds the issues that are new to a commit, and returns an event about each for the session that caused it. Two commits that raise
    /// the same issue conflict, and the second one finds the issue of the first.
    pub(crate) fn record(
        self,
        app: &App,
        cause: &Cause,
        commit: &mut Commit,
        ctx: &DomainContext<'_>,
    ) -> Result<Events, Problem> {
        let Self { place, tick, found } = self;
        let mut raised = Events::new();
        for (Detected { id, finding }, known) in found {
            let (loaded, events) = if let Some(mut loaded) = known {
                let events = loaded.value.detect_again(finding, tick, ctx);
                (loaded, events)
            } else {
                let (issue, events) = CoherenceIssue::detect(id, place.clone(), finding, tick, ctx);
                (LoadedAggregate::new(issue), events)
            };
            if !events.is_empty() {
                let finding = Box::new(loaded.value.finding().clone());
                raised.push(SessionEvent::CoherenceIssueRaised { issue_id: id, finding });
                app.record_aggregate(commit, &loaded, cause.clone(), events)?;
            }
        }
        Ok(raised)
    }
}
