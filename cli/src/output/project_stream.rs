//! Lines of the live stream of a project.

use std::collections::BTreeMap;

use pilothouse_api::project_stream::{
    AgentEventContent, BrakeMessage, DecisionResolved, ProjectMessageBody, ProjectState, RoutedEvent,
    StateSync, TrustUpdate,
};
use pilothouse_domain::ProjectAgentId;
use pilothouse_domain::decision::BrakeAction;
use pilothouse_domain::routing::ToolCallPhase;

use super::inbox::{resolver, words};
use super::style::{Paint, Style};
use super::text;

/// The width of the name of an agent.
const NAME: usize = 12;
/// The width of the rest of a line.
const LINE: usize = 120;

/// The roles of the agents.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<ProjectAgentId, String>);

impl Names {
    /// Reads the agents of a state.
    pub fn read(&mut self, state: &ProjectState) {
        self.0.extend(state.active_agents.iter().map(|agent| (agent.id, agent.role.clone())));
    }

    /// The role of an agent, or the end of its id.
    fn of(&self, id: ProjectAgentId) -> String {
        let end = |id: String| id[id.len() - 6..].to_owned();
        text::line(&self.0.get(&id).cloned().unwrap_or_else(|| end(id.to_string())), NAME)
    }
}

/// The lines of a message.
pub fn message(body: &ProjectMessageBody, names: &Names, style: Style) -> String {
    match body {
        ProjectMessageBody::StateSync(state) => match &**state {
            StateSync::Whole(state) => whole_state(state, names, style),
            StateSync::At(location) => format!("state: GET {}\n", location.state_path),
        },
        ProjectMessageBody::Event(event) => event_line(event, names, style),
        ProjectMessageBody::Brake(brake) => brake_line(brake, names, style),
        ProjectMessageBody::TrustUpdate(update) => trust_line(update, names, style),
        ProjectMessageBody::DecisionResolved(resolved) => resolved_line(resolved, names, style),
    }
}

fn line(who: &str, what: &str, paint: Paint, said: &str, style: Style) -> String {
    let what = style.paint(paint, &format!("{what:<10}"));
    format!("{who:<NAME$}  {what}  {}\n", text::line(said, LINE))
}

fn whole_state(state: &ProjectState, names: &Names, style: Style) -> String {
    let mut lines = format!(
        "{}  {}, tick {}, {}\n",
        style.bold(&text::clean(&state.project.brief.name.to_string())),
        state.control_mode,
        state.tick.current_tick,
        text::count(state.pending_decisions.len(), "pending decision"),
    );
    for agent in &state.active_agents {
        let score = state.trust_scores.iter().find(|trust| trust.agent_id == agent.id);
        let trust = score.map(|trust| format!(", trust {}", trust.score)).unwrap_or_default();
        let said = format!("{}{trust}", words(&agent.status.to_string()));
        lines.push_str("  ");
        lines.push_str(&line(&names.of(agent.id), agent.workstream.as_str(), Paint::Dim, &said, style));
    }
    for brake in &state.brakes {
        let label = style.paint(Paint::Red, "brake");
        lines.extend(["  ", &label, " ", &text::line(&brake.reason, LINE), "\n"]);
    }
    lines
}

fn event_line(event: &RoutedEvent, names: &Names, style: Style) -> String {
    use AgentEventContent as C;
    let content = &event.envelope.event.content;
    let paint = match content {
        C::Decision { .. } | C::Guardrail { .. } => Paint::Yellow,
        C::Error { .. } | C::Coherence { .. } => Paint::Red,
        C::Completion { .. } => Paint::Green,
        C::Status { .. }
        | C::ToolCall { .. }
        | C::Delegation { .. }
        | C::Lifecycle { .. }
        | C::Progress { .. }
        | C::Artifact { .. }
        | C::RawProvider { .. } => Paint::Dim,
    };
    let said = match content {
        C::Status { message } | C::Error { message, .. } | C::Guardrail { message, .. } => message.clone(),
        C::Decision { subtype, decision_id, decision } => {
            let state = decision
                .as_ref()
                .map(|decision| format!(", {}", words(&decision.state.status().to_string())));
            format!(
                "{} {}{}",
                words(&subtype.to_string()),
                &decision_id.to_string()[..8],
                state.unwrap_or_default()
            )
        }
        C::ToolCall { tool_name, phase, input, output, .. } => {
            let name = tool_name.as_deref().unwrap_or("a tool");
            let phase = match phase {
                ToolCallPhase::Requested => "",
                ToolCallPhase::Completed => " completed",
                ToolCallPhase::Failed => " failed",
            };
            let detail = input.as_ref().map(ToString::to_string).or_else(|| output.clone());
            format!("{name}{phase} {}", detail.unwrap_or_default())
        }
        C::Completion { summary, .. } => summary.clone(),
        C::Delegation { reason, .. } | C::Lifecycle { reason, .. } => reason.clone(),
        C::Progress { description, progress_pct, .. } => {
            let percent = progress_pct.map(|percent| format!("{percent}%  ")).unwrap_or_default();
            format!("{percent}{description}")
        }
        C::Artifact { name, kind, status, .. } => format!("{name} ({kind}, {})", words(&status.to_string())),
        C::Coherence { title, severity, .. } => format!("{title} ({severity})"),
        C::RawProvider { event_type, payload } => format!("{event_type} {payload}"),
    };
    let who = names.of(event.envelope.agent_id);
    line(&who, &words(&content.event_type().to_string()), paint, &said, style)
}

fn brake_line(brake: &BrakeMessage, names: &Names, style: Style) -> String {
    let change = match brake.change {
        BrakeAction::Pulled => "pulled",
        BrakeAction::SessionsReleased => "released for some agents",
        BrakeAction::Released => "released",
    };
    let agents: Vec<_> = brake.affected_agent_ids.iter().map(|id| names.of(*id)).collect();
    let said = format!("{change}: {} ({})", brake.action.reason, agents.join(", "));
    line("", "brake", Paint::Red, &said, style)
}

fn trust_line(update: &TrustUpdate, names: &Names, style: Style) -> String {
    let TrustUpdate { agent_id, previous_score, new_score, reason, .. } = update;
    let said = format!("{} → {}: {}", previous_score.rounded(), new_score.rounded(), words(reason));
    line(&names.of(*agent_id), "trust", Paint::Dim, &said, style)
}

fn resolved_line(resolved: &DecisionResolved, names: &Names, style: Style) -> String {
    let how =
        resolved.resolution.as_ref().map(|it| format!(", {}", words(&it.resolution_type().to_string())));
    let by = resolved.resolved_by.as_ref().map(|by| format!(" {}", resolver(by))).unwrap_or_default();
    let id = &resolved.decision_id.to_string()[..8];
    let said = format!("{id} {}{}{by}", words(&resolved.state.to_string()), how.unwrap_or_default());
    line(&names.of(resolved.agent_id), "decision", Paint::Green, &said, style)
}
