//! The escalation protocol of a mode or an agent (S2 `EscalationProtocol`).

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::entry::ListEntry;
use super::predicate::{EscalationPredicate, NumberOp, RadiusOp};
use super::violation::{Path, ProtocolViolation, Violations};
use crate::control_mode::ControlMode;
use crate::effect::pattern::ToolClassifications;
use crate::effect::{ActionKind, BlastRadius, Confidence};
use crate::trust::Points;

/// Calls for which an agent has to ask a person, and calls for which it need not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EscalationProtocol {
    pub always_escalate: Vec<ListEntry>,
    pub escalate_when: Vec<EscalationRule>,
    pub never_escalate: Vec<ListEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EscalationRule {
    pub predicate: EscalationPredicate,
    /// Shown to the person who decides.
    pub description: String,
}

impl EscalationProtocol {
    /// Most entries of a list.
    pub const MAX_ENTRIES: usize = 100;
    pub const MAX_RULES: usize = 50;
    pub const MAX_DESCRIPTION: usize = 500;

    /// Whether a rule depends on the workstreams that a call affects.
    pub fn depends_on_workstreams(&self) -> bool {
        self.escalate_when.iter().any(|rule| rule.predicate.depends_on_workstreams())
    }

    /// **The default protocol of each mode**, by S2's examples.
    ///
    /// In adaptive mode, the trust rule asks only for a blast radius of `small` or more. S2's example would ask for each read of a
    /// new agent.
    pub fn of_mode(mode: ControlMode) -> Self {
        use ActionKind as K;
        let kinds = |kinds: &[K]| kinds.iter().map(|kind| ListEntry::kind(*kind)).collect();
        let rule =
            |predicate, description: &str| EscalationRule { predicate, description: description.to_owned() };
        let confidence_below = |percent| EscalationPredicate::Confidence {
            op: NumberOp::Lt,
            value: Confidence::percent(percent),
        };
        let radius_from = |value| EscalationPredicate::BlastRadius { op: RadiusOp::Gte, value };
        match mode {
            ControlMode::Orchestrator => Self {
                always_escalate: kinds(&[K::Create, K::Update, K::Execute, K::Deploy, K::Delete]),
                escalate_when: Vec::new(),
                never_escalate: kinds(&[K::Read, K::Search]),
            },
            ControlMode::Adaptive => Self {
                always_escalate: kinds(&[K::Delete, K::Deploy]),
                escalate_when: vec![
                    rule(
                        EscalationPredicate::And {
                            rules: vec![confidence_below(80), radius_from(BlastRadius::Medium)],
                        },
                        "Low confidence and a blast radius that is not small",
                    ),
                    rule(
                        EscalationPredicate::And {
                            rules: vec![
                                EscalationPredicate::TrustScore {
                                    op: NumberOp::Lt,
                                    value: Points::whole(70),
                                },
                                radius_from(BlastRadius::Small),
                            ],
                        },
                        "The agent is not trusted yet, and the action is not trivial",
                    ),
                    rule(
                        EscalationPredicate::AffectsMultipleWorkstreams { value: true },
                        "The action affects several workstreams",
                    ),
                ],
                never_escalate: Vec::new(),
            },
            ControlMode::Ecosystem => Self {
                always_escalate: kinds(&[K::Delete, K::Deploy]),
                escalate_when: vec![rule(confidence_below(50), "Low confidence")],
                never_escalate: kinds(&[K::Read, K::Search, K::Create, K::Update, K::Execute]),
            },
        }
    }

    /// Reads a protocol and names every violation.
    pub fn parse(json: &Value) -> Result<Self, Violations> {
        let Some(object) = json.as_object() else {
            return Err(Violations(vec![(String::new(), ProtocolViolation::NotAnObject)]));
        };
        let mut found = Vec::new();
        let names = ["alwaysEscalate", "escalateWhen", "neverEscalate"];
        for name in object.keys().filter(|name| !names.contains(&name.as_str())) {
            found.push((Path::root().field(name).to_string(), ProtocolViolation::UnknownField));
        }
        let [always, when, never] = names.map(|name| Path::root().field(name));
        let protocol = Self {
            always_escalate: list(json, &always, Self::MAX_ENTRIES, read_entry, &mut found),
            escalate_when: list(json, &when, Self::MAX_RULES, read_rule, &mut found),
            never_escalate: list(json, &never, Self::MAX_ENTRIES, read_entry, &mut found),
        };
        if found.is_empty() {
            found.extend(protocol.check().err().into_iter().flat_map(|violations| violations.0));
        }
        if found.is_empty() { Ok(protocol) } else { Err(Violations(found)) }
    }

    fn check(&self) -> Result<(), Violations> {
        let every = self.never_escalate.iter().enumerate().filter(|(_, entry)| entry.matches_every_tool());
        violations(every.map(|(at, _)| (format!("neverEscalate[{at}]"), ProtocolViolation::EveryTool)))
    }

