//! The fields of each type of event, and how a value that almost fits is repaired.

use serde_json::{Map, Value, json};

use super::Repair;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// Text that is not blank and has no control characters.
    Id,
    Bool,
    /// A number in this range.
    Number(f64, f64),
    Word(&'static [&'static str]),
    Texts,
    Object,
    Options,
    Any,
}

#[derive(Debug, Clone, Copy)]
enum Need {
    Required,
    Optional,
    /// JSON text of the value that a missing field gets.
    Default(&'static str),
}

use Kind::{Any, Bool, Id, Number, Object, Options, Text, Texts, Word};
use Need::{Default, Optional, Required};

pub(super) struct Field(&'static str, Kind, Need);

const SEVERITY: Kind = Word(&["warning", "low", "medium", "high", "critical"]);
const RADIUS: Kind = Word(&["trivial", "small", "medium", "large", "unknown"]);
const NO_LIST: Need = Default("[]");
const EMPTY: Need = Default("\"\"");

pub(super) const TYPES: &[(&str, &[Field])] = &[
    ("status", &[Field("message", Text, Required)]),
    (
        "artifact",
        &[
            Field("artifactId", Id, Required),
            Field("name", Text, Required),
            Field(
                "kind",
                Word(&["code", "document", "design", "config", "test", "other"]),
                Default("\"other\""),
            ),
            Field("status", Word(&["draft", "in_review", "approved", "rejected"]), Default("\"draft\"")),
            Field("qualityScore", Number(0.0, 1.0), Optional),
            Field("provenance", Object, Default("{}")),
            Field("uri", Text, Optional),
            Field("mimeType", Text, Optional),
            Field("sizeBytes", Number(0.0, 1e15), Optional),
            Field("contentHash", Text, Optional),
        ],
    ),
    (
        "coherence",
        &[
            Field("issueId", Id, Required),
            Field("title", Text, Required),
            Field("description", Text, EMPTY),
            Field(
                "category",
                Word(&["contradiction", "duplication", "gap", "dependency_violation"]),
                Required,
            ),
            Field("severity", SEVERITY, Default("\"medium\"")),
            Field("affectedWorkstreams", Texts, NO_LIST),
            Field("affectedArtifactIds", Texts, NO_LIST),
        ],
    ),
    (
        "tool_call",
        &[
            Field("toolCallId", Id, Required),
            Field("toolName", Text, Required),
            Field("phase", Word(&["requested", "running", "completed", "failed"]), Required),
            Field("input", Object, Default("{}")),
            Field("output", Any, Optional),
            Field("approved", Bool, Default("false")),
            Field("durationMs", Number(0.0, 1e15), Optional),
        ],
    ),
    (
        "completion",
        &[
            Field("summary", Text, EMPTY),
            Field("artifactsProduced", Texts, NO_LIST),
            Field("decisionsNeeded", Texts, NO_LIST),
            Field("outcome", Word(&["success", "partial", "abandoned", "max_turns"]), Default("\"success\"")),
            Field("reason", Text, Optional),
        ],
    ),
    (
        "error",
        &[
            Field("severity", SEVERITY, Default("\"medium\"")),
            Field("message", Text, Required),
            Field("recoverable", Bool, Default("true")),
            Field("errorCode", Text, Optional),
            Field(
                "category",
                Word(&["provider", "tool", "model", "timeout", "internal"]),
                Default("\"internal\""),
            ),
            Field("context", Object, Optional),
        ],
    ),
    (
        "delegation",
        &[
            Field("action", Word(&["spawned", "handoff", "returned"]), Required),
            Field("childAgentId", Id, Required),
            Field("childRole", Text, EMPTY),
            Field("reason", Text, EMPTY),
            Field("delegationDepth", Number(0.0, 100.0), Optional),
            Field("rootAgentId", Text, Optional),
        ],
    ),
    (
        "guardrail",
        &[
            Field("guardrailName", Text, Required),
            Field("level", Word(&["input", "output", "tool"]), Default("\"tool\"")),
            Field("tripped", Bool, Required),
            Field("message", Text, EMPTY),
        ],
    ),
    (
        "lifecycle",
        &[
            Field(
                "action",
                Word(&["started", "paused", "resumed", "killed", "crashed", "session_start", "session_end"]),
                Required,
            ),
            Field("reason", Text, Optional),
        ],
    ),
    (
        "progress",
        &[
            Field("operationId", Text, EMPTY),
            Field("description", Text, Required),
            Field("progressPct", Number(0.0, 100.0), Optional),
        ],
    ),
    (
        "raw_provider",
        &[
            Field("providerName", Text, EMPTY),
            Field("eventType", Text, Required),
            Field("payload", Object, Default("{}")),
        ],
    ),
];

const OPTION_DECISION: &[Field] = &[
    Field("decisionId", Id, Required),
    Field("title", Text, Required),
    Field("summary", Text, EMPTY),
    Field("severity", SEVERITY, Optional),
    Field("confidence", Number(0.0, 1.0), Optional),
    Field("blastRadius", RADIUS, Optional),
    Field("options", Options, Required),
    Field("recommendedOptionId", Text, Optional),
    Field("affectedArtifactIds", Texts, NO_LIST),
    Field("requiresRationale", Bool, Default("false")),
];

const TOOL_APPROVAL: &[Field] = &[
    Field("decisionId", Id, Required),
    Field("toolName", Text, Required),
    Field("toolArgs", Object, Default("{}")),
    Field("severity", SEVERITY, Optional),
    Field("confidence", Number(0.0, 1.0), Optional),
    Field("blastRadius", RADIUS, Optional),
    Field("affectedArtifactIds", Texts, Optional),
];

const DECISION_OPTION: &[Field] = &[
    Field("id", Id, Required),
    Field("label", Text, Required),
    Field("description", Text, EMPTY),
    Field("tradeoffs", Text, Optional),
];

/// Makes the fields of an event fit its type. Unknown fields stay.
pub(super) fn normalize(event: &mut Map<String, Value>, repairs: &mut Vec<Repair>, errors: &mut Vec<String>) {
    let Some(name) = event.get("type").and_then(Value::as_str).map(str::to_owned) else {
        errors.push("`type` is missing".to_owned());
        return;
    };
    let fields = if name == "decision" {
        match event.get("subtype").and_then(Value::as_str) {
            Some("option") => OPTION_DECISION,
            Some("tool_approval") => TOOL_APPROVAL,
            // The two kinds share no required field but the id.
            None if event.contains_key("options") => {
                event.insert("subtype".to_owned(), "option".into());
                repairs.push(Repair::Default("subtype".to_owned()));
                OPTION_DECISION
            }
            None if event.contains_key("toolName") => {
                event.insert("subtype".to_owned(), "tool_approval".into());
                repairs.push(Repair::Default("subtype".to_owned()));
                TOOL_APPROVAL
            }
            _ => {
                errors.push("`subtype` must be `option` or `tool_approval`".to_owned());
                return;
            }
        }
    } else if let Some((_, fields)) = TYPES.iter().find(|(known, _)| *known == name) {
        fields
    } else {
        errors.push(format!("`type` is unknown: {}", pilothouse_domain::text::cut(&name, 50)));
        return;
    };
    Normalizer { place: String::new(), repairs, errors }.all(event, fields);
}

struct Normalizer<'a> {
    /// The path of the object, with a dot at its end.
    place: String,
    repairs: &'a mut Vec<Repair>,
    errors: &'a mut Vec<String>,
}

/// A value that fits, and how it was repaired.
type Fitted = (Value, Option<fn(String) -> Repair>);

impl Normalizer<'_> {
    fn all(&mut self, object: &mut Map<String, Value>, fields: &[Field]) {
        for Field(name, kind, need) in fields {
            let path = format!("{}{name}", self.place);
            let given = object.remove(*name).filter(|value| !value.is_null());
            let was_given = given.is_some();
            let fitted = given.and_then(|value| self.fit(value, *kind, &path));
            match (fitted, need) {
                (Some((value, repair)), _) => {
                    self.repairs.extend(repair.map(|repair| repair(path)));
                    object.insert((*name).to_owned(), value);
                }
                (None, Required) if was_given => {
                    self.errors.push(format!("`{path}` must be {}", rule(*kind)));
                }
                (None, Required) => self.errors.push(format!("`{path}` is missing")),
                (None, Optional) if was_given => self.repairs.push(Repair::Dropped(path)),
                (None, Optional) => {}
                (None, Default(value)) => {
                    // The defaults of this file are JSON, as a test shows.
                    let value = serde_json::from_str(value).unwrap_or_default();
                    object.insert((*name).to_owned(), value);
                    self.repairs.push(if was_given { Repair::Dropped(path) } else { Repair::Default(path) });
                }
            }
        }
    }

