//! `GET /api/agents/skills/{id}/memory-pills`: lists a skill's memory pills, newest first (S0 8.7 `GetSkillMemoryPillsQuery`).
//!
//! The skill contains its Active pills. The other pills are separate records, grouped by status. A page merges them by id,
//! and ids are ordered by creation time.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, PageRequest, Problem};
use pilothouse_domain::skill::{MemoryPill, MemoryPillStatus};
use pilothouse_domain::{AgentSkill, AgentSkillId, MemoryPillId};
use pilothouse_store::cursor;
use pilothouse_store::table::Position;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-memory-pills", Verb::Get, "/api/agents/skills/{id}/memory-pills", |verb| {
        verb.route(list_memory_pills)
    })
    .owner()
    .summary("List the memory pills of a skill, newest first")
    .query(&["limit", "cursor", "status"])
    .output::<Page<MemoryPill>>(&[200]);

const STATUSES: [MemoryPillStatus; 3] =
    [MemoryPillStatus::Active, MemoryPillStatus::Consolidated, MemoryPillStatus::Dismissed];

/// Responds with 200 and a page. `status` filters by status.
async fn list_memory_pills(
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

    // The skill is read first, so that a pill that is archived meanwhile is seen twice instead of missed.
    let skill = app.store.aggregate::<AgentSkill>(&owner, id).await?.ok_or_else(Problem::no_skill)?.value;
    let mut pills: Vec<MemoryPill> = skill.active_pills().to_vec();
    pills.retain(|pill| statuses.contains(&pill.status) && before.is_none_or(|before| pill.id < before));
    let oldest = before.map(|before| before.to_string());
    for status in statuses.into_iter().filter(|status| *status != MemoryPillStatus::Active) {
        let more = app.store.archived_parts::<AgentSkill, MemoryPill>(
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
    let one = STATUSES.into_iter().find(|status| status.to_string() == filter);
    one.map(|status| vec![status])
        .ok_or_else(|| Problem::invalid("status", "must be one of Active, Consolidated, Dismissed"))
}
