//! Input types that several functions of templates share.

use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_domain::template::cron::CronExpression;
use pilothouse_domain::template::zone::TimeZoneName;
use pilothouse_domain::template::{AgentSchedule, EventPriority, MatchPattern, NewRule, ScheduledLaunch};
use pilothouse_domain::text::{Classification, EventField, Objective, SessionName, WorkingDirectory};
use schemars::JsonSchema;

/// A schedule on which a template starts sessions (S0 8.5 `AgentSchedule`).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleInput {
    /// A cron expression with five fields: minute, hour, day of month, month, day of week. Example: `0 9 * * mon-fri`.
    #[schemars(with = "String")]
    pub cron_expression: CronExpression,
    /// The time zone of the expression: a name of the IANA database, such as `Europe/Berlin`.
    #[schemars(with = "String")]
    pub time_zone: TimeZoneName,
    /// Whether the schedule is enabled. Default: `true`.
    #[deserr(default = true)]
    #[schemars(default = "yes")]
    pub is_enabled: bool,
    /// The parameters of scheduled sessions.
    pub launch: LaunchInput,
}

const fn yes() -> bool {
    true
}

/// The parameters of scheduled sessions. The template supplies all others.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchInput {
    /// The working directory of the agent: an absolute path.
    pub working_directory: WorkingDirectory,
    /// The task of the agent.
    pub objective: Objective,
    /// The name of the sessions. Default: derived from the objective.
    #[deserr(default)]
    pub name: Option<SessionName>,
}

impl From<ScheduleInput> for AgentSchedule {
    fn from(input: ScheduleInput) -> Self {
        let LaunchInput { working_directory, objective, name } = input.launch;
        Self {
            cron_expression: input.cron_expression,
            time_zone: input.time_zone,
            is_enabled: input.is_enabled,
            launch: ScheduledLaunch { working_directory, objective, name },
        }
    }
}

/// A rule that classifies external events (S0 8.5 `ClassificationRule`).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleInput {
    /// The field of the event that the rule matches.
    pub match_field: EventField,
    /// The pattern that the whole field must match, regardless of case. `*` matches any text and `?` matches any character. `\`
    /// escapes the next character.
    pub match_pattern: MatchPattern,
    /// The classification of matching events.
    pub classify_as: Classification,
    /// The lowest priority of matching events. Default: the priority that the event states.
    #[deserr(default)]
    pub min_priority: Option<EventPriority>,
}

impl From<RuleInput> for NewRule {
    fn from(input: RuleInput) -> Self {
        let RuleInput { match_field, match_pattern, classify_as, min_priority } = input;
        Self { match_field, match_pattern, classify_as, min_priority }
    }
}
