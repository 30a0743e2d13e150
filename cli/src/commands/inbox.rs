//! `pilothouse inbox` and `pilothouse resolve`: decisions that wait for the owner, over all sessions.

use clap::{Args, Subcommand};
use pilothouse_api::decisions::{DecisionPage, DecisionView};
use pilothouse_client::inputs::{DecisionFilter, PageQuery, ResolveDecision};
use pilothouse_domain::DecisionId;
use pilothouse_domain::decision::{DecisionKind, DecisionStatus, DecisionSubject, ResolutionType};
use pilothouse_domain::value::Answer;

use super::answer::{ask, match_up, questions};
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::inbox::{decision, list};

/// The maximum page size of the server.
const PAGE: u32 = 200;
/// Fewest characters of a part of an id.
const MIN_PREFIX: usize = 4;

/// Show what waits for you in all sessions: questions, options, plans, tool calls and outputs.
///
/// The most severe decisions come first, then those that reach furthest, then the oldest. Decide with `pilothouse resolve`, or with single
/// keys in `--interactive`.
#[derive(Debug, Args)]
pub struct Inbox {
    /// Decisions in this state: pending, suspended, orphaned, resolving, resolved, `auto_resolved`, expired or cancelled [default:
    /// those that wait for you: pending and orphaned]
    #[arg(long, value_parser = status, value_name = "STATE")]
    pub state: Option<DecisionStatus>,
    /// Only decisions of this kind: option, `tool_approval`, question, plan, `output_review`, `brake_release`, `crash_recovery`,
    /// `handoff_failed`, autonomy or `coherence_review`
    #[arg(long, value_parser = kind, value_name = "KIND")]
    pub kind: Option<DecisionKind>,
    /// Only decisions of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The maximum number of decisions
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: usize,
    /// Show one decision after the other, live, and decide with single keys
    #[arg(long, short, conflicts_with_all = ["state", "kind", "session", "limit"])]
    pub interactive: bool,
}

/// Resolve a decision of the inbox.
///
/// Examples: pilothouse resolve 92944b5c approve; pilothouse resolve 92944b5c reject --rationale "Too much at once"
#[derive(Debug, Args)]
pub struct Resolve {
    /// The decision: its id, or the beginning of the id of a pending one
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(subcommand)]
    pub how: How,
}

/// How to resolve a decision.
#[derive(Debug, Subcommand)]
pub enum How {
    /// Approve a plan, a tool call, an output, the release of a brake, or an agent's proposal to act without asking
    Approve {
        /// Also allow all further calls like this one, until the session ends or the control mode becomes stricter
        #[arg(long)]
        always: bool,
        /// Why; the project can require it for a tool
        #[arg(long, short, value_name = "TEXT")]
        rationale: Option<String>,
    },
    /// Allow a tool call with another input
    Modify {
        /// The input as JSON, such as '{"command": "ls"}'
        #[arg(value_name = "JSON")]
        input: String,
        /// Why; the project can require it for a tool
        #[arg(long, short, value_name = "TEXT")]
        rationale: Option<String>,
    },
    /// Reject a plan, a tool call, an output, the release of a brake, or an agent's proposal to act without asking
    Reject {
        /// Why; the agent receives this text
        #[arg(long, short, value_name = "TEXT")]
        rationale: Option<String>,
    },
    /// Choose one of the options
    Choose {
        /// The option: its number or its id
        #[arg(value_name = "OPTION")]
        option: String,
        /// Why; for options that an agent proposes with its reasons
        #[arg(long, short, value_name = "TEXT")]
        rationale: Option<String>,
    },
    /// End a decision whose agent has ended without deciding it
    Dismiss,
    /// Answer the questions, in their order
    Answer {
        /// The answers: the number of an option, or any text
        #[arg(value_name = "ANSWER")]
        words: Vec<String>,
    },
}

pub(super) fn named<T: std::fmt::Display + Copy>(text: &str, all: &[T]) -> Result<T, String> {
    all.iter().find(|value| value.to_string() == text).copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(ToString::to_string).collect();
        format!("must be one of {}", names.join(", "))
    })
}

fn status(text: &str) -> Result<DecisionStatus, String> {
    named(text, &DecisionStatus::ALL)
}

fn kind(text: &str) -> Result<DecisionKind, String> {
    named(text, &DecisionKind::ALL)
}

