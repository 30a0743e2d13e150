//! `pilothouse project`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pilothouse_client::inputs::PageQuery;
use pilothouse_domain::control_mode::ControlMode;
use serde_json::{Value, json};

use super::files::read_json;
use super::inbox::named;
use super::pages;
use super::project_lookup::{PAGE, all_agents, resolve_project};
use super::project_watch::WatchProject;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Manage projects: agents that work towards the same goals.
///
/// Name a project by its name or its id.
#[derive(Debug, Subcommand)]
pub enum Project {
    /// List projects with their agents, decisions, spend and trust, newest first
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a project with its agents
    Show(ProjectArg),
    /// Create a project
    Create(Create),
    /// Change fields of a project
    #[command(visible_alias = "update")]
    Edit(Edit),
    /// Show or change the control mode: how much the agents may do without you
    Mode(Mode),
    /// Show the decisions about the agents' tool calls with their reasons
    Log(Log),
    /// Watch the agents, decisions, brakes and trust live
    Watch(WatchProject),
    /// Cancel the sessions of the active agents
    Kill(ProjectArg),
    /// Archive a project: no agents start in it any more
    Archive(ProjectArg),
    /// Restore an archived project
    Restore(ProjectArg),
}

/// List projects.
#[derive(Debug, Args)]
pub struct List {
    /// Only archived projects
    #[arg(long)]
    pub archived: bool,
}

/// One project.
#[derive(Debug, Args)]
pub struct ProjectArg {
    /// The project: its name or its id
    #[arg(value_name = "PROJECT")]
    pub project: String,
}

/// Show or change the control mode.
#[derive(Debug, Args)]
pub struct Mode {
    /// The project: its name or its id
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// The new mode: orchestrator (you approve every change), adaptive (agents make trivial changes without you), or ecosystem (you approve
    /// only dangerous actions)
    #[arg(value_name = "MODE", value_parser = mode)]
    pub mode: Option<ControlMode>,
    /// Restart the processes of agents that were configured before the change; they continue their conversations
    #[arg(long, requires = "mode")]
    pub restart_agents: bool,
}

/// Show the decision log.
#[derive(Debug, Args)]
pub struct Log {
    /// The project: its name or its id
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// The maximum number of entries
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: u32,
}

fn mode(text: &str) -> Result<ControlMode, String> {
    named(text, &ControlMode::ALL)
}

/// Create a project.
#[derive(Debug, Args)]
pub struct Create {
    /// The name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The purpose and background, for the agents
    #[arg(long, short, value_name = "TEXT")]
    pub description: Option<String>,
    /// A goal; may be repeated
    #[arg(long, short, value_name = "TEXT")]
    pub goal: Vec<String>,
    /// A state of the work that you want to look at; may be repeated, the order counts
    #[arg(long, value_name = "TEXT")]
    pub checkpoint: Vec<String>,
    /// A rule for all agents; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub rule: Vec<String>,
    /// A part of the work that agents own, such as api or `api=The HTTP API`; may be repeated
    #[arg(long, short, value_name = "ID[=NAME]")]
    pub workstream: Vec<String>,
    /// The most that the agents may spend together, in US dollars
    #[arg(long, value_name = "USD")]
    pub spending_cap: Option<String>,
    /// The percentage of the spending cap at which you are warned [default: 80]
    #[arg(long, value_name = "PERCENT", requires = "spending_cap")]
    pub warn_at: Option<u8>,
}

/// Change a project.
#[derive(Debug, Args)]
pub struct Edit {
    /// The project: its name or its id
    #[arg(value_name = "PROJECT")]
    pub project: String,
    /// A JSON file with the fields to change; a list replaces the former one
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["spending_cap", "coherence"])]
    pub file: Option<PathBuf>,
    /// A setting of coherence monitoring, such as layer2MaxReviewsPerHour=5 or feedbackLoop.enabled=true; may be repeated, the others stay
    #[arg(long, value_name = "FIELD=VALUE", value_parser = setting)]
    pub coherence: Vec<(String, Value)>,
    /// The most that the agents may spend together, in US dollars, or none
    #[arg(long, value_name = "USD|none")]
    pub spending_cap: Option<String>,
    /// The percentage of the spending cap at which you are warned [default: 80]
    #[arg(long, value_name = "PERCENT", requires = "spending_cap")]
    pub warn_at: Option<u8>,
}

impl Project {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List(list) => list.run(ctx).await?,
            Self::Show(ProjectArg { project }) => show(ctx, &project).await?,
            Self::Create(create) => create.run(ctx).await?,
            Self::Edit(edit) => edit.run(ctx).await?,
            Self::Mode(Mode { project, mode, restart_agents }) => {
                let id = Some(resolve_project(ctx, &project).await?);
                let current = match mode {
                    Some(mode) => ctx.client.set_control_mode(id, mode, restart_agents).await?,
                    None => ctx.client.control_mode(id).await?,
                };
                ctx.print(&current, output::projects::control_mode)?;
            }
            Self::Log(Log { project, limit }) => {
                let id = resolve_project(ctx, &project).await?;
                let query = PageQuery { limit: Some(limit.clamp(1, PAGE)), cursor: None };
                let page = ctx.client.decision_log(id, &query).await?;
                ctx.print(&page, |page, style, now| output::decision_log::list(&page.items, style, now))?;
            }
            Self::Watch(watch) => return watch.run(ctx).await,
            Self::Kill(ProjectArg { project }) => {
                let killed = ctx.client.kill_agents(resolve_project(ctx, &project).await?).await?;
                ctx.print(&killed, |killed, style, now| {
                    output::projects::agents(&killed.agents, style, now)
                })?;
            }
            Self::Archive(ProjectArg { project }) => set_archived(ctx, &project, true).await?,
            Self::Restore(ProjectArg { project }) => set_archived(ctx, &project, false).await?,
        }
        Ok(Exit::Done)
    }
}

