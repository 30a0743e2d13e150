//! Reads the arguments of `request_decision`. Models often miss a part of a schema, so that all violations are found at once, and
//! the parts that fit can be shown to the owner (S2, "Claude `OptionDecisionEvent` reliability").

use pilothouse_domain::effect::{BlastRadius, Confidence, Severity};
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{OptionAssessment, OptionProposal, ProposedOption};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

const MAX_TITLE: usize = 200;
const MAX_SUMMARY: usize = 1500;
const MIN_OPTIONS: usize = 2;

/// The schema for models. Reading is lenient, and reports what does not fit.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // only its schema is used
pub(super) struct Schema {
    /// What is to be decided, in one line.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// What the owner needs to know to decide.
    #[schemars(length(min = 1, max = 1500))]
    summary: String,
    /// 2 to 9 options.
    #[schemars(length(min = 2, max = 9))]
    options: Vec<OptionSchema>,
    /// The id of the option that you recommend.
    #[serde(default)]
    #[schemars(with = "String")]
    recommended_option_id: Option<String>,
    /// How sure you are, from 0 to 1.
    #[serde(default)]
    #[schemars(with = "f64", range(min = 0, max = 1))]
    confidence: Option<f64>,
    /// How bad a wrong choice would be: warning, low, medium, high or critical.
    #[serde(default)]
    #[schemars(with = "String")]
    severity: Option<Severity>,
    /// How far the choice reaches: trivial, small, medium, large or unknown.
    #[serde(default)]
    #[schemars(with = "String")]
    blast_radius: Option<BlastRadius>,
    /// Ids of the artifacts that the choice affects.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 20))]
    affected_artifact_ids: Option<Vec<String>>,
    /// Whether the owner has to give a reason.
    #[serde(default)]
    #[schemars(with = "bool")]
    requires_rationale: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code)] // only its schema is used
struct OptionSchema {
    /// A short id of your choice.
    #[schemars(length(min = 1, max = 64))]
    id: String,
    /// The option in a few words.
    #[schemars(length(min = 1, max = 100))]
    label: String,
    /// What it means.
    #[schemars(length(min = 1, max = 300))]
    description: String,
    /// What is gained and lost with it.
    #[schemars(length(min = 1, max = 300))]
    tradeoffs: String,
}

/// What the arguments say, as far as they fit.
pub(super) struct ReadProposal {
    pub question: String,
    /// `None` without an option to choose.
    pub proposal: Option<OptionProposal>,
    /// Each with how to correct it.
    pub violations: Vec<String>,
}

const FIELDS: [&str; 9] = [
    "title",
    "summary",
    "options",
    "recommendedOptionId",
    "confidence",
    "severity",
    "blastRadius",
    "affectedArtifactIds",
    "requiresRationale",
];
const OPTION_FIELDS: [&str; 4] = ["id", "label", "description", "tradeoffs"];

pub(super) fn read(arguments: &Value) -> ReadProposal {
    let empty = Map::new();
    let mut reader = Reader::default();
    let fields = arguments.as_object().unwrap_or_else(|| {
        reader.violations.push("the arguments must be an object".to_owned());
        &empty
    });
    reader.known(fields, &FIELDS, "");
    let title = reader.text(fields, "title", "", MAX_TITLE);
    let summary = reader.text(fields, "summary", "", MAX_SUMMARY);
    let options = reader.options(fields);
    let assessment = reader.assessment(fields, &options);
    let question = match (title, summary) {
        (Some(title), Some(summary)) => format!("{title}\n{summary}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) => {
            format!("The agent asks for a decision: {}", cut(&arguments.to_string(), MAX_SUMMARY))
        }
    };
    let proposal = OptionProposal { options, assessment }.fitting();
    ReadProposal { question, proposal, violations: reader.violations }
}

#[derive(Default)]
struct Reader {
    violations: Vec<String>,
}

impl Reader {
    fn wrong(&mut self, field: &str, why: &str) {
        self.violations.push(format!("`{field}` {why}"));
    }

    fn known(&mut self, fields: &Map<String, Value>, names: &[&str], place: &str) {
        for name in fields.keys().filter(|name| !names.contains(&name.as_str())) {
            self.wrong(&format!("{place}{}", cut(name, 50)), "is no field of this tool; leave it out");
        }
    }

    /// A text that must be present.
    fn text(&mut self, fields: &Map<String, Value>, name: &str, place: &str, most: usize) -> Option<String> {
        let field = format!("{place}{name}");
        match fields.get(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => {
                if text.chars().count() > most {
                    self.wrong(&field, &format!("must have at most {most} characters"));
                }
                Some(cut(text.trim(), most))
            }
            None | Some(Value::Null) => {
                self.wrong(&field, "is missing");
                None
            }
            Some(_) => {
                self.wrong(&field, "must be a text that is not empty");
                None
            }
        }
    }

