//! Parsing of inputs. A refusal lists every violation of a request, not only the first one.
//!
//! An input is a struct that derives `Deserr` with `error = Violations` and `deny_unknown_fields`. Its fields are
//! value objects of the domain, so that each rule and its message exist once, in the domain.

mod brief;
mod image;
pub mod trust;

use std::ops::ControlFlow;
use std::str::FromStr;

use deserr::{DeserializeError, Deserr, ErrorKind, IntoValue, MergeWithError, ValuePointerRef};
use pilothouse_domain::agent_api::{AgentTaskPriority, LearningKind};
use pilothouse_domain::announcement::NotificationKind;
use pilothouse_domain::artifact::{ArtifactKind, ArtifactPath, ContentSize, MimeType};
use pilothouse_domain::brake::{BrakeBehavior, BrakeScope};
use pilothouse_domain::coherence::{CoherenceCategory, CoherenceMonitorConfig};
use pilothouse_domain::control_mode::ControlMode;
use pilothouse_domain::decision::{
    AutoRestartConditions, CrashRecoveryPolicy, DecisionTimeoutPolicy, OnTimeout, OrphanAction,
    OrphanActions, OrphanedDecisionPolicy, ResolutionType,
};
use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Severity, ToolGlob};
use pilothouse_domain::escalation::{EscalationProtocol, GuardrailAction, ProtocolViolation, ReportedRisk};
use pilothouse_domain::injection::{ContextInjectionPolicy, ReactiveEvent};
use pilothouse_domain::output::CommitSha;
use pilothouse_domain::project_agent::{HistoryPolicy, SandboxCapability, SecretScope};
use pilothouse_domain::skill::MemoryPillCategory;
use pilothouse_domain::template::cron::CronExpression;
use pilothouse_domain::template::zone::TimeZoneName;
use pilothouse_domain::template::{AllowedTools, EventPriority, MatchPattern};
use pilothouse_domain::text::{
    AdapterName, AgentDescription, AgentRole, AnswerText, ArgumentPattern, ArtifactName, BrakeReason,
    BriefConstraint, Checkpoint, Classification, DecisionText, DeviceName, EventField, Feedback, Goal,
    GuardrailDescription, GuardrailName, HandoffText, IssueDescription, IssueTitle, LabelText,
    LearningContent, LearningSubject, MemoryPillContent, MessageContent, ModelId, Objective,
    ProjectDescription, ProjectName, SessionName, SkillDescription, SkillInstructions, SkillName,
    SubAgentName, SystemPrompt, Tags, TaskDescription, TaskTitle, TemplateDescription, TemplateName,
    ToolDescription, ToolName, WebhookDescription, WorkingDirectory, WorkstreamId, WorkstreamName,
};
use pilothouse_domain::tick::TickConfig;
use pilothouse_domain::value::{
    AllowedModels, AutoContinueConfig, ContentHash, ContextPolicy, CycleDirection, ExecutionMode, ImageType,
    MessagePriority, ServerUri, ThinkingLevel,
};
use pilothouse_domain::web_push::{BrowserPublicKey, BrowserSecret};
use pilothouse_domain::webhook::{EventFilter, WebhookUrl};
use pilothouse_domain::{
    AgentTemplateId, ArtifactId, LinkedTaskId, MessageId, OutputId, ProjectId, SessionChainId, ToolCallId,
    TurnId, Usd,
};
use pilothouse_wire::coverage::CoveragePattern;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::image::ImageInput;
use crate::Violation;
use crate::patch::Patch;

/// All violations of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    fn with(mut self, location: ValuePointerRef<'_>, field: Option<&str>, message: String) -> Self {
        let path = path_of(location);
        self.0.push(Violation {
            field: field.map_or_else(|| path.clone(), |field| join(&path, field)),
            message,
        });
        self
    }
}

/// The path of a value, such as `autoContinueConfig.validationCriteria[0].type`.
pub fn path_of(location: ValuePointerRef<'_>) -> String {
    match location {
        ValuePointerRef::Origin => String::new(),
        ValuePointerRef::Key { key, prev } => join(&path_of(*prev), key),
        ValuePointerRef::Index { index, prev } => format!("{}[{index}]", path_of(*prev)),
    }
}

/// The path of a part of the value at `parent`.
pub fn join(parent: &str, key: &str) -> String {
    match (parent, key) {
        ("", key) => key.to_owned(),
        (parent, "") => parent.to_owned(),
        (parent, key) => format!("{parent}.{key}"),
    }
}