    fn fit(&mut self, value: Value, kind: Kind, path: &str) -> Option<Fitted> {
        match (kind, value) {
            (Any, value) | (Bool, value @ Value::Bool(_)) | (Object, value @ Value::Object(_)) => {
                Some((value, None))
            }
            (Text, Value::String(text)) => Some((text.into(), None)),
            (Id, Value::String(text)) if is_id(&text) => Some((text.into(), None)),
            (Text, value @ (Value::Number(_) | Value::Bool(_))) | (Id, value @ Value::Number(_)) => {
                Some((value.to_string().into(), Some(Repair::Type)))
            }
            (Bool, Value::String(text)) => {
                Some((text.to_ascii_lowercase().parse::<bool>().ok()?.into(), Some(Repair::Type)))
            }
            (Object, Value::String(text)) => {
                let parsed: Map<String, Value> = serde_json::from_str(&text).ok()?;
                Some((parsed.into(), Some(Repair::Type)))
            }
            (Number(least, most), value) => number(&value, least, most),
            (Word(words), Value::String(text)) => word(text, words),
            (Texts, Value::String(text)) => Some((json!([text]), Some(Repair::Single))),
            (Texts, Value::Array(items)) => items.iter().all(Value::is_string).then(|| (items.into(), None)),
            (Options, Value::Array(items)) if !items.is_empty() => {
                let options = items.into_iter().enumerate().map(|(at, item)| self.option(item, at, path));
                Some((options.collect::<Option<Vec<_>>>()?.into(), None))
            }
            _ => None,
        }
    }

