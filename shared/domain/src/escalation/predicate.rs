//! Conditions under which an action needs a person (S2 `EscalationPredicate`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::violation::{Path, ProtocolViolation, Violations};
use crate::effect::{BlastRadius, Confidence};
use crate::trust::Points;

/// A condition on an effect, its call and the agent. `not` is an addition to S2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscalationPredicate {
    Confidence { op: NumberOp, value: Confidence },
    BlastRadius { op: RadiusOp, value: BlastRadius },
    TrustScore { op: NumberOp, value: Points },
    AffectsMultipleWorkstreams { value: bool },
    And { rules: Vec<Self> },
    Or { rules: Vec<Self> },
    Not { rule: Box<Self> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberOp {
    Lt,
    Gt,
    Lte,
    Gte,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RadiusOp {
    /// An unknown blast radius also equals `large`, because it counts as the largest.
    Eq,
    Gte,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredicateFacts {
    pub confidence: Confidence,
    pub blast_radius: BlastRadius,
    pub trust_score: Points,
    pub affects_multiple_workstreams: bool,
}

impl NumberOp {
    fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Lt => left < right,
            Self::Gt => left > right,
            Self::Lte => left <= right,
            Self::Gte => left >= right,
        }
    }
}

impl RadiusOp {
    fn holds(self, left: BlastRadius, right: BlastRadius) -> bool {
        match self {
            Self::Eq => left == right || (left == BlastRadius::Unknown && right == BlastRadius::Large),
            Self::Gte => left >= right,
        }
    }
}

impl EscalationPredicate {
    /// Most levels of nested groups and comparisons.
    pub const MAX_DEPTH: usize = 8;
    /// Most groups and comparisons of one predicate.
    pub const MAX_SIZE: usize = 64;

    pub fn holds(&self, facts: &PredicateFacts) -> bool {
        match self {
            Self::Confidence { op, value } => op.holds(&facts.confidence, value),
            Self::BlastRadius { op, value } => op.holds(facts.blast_radius, *value),
            Self::TrustScore { op, value } => op.holds(&facts.trust_score, value),
            Self::AffectsMultipleWorkstreams { value } => facts.affects_multiple_workstreams == *value,
            Self::And { rules } => rules.iter().all(|rule| rule.holds(facts)),
            Self::Or { rules } => rules.iter().any(|rule| rule.holds(facts)),
            Self::Not { rule } => !rule.holds(facts),
        }
    }

    /// Whether it depends on the workstreams that a call affects.
    pub fn depends_on_workstreams(&self) -> bool {
        match self {
            Self::AffectsMultipleWorkstreams { .. } => true,
            Self::And { rules } | Self::Or { rules } => rules.iter().any(Self::depends_on_workstreams),
            Self::Not { rule } => rule.depends_on_workstreams(),
            Self::Confidence { .. } | Self::BlastRadius { .. } | Self::TrustScore { .. } => false,
        }
    }

    /// Reads a predicate and names every violation.
    pub fn parse(json: &Value) -> Result<Self, Violations> {
        let mut reader = Reader { found: Vec::new(), size: 0 };
        let predicate = reader.predicate(json, &Path::root(), 1);
        if reader.size > Self::MAX_SIZE {
            reader.report(&Path::root(), ProtocolViolation::TooLarge { max: Self::MAX_SIZE });
        }
        match predicate {
            Some(predicate) if reader.found.is_empty() => Ok(predicate),
            _ => Err(Violations(reader.found)),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Confidence { op, value } => json!({ "field": "confidence", "op": op, "value": value }),
            Self::BlastRadius { op, value } => json!({ "field": "blastRadius", "op": op, "value": value }),
            Self::TrustScore { op, value } => json!({ "field": "trustScore", "op": op, "value": value }),
            Self::AffectsMultipleWorkstreams { value } => {
                json!({ "field": "affectsMultipleWorkstreams", "op": "eq", "value": value })
            }
            Self::And { rules } => json!({ "type": "and", "rules": rules }),
            Self::Or { rules } => json!({ "type": "or", "rules": rules }),
            Self::Not { rule } => json!({ "type": "not", "rule": rule }),
        }
    }
}

impl Serialize for EscalationPredicate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EscalationPredicate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

struct Reader {
    found: Vec<(String, ProtocolViolation)>,
    size: usize,
}

impl Reader {
    fn report(&mut self, path: &Path, violation: ProtocolViolation) {
        self.found.push((path.to_string(), violation));
    }

    fn predicate(&mut self, json: &Value, path: &Path, depth: usize) -> Option<EscalationPredicate> {
        self.size += 1;
        if depth > EscalationPredicate::MAX_DEPTH {
            self.report(path, ProtocolViolation::TooDeep { max: EscalationPredicate::MAX_DEPTH });
            return None;
        }
        let Some(object) = json.as_object() else {
            self.report(path, ProtocolViolation::NotAnObject);
            return None;
        };
        let names: &[&str] = match (object.get("field"), object.get("type").and_then(Value::as_str)) {
            (Some(_), _) => &["field", "op", "value"],
            (None, Some("not")) => &["type", "rule"],
            (None, _) => &["type", "rules"],
        };
        for name in object.keys().filter(|name| !names.contains(&name.as_str())) {
            self.report(&path.field(name), ProtocolViolation::UnknownField);
        }
        match object.get("field") {
            Some(field) => self.comparison(field, json, path),
            None => self.group(json, path, depth),
        }
    }

    fn group(&mut self, json: &Value, path: &Path, depth: usize) -> Option<EscalationPredicate> {
        match json.get("type").and_then(Value::as_str) {
            Some("and") => Some(EscalationPredicate::And { rules: self.rules(json, path, depth)? }),
            Some("or") => Some(EscalationPredicate::Or { rules: self.rules(json, path, depth)? }),
            Some("not") => {
                let rule =
                    self.predicate(json.get("rule").unwrap_or(&Value::Null), &path.field("rule"), depth + 1)?;
                Some(EscalationPredicate::Not { rule: Box::new(rule) })
            }
            _ => {
                self.report(path, ProtocolViolation::NeitherFieldNorGroup);
                None
            }
        }
    }

    fn rules(&mut self, json: &Value, path: &Path, depth: usize) -> Option<Vec<EscalationPredicate>> {
        let path = path.field("rules");
        let rules = json.get("rules").and_then(Value::as_array).filter(|rules| !rules.is_empty());
        let Some(rules) = rules else {
            self.report(&path, ProtocolViolation::NoRules);
            return None;
        };
        // A long list is not read further than its violation needs.
        let read: Vec<_> = rules
            .iter()
            .take(EscalationPredicate::MAX_SIZE + 1)
            .enumerate()
            .map(|(at, rule)| self.predicate(rule, &path.index(at), depth + 1))
            .collect();
        read.into_iter().collect()
    }

    fn comparison(&mut self, field: &Value, json: &Value, path: &Path) -> Option<EscalationPredicate> {
        match field.as_str() {
            Some("confidence") => {
                let (op, value) = self.parts(json, path, "lt, gt, lte, gte", "a number from 0 to 1");
                Some(EscalationPredicate::Confidence { op: op?, value: value? })
            }
            Some("blastRadius") => {
                let expected = "trivial, small, medium, large or unknown";
                let (op, value) = self.parts(json, path, "eq, gte", expected);
                Some(EscalationPredicate::BlastRadius { op: op?, value: value? })
            }
            Some("trustScore") => {
                let expected = "a number from 0 to 100 with at most three decimals";
                let (op, value) = self.parts::<NumberOp, Points>(json, path, "lt, gt, lte, gte", expected);
                let in_range = |value: &Points| (Points::ZERO..=Points::MAX_SCORE).contains(value);
                if value.is_some_and(|value| !in_range(&value)) {
                    self.report(&path.field("value"), ProtocolViolation::Value { expected });
                }
                Some(EscalationPredicate::TrustScore { op: op?, value: value.filter(in_range)? })
            }
            Some("affectsMultipleWorkstreams") => {
                let (op, value) = self.parts::<EqOp, bool>(json, path, "eq", "true or false");
                op?;
                Some(EscalationPredicate::AffectsMultipleWorkstreams { value: value? })
            }
            _ => {
                self.report(&path.field("field"), ProtocolViolation::Field);
                None
            }
        }
    }

    fn parts<Op: for<'a> Deserialize<'a>, T: for<'a> Deserialize<'a>>(
        &mut self,
        json: &Value,
        path: &Path,
        ops: &'static str,
        values: &'static str,
    ) -> (Option<Op>, Option<T>) {
        let op = json.get("op").and_then(|op| Op::deserialize(op).ok());
        let value = json.get("value").and_then(|value| T::deserialize(value).ok());
        if op.is_none() {
            self.report(&path.field("op"), ProtocolViolation::Op { expected: ops });
        }
        if value.is_none() {
            self.report(&path.field("value"), ProtocolViolation::Value { expected: values });
        }
        (op, value)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum EqOp {
    Eq,
}
