//! The inputs of templates: the parts that several functions read.

use deserr::Deserr;
use pilothouse_domain::template::cron::{CronExpression, InvalidCron};
use pilothouse_domain::template::zone::{InvalidTimeZone, TimeZoneName};
use pilothouse_domain::template::{
    AgentSchedule, AllowedTools, EventPriority, InvalidPattern, InvalidTools, MatchPattern, NewRule,
    ScheduledLaunch,
};
use pilothouse_domain::text::{
    Classification, EventField, InvalidText, Objective, SessionName, WorkingDirectory,
};
use schemars::JsonSchema;
use serde_json::Value;

use crate::edge::input::{Said, Violations, maybe, maybe_by_serde};

/// When a template starts a session by itself, and with what (S0 8.5 `AgentSchedule`).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScheduleInput {
    /// Five fields: minute, hour, day of month, month, day of week. `0 9 * * mon-fri`.
    #[deserr(try_from(String) = CronExpression::try_from -> InvalidCron)]
    #[schemars(with = "String")]
    pub cron_expression: CronExpression,
    /// The clock on which wall: a name of the IANA database, like `Europe/Berlin`.
    #[deserr(try_from(String) = TimeZoneName::try_from -> InvalidTimeZone)]
    #[schemars(with = "String")]
    pub time_zone: TimeZoneName,
    /// Whether it is switched on. Default: yes.
    #[deserr(default = true)]
    #[schemars(default = "yes")]
    pub is_enabled: bool,
    /// What its sessions are started with.
    pub launch: LaunchInput,
}

const fn yes() -> bool {
    true
}

/// What scheduled sessions are started with. Everything else is the template's.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchInput {
    /// Where the agent runs: an absolute path.
    #[deserr(try_from(String) = WorkingDirectory::try_from -> InvalidText)]
    pub working_directory: WorkingDirectory,
    /// What it is to do.
    #[deserr(try_from(String) = Objective::try_from -> InvalidText)]
    pub objective: Objective,
    /// The sessions' name. Default: made from the objective.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
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

/// A rule that says what an event from outside is (S0 8.5 `ClassificationRule`).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleInput {
    /// The field of the event that is looked at.
    #[deserr(try_from(String) = EventField::try_from -> InvalidText)]
    pub match_field: EventField,
    /// What the whole field must look like: `*` is any text, `?` any character, `\` takes the meaning from what follows.
    /// Case does not count.
    #[deserr(try_from(String) = MatchPattern::try_from -> InvalidPattern)]
    pub match_pattern: MatchPattern,
    /// What the event is then.
    #[deserr(try_from(String) = Classification::try_from -> InvalidText)]
    pub classify_as: Classification,
    /// How urgent it is at least. Default: as urgent as the event says.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub min_priority: Option<EventPriority>,
}

impl From<RuleInput> for NewRule {
    fn from(input: RuleInput) -> Self {
        let RuleInput { match_field, match_pattern, classify_as, min_priority } = input;
        Self { match_field, match_pattern, classify_as, min_priority }
    }
}

pub(super) fn maybe_allowed_tools(names: Option<Vec<String>>) -> Result<Option<AllowedTools>, InvalidTools> {
    names.map(AllowedTools::new).transpose()
}
