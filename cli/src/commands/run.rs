//! `pilothouse run`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pilothouse_client::inputs::StartSession;
use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::text::AnswerText;
use pilothouse_domain::value::{ContextPolicy, ThinkingLevel};
use pilothouse_domain::{AgentTemplateId, Usd};
use serde_json::{Value, json};

use super::adapter::AdapterChoice;
use super::criteria::Criteria;
use super::files::{absolute, read_images, read_input, read_json};
use super::follow::{FollowOptions, Until, follow};
use super::parse;
use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::session::outcome;

/// Start a session and watch it.
///
/// The watch ends when the session is idle, interrupted, paused or finished. The exit code is 5 if it ended as Failed or
/// Cancelled. Ctrl-C ends the watch, never the session.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub work: Work,
    /// The template to start from: its name, its id, or a part of either
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<String>,
}

/// The work and the settings of a session.
#[derive(Debug, Args)]
pub struct Work {
    /// What the agent should do; - reads it from standard input
    pub objective: String,
    /// An image that belongs to the objective: PNG, JPEG, GIF or WebP; may be repeated
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// The working directory of the agent [default: the current folder]
    #[arg(long, short, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// The cap of its spend in dollars; the session pauses at the cap [default: 5, or the template's cap]
    #[arg(long, short, value_name = "AMOUNT")]
    pub budget: Option<Usd>,
    /// The name of the session
    #[arg(long, short, value_name = "NAME")]
    pub name: Option<String>,
    /// The model
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// The thinking level: off, minimal, low, medium, high or max
    #[arg(long, value_parser = parse::thinking_level, value_name = "LEVEL")]
    pub thinking: Option<ThinkingLevel>,
    #[command(flatten)]
    pub adapter: AdapterChoice,
    /// An option of the adapter, as JSON or as text; may be repeated
    #[arg(long, value_parser = parse::option, value_name = "KEY=VALUE")]
    pub option: Vec<(String, Value)>,
    /// Play this script instead of a real agent
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recording", "adapter"])]
    pub script: Option<PathBuf>,
    /// Play this recording of a real agent
    #[arg(long, value_name = "FILE", conflicts_with = "adapter")]
    pub recording: Option<PathBuf>,
    /// A label; may be repeated
    #[arg(long, value_parser = parse::label, value_name = "KEY=VALUE")]
    pub label: Vec<(String, String)>,
    /// A tool that the agent may use; may be repeated [default: the adapter's tools]
    #[arg(long, value_name = "TOOL")]
    pub allow: Vec<String>,
    /// A skill, by its name or its id; may be repeated, the order counts
    #[arg(long, value_name = "SKILL")]
    pub skill: Vec<String>,
    /// Let the agent carry out plans without your approval
    #[arg(long)]
    pub no_plan_approval: bool,
    /// The answer to questions that you do not answer in time [default: the session fails]
    #[arg(long, value_name = "TEXT", value_parser = parse::answer)]
    pub default_answer: Option<AnswerText>,
    /// Continue this chain, whose current session has ended; the budget is that of the chain
    #[arg(long, value_name = "CHAIN")]
    pub chain: Option<String>,
    /// The policy for a full context window: handoff or compact [default: handoff]
    #[arg(long, value_parser = parse::context_policy, value_name = "POLICY")]
    pub context_policy: Option<ContextPolicy>,
    #[command(flatten)]
    pub criteria: Criteria,
    /// The time after which an idle or waiting session hibernates: 15m, 2h, never [default: 15m]
    #[arg(long, value_parser = parse::idle_time, value_name = "TIME")]
    pub idle_timeout: Option<u64>,
    /// The same for a paused session [default: 1h]
    #[arg(long, value_parser = parse::idle_time, value_name = "TIME")]
    pub paused_timeout: Option<u64>,
    /// How often the session can be retried after a failure [default: 3]
    #[arg(long, value_name = "TIMES")]
    pub max_retries: Option<u32>,
    /// Let it work although its agent's spend is unknown; its cap then cannot be enforced. Without it the first
    /// session of such an agent is held before its first model call or after its first turn, and later starts are refused
    #[arg(long)]
    pub allow_unmetered: bool,
    /// Do not watch it
    #[arg(long)]
    pub detach: bool,
    /// When the watch ends
    #[arg(long, value_enum, default_value_t = Until::Idle)]
    pub until: Until,
}

/// The default cap in dollars.
const BUDGET: u32 = 5;

impl Run {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let template = match &self.template {
            Some(given) => Some(ctx.client.resolve_template(given).await?),
            None => None,
        };
        self.work.run(ctx, template).await
    }
}

impl Work {
    pub(super) async fn run(
        self,
        ctx: &Context,
        template: Option<AgentTemplateId>,
    ) -> Result<Exit, CliError> {
        let (detach, until) = (self.detach, self.until);
        let mut skill_ids = Vec::with_capacity(self.skill.len());
        for skill in &self.skill {
            skill_ids.push(super::skill::resolve_skill(ctx, skill).await?);
        }
        let chain_id = match &self.chain {
            Some(chain) => Some(ctx.client.resolve_chain(chain).await?),
            None => None,
        };
        let start = StartSession { skill_ids, chain_id, ..self.into_input(template)? };
        let started = ctx.client.start_session(&start).await?;
        if ctx.json {
            write_json(&started)?;
        } else {
            let mut text = outcome(&started.session, ctx.style);
            if let Some(pool) = &started.pool {
                let full = format!(
                    "The session starts when a slot is free: {} of {} are in use.\n",
                    pool.active_count, pool.max_count
                );
                text.push_str(&ctx.style.dim(&full));
            }
            write(&text)?;
        }
        if detach {
            return Ok(Exit::Done);
        }
        follow(ctx, &started.session, FollowOptions { after: None, until, logs: false }).await
    }

