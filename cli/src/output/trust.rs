//! Trust of agents, and ticks of projects.

use std::fmt::Write as _;

use pilothouse_api::trust::{ApprovalRate, SimulationView, TickView, TrustChange, TrustView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::tick::TickMode;
use pilothouse_domain::trust::{Autonomy, Points};

use super::sessions::short_id;
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::time;

/// The score of an agent, its approval rates, and its latest changes.
pub fn show(trust: &TrustView, style: Style, now: Timestamp) -> String {
    let mut out = format!(
        "Trust {} ({}), profile {}, tick {}\n",
        style.bold(&trust.score.to_string()),
        trust.exact_score,
        trust.profile,
        trust.tick
    );
    if let Some(hypothetical) = trust.hypothetical_score {
        let _ = writeln!(out, "Calibration mode: the score is frozen; it would be {hypothetical}");
    }
    if !trust.approvals.is_empty() {
        let _ = write!(out, "\n{}", rates(&trust.approvals, style));
    }
    if trust.history.items.is_empty() {
        out.push_str("No changes yet\n");
    } else {
        let _ = write!(out, "\n{}", changes(&trust.history.items, style, now));
    }
    if trust.history.next_cursor.is_some() {
        out.push_str("There are older changes; `--limit` shows more\n");
    }
    out
}

fn rates(rates: &[ApprovalRate], style: Style) -> String {
    let mut table = Table::new(&["ACTION", ">APPROVED", ">OF", "95 % INTERVAL", "AUTONOMY"]);
    for rate in rates {
        let autonomy = match rate.autonomy {
            None => Cell::painted("-", Paint::Dim),
            Some(Autonomy::Proposed) => Cell::painted("proposed", Paint::Yellow),
            Some(Autonomy::Granted { .. }) => Cell::painted("granted", Paint::Cyan),
            Some(Autonomy::Declined { .. }) => "declined".into(),
        };
        table.row(vec![
            rate.action_kind.to_string().into(),
            rate.approved.to_string().into(),
            rate.decided.to_string().into(),
            format!("{} to {}", rate.interval.lower, rate.interval.upper).into(),
            autonomy,
        ]);
    }
    table.render(style)
}

fn changes(changes: &[TrustChange], style: Style, now: Timestamp) -> String {
    let mut table = Table::new(&["WHEN", ">TICK", "OUTCOME", ">BEFORE", ">AFTER", "RULE", "SESSION"]);
    for change in changes {
        let entry = &change.entry;
        table.row(vec![
            time::ago(change.at, now).into(),
            entry.tick.to_string().into(),
            entry.outcome.to_string().into(),
            entry.before.to_string().into(),
            Cell::painted(entry.after.to_string(), paint(entry.before, entry.after)),
            change.explanation.clone().into(),
            short_id(change.session_id).into(),
        ]);
    }
    table.render(style)
}

fn paint(before: Points, after: Points) -> Paint {
    match after.cmp(&before) {
        std::cmp::Ordering::Less => Paint::Yellow,
        std::cmp::Ordering::Equal => Paint::Dim,
        std::cmp::Ordering::Greater => Paint::Green,
    }
}

/// What a replay of the history resulted in.
pub fn simulation(simulation: &SimulationView, style: Style, _: Timestamp) -> String {
    let mut out = format!(
        "Under {}: trust {} instead of {}, after {} outcomes (lowest {}, highest {})\n",
        simulation.profile.name,
        style.bold(&simulation.final_score.to_string()),
        simulation.current_score,
        simulation.outcome_count,
        simulation.lowest,
        simulation.highest,
    );
    let _ = writeln!(
        out,
        "{} of them came below {}, where adaptive mode asks a person",
        simulation.below_adaptive_threshold,
        SimulationView::ADAPTIVE_THRESHOLD
    );
    if simulation.truncated {
        out.push_str("The history is longer; only its beginning was replayed\n");
    }
    out
}

/// The ticks of a project in one line.
pub fn ticks(ticks: &TickView, style: Style, _: Timestamp) -> String {
    let state = match (ticks.mode, ticks.is_running) {
        (TickMode::Manual, _) => "manual".to_owned(),
        (TickMode::WallClock, true) => format!("one every {} ms", ticks.interval_ms),
        (TickMode::WallClock, false) => "stopped: no agent works or waits for a person".to_owned(),
    };
    format!(
        "Tick {}, {state}, {} active agents\n",
        style.bold(&ticks.current_tick.to_string()),
        ticks.active_agents.len()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::fixtures::now;

    const AGENT: &str = "0197b1c0-2222-7000-8000-00000000aaaa";
    const PROJECT: &str = "0197b1c0-3333-7000-8000-00000000aaaa";

    #[test]
    fn trust_shows_score_rates_and_rules() {
        let trust = serde_json::from_value(json!({
            "agentId": AGENT, "projectId": PROJECT, "score": 49, "exactScore": 48.5, "hypotheticalScore": 44,
            "profile": "balanced", "tick": 120,
            "approvals": [{
                "actionKind": "execute", "approved": 1, "decided": 2, "interval": { "lower": 0.094, "upper": 0.906 },
                "autonomy": { "status": "proposed" },
            }],
            "history": { "nextCursor": "x", "items": [{
                "at": "2026-11-21T20:01:00.000Z", "sessionId": "0197b1c0-1111-7000-8000-00000000aaaa",
                "causedBy": AGENT, "outcome": "human_rejects_tool_call", "tick": 100, "before": 51.5, "after": 48.5,
                "rule": { "base": -2, "overridden": false, "multiplier": 1, "riskWeight": 1.5, "halved": false, "delta": -3 },
                "explanation": "-2 by the table, × 1.5 (risk): -3",
            }]},
        }))
        .unwrap();
        let shown = show(&trust, Style::PLAIN, now());
        for expected in [
            "Trust 49 (48.5), profile balanced, tick 120",
            "it would be 44",
            "execute         1   2  0.094 to 0.906  proposed",
            "60 s ago   100  human_rejects_tool_call    51.5   48.5  -2 by the table, × 1.5 (risk): -3  0197b1c0-1111",
            "There are older changes",
        ] {
            assert!(shown.contains(expected), "`{expected}` is missing in:\n{shown}");
        }
    }

    #[test]
    fn simulation_compares_the_scores() {
        let simulated = serde_json::from_value(json!({
            "agentId": AGENT, "profile": pilothouse_domain::trust::TrustCalibrationProfile::default(), "outcomeCount": 2,
            "truncated": true, "currentScore": 48.5, "finalScore": 26.625, "lowest": 26.625, "highest": 31.125,
            "belowAdaptiveThreshold": 2,
        }))
        .unwrap();
        assert_eq!(
            simulation(&simulated, Style::PLAIN, now()),
            "Under balanced: trust 26.625 instead of 48.5, after 2 outcomes (lowest 26.625, highest 31.125)\n\
             2 of them came below 70, where adaptive mode asks a person\n\
             The history is longer; only its beginning was replayed\n"
        );
    }

    #[test]
    fn ticks_say_what_advances_them() {
        let line = |mode: &str, running: bool| {
            let view = json!({
                "projectId": PROJECT, "currentTick": 7, "mode": mode, "intervalMs": 1000, "isRunning": running,
                "activeAgents": if running { vec![AGENT] } else { Vec::new() },
            });
            ticks(&serde_json::from_value(view).unwrap(), Style::PLAIN, now())
        };
        assert_eq!(line("wall_clock", true), "Tick 7, one every 1000 ms, 1 active agents\n");
        assert_eq!(
            line("wall_clock", false),
            "Tick 7, stopped: no agent works or waits for a person, 0 active agents\n"
        );
        assert_eq!(line("manual", false), "Tick 7, manual, 0 active agents\n");
    }
}
