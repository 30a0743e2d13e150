//! The text of an injection (S2 `ContextInjection`): the items of a snapshot that the agent does not know, one in a line.

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write as _};

use serde::{Deserialize, Serialize};

use super::policy::InjectionReason;
use crate::knowledge::{KnowledgeSnapshot, estimated_tokens};
use crate::project::AgentStatus;
use crate::text::{MessageContent, cut};
use crate::value::sha256_hex;

/// Which items an injection contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectionKind {
    /// Those that changed. If the agent knows nothing yet, all.
    Delta,
    All,
}

/// The items that an agent has received: a short hash of each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KnownItems(BTreeMap<String, String>);

/// An injection, and the items that the agent has after its delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    pub content: MessageContent,
    pub estimated_tokens: u64,
    pub known: KnownItems,
}

struct Item {
    key: String,
    /// The part of the item whose change causes an injection. It has no status of an agent except `completed`, because other statuses
    /// change with each turn.
    state: String,
    line: String,
}

/// Most characters of a brief.
const MAX_BRIEF: usize = 2_500;
/// Characters for the last line.
const RESERVE: usize = 120;
/// Tokens of the last line.
const LAST_LINE_TOKENS: u64 = 30;
const HASH: usize = 12;
const DECISION: &str = "decision ";

/// The injection for an agent that knows `known`; `None` if it contains nothing that the agent does not know. Items that exceed the
/// size of a message, or `room` tokens of the agent's context budget, are omitted and stay unknown. A changed brief is never omitted.
pub fn compose(
    snapshot: &KnowledgeSnapshot,
    kind: InjectionKind,
    known: Option<&KnownItems>,
    brief: Option<&str>,
    reasons: &[InjectionReason],
    room: Option<u64>,
) -> Option<Composed> {
    let items = items_of(snapshot);
    let is_known = |item: &Item| known.is_some_and(|it| it.0.get(&item.key) == Some(&hash(&item.state)));
    let has_decision = |key: &String| items.iter().any(|item| item.key == *key);
    let closed: Vec<_> = known
        .into_iter()
        .flat_map(|known| known.0.keys())
        .filter(|key| key.starts_with(DECISION) && snapshot.omitted.pending_decisions == 0)
        .filter(|key| !has_decision(key))
        .collect();
    if brief.is_none() && closed.is_empty() && items.iter().all(is_known) {
        return None;
    }
    let mut text = format!(
        "Context update, version {}. It informs you about your project and asks for nothing: continue with your work.\n",
        snapshot.snapshot_version
    );
    for reason in reasons {
        write_to(&mut text, format_args!("\n{reason}"));
    }
    if let Some(brief) = brief {
        write_to(&mut text, format_args!("\n\n# Your current brief\n\n{}\n", cut(brief, MAX_BRIEF)));
    }
    let is_complete = known.is_none() || kind == InjectionKind::All;
    let heading = if is_complete { "# Your project now" } else { "# What changed" };
    write_to(&mut text, format_args!("\n\n{heading}\n"));
    let mut now_known = known.cloned().unwrap_or_default();
    let mut room = room.map(|room| room.saturating_sub(estimated_tokens(&text) + LAST_LINE_TOKENS));
    let mut added = 0;
    for key in &closed {
        if push_line(&mut text, &mut room, &format!("- The {key} is not open any more.")) {
            now_known.0.remove(*key);
            added += 1;
        }
    }
    now_known.0.retain(|key, _| items.iter().any(|item| item.key == *key) || closed.contains(&key));
    let mut omitted = 0;
    for item in items.iter().filter(|item| is_complete || !is_known(item)) {
        if push_line(&mut text, &mut room, &item.line) {
            added += 1;
            now_known.0.insert(item.key.clone(), hash(&item.state));
        } else {
            omitted += 1;
        }
    }
    if added == 0 && brief.is_none() {
        return None;
    }
    if omitted > 0 {
        write_to(
            &mut text,
            format_args!("\n{omitted} further entries are omitted. Use the tool `search_knowledge`."),
        );
    }
    let content = MessageContent::parse(cut(&text, MessageContent::MAX)).ok()?;
    let estimated_tokens = estimated_tokens(content.as_str());
    Some(Composed { content, estimated_tokens, known: now_known })
}

fn write_to(text: &mut String, part: Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

/// Adds a line if it fits into the message and into the `room` of the context budget.
fn push_line(text: &mut String, room: &mut Option<u64>, line: &str) -> bool {
    let tokens = estimated_tokens(line);
    let fits = text.chars().count() + 1 + line.chars().count() + RESERVE <= MessageContent::MAX
        && room.is_none_or(|room| tokens <= room);
    if fits {
        *room = room.map(|room| room - tokens);
        text.push('\n');
        text.push_str(line);
    }
    fits
}

fn hash(state: &str) -> String {
    sha256_hex(state)[..HASH].to_owned()
}

/// The items of a snapshot, the most important first.
fn items_of(snapshot: &KnowledgeSnapshot) -> Vec<Item> {
    let mut items = Vec::new();
    for it in &snapshot.artifact_index {
        let state = format!(
            "artifact \"{}\" ({}), version {}, {}, of the workstream {}",
            it.name,
            name(&it.kind),
            it.version,
            name(&it.status),
            it.workstream
        );
        items.push(Item {
            key: format!("artifact {}", it.id),
            line: format!("- The {state}; id {}", it.id),
            state,
        });
    }
    for it in &snapshot.pending_decisions {
        let state = format!(
            "\"{}\" ({}, {}) of the workstream {}",
            it.title,
            name(&it.subtype),
            name(&it.severity),
            it.workstream
        );
        items.push(Item {
            key: format!("{DECISION}{}", it.id),
            line: format!("- The open decision {state}; id {}", it.id),
            state,
        });
    }
    for it in &snapshot.recent_coherence_issues {
        let state = format!("issue \"{}\" ({}, {})", it.title, name(&it.category), name(&it.severity));
        items.push(Item {
            key: format!("issue {}", it.id),
            line: format!("- The {state}; id {}", it.id),
            state,
        });
    }
    for it in &snapshot.workstreams {
        let state = format!("workstream {} (\"{}\")", it.id, it.name);
        let counts = format!("{} artifacts, {} open decisions", it.artifact_count, it.pending_decision_count);
        items.push(Item {
            key: format!("workstream {}", it.id),
            line: format!("- The {state}: {counts}"),
            state,
        });
    }
    for it in &snapshot.active_agents {
        let agent = format!("agent \"{}\" of the workstream {}", it.role, it.workstream);
        let line = format!("- The {agent} is {}; id {}", it.status, it.id);
        let state = if it.status == AgentStatus::Completed { format!("{agent}, completed") } else { agent };
        items.push(Item { key: format!("agent {}", it.id), line, state });
    }
    items
}

/// The name of a variant in JSON.
fn name(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
