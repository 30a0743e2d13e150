//! `GET /api/agents/skills/{id}/memory-pills`: what agents learned, newest first (S0 8.7 `GetSkillMemoryPillsQuery`).
//!
//! Active pills stand in the skill, the others in records of their own, by status; a page puts them together by their ids,
//! which are by creation time.

use axum::Json;
use axum::extract::State;
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};
use pilothouse_domain::{AgentSkill, AgentSkillId, MemoryPillId};
use pilothouse_store::cursor;
use pilothouse_store::table::Position;

use super::no_skill;
use crate::api::Page;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Id, Owner, PageRequest, Problem};

const STATUSES: [MemoryPillStatus; 3] =
    [MemoryPillStatus::Active, MemoryPillStatus::Consolidated, MemoryPillStatus::Dismissed];

/// 200 with a page; `status` keeps those in one status.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<AgentSkillId>,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<MemoryPill>>, Problem> {
    let filter = parameters.text("status").unwrap_or_default();
    let statuses = wanted(filter)?;
    let (list, partition) = (format!("memory-pills?{filter}"), id.to_string());
    let scope = cursor::Scope { list: &list, index: None, partition: &partition };
    let before = before(&scope, &page)?;

    // The skill first: a pill that leaves it meanwhile is seen twice then, and not missed.
    let skill = app.store.owned::<AgentSkill>(&owner, id).await?.ok_or_else(no_skill)?.value;
    let mut pills: Vec<MemoryPill> = skill.active_pills().to_vec();
    pills.retain(|pill| statuses.contains(&pill.status) && before.is_none_or(|before| pill.id < before));
    let oldest = before.map(|before| before.to_string());
    for status in statuses.into_iter().filter(|status| *status != MemoryPillStatus::Active) {
        let more = app.store.departed::<AgentSkill, MemoryPill>(
            id,
            status.group(),
            oldest.as_deref(),
            page.limit + 1,
        );
        for pill in more.await? {
            if pills.iter().all(|known| known.id != pill.id) {
                pills.push(pill);
            }
        }
    }
    pills.sort_by_key(|pill| std::cmp::Reverse(pill.id));
    let more = pills.len() > page.limit;
    pills.truncate(page.limit);
    let next = pills.last().filter(|_| more).map(|pill| Position {
        partition: partition.clone(),
        sort: pill.id.to_string(),
        index_sort: None,
    });
    Ok(Json(Page { next_cursor: next.map(|position| scope.encode(&position)), items: pills }))
}

fn before(scope: &cursor::Scope<'_>, page: &PageRequest) -> Result<Option<MemoryPillId>, Problem> {
    let wrong = || Problem::invalid("cursor", "is not a cursor of this list");
    let Some(text) = page.cursor.as_deref() else { return Ok(None) };
    scope.decode(text).map_err(|_| wrong())?.sort.parse().map(Some).map_err(|_| wrong())
}

fn wanted(filter: &str) -> Result<Vec<MemoryPillStatus>, Problem> {
    if filter.is_empty() {
        return Ok(STATUSES.to_vec());
    }
    let one = STATUSES.into_iter().find(|status| format!("{status:?}") == filter);
    one.map(|status| vec![status])
        .ok_or_else(|| Problem::invalid("status", "must be one of Active, Consolidated, Dismissed"))
}