impl Inbox {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        if self.interactive {
            return super::interactive::run(ctx).await;
        }
        let session = match &self.session {
            Some(given) => Some(ctx.session_id(given).await?),
            None => None,
        };
        let filter = DecisionFilter { state: self.state, kind: self.kind, session, counts: true };
        let all = load(ctx, filter, self.limit).await?;
        if ctx.json {
            write_json(&all)?;
        } else {
            write(&list(&all, self.state, ctx.style, now()))?;
        }
        Ok(Exit::Done)
    }
}

/// Reads pages until there are `limit` decisions.
async fn load(ctx: &Context, mut filter: DecisionFilter, limit: usize) -> Result<DecisionPage, CliError> {
    let mut query = PageQuery { limit: Some(PAGE), cursor: None };
    let mut all = ctx.client.decisions(&filter, &query).await?;
    filter.counts = false;
    while let Some(cursor) = all.next_cursor.take_if(|_| all.items.len() < limit) {
        query.cursor = Some(cursor);
        let page = ctx.client.decisions(&filter, &query).await?;
        all.items.extend(page.items);
        all.next_cursor = page.next_cursor;
    }
    all.items.truncate(limit);
    Ok(all)
}

impl Resolve {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let found = find(ctx, &self.id).await?;
        let resolution = self.how.resolution(&found, ctx)?;
        let resolved = ctx.client.resolve_decision(found.id, &resolution).await?;
        ctx.print(&resolved, decision)?;
        Ok(Exit::Done)
    }
}

/// The decision with this id, or the pending one whose id begins with it.
async fn find(ctx: &Context, given: &str) -> Result<DecisionView, CliError> {
    if let Ok(id) = given.parse::<DecisionId>() {
        return Ok(ctx.client.decision(id).await?);
    }
    if given.len() < MIN_PREFIX {
        return Err(CliError::Usage(format!("give at least {MIN_PREFIX} characters of the id")));
    }
    let given = given.to_ascii_lowercase();
    let pending = load(ctx, DecisionFilter::default(), usize::MAX).await?.items;
    let mut like: Vec<_> =
        pending.into_iter().filter(|decision| decision.id.to_string().starts_with(&given)).collect();
    match (like.pop(), like.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => Err(CliError::Usage(format!("several pending decisions begin with `{given}`"))),
        (None, _) => Err(CliError::NotFound(format!(
            "no pending decision begins with `{given}`; `pilothouse inbox` lists them"
        ))),
    }
}

impl How {
    fn resolution(self, decision: &DecisionView, ctx: &Context) -> Result<ResolveDecision, CliError> {
        Ok(match self {
            Self::Approve { always, rationale } => ResolveDecision {
                always_approve: always,
                rationale,
                ..ResolveDecision::new(ResolutionType::Approve)
            },
            Self::Modify { input, rationale } => {
                let input = serde_json::from_str(&input)
                    .map_err(|error| CliError::Usage(format!("the input is not JSON: {error}")))?;
                ResolveDecision {
                    modified_input: Some(input),
                    rationale,
                    ..ResolveDecision::new(ResolutionType::Modify)
                }
            }
            Self::Reject { rationale } => {
                ResolveDecision { rationale, ..ResolveDecision::new(ResolutionType::Reject) }
            }
            Self::Dismiss => ResolveDecision::new(ResolutionType::Dismiss),
            Self::Choose { option, rationale } => ResolveDecision {
                chosen_option_id: Some(option_id(&decision.subject, option)),
                rationale,
                ..ResolveDecision::new(ResolutionType::ChooseOption)
            },
            Self::Answer { words } => ResolveDecision {
                answers: Some(answers(&decision.subject, words, ctx)?),
                ..ResolveDecision::new(ResolutionType::Answer)
            },
        })
    }
}

/// The id of an option: the given text, unless it is only the number of an option.
fn option_id(subject: &DecisionSubject, given: String) -> String {
    let Some(options) = subject.options() else { return given };
    if options.iter().any(|option| option.id == given) {
        return given;
    }
    let at = given.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    at.and_then(|at| options.get(at)).map_or(given, |option| option.id.clone())
}

fn answers(subject: &DecisionSubject, words: Vec<String>, ctx: &Context) -> Result<Vec<Answer>, CliError> {
    let questions = questions(subject);
    if questions.is_empty() {
        return Err(CliError::Usage(format!("a decision of kind {} takes no answer", subject.kind())));
    }
    let words = if words.is_empty() { ask(&questions, ctx)? } else { words };
    match_up(&questions, &words)
}
