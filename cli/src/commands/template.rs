//! `pilothouse template`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pilothouse_client::inputs::{PageQuery, ScheduledLaunch, TemplateSchedule};
use pilothouse_domain::Usd;
use serde_json::{Map, Value, json};

use super::files::{absolute, read_json};
use super::run::Work;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Manage templates, from which sessions are started by hand or by schedule.
///
/// Name a template by its name, its id, or an unambiguous part of either.
#[derive(Debug, Subcommand)]
pub enum Template {
    /// List templates, latest first
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a template
    Show(Named),
    /// Create a template
    Create(Box<Create>),
    /// Set the schedule of a template
    Schedule(Schedule),
    /// Remove the schedule of a template
    Unschedule(Named),
    /// Activate a template: sessions can start from it again
    Activate(Named),
    /// Deactivate a template: no new sessions; running ones continue
    Deactivate(Named),
    /// Start a session from a template and watch it
    Start(Box<Start>),
}

/// A template.
#[derive(Debug, Args)]
pub struct Named {
    /// The template: its name, its id, or a part of either
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
}

/// List templates.
#[derive(Debug, Args)]
pub struct List {
    /// Only active templates
    #[arg(long, conflicts_with = "inactive")]
    pub active: bool,
    /// Only deactivated templates
    #[arg(long)]
    pub inactive: bool,
    /// The maximum number of templates
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Continue after an earlier page: its nextCursor
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

/// Create a template from a file, from options, or from both. Options take precedence.
#[derive(Debug, Args)]
pub struct Create {
    /// A JSON file with the fields of the API; - is standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The name
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// The description
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// The model of its sessions
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// A model that its sessions may use instead, with `*` at the end of its id for any ending; may be repeated [default: all models]
    #[arg(long, value_name = "MODEL")]
    pub allow_model: Vec<String>,
    /// The adapter
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
    /// Base instructions, before those of skills
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// A tool that the agent may use; may be repeated
    #[arg(long, value_name = "TOOL")]
    pub allow: Vec<String>,
    /// A skill for its sessions, by its id; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub skill: Vec<String>,
    /// The cap of a session's spend in dollars
    #[arg(long, short, value_name = "AMOUNT")]
    pub budget: Option<Usd>,
    /// Let its sessions work although their agents' spend is unknown; their caps then cannot be enforced
    #[arg(long)]
    pub allow_unmetered: bool,
    /// Let agents carry out plans without your approval
    #[arg(long)]
    pub no_plan_approval: bool,
}

/// Set the schedule of a template.
#[derive(Debug, Args)]
pub struct Schedule {
    /// The template: its name, its id, or a part of either
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
    /// The times as cron expression: minute, hour, day of month, month, day of week; like "0 9 * * mon-fri"
    #[arg(value_name = "CRON")]
    pub cron: String,
    /// What the agent should do each time
    #[arg(value_name = "OBJECTIVE")]
    pub objective: String,
    /// The IANA time zone of the schedule, like Europe/Berlin
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    pub zone: String,
    /// The working directory of the agent [default: the current folder]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// The name of the sessions
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// Keep the schedule without starting sessions
    #[arg(long)]
    pub off: bool,
}

/// Start a session from a template and watch it, as `pilothouse run` does.
#[derive(Debug, Args)]
pub struct Start {
    /// The template: its name, its id, or a part of either
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
    #[command(flatten)]
    pub work: Work,
}

impl Template {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let view = match self {
            Self::List(list) => return list.run(ctx).await,
            Self::Start(start) => {
                let id = ctx.client.resolve_template(&start.template).await?;
                return start.work.run(ctx, Some(id)).await;
            }
            Self::Show(named) => {
                let id = ctx.client.resolve_template(&named.template).await?;
                ctx.client.template(id).await?
            }
            Self::Create(create) => ctx.client.create_template(&create.into_input()?).await?,
            Self::Schedule(schedule) => {
                let id = ctx.client.resolve_template(&schedule.template).await?;
                ctx.client.schedule_template(id, &schedule.into_input()?).await?
            }
            Self::Unschedule(named) => {
                let id = ctx.client.resolve_template(&named.template).await?;
                ctx.client.unschedule_template(id).await?
            }
            Self::Activate(named) => {
                let id = ctx.client.resolve_template(&named.template).await?;
                ctx.client.set_template_active(id, true).await?
            }
            Self::Deactivate(named) => {
                let id = ctx.client.resolve_template(&named.template).await?;
                ctx.client.set_template_active(id, false).await?
            }
        };
        ctx.print(&view, output::templates::show)?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let active = (self.active || self.inactive).then_some(self.active);
        let slice = PageQuery { limit: Some(self.limit), cursor: self.cursor };
        let page = ctx.client.templates(active, &slice).await?;
        ctx.print(&page, output::templates::list)?;
        Ok(Exit::Done)
    }
}