impl DeserializeError for Violations {
    fn error<V: IntoValue>(
        self_: Option<Self>,
        error: ErrorKind<'_, V>,
        location: ValuePointerRef<'_>,
    ) -> ControlFlow<Self, Self> {
        let (field, message) = match error {
            ErrorKind::IncorrectValueKind { actual, accepted } => {
                let accepted: Vec<_> = accepted.iter().map(|kind| kind.to_string().to_lowercase()).collect();
                (
                    None,
                    format!(
                        "must be {}, but is {}",
                        accepted.join(" or "),
                        actual.kind().to_string().to_lowercase()
                    ),
                )
            }
            ErrorKind::MissingField { field } => (Some(field), "is missing".to_owned()),
            ErrorKind::UnknownKey { key, accepted } => {
                (Some(key), format!("is not known here; known are {}", accepted.join(", ")))
            }
            ErrorKind::UnknownValue { value, accepted } => {
                (None, format!("`{value}` is none of {}", accepted.join(", ")))
            }
            ErrorKind::BadSequenceLen { expected, .. } => (None, format!("must have {expected} entries")),
            ErrorKind::Unexpected { msg } => (None, msg),
        };
        ControlFlow::Continue(self_.unwrap_or_default().with(location, field, message))
    }
}

impl MergeWithError<Self> for Violations {
    fn merge(self_: Option<Self>, other: Self, _: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        let mut all = self_.unwrap_or_default();
        all.0.extend(other.0);
        ControlFlow::Continue(all)
    }
}

/// The error of a value object becomes a violation of its field.
impl<E: std::error::Error> MergeWithError<E> for Violations {
    fn merge(self_: Option<Self>, other: E, location: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        ControlFlow::Continue(self_.unwrap_or_default().with(location, None, other.to_string()))
    }
}

/// Why the value of a field is refused, as a sentence without its subject: `must be 1 to 99`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FieldError(pub String);

/// Reads value objects: a value of the first type, and a function that converts it.
macro_rules! value_objects {
    ($($from:ty, $convert:expr => $($object:ty),+;)*) => {$($(
        impl Deserr<Violations> for $object {
            fn deserialize_from_value<V: IntoValue>(
                value: deserr::Value<V>,
                location: ValuePointerRef<'_>,
            ) -> Result<Self, Violations> {
                let value = <$from as Deserr<Violations>>::deserialize_from_value(value, location)?;
                let object: Result<Self, _> = $convert(value);
                object.map_err(|error| Violations::default().with(location, None, error.to_string()))
            }
        }
    )+)*};
}

value_objects! {
    String, TryFrom::try_from => AdapterName, AgentDescription, AgentRole, AnswerText, ArgumentPattern, ArtifactName, ArtifactPath, BrakeReason, BriefConstraint, Checkpoint, ContentHash, Goal, IssueDescription, IssueTitle, MimeType,
        GuardrailDescription, GuardrailName,
        ProjectDescription, ProjectName, WorkstreamId, WorkstreamName, Classification, CommitSha, CronExpression, DecisionText, EventField,
        Feedback, HandoffText, LabelText, LearningContent, LearningSubject, LinkedTaskId, MatchPattern, MemoryPillContent, MessageContent,
        ModelId, Objective, ServerUri, SessionName, SkillDescription, SkillInstructions, SkillName, SubAgentName, SystemPrompt,
        TaskDescription, TaskTitle, TemplateDescription, TemplateName, TimeZoneName, ToolDescription, ToolName, WebhookDescription,
        WebhookUrl, WorkingDirectory, BrowserPublicKey, BrowserSecret, DeviceName;
    u64, TryFrom::try_from => ContentSize;
    String, parse => AgentTemplateId, ArtifactId, ProjectId, MessageId, OutputId, SessionChainId, ToolCallId, TurnId, Usd;
    Vec<String>, TryFrom::try_from => EventFilter, Tags;
    Vec<String>, AllowedTools::new => AllowedTools;
    Vec<String>, AllowedModels::new => AllowedModels;
    Value, from_json => ActionKind, AgentTaskPriority, ArtifactKind, BlastRadius, BrakeBehavior, BrakeScope, Confidence, ContextPolicy, ControlMode,
        CycleDirection, EventPriority, ExecutionMode, GuardrailAction, HistoryPolicy, CoherenceCategory, ImageType, LearningKind, MemoryPillCategory,
        MessagePriority, NotificationKind, OnTimeout, OrphanAction, ReactiveEvent, ReportedRisk, ResolutionType, SandboxCapability, SecretScope, Severity,
        ThinkingLevel, ToolGlob;
    Value, auto_continue => AutoContinueConfig;
    Value, trust::tick_config => TickConfig;
}

