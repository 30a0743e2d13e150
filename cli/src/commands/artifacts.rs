//! `pilothouse artifacts`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pilothouse_client::inputs::PageQuery;
use pilothouse_client::{ArtifactFilter, MIN_PREFIX};
use pilothouse_domain::ArtifactId;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactState, ArtifactSummary};
use serde_json::json;

use super::agent::InProject;
use super::inbox::named;
use super::pages;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// The maximum page size of the server.
const PAGE: u32 = 200;
/// Versions that `show` lists.
const VERSIONS: u32 = 20;

/// Read and review the artifacts of a project: the results that its agents report.
///
/// Name an artifact by its id, 4 or more characters of it, or its path.
#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// List artifacts, those that changed last first
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// Show an artifact with its versions
    Show(ArtifactArg),
    /// Write the content of an artifact to standard output or a file
    Get(Get),
    /// Compare two versions
    Diff(Diff),
    /// Approve the latest version; the trust of its agent rises
    Approve(Reviewed),
    /// Reject the latest version; the trust of its agent falls
    Reject(Reject),
}

/// List artifacts.
#[derive(Debug, Args)]
pub struct Ls {
    #[command(flatten)]
    pub of: InProject,
    /// Only artifacts of this workstream
    #[arg(long, short, value_name = "ID")]
    pub workstream: Option<String>,
    /// Only artifacts of this kind: code, document, design, config, test or other
    #[arg(long, short, value_name = "KIND", value_parser = kind)]
    pub kind: Option<ArtifactKind>,
    /// Only artifacts of this agent: its id, 4 or more characters of it, or its role
    #[arg(long, short, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only artifacts in this state: pending, approved or rejected
    #[arg(long, short, value_name = "STATE", value_parser = state)]
    pub state: Option<ArtifactState>,
    /// The maximum number of artifacts
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
}

/// One artifact.
#[derive(Debug, Args)]
pub struct ArtifactArg {
    /// The artifact: its id, 4 or more characters of it, or its path
    #[arg(value_name = "ARTIFACT")]
    pub artifact: String,
    #[command(flatten)]
    pub of: InProject,
}

/// Write the content of an artifact.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    pub artifact: ArtifactArg,
    /// The version [default: the latest one]
    #[arg(long, short, value_name = "VERSION")]
    pub version: Option<u32>,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Compare two versions.
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    pub artifact: ArtifactArg,
    /// The older version [default: the one before `--to`]
    #[arg(long, value_name = "VERSION")]
    pub from: Option<u32>,
    /// The newer version [default: the latest one]
    #[arg(long, value_name = "VERSION")]
    pub to: Option<u32>,
}

/// Reject an artifact.
#[derive(Debug, Args)]
pub struct Reject {
    #[command(flatten)]
    pub reviewed: Reviewed,
    /// The changes that the next version needs
    #[arg(long, short, value_name = "TEXT")]
    pub reason: String,
}

/// The version that a person has looked at.
#[derive(Debug, Args)]
pub struct Reviewed {
    #[command(flatten)]
    pub artifact: ArtifactArg,
    /// The version that you have looked at; if there is a newer one, nothing is reviewed [default: the latest one]
    #[arg(long, short, value_name = "VERSION")]
    pub version: Option<u32>,
}

impl Reviewed {
    async fn resolve(&self, ctx: &Context) -> Result<(ArtifactId, u32), CliError> {
        let id = self.artifact.id(ctx).await?;
        let version = match self.version {
            Some(version) => version,
            None => ctx.client.artifact(id).await?.latest.version,
        };
        Ok((id, version))
    }
}

fn kind(text: &str) -> Result<ArtifactKind, String> {
    named(text, &ArtifactKind::ALL)
}

fn state(text: &str) -> Result<ArtifactState, String> {
    named(text, &ArtifactState::ALL)
}

impl Artifacts {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::Ls(ls) => ls.run(ctx).await?,
            Self::Show(artifact) => {
                let id = artifact.id(ctx).await?;
                let view = ctx.client.artifact(id).await?;
                let page = PageQuery { limit: Some(VERSIONS), cursor: None };
                let versions = ctx.client.artifact_versions(id, &page).await?;
                let document = json!({ "artifact": view, "versions": versions });
                ctx.print(&document, |_, style, now| {
                    output::artifacts::show(&view, &versions.items, style, now)
                })?;
            }
            Self::Get(get) => get.run(ctx).await?,
            Self::Diff(Diff { artifact, from, to }) => {
                let diff = ctx.client.artifact_diff(artifact.id(ctx).await?, from, to).await?;
                ctx.print(&diff, |diff, _, _| output::artifacts::diff(diff))?;
            }
            Self::Approve(reviewed) => {
                let (id, seen) = reviewed.resolve(ctx).await?;
                let view = ctx.client.approve_artifact(id, seen).await?;
                ctx.print(&view, |view, style, _| output::artifacts::reviewed(view, style))?;
            }
            Self::Reject(Reject { reviewed, reason }) => {
                let (id, seen) = reviewed.resolve(ctx).await?;
                let view = ctx.client.reject_artifact(id, seen, &reason).await?;
                ctx.print(&view, |view, style, _| output::artifacts::reviewed(view, style))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Ls {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let project = self.of.id(ctx).await?;
        let agent = match &self.agent {
            Some(agent) => Some(super::agent::resolve_agent(ctx, project, agent).await?),
            None => None,
        };
        let filter = ArtifactFilter {
            project,
            workstream: self.workstream,
            kind: self.kind,
            agent,
            state: self.state,
        };
        let read = async |slice: &PageQuery| ctx.client.artifacts(&filter, slice).await;
        let artifacts = pages::up_to(self.limit as usize, self.limit, read).await?;
        let document = json!({ "items": artifacts });
        ctx.print(&document, |_, style, now| output::artifacts::list(&artifacts, style, now))
    }
}

impl Get {
    async fn run(self, ctx: &Context) -> Result<(), CliError> {
        let id = self.artifact.id(ctx).await?;
        let content = ctx.client.artifact_content(id, self.version).await?;
        match self.output {
            Some(path) => {
                let bytes = content.len();
                std::fs::write(&path, content)
                    .map_err(|source| CliError::File { path: path.clone(), source })?;
                let document = json!({ "file": path, "sizeBytes": bytes });
                ctx.print(&document, |_, _, _| format!("{}: {bytes} bytes\n", path.display()))
            }
            None => std::io::stdout().lock().write_all(&content).map_err(CliError::Output),
        }
    }
}

impl ArtifactArg {
    async fn id(&self, ctx: &Context) -> Result<ArtifactId, CliError> {
        if let Ok(id) = self.artifact.parse() {
            return Ok(id);
        }
        let given = self.artifact.as_str();
        let fits = |it: &ArtifactSummary| {
            it.path.as_str() == given
                || (given.len() >= MIN_PREFIX && it.id.to_string().starts_with(&given.to_lowercase()))
        };
        let filter = ArtifactFilter { project: self.of.id(ctx).await?, ..ArtifactFilter::default() };
        let read = async |slice: &PageQuery| ctx.client.artifacts(&filter, slice).await;
        let listed = pages::all(PAGE, read).await?;
        let found: Vec<_> = listed.into_iter().filter(fits).map(|it| it.id).collect();
        match found[..] {
            [id] => Ok(id),
            [] => Err(CliError::NotFound(format!(
                "there is no artifact `{given}`; `pilothouse artifacts ls` lists them"
            ))),
            _ => Err(CliError::Usage(format!("`{given}` could mean several artifacts; give more of the id"))),
        }
    }
}