impl Create {
    fn into_input(self) -> Result<Value, CliError> {
        let mut fields = match &self.file {
            None => Map::new(),
            Some(file) => match read_document(file)? {
                Value::Object(fields) => fields,
                _ => return Err(CliError::Usage(format!("{} is not a JSON object", file.display()))),
            },
        };
        let texts = [
            ("name", self.name),
            ("description", self.description),
            ("modelId", self.model),
            ("adapter", self.adapter),
            ("systemPrompt", self.prompt),
            ("defaultBudgetCapUsd", self.budget.map(|cap| cap.to_string())),
        ];
        fields.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))));
        let lists = [
            ("allowedTools", self.allow),
            ("allowedModels", self.allow_model),
            ("defaultSkillIds", self.skill),
        ];
        let said = lists.into_iter().filter(|(_, list)| !list.is_empty());
        fields.extend(said.map(|(name, list)| (name.to_owned(), json!(list))));
        if self.allow_unmetered {
            fields.insert("allowUnmetered".to_owned(), json!(true));
        }
        if self.no_plan_approval {
            fields.insert("planApprovalRequired".to_owned(), json!(false));
        }
        Ok(Value::Object(fields))
    }
}

fn read_document(file: &Path) -> Result<Value, CliError> {
    if file != Path::new("-") {
        return read_json(file);
    }
    let mut text = String::new();
    let path = PathBuf::from("standard input");
    std::io::stdin().read_to_string(&mut text).map_err(|source| CliError::File { path, source })?;
    serde_json::from_str(&text).map_err(|e| CliError::Usage(format!("standard input is not JSON: {e}")))
}

impl Schedule {
    fn into_input(self) -> Result<TemplateSchedule, CliError> {
        let dir = absolute(self.dir.as_deref().unwrap_or(Path::new(".")))?;
        Ok(TemplateSchedule {
            cron_expression: self.cron,
            time_zone: self.zone,
            is_enabled: !self.off,
            launch: ScheduledLaunch {
                working_directory: dir.to_string_lossy().into_owned(),
                objective: self.objective,
                name: self.name,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::Template;
    use crate::commands::args::{Cli, Command};

    fn template(line: &[&str]) -> Template {
        let line = ["pilothouse", "template"].iter().chain(line);
        let Command::Template(command) = Cli::try_parse_from(line).unwrap().command else { panic!("none") };
        command
    }

    #[test]
    fn options_override_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.json");
        std::fs::write(&file, r#"{ "name": "A", "modelId": "m", "allowedTools": ["Read"] }"#).unwrap();
        let file = file.to_str().unwrap();
        let Template::Create(create) = template(&["create", "--file", file, "--name", "B", "--budget", "2"])
        else {
            panic!("no create")
        };
        let sent = create.into_input().unwrap();
        let wanted =
            json!({ "name": "B", "modelId": "m", "allowedTools": ["Read"], "defaultBudgetCapUsd": "2" });
        assert_eq!(sent, wanted);
    }

    #[test]
    fn schedule_has_zone_times_and_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let line = ["schedule", "Triage", "0 9 * * *", "Sort it", "--zone", "Europe/Berlin", "--dir"];
        let line: Vec<_> = line.into_iter().chain([path.to_str().unwrap()]).collect();
        let Template::Schedule(schedule) = template(&line) else { panic!("no schedule") };
        let wanted = json!({
            "cronExpression": "0 9 * * *", "timeZone": "Europe/Berlin", "isEnabled": true,
            "launch": { "workingDirectory": path, "objective": "Sort it" },
        });
        assert_eq!(serde_json::to_value(schedule.into_input().unwrap()).unwrap(), wanted);
    }
}
