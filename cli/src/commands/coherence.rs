//! `pilothouse coherence`.

use clap::{Args, Subcommand};
use pilothouse_api::coherence::CoherenceIssueView;
use pilothouse_client::inputs::PageQuery;
use pilothouse_client::{CoherenceFilter, MIN_PREFIX};
use pilothouse_domain::coherence::{CoherenceCategory, CoherenceState};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::{ArtifactId, CoherenceIssueId};
use serde_json::{Value, json};

use super::agent::InProject;
use super::inbox::named;
use super::pages;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// The maximum page size of the server.
const PAGE: u32 = 200;
/// Issues that are searched for the beginning of an id.
const SEARCHED: usize = 2000;

/// Find and settle work of a project's agents that does not fit together.
///
/// Name an issue by its id, or 4 or more characters of it.
#[derive(Debug, Subcommand)]
pub enum Coherence {
    /// List issues, the open ones first
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show an issue
    Show(IssueArg),
    /// Show the score of a project, and whether it rises or falls
    Score(InProject),
    /// Compare the texts of all artifacts of a project
    Audit(InProject),
    /// Report an issue that the agents have not noticed; their trust falls
    Report(Report),
    /// Confirm that an issue is real; the trust of an agent that flagged it rises
    Confirm(IssueArg),
    /// Dismiss an issue that is not real
    Dismiss(Dismiss),
    /// Record how an issue was resolved
    Resolve(Resolve),
}

/// List issues.
#[derive(Debug, Args)]
pub struct Ls {
    #[command(flatten)]
    pub of: InProject,
    /// Only issues in this state: open, confirmed, dismissed or resolved
    #[arg(long, short, value_name = "STATE", value_parser = state)]
    pub state: Option<CoherenceState>,
    /// Only issues of this severity: warning, low, medium, high or critical
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    pub severity: Option<Severity>,
    /// Only issues of this category: contradiction, duplication, gap or `dependency_violation`
    #[arg(long, short, value_name = "CATEGORY", value_parser = category)]
    pub category: Option<CoherenceCategory>,
    /// Only issues that concern this workstream
    #[arg(long, short, value_name = "ID")]
    pub workstream: Option<String>,
    /// The maximum number of issues
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
}

/// One issue.
#[derive(Debug, Args)]
pub struct IssueArg {
    /// The issue: its id, or 4 or more characters of it
    #[arg(value_name = "ISSUE")]
    pub issue: String,
    #[command(flatten)]
    pub of: InProject,
}

/// Report an issue.
#[derive(Debug, Args)]
pub struct Report {
    /// The issue in a line
    #[arg(value_name = "TITLE")]
    pub title: String,
    /// The issue in sentences
    #[arg(long, short, value_name = "TEXT")]
    pub description: String,
    /// The category: contradiction, duplication, gap or `dependency_violation`
    #[arg(long, short, value_name = "CATEGORY", value_parser = category)]
    pub category: CoherenceCategory,
    /// The severity: warning, low, medium, high or critical [default: medium]
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    pub severity: Option<Severity>,
    /// The id of an artifact that it concerns; may be repeated
    #[arg(long, short, value_name = "ARTIFACT")]
    pub artifact: Vec<ArtifactId>,
    /// A workstream that it concerns; may be repeated
    #[arg(long, short, value_name = "ID")]
    pub workstream: Vec<String>,
    #[command(flatten)]
    pub of: InProject,
}