    fn options(&mut self, fields: &Map<String, Value>) -> Vec<ProposedOption> {
        let Some(Value::Array(given)) = fields.get("options") else {
            self.wrong(
                "options",
                "must be a list of 2 to 9 options, each with id, label, description and tradeoffs",
            );
            return Vec::new();
        };
        if !(MIN_OPTIONS..=OptionProposal::MAX_OPTIONS).contains(&given.len()) {
            self.wrong("options", "must have 2 to 9 options");
        }
        let mut options: Vec<ProposedOption> = Vec::new();
        for (at, one) in given.iter().enumerate() {
            let place = format!("options[{at}].");
            let Some(fields) = one.as_object() else {
                self.wrong(
                    &format!("options[{at}]"),
                    "must be an object with id, label, description and tradeoffs",
                );
                // A bare text is at least a label.
                options.extend(one.as_str().map(|label| option(at, None, label.to_owned())));
                continue;
            };
            self.known(fields, &OPTION_FIELDS, &place);
            let id = self.text(fields, "id", &place, OptionProposal::MAX_ID);
            let label = self.text(fields, "label", &place, OptionProposal::MAX_LABEL);
            let description = self.text(fields, "description", &place, OptionProposal::MAX_TEXT);
            let tradeoffs = self.text(fields, "tradeoffs", &place, OptionProposal::MAX_TEXT);
            let Some(label) = label.or_else(|| Some(cut(description.as_ref()?, OptionProposal::MAX_LABEL)))
            else {
                continue;
            };
            let option = ProposedOption { description, tradeoffs, ..option(at, id, label) };
            if options.iter().any(|other| other.id == option.id) {
                self.wrong(&format!("{place}id"), "must differ from the ids of the other options");
            }
            if options.iter().any(|other| other.label == option.label) {
                self.wrong(&format!("{place}label"), "must differ from the labels of the other options");
            }
            options.push(option);
        }
        options
    }

    fn assessment(&mut self, fields: &Map<String, Value>, options: &[ProposedOption]) -> OptionAssessment {
        let recommended: Option<String> =
            self.optional(fields, "recommendedOptionId", "must be the id of an option");
        if recommended.as_ref().is_some_and(|id| options.iter().all(|option| option.id != *id)) {
            self.wrong("recommendedOptionId", "must be the id of one of the options");
        }
        let confidence: Option<f64> = self.optional(fields, "confidence", "must be a number from 0 to 1");
        let confidence = confidence.and_then(|number| {
            let confidence = Confidence::try_from(number).ok();
            if confidence.is_none() {
                self.wrong("confidence", "must be a number from 0 to 1");
            }
            confidence
        });
        let severities = "must be one of warning, low, medium, high, critical";
        let radii = "must be one of trivial, small, medium, large, unknown";
        OptionAssessment {
            recommended_option_id: recommended,
            confidence,
            severity: self.optional(fields, "severity", severities),
            blast_radius: self.optional(fields, "blastRadius", radii),
            affected_artifact_ids: self
                .optional(fields, "affectedArtifactIds", "must be a list of texts")
                .unwrap_or_default(),
            requires_rationale: self
                .optional(fields, "requiresRationale", "must be true or false")
                .unwrap_or_default(),
            repaired: false,
        }
    }

    fn optional<T: DeserializeOwned>(
        &mut self,
        fields: &Map<String, Value>,
        name: &str,
        rule: &str,
    ) -> Option<T> {
        let given = fields.get(name).filter(|value| !value.is_null())?;
        let value = serde_json::from_value(given.clone()).ok();
        if value.is_none() {
            self.wrong(name, rule);
        }
        value
    }
}

fn option(at: usize, id: Option<String>, label: String) -> ProposedOption {
    let id = id.unwrap_or_else(|| (at + 1).to_string());
    ProposedOption { id, label, description: None, tradeoffs: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fitting_arguments_have_no_violation() {
        let option = |id: &str| json!({ "id": id, "label": id, "description": "d", "tradeoffs": "t" });
        let arguments = json!({ "title": "Which store?", "summary": "We need one.", "options": [option("a"), option("b")],
            "recommendedOptionId": "b", "confidence": 0.7, "severity": "high", "blastRadius": "large",
            "affectedArtifactIds": ["x"], "requiresRationale": true });
        let read = read(&arguments);
        assert_eq!(read.violations, [] as [&str; 0]);
        assert_eq!(read.question, "Which store?\nWe need one.");
        let proposal = read.proposal.unwrap();
        assert_eq!(proposal.options.len(), 2);
        assert_eq!(proposal.assessment.recommended_option_id.as_deref(), Some("b"));
        let schema: Schema = serde_json::from_value(arguments).unwrap();
        assert_eq!(schema.options.len(), 2, "the schema describes what is read");
    }

    #[test]
    fn every_violation_is_named_and_the_rest_is_kept() {
        let arguments = json!({ "title": " ", "why": 1, "options": [
            { "id": "a", "label": "A", "description": "d" }, { "id": "a", "label": "A", "description": "d", "tradeoffs": "t" },
            "B", 7 ], "recommendedOptionId": "z", "confidence": 2, "severity": "huge" });
        let read = read(&arguments);
        let fields: Vec<_> = read.violations.iter().map(|text| text.split('`').nth(1).unwrap()).collect();
        assert_eq!(
            fields,
            [
                "why",
                "title",
                "summary",
                "options[0].tradeoffs",
                "options[1].id",
                "options[1].label",
                "options[2]",
                "options[3]",
                "recommendedOptionId",
                "confidence",
                "severity",
            ]
        );
        let labels: Vec<_> = read.proposal.unwrap().options.into_iter().map(|option| option.label).collect();
        assert_eq!(labels, ["A", "B"]);
        assert!(super::read(&json!("x")).proposal.is_none());
    }
}