    fn into_input(self, template: Option<AgentTemplateId>) -> Result<StartSession, CliError> {
        let (adapter, adapter_options) = match (&self.script, &self.recording) {
            (Some(script), _) => (Some("script".to_owned()), Some(json!({ "script": read_json(script)? }))),
            (None, Some(recording)) => {
                (Some("script".to_owned()), Some(json!({ "recording": absolute(recording)? })))
            }
            (None, None) => (self.adapter.adapter, None),
        };
        let adapter_options = with_options(adapter_options, self.option);
        let objective = if self.objective == "-" { read_input()? } else { self.objective };
        let budget = match (self.budget, template) {
            (None, None) => Usd::new(BUDGET.into()).ok(),
            (said, _) => said,
        };
        let dir = absolute(self.dir.as_deref().unwrap_or(Path::new(".")))?;
        Ok(StartSession {
            name: self.name,
            model_id: self.model,
            thinking_level: self.thinking,
            auto_continue_config: self.criteria.config()?,
            images: read_images(&self.image)?,
            adapter,
            adapter_options,
            allowed_tools: (!self.allow.is_empty()).then_some(self.allow),
            labels: self.label.into_iter().collect::<BTreeMap<_, _>>(),
            allow_unmetered: self.allow_unmetered.then_some(true),
            template_id: template,
            options: SessionOptions {
                plan_approval_required: self.no_plan_approval.then_some(false),
                default_answer: self.default_answer,
                context_policy: self.context_policy,
                idle_timeout_seconds: self.idle_timeout,
                paused_timeout_seconds: self.paused_timeout,
                max_retries: self.max_retries,
                ..SessionOptions::default()
            },
            ..StartSession::new(dir.to_string_lossy(), objective, budget)
        })
    }
}

/// Merges `--option` values into the options of a script or a recording.
fn with_options(base: Option<Value>, options: Vec<(String, Value)>) -> Option<Value> {
    if options.is_empty() {
        return base;
    }
    let mut all = base.and_then(|base| base.as_object().cloned()).unwrap_or_default();
    all.extend(options);
    Some(Value::Object(all))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use pilothouse_client::inputs::StartSession;
    use serde_json::json;

    use crate::commands::args::{Cli, Command};
    use crate::error::CliError;

    fn input(line: &[&str]) -> Result<StartSession, CliError> {
        let Command::Run(run) =
            Cli::try_parse_from(["pilothouse", "run"].iter().chain(line)).unwrap().command
        else {
            panic!("not a run")
        };
        run.work.into_input(None)
    }

    #[test]
    fn omitted_options_are_left_to_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let sent = serde_json::to_value(input(&["do it", "--dir", path.to_str().unwrap()]).unwrap()).unwrap();
        assert_eq!(sent, json!({ "workingDirectory": path, "objective": "do it", "budgetCapUsd": "5" }));
    }

    #[test]
    fn options_thinking_criteria_and_idle_times_are_sent() {
        let line = ["x", "--allow-unmetered", "--max-retries", "7"];
        let sent = serde_json::to_value(input(&line).unwrap()).unwrap();
        assert_eq!((&sent["allowUnmetered"], &sent["maxRetries"]), (&json!(true), &json!(7)));
        let line = [
            "x",
            "--thinking",
            "high",
            "--option",
            "depth=3",
            "--option",
            "mode=fast",
            "--idle-timeout",
            "never",
        ];
        let more = ["--criteria", "tests=make test", "--require-deliverables", "--max-continuations", "2"];
        let sent = input(&[&line[..], &more[..]].concat()).unwrap();
        assert_eq!(sent.adapter_options, Some(json!({ "depth": 3, "mode": "fast" })));
        let sent = serde_json::to_value(sent).unwrap();
        assert_eq!((&sent["thinkingLevel"], &sent["idleTimeoutSeconds"]), (&json!("high"), &json!(0)));
        let loops = &sent["autoContinueConfig"];
        assert_eq!(loops["maxContinuations"], 2);
        assert_eq!(loops["validationCriteria"][1], json!({ "type": "DeliverablesComplete" }));
    }

    #[test]
    fn script_and_images_are_sent_inline_and_recordings_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.json");
        std::fs::write(&file, r#"{"steps":[]}"#).unwrap();
        let sent = input(&["x", "--script", file.to_str().unwrap(), "--label", "a=b"]).unwrap();
        assert_eq!(sent.adapter.as_deref(), Some("script"));
        assert_eq!(sent.adapter_options, Some(json!({ "script": { "steps": [] } })));
        assert_eq!(sent.labels["a"], "b");

        let sent = input(&["x", "--recording", file.to_str().unwrap()]).unwrap();
        assert_eq!(sent.adapter_options, Some(json!({ "recording": file.canonicalize().unwrap() })));

        let image = dir.path().join("i.gif");
        std::fs::write(&image, "GIF89a").unwrap();
        let sent = input(&["x", "--image", image.to_str().unwrap()]).unwrap();
        assert_eq!(serde_json::to_value(sent.images).unwrap()[0]["base64"], "R0lGODlh");

        std::fs::write(&file, "{").unwrap();
        assert!(matches!(input(&["x", "--script", file.to_str().unwrap()]), Err(CliError::Usage(_))));
        assert!(matches!(input(&["x", "--dir", "/no/such/folder"]), Err(CliError::File { .. })));
    }
}
