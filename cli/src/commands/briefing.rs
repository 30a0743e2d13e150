//! `pilothouse briefing`.

use std::time::Duration;

use clap::Args;
use pilothouse_domain::{ProjectId, Timestamp};

use super::parse::duration;
use super::project_lookup::{all_projects, resolve_project};
use crate::context::{Context, now};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// Show the briefing of a project: open decisions, finished work, risks, automatic decisions and cost.
#[derive(Debug, Args)]
pub struct ShowBriefing {
    /// The project: its name or its id; without it, your only project
    #[arg(value_name = "PROJECT")]
    pub project: Option<String>,
    /// The start of the period: a time such as 2026-11-21T20:00:00Z, or an age such as 90m, 12h or 7d [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<Since>,
}

/// The start of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    At(Timestamp),
    Ago(Duration),
}

fn since(text: &str) -> Result<Since, String> {
    let wrong =
        |_| "must be a time such as 2026-11-21T20:00:00Z, or an age such as 90m, 12h or 7d".to_owned();
    text.parse().map(Since::At).or_else(|_| duration(text).map(Since::Ago)).map_err(wrong)
}

impl Since {
    fn before(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(time) => {
                let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
                Timestamp::from_millis(now.as_millis().saturating_sub(millis))
            }
        }
    }
}

impl ShowBriefing {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let id = match &self.project {
            Some(project) => resolve_project(ctx, project).await?,
            None => only_project(ctx).await?,
        };
        let since = self.since.map(|since| since.before(now()));
        ctx.print(&ctx.client.briefing(id, since).await?, output::briefing::show)?;
        Ok(Exit::Done)
    }
}

async fn only_project(ctx: &Context) -> Result<ProjectId, CliError> {
    match &all_projects(ctx, None).await?[..] {
        [project] => Ok(project.id),
        [] => Err(CliError::NotFound(
            "you have no project; create one with `pilothouse project create`".to_owned(),
        )),
        _ => Err(CliError::Usage(
            "name a project, because you have several; `pilothouse project list` lists them".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilothouse_domain::Timestamp;

    use super::{Since, since};

    #[test]
    fn begin_is_a_time_or_an_age() {
        assert_eq!(since("12h"), Ok(Since::Ago(Duration::from_hours(12))));
        let noon: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        assert_eq!(since("2026-11-21T13:00:00+01:00"), Ok(Since::At(noon)), "of any time zone");
        assert_eq!(Since::Ago(Duration::from_hours(1)).before(noon), "2026-11-21T11:00:00Z".parse().unwrap());
        for wrong in ["yesterday", "2026-11-21", "2026-11-21T13:00:00", "12"] {
            assert!(since(wrong).unwrap_err().contains("90m"), "{wrong}");
        }
    }
}