    /// `None` if it is no option; the reasons are in `errors`, or the caller gives one.
    fn option(&mut self, item: Value, at: usize, path: &str) -> Option<Value> {
        let place = format!("{path}[{at}].");
        let mut option = match item {
            Value::Object(option) => option,
            Value::String(label) => {
                self.repairs.push(Repair::Single(format!("{path}[{at}]")));
                Map::from_iter([("label".to_owned(), label.into())])
            }
            _ => return None,
        };
        if option.get("id").is_none_or(Value::is_null) {
            option.insert("id".to_owned(), (at + 1).to_string().into());
            self.repairs.push(Repair::Default(format!("{place}id")));
        }
        Normalizer { place, repairs: self.repairs, errors: self.errors }.all(&mut option, DECISION_OPTION);
        Some(option.into())
    }
}

fn is_id(text: &str) -> bool {
    !text.trim().is_empty() && !text.chars().any(char::is_control)
}

fn number(value: &Value, least: f64, most: f64) -> Option<Fitted> {
    let (number, from_text) = match value {
        Value::Number(number) => (number.as_f64()?, false),
        Value::String(text) => (text.trim().trim_end_matches('%').parse::<f64>().ok()?, true),
        _ => return None,
    };
    let inside = number.clamp(least, most);
    let out_of_range = (inside - number).abs() > f64::EPSILON;
    let repair = match (out_of_range, from_text) {
        (true, _) => Some(Repair::Range as fn(String) -> Repair),
        (false, true) => Some(Repair::Type as fn(String) -> Repair),
        (false, false) => None,
    };
    if repair.is_none() {
        return Some((value.clone(), None));
    }
    Some((serde_json::Number::from_f64(inside)?.into(), repair))
}

fn word(text: String, words: &[&str]) -> Option<Fitted> {
    if words.contains(&text.as_str()) {
        return Some((text.into(), None));
    }
    let plain = text.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    let known = words.iter().find(|word| **word == plain)?;
    Some(((*known).into(), Some(Repair::Spelling)))
}

fn rule(kind: Kind) -> String {
    match kind {
        Text => "a text".to_owned(),
        Id => "a text that is not blank and has no control characters".to_owned(),
        Bool => "true or false".to_owned(),
        Number(least, most) => format!("a number from {least} to {most}"),
        Word(words) => format!("one of {}", words.join(", ")),
        Texts => "a list of texts".to_owned(),
        Object => "an object".to_owned(),
        Options => "a list of options, each with id and label".to_owned(),
        Any => "a value".to_owned(),
    }
}