/// The fields of a timeout policy.
#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct TimeoutFields {
    #[deserr(default)]
    timeout_ticks: Option<u64>,
    on_timeout: OnTimeout,
    #[deserr(default)]
    max_extensions: Option<u32>,
}

impl Deserr<Violations> for DecisionTimeoutPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let TimeoutFields { timeout_ticks, on_timeout, max_extensions } =
            Deserr::<Violations>::deserialize_from_value(value, location)?;
        let max_extensions = max_extensions.unwrap_or(Self::DEFAULT_EXTENSIONS);
        let policy = Self { timeout_ticks, on_timeout, max_extensions };
        policy.check().map_err(|wrong| violations_of(&wrong, location))?;
        Ok(policy)
    }
}

/// Violations whose texts start with the field.
fn violations_of<E: std::error::Error>(wrong: &[E], location: ValuePointerRef<'_>) -> Violations {
    wrong.iter().fold(Violations::default(), |all, violation| {
        let text = violation.to_string();
        let (field, message) = text.split_once(' ').unwrap_or(("", &text));
        all.with(location, Some(field), message.to_owned())
    })
}

/// The fields of a policy for orphaned decisions.
#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct OrphanFields {
    default: OrphanAction,
    #[deserr(default)]
    grace_period_ms: Option<u64>,
    #[deserr(default)]
    per_subtype: OrphanActionFields,
}

/// Names as in S2, which are those of the kinds of decisions.
#[derive(Default, Deserr)]
#[deserr(error = Violations, deny_unknown_fields)]
struct OrphanActionFields {
    #[deserr(default)]
    option: Option<OrphanAction>,
    #[deserr(default)]
    tool_approval: Option<OrphanAction>,
}

impl Deserr<Violations> for OrphanedDecisionPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let OrphanFields { default, grace_period_ms, per_subtype } =
            Deserr::<Violations>::deserialize_from_value(value, location)?;
        let OrphanActionFields { option, tool_approval } = per_subtype;
        let policy = Self {
            default,
            grace_period_ms: grace_period_ms.unwrap_or(Self::DEFAULT_GRACE_MS),
            per_subtype: OrphanActions { option, tool_approval },
        };
        policy.check().map_err(|wrong| violations_of(&wrong, location))?;
        Ok(policy)
    }
}

/// The fields of a policy for crash recovery.
#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct RecoveryFields {
    #[deserr(default)]
    auto_restart: bool,
    #[deserr(default)]
    auto_restart_conditions: RestartConditionFields,
    #[deserr(default)]
    prefer_resume_over_restart: Option<bool>,
}

#[derive(Default, Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct RestartConditionFields {
    #[deserr(default)]
    min_trust_score: Option<u8>,
    #[deserr(default)]
    max_consecutive_crashes: Option<u32>,
    #[deserr(default)]
    cooldown_ms: Option<u64>,
}

impl Deserr<Violations> for CrashRecoveryPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let fields: RecoveryFields = Deserr::<Violations>::deserialize_from_value(value, location)?;
        let RestartConditionFields { min_trust_score, max_consecutive_crashes, cooldown_ms } =
            fields.auto_restart_conditions;
        let (default, usual) = (Self::default(), AutoRestartConditions::default());
        let policy = Self {
            auto_restart: fields.auto_restart,
            auto_restart_conditions: AutoRestartConditions {
                min_trust_score: min_trust_score.unwrap_or(usual.min_trust_score),
                max_consecutive_crashes: max_consecutive_crashes.unwrap_or(usual.max_consecutive_crashes),
                cooldown_ms: cooldown_ms.unwrap_or(usual.cooldown_ms),
            },
            prefer_resume_over_restart: fields
                .prefer_resume_over_restart
                .unwrap_or(default.prefer_resume_over_restart),
        };
        policy.check().map_err(|wrong| violations_of(&wrong, location))?;
        Ok(policy)
    }
}

