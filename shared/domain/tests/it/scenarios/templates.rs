//! Templates: refusals, defaults for sessions, and schedules (S0 8.4 `AgentTemplate`).

use std::time::Duration;

use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::template::cron::CronExpression;
use pilothouse_domain::template::zone::TimeZoneName;
use pilothouse_domain::template::{
    AgentSchedule, AgentTemplate, AllowedTools, EventFields, EventPriority, IncompleteSpec, MatchPattern,
    NewRule, NewTemplate, ResolvedSession, ScheduleSkip, ScheduledLaunch, SessionSpec, TemplateContent,
    TemplateError, TemplateSection,
};
use pilothouse_domain::text::{
    AdapterName, AnswerText, Classification, EventField, ModelId, Objective, SystemPrompt, TemplateName,
    ToolDescription, ToolName, WorkingDirectory,
};
use pilothouse_domain::value::{
    Adjustment, AllowedModels, AutoContinueConfig, CycleDirection, ExecutionMode, InputSchema,
    McpToolDefinition, ServerUri, SessionBudget, ValidationCriterion, ValidationType,
};
use pilothouse_domain::{
    AgentSession, AgentSessionId, AgentSkillId, AgentTemplateId, Aggregate as _, ClassificationRuleId,
    Deadlines, DomainContext, TemplateEvent, Timestamp, UserId,
};
use serde_json::json;
use uuid::Uuid;

use crate::scenario::{Ids, usd};

const DAY: Duration = Duration::from_hours(24);

/// A template with a clock and a counter for ids.
struct Desk {
    template: AgentTemplate,
    now: Timestamp,
    ids: Ids,
}

fn skill(n: u128) -> AgentSkillId {
    AgentSkillId::new(Uuid::from_u128(n))
}

fn session(n: u128) -> AgentSessionId {
    AgentSessionId::new(Uuid::from_u128(n))
}

