//! Templates and their schedules.

use pilothouse_api::Page;
use pilothouse_api::templates::{TemplateSummary, TemplateView};
use pilothouse_domain::AgentTemplateId;
use serde_json::{Value, json};

use super::inputs::{PageQuery, TemplateSchedule, UpdateTemplate};
use super::resolve::{MIN_PREFIX, ResolveError, compact};
use super::{ApiError, Client};

const TEMPLATES: &str = "api/agents/templates";
/// In pages of 200 templates.
const MAX_PAGES: usize = 25;

fn template_path(id: AgentTemplateId, rest: &str) -> String {
    format!("{TEMPLATES}/{id}{rest}")
}

impl Client {
    /// Lists a page of the owner's templates, newest first.
    pub async fn templates(
        &self,
        active: Option<bool>,
        page_query: &PageQuery,
    ) -> Result<Page<TemplateSummary>, ApiError> {
        let mut query = page_query.query();
        query.extend(active.map(|active| ("isActive", active.to_string())));
        self.get_with(TEMPLATES.to_owned(), query).await
    }

    /// Reads a template.
    pub async fn template(&self, id: AgentTemplateId) -> Result<TemplateView, ApiError> {
        self.get(template_path(id, "")).await
    }

    /// Creates a template from the fields of `template`.
    pub async fn create_template(&self, template: &Value) -> Result<TemplateView, ApiError> {
        self.post(TEMPLATES.to_owned(), template).await
    }

    /// Updates a template.
    pub async fn update_template(
        &self,
        id: AgentTemplateId,
        update: &UpdateTemplate,
    ) -> Result<TemplateView, ApiError> {
        self.put(template_path(id, ""), update).await
    }

    /// Sets the schedule of a template.
    pub async fn schedule_template(
        &self,
        id: AgentTemplateId,
        schedule: &TemplateSchedule,
    ) -> Result<TemplateView, ApiError> {
        self.put(template_path(id, "/schedule"), schedule).await
    }

    /// Removes the schedule of a template.
    pub async fn unschedule_template(&self, id: AgentTemplateId) -> Result<TemplateView, ApiError> {
        self.delete(template_path(id, "/schedule")).await
    }

    /// Activates or deactivates a template: an inactive template starts no sessions.
    pub async fn set_template_active(
        &self,
        id: AgentTemplateId,
        active: bool,
    ) -> Result<TemplateView, ApiError> {
        self.post(template_path(id, if active { "/activate" } else { "/deactivate" }), &json!({})).await
    }

    /// Finds a template by its id, its name, or a part of its id.
    pub async fn resolve_template(&self, given: &str) -> Result<AgentTemplateId, ResolveError> {
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = compact(given);
        let may_be_part = part.len() >= MIN_PREFIX && part.bytes().all(|b| b.is_ascii_hexdigit());
        let (mut named, mut like) = (Vec::new(), Vec::new());
        let mut page_query = PageQuery { limit: Some(200), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.templates(None, &page_query).await?;
            for template in page.items {
                let id = compact(&template.id.to_string());
                if template.name.eq_ignore_ascii_case(given) {
                    named.push((template.id, template.name));
                } else if may_be_part && (id.starts_with(&part) || id.ends_with(&part)) {
                    like.push((template.id, template.name));
                }
            }
            page_query.cursor = page.next_cursor;
            if page_query.cursor.is_none() {
                break;
            }
        }
        let found = if named.is_empty() { like } else { named };
        match &found[..] {
            [] => Err(ResolveError::NoTemplate(given.to_owned())),
            [(id, _)] => Ok(*id),
            several => Err(ResolveError::Ambiguous {
                given: given.to_owned(),
                candidates: several.iter().take(5).map(|(id, name)| format!("{id} ({name})")).collect(),
            }),
        }
    }
}
