//! `pilothouse skill`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pilothouse_api::sessions::SessionView;
use pilothouse_client::inputs::{ConsolidateSkill, CreateSkill, PageQuery, UpdateSkill};
use pilothouse_domain::skill::MemoryPillStatus;
use pilothouse_domain::{AgentSessionId, AgentSkillId, MemoryPillId, Usd};
use serde_json::json;

use super::adapter::AdapterChoice;
use super::files::{absolute, read_json};
use super::{pages, parse};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;
use crate::output::session::outcome;

/// The maximum page size of the server.
const PAGE: u32 = 100;

/// Manage skills: instructions, tools and subagents for agents, and the memory pills that agents record.
///
/// Name a skill by its name or its id.
#[derive(Debug, Subcommand)]
pub enum Skill {
    /// List skills by name
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a skill with its memory pills
    Show(SkillArg),
    /// Create a skill
    Create(Create),
    /// Change name, description or instructions
    Edit(Edit),
    /// Activate a skill: new sessions can use it again
    Activate(SkillArg),
    /// Deactivate a skill: new sessions can no longer use it
    Deactivate(SkillArg),
    /// List memory pills, newest first
    Pills(Pills),
    /// Dismiss a memory pill
    Dismiss(Dismiss),
    /// Start a session that merges memory pills into the instructions
    Consolidate(Consolidate),
    /// Load a skill into an idle or interrupted session
    Enable(SkillOnSession),
    /// Remove a skill from an idle or interrupted session
    Disable(SkillOnSession),
}

/// List skills by name.
#[derive(Debug, Args)]
pub struct List {
    /// Only active skills
    #[arg(long, conflicts_with = "inactive")]
    pub active: bool,
    /// Only deactivated skills
    #[arg(long)]
    pub inactive: bool,
}

/// One skill.
#[derive(Debug, Args)]
pub struct SkillArg {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
}

/// Create a skill.
#[derive(Debug, Args)]
pub struct Create {
    /// The name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The description
    #[arg(long, short, value_name = "TEXT")]
    pub description: String,
    #[command(flatten)]
    pub instructions: Instructions,
}

/// The instructions of a skill.
#[derive(Debug, Args)]
pub struct Instructions {
    /// The instructions for the agent
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    pub instructions: Option<String>,
    /// A file with the instructions; - is standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Change a skill.
#[derive(Debug, Args)]
pub struct Edit {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// The new name
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// The new description
    #[arg(long, short, value_name = "TEXT")]
    pub description: Option<String>,
    #[command(flatten)]
    pub instructions: Instructions,
}

/// List memory pills.
#[derive(Debug, Args)]
pub struct Pills {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Only memory pills with this status: Active, Consolidated or Dismissed
    #[arg(long, value_parser = parse::pill_status, value_name = "STATUS")]
    pub status: Option<MemoryPillStatus>,
}

/// Dismiss a memory pill.
#[derive(Debug, Args)]
pub struct Dismiss {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// The id of the memory pill
    #[arg(value_name = "PILL")]
    pub pill: MemoryPillId,
}

/// Start a session that merges memory pills into the instructions.
///
/// Its agent proposes new instructions. Close the session to apply them, or cancel it to discard them.
#[derive(Debug, Args)]
pub struct Consolidate {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// The working directory of the agent [default: the current folder]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// The cap of its spend in dollars
    #[arg(long, short, default_value = "2", value_name = "AMOUNT")]
    pub budget: Usd,
    /// The model
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    #[command(flatten)]
    pub adapter: AdapterChoice,
    /// Play this script instead of a real agent
    #[arg(long, value_name = "FILE", conflicts_with = "adapter")]
    pub script: Option<PathBuf>,
}

/// A skill on a session.
#[derive(Debug, Args)]
pub struct SkillOnSession {
    /// The session: its id, 4 or more characters of it, or @last
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Do not reload the sidecar now
    #[arg(long)]
    pub no_reload: bool,
}

impl Skill {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List(list) => list.run(ctx).await?,
            Self::Show(SkillArg { skill }) => {
                let skill = ctx.client.skill(resolve_skill(ctx, &skill).await?).await?;
                ctx.print(&skill, output::skills::show)?;
            }
            Self::Create(create) => create.run(ctx).await?,
            Self::Edit(edit) => edit.run(ctx).await?,
            Self::Activate(SkillArg { skill }) => set_active(ctx, &skill, true).await?,
            Self::Deactivate(SkillArg { skill }) => set_active(ctx, &skill, false).await?,
            Self::Pills(pills) => pills.run(ctx).await?,
            Self::Dismiss(Dismiss { skill, pill }) => {
                let skill = ctx.client.dismiss_memory_pill(resolve_skill(ctx, &skill).await?, pill).await?;
                ctx.print(&skill, output::skills::line)?;
            }
            Self::Consolidate(consolidate) => consolidate.run(ctx).await?,
            Self::Enable(on) => on.run(ctx, true).await?,
            Self::Disable(on) => on.run(ctx, false).await?,
        }
        Ok(Exit::Done)
    }
}

