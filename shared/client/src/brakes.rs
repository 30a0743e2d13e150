//! Emergency brakes (S2 "Emergency Brake").

use std::time::Duration;

use pilothouse_api::Page;
use pilothouse_api::brakes::{BrakeSummary, BrakeView};
use pilothouse_domain::{AgentSessionId, BrakeId, ProjectAgentId};

use super::inputs::{PageQuery, PullBrake, ReleaseBrake};
use super::resolve::{ResolveError, compact, parse_partial_id};
use super::{ApiError, Client};

const BRAKES: &str = "api/brakes";
/// Time between two reads while waiting for sessions to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Most pages (of 100 brakes) that a search reads.
const MAX_PAGES: usize = 50;

impl Client {
    /// Pulls a brake: stops sessions and lets none of them start.
    pub async fn pull_brake(&self, brake: &PullBrake) -> Result<BrakeView, ApiError> {
        self.post("api/brake".to_owned(), brake).await
    }

    /// Reads a brake with the progress of its sessions.
    pub async fn brake(&self, id: BrakeId) -> Result<BrakeView, ApiError> {
        self.get(format!("{BRAKES}/{id}")).await
    }

    /// Lists a page of brakes, latest first.
    pub async fn brakes(&self, page_query: &PageQuery) -> Result<Page<BrakeSummary>, ApiError> {
        self.get_with(BRAKES.to_owned(), page_query.query()).await
    }

    /// Releases a brake, or only some of its sessions or agents.
    pub async fn release_brake(
        &self,
        id: BrakeId,
        session_ids: Option<Vec<AgentSessionId>>,
        agent_ids: Option<Vec<ProjectAgentId>>,
    ) -> Result<BrakeView, ApiError> {
        self.post(format!("{BRAKES}/{id}/release"), &ReleaseBrake { session_ids, agent_ids }).await
    }

    /// Waits until all sessions of a brake have stopped, but no longer than `most`.
    pub async fn wait_until_stopped(&self, id: BrakeId, most: Duration) -> Result<BrakeView, ApiError> {
        let until = tokio::time::Instant::now() + most;
        loop {
            let brake = self.brake(id).await?;
            let is_over = brake.confirmed_count == brake.summary.session_count;
            if is_over || tokio::time::Instant::now() >= until {
                return Ok(brake);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Finds a brake by its id, or by the beginning or end of it.
    pub async fn resolve_brake(&self, given: &str) -> Result<BrakeId, ResolveError> {
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = parse_partial_id(given)?;
        let mut found = Vec::new();
        let mut page_query = PageQuery { limit: Some(100), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.brakes(&page_query).await?;
            found.extend(page.items.iter().map(|brake| brake.id).filter(|id| {
                let id = compact(&id.to_string());
                id.starts_with(&part) || id.ends_with(&part)
            }));
            page_query.cursor = page.next_cursor;
            if page_query.cursor.is_none() {
                break;
            }
        }
        match found.as_slice() {
            [] => Err(ResolveError::NoBrake(given.to_owned())),
            [one] => Ok(*one),
            several => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: several.iter().take(5).map(ToString::to_string).collect(),
            }),
        }
    }
}
