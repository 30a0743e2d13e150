//! Projects and their agents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pilothouse_api::checkpoints::CheckpointList;
use pilothouse_api::portfolio::{AgentHealthView, PortfolioEntry};
use pilothouse_api::projects::{AgentView, ControlModeView, ProjectView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::control_mode::BriefSync;
use pilothouse_domain::project::AgentStatus;

use super::sessions::short_id;
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::{text, time};

/// The table of projects.
pub fn list(projects: &[PortfolioEntry], style: Style) -> String {
    if projects.is_empty() {
        return "No projects; create one with `pilothouse project create NAME --workstream ID`\n".to_owned();
    }
    let mut table = Table::new(&[
        "NAME",
        "MODE",
        "AGENTS",
        "DECISIONS",
        ">SPENT",
        ">CAP",
        "TRUST",
        ">TICK",
        "BRAKES",
        "ID",
    ]);
    for project in projects {
        let agents = counts(&project.agents);
        let more = if project.more_decisions { ", …" } else { "" };
        let cap = project.spending_cap.map_or_else(|| "-".to_owned(), |cap| format!("${}", cap.usd()));
        let exhausted = project.spending.as_ref().is_some_and(|spending| spending.is_exhausted);
        let trust = project.trust.map(|trust| format!("{} (lowest {})", trust.median, trust.lowest));
        table.row(vec![
            text::line(&project.name, 40).into(),
            project.control_mode.to_string().into(),
            agents.replace('_', " ").into(),
            format!("{}{more}", counts(&project.open_decisions)).into(),
            Cell::painted(
                format!("${}", project.spent_usd),
                if exhausted { Paint::Red } else { Paint::Plain },
            ),
            cap.into(),
            trust.unwrap_or_else(|| "-".to_owned()).into(),
            project.tick.to_string().into(),
            match project.brakes.len() {
                0 => "-".into(),
                count => Cell::painted(count.to_string(), Paint::Red),
            },
            Cell::painted(project.project_id.to_string(), Paint::Dim),
        ]);
    }
    table.render(style)
}

/// `2 running, 1 error`.
fn counts<K: std::fmt::Display>(counts: &BTreeMap<K, usize>) -> String {
    let counts: Vec<_> = counts.iter().rev().map(|(what, count)| format!("{count} {what}")).collect();
    if counts.is_empty() { "-".to_owned() } else { counts.join(", ") }
}

/// The health of an agent.
pub fn health(health: &AgentHealthView, style: Style, now: Timestamp) -> String {
    let mut out = format!(
        "{}  {}, session {} {}\n",
        style.bold(&health.agent_id.to_string()),
        health.status,
        short_id(health.session_id),
        health.session_status,
    );
    match &health.run {
        None => out.push_str("No process.\n"),
        Some(run) => {
            let seen = run.last_seen_at.map_or_else(
                || "not heard yet".to_owned(),
                |at| format!("last heard {}", time::ago(at, now)),
            );
            let worker = run.worker_id.as_ref().map(|id| format!(", worker {id}")).unwrap_or_default();
            let _ = writeln!(out, "Run {} ({}): {seen}{worker}", run.ordinal, run.cause);
            if let Some(since) = run.unreachable_since {
                let _ = writeln!(out, "Unreachable since {}", time::ago(since, now));
            }
        }
    }
    let pending = match health.brief_sync {
        BriefSync::Synced => "",
        BriefSync::Pending => ", not received yet: reload the session",
    };
    let _ = writeln!(out, "Brief: version {}{pending}", health.brief_version);
    let _ = writeln!(out, "Waiting decisions: {}", health.pending_decisions);
    let _ = writeln!(
        out,
        "Runs: {}, lost: {}, retries: {}",
        health.run_count, health.lost_run_count, health.retry_count
    );
    if let Some(reason) = health.failure_reason {
        let _ = writeln!(out, "Failed: {reason}");
    }
    out
}

/// A project in one line: the result of a change.
pub fn line(project: &ProjectView, style: Style, _: Timestamp) -> String {
    let archived = if project.archived_at.is_some() { ", archived" } else { "" };
    format!(
        "{}  {} workstreams, {} agents{archived}  {}\n",
        style.bold(&text::line(project.brief.name.as_str(), 100)),
        project.workstreams.len(),
        project.agent_count,
        style.dim(&project.id.to_string()),
    )
}

/// The control mode of a project.
pub fn control_mode(mode: &ControlModeView, style: Style, now: Timestamp) -> String {
    let changed =
        style.dim(&format!("since {}, revision {}", time::ago(mode.changed_at, now), mode.revision.get()));
    let restarted =
        mode.restarted_agents.map(|count| format!("{count} agents restart\n")).unwrap_or_default();
    format!("{}  {changed}\n{restarted}", style.bold(&mode.mode.to_string()))
}

/// A project in full, with its agents.
pub fn show(project: &ProjectView, agents_of: &[AgentView], style: Style, now: Timestamp) -> String {
    let mut out = line(project, style, now);
    let _ = writeln!(out, "Control mode: {}", project.control_mode);
    out.push_str(&spending(project));
    if let Some(description) = &project.brief.description {
        let _ = writeln!(out, "\n{description}");
    }
    bullets(&mut out, "Goals", &project.brief.goals, style);
    bullets(&mut out, "Checkpoints", &project.brief.checkpoints, style);
    bullets(&mut out, "Rules", &project.brief.constraints, style);
    let workstreams: Vec<_> =
        project.workstreams.iter().map(|it| format!("{}: {}", it.id, it.name)).collect();
    bullets(&mut out, "Workstreams", &workstreams, style);
    let _ = write!(out, "\n{}", agents(agents_of, style, now));
    out
}

/// The spending cap and what is drawn from it.
fn spending(project: &ProjectView) -> String {
    let Some(cap) = project.spending_cap else { return String::new() };
    let mut out = format!("Spending cap: ${}", cap.usd());
    if let Some(spending) = &project.spending {
        let _ = write!(out, ", ${} drawn", spending.drawn_usd);
        if !spending.overshoot_usd.is_zero() {
            let _ = write!(out, ", ${} above the cap", spending.overshoot_usd);
        }
        if let Some(brake) = spending.brake_id {
            let raise =
                if spending.is_exhausted { "raise the cap (`pilothouse project edit`), then " } else { "" };
            let _ = write!(
                out,
                "\nThe cap has stopped the project; {raise}run `pilothouse brake release {brake}`"
            );
        }
    }
    out.push('\n');
    out
}

fn bullets(out: &mut String, heading: &str, items: &[impl std::fmt::Display], style: Style) {
    if !items.is_empty() {
        let _ = writeln!(out, "\n{}", style.bold(heading));
        for item in items {
            let _ = writeln!(out, "- {item}");
        }
    }
}

/// The table of agents.
pub fn agents(agents: &[AgentView], style: Style, now: Timestamp) -> String {
    if agents.is_empty() {
        return "No agents; start one with `pilothouse agent spawn OBJECTIVE --brief FILE`\n".to_owned();
    }
    let mut table =
        Table::new(&["AGENT", "ROLE", "WORKSTREAM", "STATUS", ">WAITING", ">SPENT", "SESSION", "CHANGED"]);
    for agent in agents {
        table.row(vec![
            Cell::painted(id(agent), Paint::Dim),
            text::line(agent.brief.role.as_str(), 30).into(),
            agent.workstream().to_string().into(),
            status(agent.status),
            agent.pending_decisions.to_string().into(),
            format!("${}", agent.spent_usd).into(),
            short_id(agent.session_id).into(),
            time::ago(agent.updated_at, now).into(),
        ]);
    }
    table.render(style)
}

/// An agent in one line: the result of a change.
pub fn agent_line(agent: &AgentView, style: Style, _: Timestamp) -> String {
    format!(
        "{}  {}, workstream {}, {}, session {}\n",
        style.bold(&id(agent)),
        text::line(agent.brief.role.as_str(), 60),
        agent.workstream(),
        agent.status,
        short_id(agent.session_id),
    )
}

/// The table of an agent's checkpoints.
pub fn checkpoints(checkpoints: &CheckpointList, style: Style, now: Timestamp) -> String {
    if checkpoints.items.is_empty() {
        return "No checkpoints; one is made when the agent waits for a decision, pauses, stops or crashes\n"
            .to_owned();
    }
    let mut table = Table::new(&["MADE", "BY", ">RUN", ">EVENT", ">BRIEF", ">DECISIONS", "CONVERSATION"]);
    for item in &checkpoints.items {
        let conversation = item.checkpoint.as_ref().map(|it| format!("{} {}", it.sdk, it.session_id));
        table.row(vec![
            time::ago(item.serialized_at, now).into(),
            item.serialized_by.to_string().replace('_', " ").into(),
            item.run.to_string().into(),
            item.last_sequence.to_string().into(),
            item.brief_version.map_or_else(|| "-".to_owned(), |version| version.to_string()).into(),
            item.pending_decision_ids.len().to_string().into(),
            Cell::painted(text::line(&conversation.unwrap_or_else(|| "-".to_owned()), 60), Paint::Dim),
        ]);
    }
    table.render(style)
}

/// An agent with its brief.
pub fn agent(agent: &AgentView, style: Style, now: Timestamp) -> String {
    let mut out = agent_line(agent, style, now);
    if let Some(description) = &agent.brief.description {
        let _ = writeln!(out, "\n{description}");
    }
    bullets(&mut out, "Rules", &agent.brief.constraints, style);
    bullets(&mut out, "May also read", &agent.brief.readable_workstreams, style);
    bullets(&mut out, "Tools", &agent.brief.allowed_tools, style);
    if let Some(kill) = &agent.kill {
        let how = if kill.clean_shutdown { "it stopped by itself" } else { "its process was ended" };
        let state = if kill.state.is_some() { ", with a checkpoint" } else { "" };
        let _ = writeln!(out, "\nKilled: {how}{state}");
    }
    if let Some(context) = &agent.context_use {
        let last =
            context.last_at.map(|at| format!(", the last one {}", time::ago(at, now))).unwrap_or_default();
        let _ = writeln!(
            out,
            "\nContext injections: {}, about {} tokens{last}",
            context.injections, context.estimated_tokens
        );
    }
    out
}

/// The first characters of an agent's id, as they are shown for sessions.
fn id(agent: &AgentView) -> String {
    agent.id.to_string().chars().take(13).collect()
}

fn status(status: AgentStatus) -> Cell {
    let paint = match status {
        AgentStatus::Running => Paint::Cyan,
        AgentStatus::Paused | AgentStatus::WaitingOnHuman => Paint::Yellow,
        AgentStatus::Completed => Paint::Green,
        AgentStatus::Error => Paint::Red,
    };
    Cell::painted(status.to_string().replace('_', " "), paint)
}
