//! The decision log, for comparisons.

use serde_json::Value;

use super::agent::Agent;

/// The decision log of a project, oldest first.
pub(super) struct Log(pub(super) Vec<Value>);

impl Log {
    pub(super) fn of_type(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |entry| entry["type"] == kind)
    }

    /// The only entry with this type and reference.
    pub(super) fn only(&self, kind: &str, reference: &str, id: &Value) -> &Value {
        let found: Vec<_> = self.of_type(kind).filter(|entry| entry.pointer(reference) == Some(id)).collect();
        let [entry] = found[..] else { panic!("{kind} {reference} {id}: {found:#?}") };
        entry
    }

    /// The decisions about an agent, in one line each.
    pub(super) fn about(&self, agent: &Agent) -> Vec<String> {
        self.0.iter().filter(|entry| entry["agentId"] == agent.id.as_str()).map(line).collect()
    }
}

fn line(entry: &Value) -> String {
    let text =
        |at: &str| entry.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("{at}: {entry:#}"));
    match text("/type") {
        "verdict" => {
            let rule = &entry["rule"];
            let subject = ["entry", "description", "mode"].iter().find_map(|name| rule[name].as_str());
            let subject = subject.unwrap_or_else(|| panic!("{rule}"));
            format!("{} {}: {} {subject}", text("/verdict"), text("/tool"), text("/rule/type"))
        }
        "decision" => format!("{} by {}", text("/resolutionType"), text("/resolvedBy/type")),
        "trust" => {
            let change = &entry["change"];
            format!("{} {} to {}", text("/change/outcome"), change["before"], change["after"])
        }
        other => panic!("{other}: {entry:#}"),
    }
}
