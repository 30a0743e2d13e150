//! Templates: what sessions are started from.

use pilothouse_domain::AgentTemplateId;
use pilothouse_functions::api::Page;
use pilothouse_functions::api::templates::{TemplateSummary, TemplateView};
use serde_json::{Value, json};

use super::inputs::{NewSchedule, Slice};
use super::resolve::{MIN_PREFIX, ResolveError, compact};
use super::{ApiError, Client};

const TEMPLATES: &str = "api/agents/templates";
/// Pages of templates that are searched for a name, of 200 each.
const MAX_PAGES: usize = 25;

fn of(id: AgentTemplateId, rest: &str) -> String {
    format!("{TEMPLATES}/{id}{rest}")
}

impl Client {
    /// A page of the owner's templates, latest first.
    pub async fn templates(
        &self,
        active: Option<bool>,
        slice: &Slice,
    ) -> Result<Page<TemplateSummary>, ApiError> {
        let mut query = slice.query();
        query.extend(active.map(|active| ("isActive", active.to_string())));
        self.get_with(TEMPLATES.to_owned(), query).await
    }

    /// A template in full.
    pub async fn template(&self, id: AgentTemplateId) -> Result<TemplateView, ApiError> {
        self.get(of(id, "")).await
    }

    /// Makes a template of the fields of `template`.
    pub async fn create_template(&self, template: &Value) -> Result<TemplateView, ApiError> {
        self.post(TEMPLATES.to_owned(), template).await
    }

    /// Says when a template starts sessions by itself.
    pub async fn schedule_template(
        &self,
        id: AgentTemplateId,
        schedule: &NewSchedule,
    ) -> Result<TemplateView, ApiError> {
        self.put(of(id, "/schedule"), schedule).await
    }

    /// Has a template start no sessions by itself.
    pub async fn unschedule_template(&self, id: AgentTemplateId) -> Result<TemplateView, ApiError> {
        self.delete(of(id, "/schedule")).await
    }

    /// Lets sessions start from a template, or not.
    pub async fn set_template_active(
        &self,
        id: AgentTemplateId,
        active: bool,
    ) -> Result<TemplateView, ApiError> {
        self.post(of(id, if active { "/activate" } else { "/deactivate" }), &json!({})).await
    }

    /// The template that `given` means: by its id, by its name, or by a part of its id.
    pub async fn resolve_template(&self, given: &str) -> Result<AgentTemplateId, ResolveError> {
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let part = compact(given);
        let may_be_part = part.len() >= MIN_PREFIX && part.bytes().all(|b| b.is_ascii_hexdigit());
        let (mut named, mut like) = (Vec::new(), Vec::new());
        let mut slice = Slice { limit: Some(200), cursor: None };
        for _ in 0..MAX_PAGES {
            let page = self.templates(None, &slice).await?;
            for template in page.items {
                let id = compact(&template.id.to_string());
                if template.name.eq_ignore_ascii_case(given) {
                    named.push((template.id, template.name));
                } else if may_be_part && (id.starts_with(&part) || id.ends_with(&part)) {
                    like.push((template.id, template.name));
                }
            }
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
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