/// Each violation of a protocol has its own path.
/// The fields of a policy for context injections. Omitted fields have the defaults of the mode `adaptive`.
#[derive(Deserr)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
struct InjectionFields {
    #[deserr(default)]
    periodic_interval_minutes: Patch<u32>,
    #[deserr(default)]
    reactive_events: Option<Vec<ReactiveEvent>>,
    #[deserr(default)]
    coherence_severity: Option<Severity>,
    #[deserr(default)]
    staleness_threshold: Patch<u32>,
    #[deserr(default)]
    max_injections_per_hour: Option<u32>,
    #[deserr(default)]
    cooldown_minutes: Option<u32>,
}

impl Deserr<Violations> for ContextInjectionPolicy {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let fields: InjectionFields = Deserr::<Violations>::deserialize_from_value(value, location)?;
        let default = Self::default();
        let policy = Self {
            periodic_interval_minutes: fields
                .periodic_interval_minutes
                .apply_to(&default.periodic_interval_minutes),
            reactive_events: fields
                .reactive_events
                .map_or(default.reactive_events, |events| events.into_iter().collect()),
            coherence_severity: fields.coherence_severity.unwrap_or(default.coherence_severity),
            staleness_threshold: fields.staleness_threshold.apply_to(&default.staleness_threshold),
            max_injections_per_hour: fields
                .max_injections_per_hour
                .unwrap_or(default.max_injections_per_hour),
            cooldown_minutes: fields.cooldown_minutes.unwrap_or(default.cooldown_minutes),
        };
        policy.check().map_err(|wrong| violations_of(&wrong, location))?;
        Ok(policy)
    }
}

impl Deserr<Violations> for CoherenceMonitorConfig {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let Value::Object(fields) = Deserr::<Violations>::deserialize_from_value(value, location)? else {
            return Err(Violations::default().with(location, None, "must be an object".to_owned()));
        };
        let (mut valid, mut violations) = (Map::new(), Violations::default());
        for (field, value) in fields {
            // Read alone, so that a wrong field does not hide another.
            match from_json::<Self>(Value::Object(Map::from_iter([(field.clone(), value.clone())]))) {
                Ok(_) => drop(valid.insert(field, value)),
                Err(FieldError(message)) => violations = violations.with(location, Some(&field), message),
            }
        }
        let config: Self = from_json(Value::Object(valid))
            .map_err(|error| Violations::default().with(location, None, error.to_string()))?;
        if let Err(wrong) = config.check() {
            violations.0.extend(violations_of(&wrong, location).0);
        }
        if violations.0.is_empty() { Ok(config) } else { Err(violations) }
    }
}

impl Deserr<Violations> for EscalationProtocol {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        location: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let value = <Value as Deserr<Violations>>::deserialize_from_value(value, location)?;
        Self::parse(&value).map_err(|wrong| {
            let violation = |(path, violation): (String, ProtocolViolation)| Violation {
                field: join(&path_of(location), &path),
                message: violation.to_string(),
            };
            Violations(wrong.0.into_iter().map(violation).collect())
        })
    }
}

/// Reads a value of the domain with serde.
pub fn from_json<T: DeserializeOwned>(value: Value) -> Result<T, FieldError> {
    serde_json::from_value(value).map_err(|error| FieldError(error.to_string()))
}

/// Parses a string.
#[allow(clippy::needless_pass_by_value)] // deserr passes values
pub fn parse<T: FromStr>(value: String) -> Result<T, T::Err> {
    value.parse()
}

fn auto_continue(value: Value) -> Result<AutoContinueConfig, FieldError> {
    let config: AutoContinueConfig = from_json(value)?;
    let all = |wrong: Vec<_>| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    config.check().map_err(|wrong| FieldError(all(wrong)))?;
    for criterion in &config.validation_criteria {
        CoveragePattern::new(criterion.coverage_pattern.as_deref())
            .map_err(|wrong| FieldError(wrong.to_string()))?;
    }
    Ok(config)
}

/// Parses a list of ids and refuses duplicates.
pub fn distinct_ids<T>(texts: Vec<String>) -> Result<Vec<T>, FieldError>
where
    T: std::str::FromStr<Err: std::fmt::Display> + std::fmt::Display + PartialEq,
{
    let (mut ids, mut wrong) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match text.parse::<T>() {
            Ok(id) if ids.contains(&id) => wrong.push(format!("{id} is listed twice")),
            Ok(id) => ids.push(id),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(ids) } else { Err(FieldError(wrong.join("; "))) }
}
