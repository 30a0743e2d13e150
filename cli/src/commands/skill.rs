//! `pilothouse skill`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use pilothouse_domain::skill::MemoryPillStatus;
use pilothouse_domain::{AgentSessionId, AgentSkillId, MemoryPillId, Usd};
use pilothouse_functions::api::sessions::SessionView;
use serde_json::json;

use super::parse;
use crate::client::inputs::{Consolidate, NewSkill, SkillChange, Slice};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;
use crate::output::session::outcome;

/// The most that one answer of the server holds.
const PAGE: u32 = 100;

/// What you teach agents: instructions, tools and subagents, and what they learn.
///
/// A skill is named by its name or its id.
#[derive(Debug, Subcommand)]
pub enum Skill {
    /// List skills by name
    List(List),
    /// Show a skill with what agents learned
    Show(Named),
    /// Create a skill
    Create(Create),
    /// Change name, description or instructions
    Edit(Edit),
    /// Let sessions be given the skill again
    Activate(Named),
    /// Have no session be given the skill any more
    Deactivate(Named),
    /// List what agents learned, newest first
    Pills(Pills),
    /// Discard what an agent learned
    Dismiss(Dismiss),
    /// Start a session that folds what agents learned into the instructions
    Consolidate(ConsolidateSkill),
    /// Load a skill into an idle or interrupted session
    Enable(OnSession),
    /// Take a skill out of an idle or interrupted session
    Disable(OnSession),
}

/// List skills by name.
#[derive(Debug, Args)]
pub struct List {
    /// Only those that sessions may be given
    #[arg(long, conflicts_with = "inactive")]
    pub active: bool,
    /// Only the others
    #[arg(long)]
    pub inactive: bool,
}

/// One skill.
#[derive(Debug, Args)]
pub struct Named {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
}

/// Create a skill.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What it is for
    #[arg(long, short, value_name = "TEXT")]
    pub description: String,
    /// What it tells the agent.
    #[command(flatten)]
    pub instructions: Instructions,
}

/// What a skill tells the agent.
#[derive(Debug, Args)]
pub struct Instructions {
    /// What it tells the agent
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    pub instructions: Option<String>,
    /// The file that holds what it tells the agent; - is standard input
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Change a skill.
#[derive(Debug, Args)]
pub struct Edit {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Its new name
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// What it is for
    #[arg(long, short, value_name = "TEXT")]
    pub description: Option<String>,
    /// What it tells the agent.
    #[command(flatten)]
    pub instructions: Instructions,
}

/// List what agents learned.
#[derive(Debug, Args)]
pub struct Pills {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Only those of this status: Active, Consolidated or Dismissed
    #[arg(long, value_parser = parse::pill_status, value_name = "STATUS")]
    pub status: Option<MemoryPillStatus>,
}

/// Discard what an agent learned.
#[derive(Debug, Args)]
pub struct Dismiss {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// The memory pill: its id
    #[arg(value_name = "PILL")]
    pub pill: MemoryPillId,
}

/// Start a session that folds what agents learned into the instructions.
///
/// Its agent proposes new instructions. Close the session to have them applied; cancel it to leave everything as it is.
#[derive(Debug, Args)]
pub struct ConsolidateSkill {
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Where the agent works [default: here]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// What it may spend, in dollars
    #[arg(long, short, default_value = "2", value_name = "AMOUNT")]
    pub budget: Usd,
    /// The model
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// What drives the agent: claude, acp, native or script
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
    /// Play this script instead of a real agent
    #[arg(long, value_name = "FILE", conflicts_with = "adapter")]
    pub script: Option<PathBuf>,
}

/// A skill on a session.
#[derive(Debug, Args)]
pub struct OnSession {
    /// The session: its id, 4 or more characters of it, or @last
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The skill: its name or its id
    #[arg(value_name = "SKILL")]
    pub skill: String,
    /// Do not have the sidecar take the change now
    #[arg(long)]
    pub no_reload: bool,
}

impl Skill {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List(list) => list.run(cx).await?,
            Self::Show(Named { skill }) => {
                let skill = cx.client.skill(named(cx, &skill).await?).await?;
                cx.answer(&skill, output::skills::show)?;
            }
            Self::Create(create) => create.run(cx).await?,
            Self::Edit(edit) => edit.run(cx).await?,
            Self::Activate(Named { skill }) => set_active(cx, &skill, true).await?,
            Self::Deactivate(Named { skill }) => set_active(cx, &skill, false).await?,
            Self::Pills(pills) => pills.run(cx).await?,
            Self::Dismiss(Dismiss { skill, pill }) => {
                let skill = cx.client.dismiss_pill(named(cx, &skill).await?, pill).await?;
                cx.answer(&skill, output::skills::line)?;
            }
            Self::Consolidate(consolidate) => consolidate.run(cx).await?,
            Self::Enable(on) => on.run(cx, true).await?,
            Self::Disable(on) => on.run(cx, false).await?,
        }
        Ok(Exit::Done)
    }
}

