//! The part of an agent's system prompt that tells it about its project.

use std::fmt::{Display, Write as _};

use super::ProjectAgent;
use crate::project::Project;

/// The project and the brief as text for the agent. It contains neither trust nor the escalation protocol, which agents must not
/// know (S2, "Trust score calibration").
pub fn brief_prompt(project: &Project, agent: &ProjectAgent) -> String {
    let (brief, project_brief) = (agent.brief(), &project.definition().brief);
    let mut text = format!(
        "# Your role\n\nYou are the agent \"{}\" (agent id {}) of the project \"{}\".",
        brief.role,
        agent.id(),
        project_brief.name
    );
    if let Some(description) = &brief.description {
        section(&mut text, description);
    }
    section(&mut text, "# The project");
    if let Some(description) = &project_brief.description {
        section(&mut text, description);
    }
    list(&mut text, "Goals:", &project_brief.goals);
    list(&mut text, "Checkpoints, in order:", &project_brief.checkpoints);
    section(&mut text, "# Your workstream");
    match project.workstream(&brief.workstream) {
        Some(workstream) => {
            let named = format!("You own the workstream \"{}\" ({}).", workstream.name, workstream.id);
            section(&mut text, named);
            list(&mut text, "Its goals:", &workstream.goals);
        }
        None => section(&mut text, format!("You own the workstream {}.", brief.workstream)),
    }
    list(&mut text, "You may also read these workstreams:", &brief.readable_workstreams);
    let constraints: Vec<_> = project_brief.constraints.iter().chain(&brief.constraints).collect();
    if !constraints.is_empty() {
        section(&mut text, "# Rules that you must follow");
        list(&mut text, "", &constraints);
    }
    if !brief.secret_refs.is_empty() {
        section(&mut text, "# Secrets");
        let names: Vec<_> = brief.secret_refs.iter().map(|secret| &secret.name).collect();
        list(
            &mut text,
            "Variables of your environment have these secrets. Never write their values anywhere:",
            &names,
        );
    }
    if let Some(schema) = &brief.output_schema {
        section(&mut text, "# Your result");
        section(
            &mut text,
            "When your work is done, call the tool `submit_output` with a `result` that matches this JSON Schema. A result that \
             does not match it is returned to you.",
        );
        section(&mut text, format!("```json\n{:#}\n```", schema.as_value()));
    }
    text
}

fn section(text: &mut String, paragraph: impl Display) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\n\n{paragraph}");
}

fn list(text: &mut String, heading: &str, items: &[impl Display]) {
    if items.is_empty() {
        return;
    }
    if !heading.is_empty() {
        section(text, heading);
    }
    text.push('\n');
    for item in items {
        let _ = write!(text, "\n- {item}");
    }
}
