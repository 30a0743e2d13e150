use pilothouse_api::Page;
use pilothouse_api::templates::{ScheduleView, TemplateSummary, TemplateView};
use pilothouse_domain::Timestamp;

use super::style::{Paint, Style};
use super::table::{Cell, Table};

pub fn list(page: &Page<TemplateSummary>, style: Style, _: Timestamp) -> String {
    if page.items.is_empty() {
        return "No templates. Create one with `pilothouse template create`.\n".to_owned();
    }
    let mut table = Table::new(&["TEMPLATE", "NAME", "MODEL", "STATE", "NEXT RUN"]);
    for template in &page.items {
        let state = if template.is_active {
            Cell::painted("active", Paint::Green)
        } else {
            Cell::painted("deactivated", Paint::Yellow)
        };
        let next = template.next_run_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        table.row(vec![
            short(&template.id.to_string()).into(),
            template.name.clone().into(),
            template.model_id.clone().into(),
            state,
            next.into(),
        ]);
    }
    let mut out = table.render(style);
    if let Some(cursor) = &page.next_cursor {
        out.push_str(&style.dim(&format!("There are more: --cursor {cursor}\n")));
    }
    out
}

/// A prefix of an id that distinguishes sessions.
fn short(id: &str) -> String {
    id.chars().take(13).collect()
}

pub fn show(template: &TemplateView, _: Style, _: Timestamp) -> String {
    let mut lines = vec![
        ("id", template.id.to_string()),
        ("name", template.name.clone()),
        ("state", if template.is_active { "active" } else { "deactivated" }.to_owned()),
        ("model", template.model_id.clone()),
        ("budget", {
            let unmetered = if template.default_budget.allow_unmetered { ", or unmetered" } else { "" };
            format!("{} dollars a session{unmetered}", template.default_budget.hard_cap_usd)
        }),
        ("tools", template.allowed_tools.join(", ")),
    ];
    let custom: Vec<_> = template.custom_tool_definitions.iter().map(|tool| tool.name.to_string()).collect();
    let skills: Vec<_> = template.default_skill_ids.iter().map(ToString::to_string).collect();
    let rules: Vec<_> = template
        .classification_rules
        .iter()
        .map(|rule| {
            format!("{} like {} is {}", rule.match_field, rule.match_pattern.as_str(), rule.classify_as)
        })
        .collect();
    lines.extend(template.description.iter().map(|text| ("for", text.clone())));
    if !template.allowed_models.is_unlimited() {
        lines.push(("models", template.allowed_models.to_string()));
    }
    lines.extend(template.adapter.iter().map(|adapter| ("adapter", adapter.clone())));
    lines.extend(custom.iter().map(|tool| ("own tool", tool.clone())));
    lines.extend(skills.iter().map(|skill| ("skill", skill.clone())));
    lines.extend(rules.iter().map(|rule| ("rule", rule.clone())));
    lines.extend(template.schedule.iter().flat_map(schedule));
    lines.extend(template.system_prompt.iter().map(|prompt| ("prompt", prompt.clone())));
    lines.iter().map(|(name, value)| format!("{name:<10}{value}\n")).collect::<Vec<_>>().concat()
}

fn schedule(schedule: &ScheduleView) -> Vec<(&'static str, String)> {
    let switched = if schedule.is_enabled { "" } else { ", switched off" };
    let mut lines = vec![
        ("schedule", format!("{} ({}){switched}", schedule.cron_expression, schedule.time_zone)),
        ("starts", format!("{} in {}", schedule.launch.objective, schedule.launch.working_directory)),
    ];
    lines.extend(schedule.next_run_at.map(|at| ("next run", at.to_string())));
    lines.extend(schedule.last_run.iter().map(|run| {
        let what = run.session_id.map_or_else(|| "skipped".to_owned(), |id| format!("session {id}"));
        ("last run", format!("{}: {what}", run.scheduled_for))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{list, show};
    use crate::output::Style;
    use crate::output::fixtures::now;

    const ID: &str = "0197b1c0-1111-7000-8000-00000000aaaa";

    #[test]
    fn template_list_shows_active_state_and_next_run() {
        let page = serde_json::from_value(json!({ "items": [
            { "id": ID, "name": "Triage", "description": null, "modelId": "small", "isActive": true,
              "customToolCount": 0, "skillCount": 0, "ruleCount": 1, "nextRunAt": "2026-11-22T08:00:00.000Z",
              "createdAt": "2026-11-21T20:00:00.000Z" },
        ]}))
        .unwrap();
        assert_eq!(
            list(&page, Style::PLAIN, now()),
            "\
TEMPLATE       NAME    MODEL  STATE   NEXT RUN
0197b1c0-1111  Triage  small  active  2026-11-22T08:00:00.000Z
"
        );
    }

    #[test]
    fn template_view_shows_what_its_sessions_receive() {
        let template = serde_json::from_value(json!({
            "id": ID, "version": 1, "name": "Triage", "description": null, "modelId": "small", "systemPrompt": "Be brief.",
            "allowedTools": ["Read", "Bash"], "customToolDefinitions": [], "defaultSkillIds": [],
            "defaultAutoContinueConfig": null, "planApprovalRequired": true,
            "classificationRules": [{ "id": ID, "matchField": "subject", "matchPattern": "*x*", "classifyAs": "y" }],
            "schedule": {
                "cronExpression": "0 9 * * *", "timeZone": "UTC", "isEnabled": false,
                "launch": { "workingDirectory": "/w", "objective": "Sort it" }, "nextRunAt": null,
                "lastRun": { "scheduledFor": "2026-11-21T09:00:00.000Z", "at": "2026-11-21T09:00:01.000Z",
                             "sessionId": null },
            },
            "defaultBudget": { "hardCapUsd": "2", "warnAtPercent": 80 }, "executionMode": "Standalone",
            "adapter": null, "adapterOptions": null, "requestTimeoutSeconds": null, "defaultAnswer": null,
            "contextWarnAtPercent": null, "contextPolicy": null, "idleTimeoutSeconds": null, "pausedTimeoutSeconds": null, "isActive": true, "createdAt": "2026-11-21T20:00:00.000Z",
            "updatedAt": "2026-11-21T20:00:00.000Z",
        }))
        .unwrap();
        let text = show(&template, Style::PLAIN, now());
        for line in [
            "name      Triage",
            "tools     Read, Bash",
            "rule      subject like *x* is y",
            "schedule  0 9 * * * (UTC), switched off",
            "starts    Sort it in /w",
            "last run  2026-11-21T09:00:00.000Z: skipped",
            "prompt    Be brief.",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
        }
    }
}