/// The skill that a person means: by its id, or by its name.
pub(super) async fn named(cx: &Context, given: &str) -> Result<AgentSkillId, CliError> {
    if let Ok(id) = given.parse() {
        return Ok(id);
    }
    let mut slice = Slice { limit: Some(PAGE), cursor: None };
    loop {
        let page = cx.client.skills(None, &slice).await?;
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

async fn set_active(cx: &Context, given: &str, active: bool) -> Result<(), CliError> {
    let skill = cx.client.set_skill_active(named(cx, given).await?, active).await?;
    cx.answer(&skill, output::skills::line)
}

impl List {
    async fn run(self, cx: &Context) -> Result<(), CliError> {
        let wanted = (self.active || self.inactive).then_some(self.active);
        let (mut skills, mut slice) = (Vec::new(), Slice { limit: Some(PAGE), cursor: None });
        loop {
            let page = cx.client.skills(wanted, &slice).await?;
            skills.extend(page.items);
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        let answer = json!({ "items": skills });
        cx.answer(&answer, |_, style, _| output::skills::list(&skills, style))
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
    async fn run(self, cx: &Context) -> Result<(), CliError> {
        let Self { name, description, instructions } = self;
        let new = NewSkill { name, description, instructions: instructions.read()? };
        cx.answer(&cx.client.create_skill(&new).await?, output::skills::line)
    }
}

impl Edit {
    async fn run(self, cx: &Context) -> Result<(), CliError> {
        let Self { skill, name, description, instructions } = self;
        let change = SkillChange { name, description, instructions: instructions.read()? };
        if change == SkillChange::default() {
            return Err(CliError::Usage(
                "say what is to change: --name, --description, --instructions".into(),
            ));
        }
        let skill = cx.client.change_skill(named(cx, &skill).await?, &change).await?;
        cx.answer(&skill, output::skills::line)
    }
}

impl Pills {
    async fn run(self, cx: &Context) -> Result<(), CliError> {
        let id = named(cx, &self.skill).await?;
        let (mut pills, mut slice) = (Vec::new(), Slice { limit: Some(PAGE), cursor: None });
        loop {
            let page = cx.client.memory_pills(id, self.status, &slice).await?;
            pills.extend(page.items);
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        let answer = json!({ "items": pills });
        cx.answer(&answer, |_, style, now| output::skills::pills(&pills, style, now))
    }
}

impl ConsolidateSkill {
    async fn run(self, cx: &Context) -> Result<(), CliError> {
        let id = named(cx, &self.skill).await?;
        let script = self.script.as_deref().map(super::run::read_json).transpose()?;
        let dir = super::run::absolute(self.dir.as_deref().unwrap_or(Path::new(".")))?;
        let with = Consolidate {
            working_directory: dir.to_string_lossy().into_owned(),
            budget_cap_usd: self.budget,
            model_id: self.model,
            adapter: self.adapter,
            adapter_options: script.map(|script| json!({ "script": script })),
        };
        let started = cx.client.consolidate_skill(id, &with).await?;
        cx.answer(&started, |started, style, _| {
            let next = "Close the session to have what its agent proposes applied.\n";
            outcome(&started.session, style) + &style.dim(next)
        })
    }
}

impl OnSession {
    async fn run(self, cx: &Context, enable: bool) -> Result<(), CliError> {
        let session = cx.session_id(&self.session).await?;
        let skill = named(cx, &self.skill).await?;
        let view = if enable {
            cx.client.enable_skill(session, skill).await?
        } else {
            cx.client.disable_skill(session, skill).await?
        };
        let view = if self.no_reload { view } else { reloaded(cx, session, view).await? };
        cx.answer(&view, |view, style, _| outcome(view, style))
    }
}

/// Has the sidecar take a change that it does not know yet.
async fn reloaded(cx: &Context, session: AgentSessionId, view: SessionView) -> Result<SessionView, CliError> {
    if view.reload_needed { Ok(cx.client.reload(session).await?) } else { Ok(view) }
}