/// Dismiss an issue.
#[derive(Debug, Args)]
pub struct Dismiss {
    #[command(flatten)]
    pub issue: IssueArg,
    /// Why it is not real
    #[arg(long, short, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Resolve an issue.
#[derive(Debug, Args)]
pub struct Resolve {
    #[command(flatten)]
    pub issue: IssueArg,
    /// The changes that solved the problem
    #[arg(long, short, value_name = "TEXT")]
    pub resolution: String,
}

fn state(text: &str) -> Result<CoherenceState, String> {
    named(text, &CoherenceState::ALL)
}

fn severity(text: &str) -> Result<Severity, String> {
    named(text, &Severity::ALL)
}

fn category(text: &str) -> Result<CoherenceCategory, String> {
    named(text, &CoherenceCategory::ALL)
}

impl Coherence {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let issue = match self {
            Self::Ls(ls) => return ls.run(ctx).await,
            Self::Score(of) => {
                let project = match of.id(ctx).await? {
                    Some(project) => project,
                    None => ctx.client.control_mode(None).await?.project_id,
                };
                let report = ctx.client.coherence_score(project).await?;
                ctx.print(&report, |it, style, _| output::coherence::score(it, style))?;
                return Ok(Exit::Done);
            }
            Self::Audit(of) => {
                let audit = ctx.client.audit_coherence(of.id(ctx).await?).await?;
                ctx.print(&audit, |it, _, _| output::coherence::audit(it))?;
                return Ok(Exit::Done);
            }
            Self::Report(report) => ctx.client.report_coherence_issue(&report.body(ctx).await?).await?,
            Self::Show(issue) => ctx.client.coherence_issue(issue.id(ctx).await?).await?,
            Self::Confirm(issue) => ctx.client.confirm_coherence_issue(issue.id(ctx).await?).await?,
            Self::Dismiss(Dismiss { issue, reason }) => {
                ctx.client.dismiss_coherence_issue(issue.id(ctx).await?, reason.as_deref()).await?
            }
            Self::Resolve(Resolve { issue, resolution }) => {
                ctx.client.resolve_coherence_issue(issue.id(ctx).await?, &resolution).await?
            }
        };
        ctx.print(&issue, output::coherence::show)?;
        Ok(Exit::Done)
    }
}

impl Ls {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let filter = CoherenceFilter {
            project: self.of.id(ctx).await?,
            state: self.state,
            severity: self.severity,
            category: self.category,
            workstream: self.workstream,
        };
        let read = async |slice: &PageQuery| ctx.client.coherence_issues(&filter, slice).await;
        let issues = pages::up_to(self.limit as usize, self.limit, read).await?;
        let document = json!({ "items": issues });
        ctx.print(&document, |_, style, now| output::coherence::list(&issues, style, now))?;
        Ok(Exit::Done)
    }
}

impl Report {
    async fn body(&self, ctx: &Context) -> Result<Value, CliError> {
        let mut body = json!({
            "title": self.title,
            "description": self.description,
            "category": self.category,
            "affectedArtifactIds": self.artifact,
            "affectedWorkstreams": self.workstream,
        });
        if let Some(severity) = self.severity {
            body["severity"] = json!(severity);
        }
        if let Some(project) = self.of.id(ctx).await? {
            body["projectId"] = json!(project);
        }
        Ok(body)
    }
}

impl IssueArg {
    async fn id(&self, ctx: &Context) -> Result<CoherenceIssueId, CliError> {
        let given = self.issue.to_lowercase();
        if let Ok(id) = given.parse() {
            return Ok(id);
        }
        let fits =
            |it: &CoherenceIssueView| given.len() >= MIN_PREFIX && it.id.to_string().starts_with(&given);
        let filter = CoherenceFilter { project: self.of.id(ctx).await?, ..CoherenceFilter::default() };
        let read = async |slice: &PageQuery| ctx.client.coherence_issues(&filter, slice).await;
        let listed = pages::up_to(SEARCHED, PAGE, read).await?;
        let found: Vec<_> = listed.into_iter().filter(fits).map(|it| it.id).collect();
        match found[..] {
            [id] => Ok(id),
            [] => Err(CliError::NotFound(format!(
                "there is no coherence issue `{given}`; `pilothouse coherence ls` lists them"
            ))),
            _ => Err(CliError::Usage(format!(
                "several coherence issues begin with `{given}`; use more of the id"
            ))),
        }
    }
}
