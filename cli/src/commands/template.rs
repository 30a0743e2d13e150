//! `pilothouse template`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pilothouse_domain::Usd;
use serde_json::{Map, Value, json};

use super::run::{Work, absolute, read_json};
use crate::client::inputs::{NewLaunch, NewSchedule, Slice};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// What sessions are started from, by hand or by the clock.
///
/// A template is named by its name, by its id, or by an unambiguous part of that.
#[derive(Debug, Subcommand)]
pub enum Template {
    /// List templates, latest first
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a template
    Show(Named),
    /// Create a template
    Create(Box<Create>),
    /// Have a template start sessions by the clock
    Schedule(Schedule),
    /// Have a template start no sessions by the clock
    Unschedule(Named),
    /// Let sessions start from a template again
    Activate(Named),
    /// Let no session start from a template; those that run go on
    Deactivate(Named),
    /// Start a session from a template and watch it
    Start(Box<Start>),
}

/// Which template.
#[derive(Debug, Args)]
pub struct Named {
    /// Its name, its id, or a part of that
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
}

/// List templates.
#[derive(Debug, Args)]
pub struct List {
    /// Only those that sessions start from
    #[arg(long, conflicts_with = "inactive")]
    pub active: bool,
    /// Only those that are deactivated
    #[arg(long)]
    pub inactive: bool,
    /// At most this many
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Where the list before this one ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
}

/// Create a template: from a file, from options, or from both; options win.
#[derive(Debug, Args)]
pub struct Create {
    /// A JSON file with the fields of the API; - reads it from standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Its name
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// The model of its sessions
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// What drives the agent
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
    /// Base instructions, before those of skills
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// A tool that the agent may use; may be repeated
    #[arg(long, value_name = "TOOL")]
    pub allow: Vec<String>,
    /// A skill that is enabled for its sessions, by its id; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub skill: Vec<String>,
    /// What a session may spend, in dollars
    #[arg(long, short, value_name = "AMOUNT")]
    pub budget: Option<Usd>,
    /// Let agents proceed by their plans without your approval
    #[arg(long)]
    pub no_plan_approval: bool,
}

/// Have a template start sessions by the clock.
#[derive(Debug, Args)]
pub struct Schedule {
    /// Its name, its id, or a part of that
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
    /// When: minute, hour, day of month, month, day of week; like "0 9 * * mon-fri"
    #[arg(value_name = "CRON")]
    pub cron: String,
    /// What the agent is to do each time
    #[arg(value_name = "OBJECTIVE")]
    pub objective: String,
    /// The clock of which place, like Europe/Berlin
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    pub zone: String,
    /// Where the agent works [default: here]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// What to call the sessions
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// Keep it without starting sessions
    #[arg(long)]
    pub off: bool,
}

/// Start a session from a template and watch it, as `pilothouse run` does.
#[derive(Debug, Args)]
pub struct Start {
    /// Its name, its id, or a part of that
    #[arg(value_name = "TEMPLATE")]
    pub template: String,
    /// What is said beside it
    #[command(flatten)]
    pub work: Work,
}

impl Template {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let view = match self {
            Self::List(list) => return list.run(cx).await,
            Self::Start(start) => {
                let id = cx.client.resolve_template(&start.template).await?;
                return start.work.run(cx, Some(id)).await;
            }
            Self::Show(named) => {
                let id = cx.client.resolve_template(&named.template).await?;
                cx.client.template(id).await?
            }
            Self::Create(create) => cx.client.create_template(&create.into_input()?).await?,
            Self::Schedule(schedule) => {
                let id = cx.client.resolve_template(&schedule.template).await?;
                cx.client.schedule_template(id, &schedule.into_input()?).await?
            }
            Self::Unschedule(named) => {
                let id = cx.client.resolve_template(&named.template).await?;
                cx.client.unschedule_template(id).await?
            }
            Self::Activate(named) => {
                let id = cx.client.resolve_template(&named.template).await?;
                cx.client.set_template_active(id, true).await?
            }
            Self::Deactivate(named) => {
                let id = cx.client.resolve_template(&named.template).await?;
                cx.client.set_template_active(id, false).await?
            }
        };
        cx.answer(&view, output::templates::show)?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let active = (self.active || self.inactive).then_some(self.active);
        let slice = Slice { limit: Some(self.limit), cursor: self.cursor };
        let page = cx.client.templates(active, &slice).await?;
        cx.answer(&page, output::templates::list)?;
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
        let lists = [("allowedTools", self.allow), ("defaultSkillIds", self.skill)];
        let said = lists.into_iter().filter(|(_, list)| !list.is_empty());
        fields.extend(said.map(|(name, list)| (name.to_owned(), json!(list))));
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
    fn into_input(self) -> Result<NewSchedule, CliError> {
        let dir = absolute(self.dir.as_deref().unwrap_or(Path::new(".")))?;
        Ok(NewSchedule {
            cron_expression: self.cron,
            time_zone: self.zone,
            is_enabled: !self.off,
            launch: NewLaunch {
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
    use crate::args::{Cli, Command};

    fn template(line: &[&str]) -> Template {
        let line = ["pilothouse", "template"].iter().chain(line);
        let Command::Template(command) = Cli::try_parse_from(line).unwrap().command else { panic!("none") };
        command
    }

    #[test]
    fn options_win_over_the_file() {
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
    fn a_schedule_says_where_when_and_what() {
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