fn owner() -> UserId {
    UserId::parse("owner").unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn content() -> TemplateContent {
    TemplateContent {
        brief_defaults: serde_json::Map::new(),
        name: TemplateName::parse("Triage").unwrap(),
        description: None,
        model_id: ModelId::parse("small").unwrap(),
        allowed_models: AllowedModels::default(),
        system_prompt: None,
        allowed_tools: AllowedTools::new(vec!["Read".into()]).unwrap(),
        default_budget: SessionBudget::new(usd("2"), 70).unwrap(),
        default_auto_continue_config: None,
        execution_mode: ExecutionMode::Standalone,
        adapter: None,
        adapter_options: serde_json::Value::Null,
        options: SessionOptions { plan_approval_required: Some(false), ..SessionOptions::default() },
    }
}

fn new_template() -> NewTemplate {
    NewTemplate {
        id: AgentTemplateId::new(Uuid::from_u128(77)),
        owner_id: owner(),
        content: content(),
        custom_tool_definitions: Vec::new(),
        default_skill_ids: Vec::new(),
        classification_rules: Vec::new(),
        schedule: None,
    }
}

fn nightly() -> AgentSchedule {
    AgentSchedule {
        cron_expression: CronExpression::parse("0 2 * * *").unwrap(),
        time_zone: TimeZoneName::parse("UTC").unwrap(),
        is_enabled: true,
        launch: ScheduledLaunch {
            working_directory: WorkingDirectory::parse("/work").unwrap(),
            objective: Objective::parse("Tidy up").unwrap(),
            name: None,
        },
    }
}

fn rule(field: &str, pattern: &str, class: &str) -> NewRule {
    NewRule {
        match_field: EventField::parse(field).unwrap(),
        match_pattern: MatchPattern::parse(pattern).unwrap(),
        classify_as: Classification::parse(class).unwrap(),
        min_priority: None,
    }
}

impl Desk {
    fn of(new: NewTemplate) -> Self {
        let (mut ids, now) = (Ids(1000), at("2026-05-01T12:00:00.000Z"));
        let mut ctx = DomainContext::new(now, Deadlines::default(), &mut ids);
        let (template, events) = AgentTemplate::create(new, &mut ctx).unwrap();
        assert_eq!(events, [TemplateEvent::Created { name: "Triage".into() }]);
        Self { template, now, ids }
    }

    fn new() -> Self {
        Self::of(new_template())
    }

    fn scheduled() -> Self {
        Self::of(NewTemplate { schedule: Some(nightly()), ..new_template() })
    }

    fn when<T>(&mut self, step: impl FnOnce(&mut AgentTemplate, &mut DomainContext<'_>) -> T) -> T {
        step(&mut self.template, &mut DomainContext::new(self.now, Deadlines::default(), &mut self.ids))
    }

    /// Expects a refusal that changes nothing.
    fn refused(
        &mut self,
        step: impl FnOnce(&mut AgentTemplate, &mut DomainContext<'_>) -> Result<Vec<TemplateEvent>, TemplateError>,
    ) -> TemplateError {
        let before = self.template.clone();
        let refusal = self.when(step).unwrap_err();
        assert_eq!(self.template, before);
        refusal
    }

    fn resolved(&self, order: SessionSpec) -> ResolvedSession {
        order.resolve(session(1), owner(), Some(&self.template), Some(&AdapterName::native())).unwrap()
    }
}

fn order() -> SessionSpec {
    SessionSpec::new(WorkingDirectory::parse("/here").unwrap(), Objective::parse("Do it").unwrap())
}

fn updated(part: TemplateSection) -> [TemplateEvent; 1] {
    [TemplateEvent::Updated { part }]
}

#[test]
fn template_round_trips_through_storage() {
    let mut desk = Desk::of(NewTemplate {
        schedule: Some(nightly()),
        classification_rules: vec![rule("subject", "*invoice*", "invoice")],
        default_skill_ids: vec![skill(1)],
        ..new_template()
    });
    desk.now = desk.now + DAY;
    desk.when(|it, ctx| it.record_run(session(9), ctx));
    let stored = serde_json::to_string(&desk.template).unwrap();
    assert_eq!(serde_json::from_str::<AgentTemplate>(&stored).unwrap(), desk.template);
}

#[test]
fn changed_content_is_an_update_of_the_template() {
    let mut desk = Desk::new();
    let renamed = TemplateContent { name: TemplateName::parse("Sorter").unwrap(), ..content() };
    let events = desk.when(|it, ctx| it.update(renamed, ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::Content));
}

#[test]
fn no_op_update_is_no_change() {
    let mut desk = Desk::scheduled();
    let before = desk.template.clone();
    desk.now = desk.now + Duration::from_mins(1);
    assert_eq!(desk.when(|it, ctx| it.update(content(), ctx)).unwrap(), []);
    assert_eq!(desk.when(|it, ctx| it.update_schedule(Some(nightly()), ctx)).unwrap(), []);
    assert_eq!(desk.when(|it, ctx| it.activate(ctx)), []);
    assert_eq!(desk.template, before);
    desk.when(|it, ctx| it.add_default_skill(skill(1), ctx)).unwrap();
    assert_eq!(desk.when(|it, ctx| it.add_default_skill(skill(1), ctx)).unwrap(), []);
    desk.when(|it, ctx| it.deactivate(ctx));
    assert_eq!(desk.when(|it, ctx| it.deactivate(ctx)), []);
}

#[test]
fn default_skills_keep_their_order_without_duplicates() {
    let mut desk =
        Desk::of(NewTemplate { default_skill_ids: vec![skill(2), skill(1), skill(2)], ..new_template() });
    assert_eq!(desk.template.default_skill_ids(), [skill(2), skill(1)]);
    let events = desk.when(|it, ctx| it.add_default_skill(skill(3), ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::DefaultSkills));
    let events = desk.when(|it, ctx| it.remove_default_skill(skill(1), ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::DefaultSkills));
    assert_eq!(desk.template.default_skill_ids(), [skill(2), skill(3)]);
    assert_eq!(desk.refused(|it, ctx| it.remove_default_skill(skill(1), ctx)), TemplateError::NoSuchSkill);
}

#[test]
fn template_lists_are_bounded() {
    let mut desk = Desk::new();
    for n in 0..20 {
        desk.when(|it, ctx| it.add_default_skill(skill(n), ctx)).unwrap();
    }
    let refusal = desk.refused(|it, ctx| it.add_default_skill(skill(99), ctx));
    assert_eq!(refusal, TemplateError::TooMany { what: "default skills", max: 20 });
    for _ in 0..100 {
        let events = desk.when(|it, ctx| {
            let rule = rule("subject", "*", "mail").with_id(ctx);
            it.add_classification_rule(rule, ctx)
        });
        assert_eq!(events.unwrap(), updated(TemplateSection::ClassificationRules));
    }
    let refusal = desk.refused(|it, ctx| {
        let rule = rule("subject", "*", "mail").with_id(ctx);
        it.add_classification_rule(rule, ctx)
    });
    assert_eq!(refusal, TemplateError::TooMany { what: "classification rules", max: 100 });
}

fn tool(name: &str, server: &str) -> McpToolDefinition {
    McpToolDefinition {
        name: ToolName::parse(name).unwrap(),
        description: ToolDescription::parse("Looks things up").unwrap(),
        input_schema: InputSchema::parse("{}").unwrap(),
        server_uri: ServerUri::parse(server).unwrap(),
    }
}

#[test]
fn tool_names_are_unique_in_a_template() {
    let mut desk = Desk::new();
    let events =
        desk.when(|it, ctx| it.add_custom_tool_definition(tool("find", "https://a.example"), ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::CustomTools));
    assert_eq!(
        desk.when(|it, ctx| it.add_custom_tool_definition(tool("find", "https://a.example"), ctx)).unwrap(),
        []
    );
    let refusal =
        desk.refused(|it, ctx| it.add_custom_tool_definition(tool("find", "https://b.example"), ctx));
    assert_eq!(refusal, TemplateError::ToolExists(ToolName::parse("find").unwrap()));
    assert_eq!(
        desk.refused(|it, ctx| it.remove_custom_tool_definition("look", ctx)),
        TemplateError::NoSuchTool
    );
    let events = desk.when(|it, ctx| it.remove_custom_tool_definition("find", ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::CustomTools));
    assert_eq!(desk.template.custom_tool_definitions(), []);
    let twice = vec![tool("find", "https://a.example"), tool("find", "https://b.example")];
    let mut ids = Ids(0);
    let mut ctx = DomainContext::new(desk.now, Deadlines::default(), &mut ids);
    let new = NewTemplate { custom_tool_definitions: twice, ..new_template() };
    assert!(matches!(AgentTemplate::create(new, &mut ctx), Err(TemplateError::Tools(_))));
}

#[test]
fn template_size_is_bounded() {
    let mut desk = Desk::new();
    let large = TemplateContent {
        system_prompt: Some(SystemPrompt::parse("\u{1}".repeat(50_000)).unwrap()),
        ..content()
    };
    assert_eq!(
        desk.refused(|it, ctx| it.update(large, ctx)),
        TemplateError::TooLarge { what: "template", max: 262_144 }
    );
}

#[test]
fn prompt_and_tools_leave_room_for_skills() {
    let mut desk = Desk::new();
    let schema = |n: usize| format!(r#"{{"title":"{}"}}"#, "x".repeat(n));
    let large = |n: usize| McpToolDefinition {
        input_schema: InputSchema::parse(schema(16_300)).unwrap(),
        ..tool(&format!("t{n}"), "https://a.example")
    };
    for n in 0..5 {
        desk.when(|it, ctx| it.add_custom_tool_definition(large(n), ctx)).unwrap();
    }
    let refusal = desk.refused(|it, ctx| it.add_custom_tool_definition(large(6), ctx));
    assert_eq!(refusal, TemplateError::TooLarge { what: "prompt and tools", max: 98_304 });
}

#[test]
fn rule_ids_are_unique_and_the_first_match_counts() {
    let mut desk = Desk::of(NewTemplate {
        classification_rules: vec![
            rule("subject", "*invoice*", "invoice"),
            rule("from", "*@example.com", "ours"),
        ],
        ..new_template()
    });
    let known = desk.template.classification_rules()[0].clone();
    assert_eq!(
        desk.refused(|it, ctx| it.add_classification_rule(known.clone(), ctx)),
        TemplateError::RuleExists
    );
    let event = |subject: &str| {
        EventFields::from([("subject".into(), subject.into()), ("from".into(), "jo@example.com".into())])
    };
    let class = |desk: &Desk, subject: &str| {
        desk.template.classify(&event(subject)).map(|found| found.rule.classify_as.as_str().to_owned())
    };
    assert_eq!(class(&desk, "Invoice 7").as_deref(), Some("invoice"));
    assert_eq!(class(&desk, "Hello").as_deref(), Some("ours"));
    assert_eq!(desk.template.classify(&EventFields::new()), None);
    let events = desk.when(|it, ctx| it.remove_classification_rule(known.id, ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::ClassificationRules));
    assert_eq!(class(&desk, "Invoice 7").as_deref(), Some("ours"));
    let gone = ClassificationRuleId::new(Uuid::from_u128(5));
    assert_eq!(desk.refused(|it, ctx| it.remove_classification_rule(gone, ctx)), TemplateError::NoSuchRule);
    assert!(EventPriority::Urgent > EventPriority::Low);
}

#[test]
fn a_deactivated_template_cannot_be_used() {
    let mut desk = Desk::new();
    assert_eq!(desk.template.check_usable(), Ok(()));
    assert_eq!(desk.when(|it, ctx| it.deactivate(ctx)), [TemplateEvent::Deactivated {}]);
    assert_eq!(desk.template.check_usable(), Err(TemplateError::Inactive));
    assert_eq!(desk.when(|it, ctx| it.activate(ctx)), [TemplateEvent::Activated {}]);
    assert_eq!(desk.template.check_usable(), Ok(()));
}

#[test]
fn invalid_auto_continue_is_refused() {
    let config = AutoContinueConfig {
        validation_criteria: vec![ValidationCriterion {
            kind: ValidationType::TestsPassing,
            threshold: None,
            custom_command: None,
            coverage_pattern: None,
        }],
        max_continuations: 0,
        current_continuation_count: 0,
        validation_timeout_seconds: 600,
        is_enabled: true,
    };
    let wrong = TemplateContent { default_auto_continue_config: Some(config), ..content() };
    let refusal = Desk::new().refused(|it, ctx| it.update(wrong, ctx));
    assert!(matches!(&refusal, TemplateError::AutoContinue(all) if all.len() == 2), "{refusal}");
}

fn models(ids: &[&str]) -> AllowedModels {
    AllowedModels::new(ids.iter().map(ToString::to_string).collect()).unwrap()
}

#[test]
fn sessions_use_only_models_that_their_template_allows() {
    let mut desk = Desk::new();
    let wrong = TemplateContent { allowed_models: models(&["large"]), ..content() };
    let refusal = desk.refused(|it, ctx| it.update(wrong, ctx));
    assert_eq!(refusal.to_string(), "must be `large`, not `small`");
    let limited = TemplateContent { allowed_models: models(&["small", "large-*"]), ..content() };
    desk.when(|it, ctx| it.update(limited, ctx)).unwrap();

    let of = |model: &str| SessionSpec { model_id: Some(ModelId::parse(model).unwrap()), ..order() };
    let native = AdapterName::native();
    let other = of("other").resolve(session(1), owner(), Some(&desk.template), Some(&native));
    assert!(matches!(other, Err(IncompleteSpec::Model(_))), "{other:?}");
    let fallback =
        |model: &str| SessionSpec { adapter_options: Some(json!({ "fallbackModel": model })), ..of("small") };
    let other = fallback("other").resolve(session(1), owner(), Some(&desk.template), Some(&native));
    assert!(matches!(other, Err(IncompleteSpec::Model(_))), "{other:?}");
    assert_eq!(desk.resolved(fallback("large-3")).new.model_id.as_str(), "small");
    let wrong = TemplateContent {
        adapter_options: json!({ "fallbackModel": "other" }),
        ..desk.template.content().clone()
    };
    let refusal = desk.refused(|it, ctx| it.update(wrong, ctx));
    assert_eq!(refusal.to_string(), "must be `small` or `large-*`, not `other`");
    let new = desk.resolved(of("large-2")).new;
    assert_eq!(
        (new.model_id.as_str(), &new.settings.allowed_models),
        ("large-2", &models(&["small", "large-*"]))
    );

    let mut ids = Ids(1);
    let mut ctx = DomainContext::new(desk.now, Deadlines::default(), &mut ids);
    let (mut started, _) = AgentSession::create(new, &ctx);
    let choose = |model: &str| [Adjustment::SetModel { model_id: model.to_owned() }];
    started.adjust(&choose("small"), &mut ctx).unwrap();
    let before = started.clone();
    assert_eq!(started.adjust(&choose("other"), &mut ctx).unwrap_err().code(), "validation-failed");
    let next = [Adjustment::CycleModel { direction: CycleDirection::Forward }];
    assert_eq!(started.adjust(&next, &mut ctx).unwrap_err().code(), "models-limited");
    assert_eq!(started, before);
}

#[test]
fn start_values_override_the_template_then_defaults() {
    let mut desk = Desk::new();
    let full = TemplateContent {
        adapter: Some(AdapterName::parse("claude").unwrap()),
        adapter_options: json!({ "effort": "high" }),
        execution_mode: ExecutionMode::ParallelBatch,
        options: SessionOptions {
            request_timeout_seconds: Some(60),
            default_answer: Some(AnswerText::parse("Go on").unwrap()),
            context_warn_at_percent: Some(70),
            idle_timeout_seconds: Some(0),
            paused_timeout_seconds: Some(30),
            ..content().options
        },
        ..content()
    };
    desk.when(|it, ctx| it.update(full, ctx)).unwrap();
    desk.when(|it, ctx| it.add_default_skill(skill(1), ctx)).unwrap();
    let ordered = desk.resolved(order());
    let new = ordered.new;
    assert_eq!(new.template_id, Some(desk.template.id()));
    assert_eq!((new.model_id.as_str(), ordered.execution_mode), ("small", ExecutionMode::ParallelBatch));
    assert_eq!((new.budget.hard_cap_usd(), new.budget.warn_at_percent()), (usd("2"), 70));
    assert_eq!(ordered.skill_ids, [skill(1)]);
    assert_eq!(new.settings.adapter.as_str(), "claude");
    assert_eq!(new.settings.adapter_options, json!({ "effort": "high" }));
    assert!(new.settings.allowed_tools.is_empty(), "those of the template, as it is at each launch");
    assert!(!new.settings.agent.plan_approval_required);
    assert_eq!((new.settings.request_timeout_seconds, new.settings.agent.context_warn_at_percent), (60, 70));
    assert_eq!(new.settings.default_answer.as_deref(), Some("Go on"));
    assert_eq!((new.settings.idle_timeout_seconds, new.settings.paused_timeout_seconds), (0, 30));
    assert_eq!(new.settings.max_retries, 3);

    let ordered = desk.resolved(SessionSpec {
        model_id: Some(ModelId::parse("large").unwrap()),
        budget_cap_usd: Some(usd("5")),
        skill_ids: Some(Vec::new()),
        adapter: Some(AdapterName::script()),
        allowed_tools: vec!["Bash".into()],
        options: SessionOptions {
            plan_approval_required: Some(true),
            context_warn_at_percent: Some(90),
            ..SessionOptions::default()
        },
        ..order()
    });
    let new = ordered.new;
    assert_eq!((new.model_id.as_str(), new.budget.hard_cap_usd()), ("large", usd("5")));
    assert_eq!(ordered.skill_ids, [], "none is said, too");
    assert_eq!(new.settings.adapter.as_str(), "script");
    assert_eq!(
        new.settings.adapter_options,
        json!(null),
        "the options of another adapter mean nothing to it"
    );
    assert_eq!(new.settings.allowed_tools, ["Bash"]);
    assert!(new.settings.agent.plan_approval_required);

    let native = AdapterName::native();
    let bare = order().resolve(session(1), owner(), None, Some(&native));
    assert!(
        matches!(bare, Err(IncompleteSpec::Budget(_))),
        "without a template the cap is missing: {bare:?}"
    );
    let capped = SessionSpec { budget_cap_usd: Some(usd("1")), ..order() };
    assert_eq!(capped.clone().resolve(session(1), owner(), None, None), Err(IncompleteSpec::NoAdapter));
    let new = capped.resolve(session(1), owner(), None, Some(&native)).unwrap().new;
    assert_eq!(new.settings.adapter, native);
    assert_eq!((new.template_id, new.model_id.as_str(), new.budget.warn_at_percent()), (None, "default", 80));
    assert_eq!(new.settings.agent.context_warn_at_percent, 85);
    assert!(new.settings.agent.plan_approval_required);
}

#[test]
fn a_schedule_is_due_once_for_each_time() {
    let mut desk = Desk::scheduled();
    let first = at("2026-05-02T02:00:00.000Z");
    assert_eq!(desk.template.due_at(), Some(first));
    assert_eq!(desk.template.due_run(at("2026-05-02T01:59:59.999Z")), None);
    assert_eq!(desk.when(|it, ctx| it.record_run(session(1), ctx)), [], "nothing is due yet");
    desk.now = first;
    assert_eq!(desk.template.due_run(first).unwrap().launch.objective.as_str(), "Tidy up");
    let ran = TemplateEvent::ScheduleRan {
        scheduled_for: first,
        session_id: session(1),
        next_run_at: Some(first + DAY),
    };
    let updated_at = desk.template.updated_at();
    assert_eq!(desk.when(|it, ctx| it.record_run(session(1), ctx)), [ran]);
    assert_eq!(desk.when(|it, ctx| it.record_run(session(2), ctx)), [], "once");
    assert_eq!(desk.template.scheduled().unwrap().last_run.as_ref().unwrap().session_id, Some(session(1)));
    assert_eq!((desk.template.due_at(), desk.template.updated_at()), (Some(first + DAY), updated_at));
}

#[test]
fn missed_template_times_are_caught_up_once() {
    let mut desk = Desk::scheduled();
    desk.now = at("2026-05-05T12:00:00.000Z");
    let events = desk.when(|it, ctx| it.record_run(session(1), ctx));
    assert!(matches!(events[..], [TemplateEvent::ScheduleRan { .. }]));
    assert_eq!(desk.template.due_at(), Some(at("2026-05-06T02:00:00.000Z")));
}

#[test]
fn deactivated_template_skips_its_schedule_once() {
    let mut desk = Desk::scheduled();
    desk.when(|it, ctx| it.deactivate(ctx));
    let first = at("2026-05-02T02:00:00.000Z");
    desk.now = first;
    let skipped = TemplateEvent::ScheduleSkipped {
        scheduled_for: first,
        reason: ScheduleSkip::Deactivated,
        next_run_at: None,
    };
    assert_eq!(desk.when(|it, ctx| it.record_skip(ScheduleSkip::Deactivated, ctx)), [skipped]);
    assert_eq!(desk.template.due_at(), None);
    desk.now = at("2026-05-09T12:00:00.000Z");
    desk.when(|it, ctx| it.activate(ctx));
    assert_eq!(
        desk.template.due_at(),
        Some(at("2026-05-10T02:00:00.000Z")),
        "times that passed meanwhile stay missed"
    );
}

#[test]
fn times_missed_while_deactivated_stay_missed() {
    let mut desk = Desk::scheduled();
    desk.when(|it, ctx| it.deactivate(ctx));
    desk.now = at("2026-05-02T03:00:00.000Z");
    desk.when(|it, ctx| it.activate(ctx));
    assert_eq!(desk.template.due_at(), Some(at("2026-05-03T02:00:00.000Z")));
}

#[test]
fn full_queue_skips_only_one_time() {
    let mut desk = Desk::scheduled();
    desk.now = at("2026-05-02T02:00:00.000Z");
    desk.when(|it, ctx| it.record_skip(ScheduleSkip::PoolLineFull, ctx));
    assert_eq!(desk.template.due_at(), Some(desk.now + DAY));
}

#[test]
fn cleared_schedule_is_never_due() {
    let mut desk = Desk::scheduled();
    let off = AgentSchedule { is_enabled: false, ..nightly() };
    let events = desk.when(|it, ctx| it.update_schedule(Some(off), ctx)).unwrap();
    assert_eq!(events, updated(TemplateSection::Schedule));
    assert_eq!(desk.template.due_at(), None);
    desk.when(|it, ctx| it.deactivate(ctx));
    desk.when(|it, ctx| it.activate(ctx));
    assert_eq!(desk.template.due_at(), None);
    desk.when(|it, ctx| it.update_schedule(Some(nightly()), ctx)).unwrap();
    assert!(desk.template.due_at().is_some());
    desk.when(|it, ctx| it.update_schedule(None, ctx)).unwrap();
    assert_eq!((desk.template.due_at(), desk.template.schedule()), (None, None));
}
