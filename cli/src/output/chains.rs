use pilothouse_api::chains::{ChainSummary, ChainView, HandoffView};
use pilothouse_domain::Timestamp;
use pilothouse_domain::chain::SessionChainStatus;

use super::sessions::short_id;
use super::style::{Paint, Style};
use super::table::{Cell, Table};
use super::text::{clean, line};
use super::{money, sessions, time};

const SHORT_ID: usize = 13;

fn paint(status: SessionChainStatus) -> Paint {
    match status {
        SessionChainStatus::Active => Paint::Cyan,
        SessionChainStatus::Completed => Paint::Green,
        SessionChainStatus::Cancelled => Paint::Dim,
    }
}

pub fn list(chains: &[ChainSummary], style: Style, now: Timestamp) -> String {
    let mut table =
        Table::new(&["CHAIN", "STATUS", "OBJECTIVE", ">SESSIONS", "CURRENT", ">SPENT", "STARTED"]);
    for chain in chains {
        let id: String = chain.id.to_string().chars().take(SHORT_ID).collect();
        table.row(vec![
            Cell::painted(id, Paint::Bold),
            Cell::painted(chain.status.to_string(), paint(chain.status)),
            line(&chain.original_objective, 40).into(),
            chain.session_count.to_string().into(),
            short_id(chain.current_session_id).into(),
            money::usd(chain.total_cost_usd).into(),
            time::ago(chain.created_at, now).into(),
        ]);
    }
    table.render(style)
}

/// A chain with its sessions and handoff documents.
pub fn detail(chain: &ChainView, style: Style, now: Timestamp) -> String {
    let summary = &chain.summary;
    let mut out = format!(
        "{}  {}\n",
        style.bold(&line(&summary.original_objective, 100)),
        style.dim(&summary.id.to_string())
    );
    let ended = summary.completed_at.map(|at| format!(", ended {}", time::ago(at, now))).unwrap_or_default();
    out.extend([format!(
        "{}, spent {}, began {}{ended}\n\n",
        style.paint(paint(summary.status), &summary.status.to_string()),
        money::usd(summary.total_cost_usd),
        time::ago(summary.created_at, now)
    )]);
    let mut table = Table::new(&[">#", "SESSION", "STATUS", "NAME", ">SPENT", "JOINED"]);
    for session in &chain.sessions {
        table.row(vec![
            session.chained.position.to_string().into(),
            Cell::painted(short_id(session.chained.session_id), Paint::Bold),
            Cell::painted(session.status.to_string(), sessions::paint(session.status)),
            line(&session.name, 32).into(),
            money::usd(session.total_cost_usd).into(),
            time::ago(session.chained.joined_at, now).into(),
        ]);
    }
    out.push_str(&table.render(style));
    for handoff in &chain.handoff_documents {
        out.push_str(&document(handoff, style));
    }
    out
}

fn document(view: &HandoffView, style: Style) -> String {
    let handoff = &view.handoff;
    let to = handoff.to_session_id.map(|id| format!(" to {}", short_id(id))).unwrap_or_default();
    let synthesized = if handoff.synthesized { " (created from recorded data)" } else { "" };
    let mut out = format!(
        "\n{}{}\n",
        style.bold(&format!("Handoff of {}{to}", short_id(handoff.from_session_id))),
        style.dim(synthesized)
    );
    let parts =
        [("Done", &view.summary), ("Remains", &view.remaining_work), ("Decided", &view.key_decisions)];
    for (name, text) in parts {
        if let Some(text) = text {
            out.extend([style.dim(&format!("{name:<8}")), " ".to_owned(), clean(text), "\n".to_owned()]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use pilothouse_api::chains::ChainView;
    use serde_json::json;

    use super::{detail, list};
    use crate::output::Style;
    use crate::output::fixtures::now;

    fn chain() -> ChainView {
        let (first, second) =
            ("0197b1c0-1111-7000-8000-00000000aaaa", "0197b1c0-2222-7000-8000-00000000bbbb");
        let begun = now().to_string();
        serde_json::from_value(json!({
            "id": "0197b1c0-3333-7000-8000-00000000cccc", "originalObjective": "Port the parser", "status": "Active",
            "currentSessionId": second, "sessionCount": 2, "totalCostUsd": "1.25", "createdAt": begun,
            "sessions": [
                { "sessionId": first, "position": 1, "joinedAt": begun, "name": "port", "status": "ContextExhausted",
                  "totalCostUsd": "1" },
                { "sessionId": second, "position": 2, "joinedAt": begun, "name": "port", "status": "Running",
                  "totalCostUsd": "0.25" },
            ],
            "handoffDocuments": [{
                "id": "0197b1c0-4444-7000-8000-00000000dddd", "fromSessionId": first, "toSessionId": second,
                "synthesized": true, "createdAt": begun, "summary": "The lexer.", "remainingWork": "The rest.",
            }],
            "version": 2,
        }))
        .unwrap()
    }

    #[test]
    fn a_chain_is_shown_with_its_sessions_and_documents() {
        let text = detail(&chain(), Style::PLAIN, now());
        for part in [
            "Port the parser  0197b1c0-3333-7000-8000-00000000cccc",
            "Active, spent $1.25",
            "ContextExhausted",
            "Handoff of 0197b1c0-1111 to 0197b1c0-2222 (created from recorded data)",
            "Done     The lexer.",
            "Remains  The rest.",
        ] {
            assert!(text.contains(part), "`{part}` is missing:\n{text}");
        }
        let table = list(&[chain().summary], Style::PLAIN, now());
        assert!(
            table.contains("0197b1c0-3333  Active  Port the parser         2  0197b1c0-2222  $1.25"),
            "{table}"
        );
    }
}