async fn show(ctx: &Context, given: &str) -> Result<(), CliError> {
    let id = resolve_project(ctx, given).await?;
    let project = ctx.client.project(id).await?;
    let agents = all_agents(ctx, Some(id)).await?;
    let response = json!({ "project": project, "agents": agents });
    ctx.print(&response, |_, style, now| output::projects::show(&project, &agents, style, now))
}

async fn set_archived(ctx: &Context, given: &str, archived: bool) -> Result<(), CliError> {
    let project = ctx.client.set_project_archived(resolve_project(ctx, given).await?, archived).await?;
    ctx.print(&project, output::projects::line)
}

impl List {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let read = async |slice: &PageQuery| ctx.client.portfolio(Some(self.archived), slice).await;
        let projects = pages::all(PAGE, read).await?;
        let response = json!({ "items": projects });
        ctx.print(&response, |_, style, _| output::projects::list(&projects, style))
    }
}

impl Create {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let mut fields = serde_json::Map::new();
        fields.insert("name".to_owned(), json!(self.name));
        let workstreams: Vec<_> = self.workstream.iter().map(|given| workstream(given)).collect();
        let options = [
            ("description", self.description.map(Value::from)),
            ("goals", list(self.goal)),
            ("checkpoints", list(self.checkpoint)),
            ("constraints", list(self.rule)),
            ("workstreams", list(workstreams)),
            ("spendingCap", self.spending_cap.map(|usd| spending_cap(&usd, self.warn_at))),
        ];
        for (field, value) in options {
            fields.extend(value.map(|value| (field.to_owned(), value)));
        }
        ctx.print(&ctx.client.create_project(&Value::Object(fields)).await?, output::projects::line)
    }
}

impl Edit {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let id = resolve_project(ctx, &self.project).await?;
        let mut changes = self.file.as_deref().map_or_else(|| Ok(json!({})), read_json)?;
        if let (Some(usd), Some(fields)) = (&self.spending_cap, changes.as_object_mut()) {
            fields.insert("spendingCap".to_owned(), spending_cap(usd, self.warn_at));
        }
        if !self.coherence.is_empty()
            && let Some(fields) = changes.as_object_mut()
        {
            let current = json!(ctx.client.project(id).await?.coherence);
            let config = coherence_config(fields.get("coherence"), current, self.coherence);
            fields.insert("coherence".to_owned(), config);
        }
        let project = ctx.client.update_project(id, &changes).await?;
        ctx.print(&project, output::projects::line)
    }
}

/// Sets fields (`field` or `group.field`) in the configuration of the file, or else in the current one.
fn coherence_config(of_file: Option<&Value>, current: Value, settings: Vec<(String, Value)>) -> Value {
    let mut config = of_file.cloned().unwrap_or(current);
    if !config.is_object() && !config.is_null() {
        // The server refuses it with a reason.
        return config;
    }
    for (path, value) in settings {
        match path.split_once('.') {
            Some((parent, field)) => {
                let group = &mut config[parent];
                if !group.is_object() {
                    // The server refuses the field with a reason.
                    *group = json!({});
                }
                group[field] = value;
            }
            None => config[&path] = value,
        }
    }
    config
}

/// Parses `layer2MaxReviewsPerHour=5`. A value that is not JSON is text.
fn setting(given: &str) -> Result<(String, Value), String> {
    let (field, value) = given.split_once('=').ok_or("must be FIELD=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((field.to_owned(), value))
}

/// The cap as the API has it; `none` removes it.
fn spending_cap(usd: &str, warn_at: Option<u8>) -> Value {
    match (usd, warn_at) {
        ("none", _) => Value::Null,
        (usd, None) => json!({ "usd": usd }),
        (usd, Some(percent)) => json!({ "usd": usd, "warnAtPercent": percent }),
    }
}

/// `api`, or `api=The HTTP API`.
fn workstream(given: &str) -> Value {
    let (id, name) = given.split_once('=').unwrap_or((given, given));
    json!({ "id": id, "name": name })
}

fn list<T: Into<Value>>(items: Vec<T>) -> Option<Value> {
    if items.is_empty() { None } else { Some(Value::Array(items.into_iter().map(Into::into).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coherence_settings_extend_the_configuration_of_a_file() {
        let settings = || vec![("a".to_owned(), json!(1)), ("group.b".to_owned(), json!(2))];
        let current = || json!({ "old": 0 });
        let of_file = json!({ "group": { "c": 3 }, "a": 9 });
        let config = coherence_config(Some(&of_file), current(), settings());
        assert_eq!(config, json!({ "group": { "b": 2, "c": 3 }, "a": 1 }));
        let config = coherence_config(None, current(), settings());
        assert_eq!(config, json!({ "old": 0, "group": { "b": 2 }, "a": 1 }));
        let config = coherence_config(Some(&Value::Null), current(), settings());
        assert_eq!(config, json!({ "group": { "b": 2 }, "a": 1 }));
    }
}