/// The id of a skill, given its id or its name.
pub(super) async fn resolve_skill(ctx: &Context, given: &str) -> Result<AgentSkillId, CliError> {
    if let Ok(id) = given.parse() {
        return Ok(id);
    }
    let mut slice = PageQuery { limit: Some(PAGE), cursor: None };
    loop {
        let page = ctx.client.skills(None, &slice).await?;
        if let Some(skill) = page.items.iter().find(|skill| skill.name == given) {
            return Ok(skill.id);
        }
        if page.next_cursor.is_none() {
            return Err(CliError::NotFound(format!(
                "there is no skill `{given}`; `pilothouse skill list` lists them"
            )));
        }
        slice.cursor = page.next_cursor;
    }
}

async fn set_active(ctx: &Context, given: &str, active: bool) -> Result<(), CliError> {
    let skill = ctx.client.set_skill_active(resolve_skill(ctx, given).await?, active).await?;
    ctx.print(&skill, output::skills::line)
}

impl List {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let wanted = (self.active || self.inactive).then_some(self.active);
        let skills = pages::all(PAGE, async |slice| ctx.client.skills(wanted, slice).await).await?;
        let response = json!({ "items": skills });
        ctx.print(&response, |_, style, _| output::skills::list(&skills, style))
    }
}

impl Instructions {
    fn read(self) -> Result<Option<String>, CliError> {
        let Some(path) = self.file else { return Ok(self.instructions) };
        let error = |source| CliError::File { path: path.clone(), source };
        let text = if path == Path::new("-") {
            std::io::read_to_string(std::io::stdin()).map_err(error)
        } else {
            std::fs::read_to_string(&path).map_err(error)
        };
        text.map(Some)
    }
}

impl Create {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let Self { name, description, instructions } = self;
        let new = CreateSkill { name, description, instructions: instructions.read()? };
        ctx.print(&ctx.client.create_skill(&new).await?, output::skills::line)
    }
}

impl Edit {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let Self { skill, name, description, instructions } = self;
        let change = UpdateSkill { name, description, instructions: instructions.read()? };
        if change == UpdateSkill::default() {
            return Err(CliError::Usage(
                "name at least one change: --name, --description, --instructions".into(),
            ));
        }
        let skill = ctx.client.update_skill(resolve_skill(ctx, &skill).await?, &change).await?;
        ctx.print(&skill, output::skills::line)
    }
}

impl Pills {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let id = resolve_skill(ctx, &self.skill).await?;
        let read = async |slice: &PageQuery| ctx.client.memory_pills(id, self.status, slice).await;
        let pills = pages::all(PAGE, read).await?;
        let response = json!({ "items": pills });
        ctx.print(&response, |_, style, now| output::skills::pills(&pills, style, now))
    }
}

impl Consolidate {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let id = resolve_skill(ctx, &self.skill).await?;
        let script = self.script.as_deref().map(read_json).transpose()?;
        let dir = absolute(self.dir.as_deref().unwrap_or(Path::new(".")))?;
        let with = ConsolidateSkill {
            working_directory: dir.to_string_lossy().into_owned(),
            budget_cap_usd: self.budget,
            model_id: self.model,
            adapter: self.adapter.adapter,
            adapter_options: script.map(|script| json!({ "script": script })),
        };
        let started = ctx.client.consolidate_skill(id, &with).await?;
        ctx.print(&started, |started, style, _| {
            let next = "Close the session to apply the instructions that its agent proposes.\n";
            outcome(&started.session, style) + &style.dim(next)
        })
    }
}

impl SkillOnSession {
    async fn run(self, ctx: &Context, enable: bool) -> Result<(), CliError> {
        let session = ctx.session_id(&self.session).await?;
        let skill = resolve_skill(ctx, &self.skill).await?;
        let view = if enable {
            ctx.client.enable_skill(session, skill).await?
        } else {
            ctx.client.disable_skill(session, skill).await?
        };
        let view = if self.no_reload { view } else { reloaded(ctx, session, view).await? };
        ctx.print(&view, |view, style, _| outcome(view, style))
    }
}

/// Reloads the sidecar if its configuration is outdated.
async fn reloaded(
    ctx: &Context,
    session: AgentSessionId,
    view: SessionView,
) -> Result<SessionView, CliError> {
    if view.reload_needed { Ok(ctx.client.reload(session).await?) } else { Ok(view) }
}