    /// Finds entries that name neither a tool in `tools` nor a pattern in `patterns`, such as misspelt action kinds.
    pub fn check_names(&self, tools: &[String], patterns: &ToolClassifications) -> Result<(), Violations> {
        let lists = [("alwaysEscalate", &self.always_escalate), ("neverEscalate", &self.never_escalate)];
        violations(lists.into_iter().flat_map(|(name, entries)| {
            let unknown = entries.iter().enumerate().filter(|(_, entry)| !entry.is_known(tools, patterns));
            unknown.map(move |(at, _)| (format!("{name}[{at}]"), ProtocolViolation::UnknownName))
        }))
    }
}

impl JsonSchema for EscalationProtocol {
    fn schema_name() -> Cow<'static, str> {
        "EscalationProtocol".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let entries = |description: &str| {
            json!({
                "description": description, "type": "array", "maxItems": Self::MAX_ENTRIES,
                "items": { "type": "string", "minLength": 1, "maxLength": 110 },
            })
        };
        json_schema!({
            "description": "Calls for which an agent has to ask a person, and calls for which it need not. Entries are action kinds, \
                patterns of tool names, or `pattern:NAME` for a classification pattern of the project.",
            "type": "object",
            "properties": {
                "alwaysEscalate": entries("Calls that always need a person."),
                "escalateWhen": {
                    "description": "Conditions under which a call needs a person.",
                    "type": "array",
                    "maxItems": Self::MAX_RULES,
                    "items": {
                        "type": "object",
                        "properties": {
                            "predicate": {
                                "description": "A comparison of `confidence`, `blastRadius`, `trustScore` or \
                                    `affectsMultipleWorkstreams`, or a group of predicates: `and`, `or`, `not`.",
                                "type": "object",
                            },
                            "description": { "type": "string", "minLength": 1, "maxLength": Self::MAX_DESCRIPTION },
                        },
                        "required": ["predicate", "description"],
                        "additionalProperties": false,
                    },
                },
                "neverEscalate": entries("Calls that need no person, unless they are critical or their reach is unknown."),
            },
            "additionalProperties": false,
        })
    }
}

fn violations(found: impl Iterator<Item = (String, ProtocolViolation)>) -> Result<(), Violations> {
    let found: Vec<_> = found.collect();
    if found.is_empty() { Ok(()) } else { Err(Violations(found)) }
}

impl<'de> Deserialize<'de> for EscalationProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Reads a list of the protocol. A missing list is empty.
fn list<T>(
    json: &Value,
    path: &Path,
    max: usize,
    read: fn(&Value, &Path) -> Result<T, Violations>,
    found: &mut Vec<(String, ProtocolViolation)>,
) -> Vec<T> {
    let items = match json.get(path.to_string()) {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            found.push((path.to_string(), ProtocolViolation::NotAList));
            return Vec::new();
        }
    };
    if items.len() > max {
        found.push((path.to_string(), ProtocolViolation::TooMany { max }));
        return Vec::new();
    }
    let mut values = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match read(item, &path.index(at)) {
            Ok(value) => values.push(value),
            Err(violations) => found.extend(violations.0),
        }
    }
    values
}

fn read_entry(json: &Value, path: &Path) -> Result<ListEntry, Violations> {
    let entry = match json.as_str() {
        Some(text) => ListEntry::parse(text).map_err(ProtocolViolation::from),
        None => Err(ProtocolViolation::NotAString),
    };
    entry.map_err(|violation| Violations(vec![(path.to_string(), violation)]))
}

fn read_rule(json: &Value, path: &Path) -> Result<EscalationRule, Violations> {
    let Some(object) = json.as_object() else {
        return Err(Violations(vec![(path.to_string(), ProtocolViolation::NotAnObject)]));
    };
    let mut found: Vec<_> = object
        .keys()
        .filter(|name| *name != "predicate" && *name != "description")
        .map(|name| (path.field(name).to_string(), ProtocolViolation::UnknownField))
        .collect();
    let predicate = EscalationPredicate::parse(object.get("predicate").unwrap_or(&Value::Null));
    let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
    if !(1..=EscalationProtocol::MAX_DESCRIPTION).contains(&description.chars().count()) {
        found.push((
            path.field("description").to_string(),
            ProtocolViolation::Description { max: EscalationProtocol::MAX_DESCRIPTION },
        ));
    }
    match predicate {
        Ok(predicate) if found.is_empty() => {
            Ok(EscalationRule { predicate, description: description.to_owned() })
        }
        Ok(_) => Err(Violations(found)),
        Err(violations) => {
            found.extend(path.field("predicate").around(violations));
            Err(Violations(found))
        }
    }
}
