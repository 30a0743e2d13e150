//! Output of a session (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::escalation::{GuardrailAction, GuardrailTrip, OutputGuardrail};
use crate::output_schema::{OutputSchema, OutputViolation};
use crate::string_value::string_value;

/// A full git commit hash: 40 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a commit's 40 hexadecimal digits")]
pub struct InvalidCommitSha;

impl CommitSha {
    /// Accepts 40 hexadecimal digits and lowers capitals.
    pub fn parse(s: impl Into<String>) -> Result<Self, InvalidCommitSha> {
        let s = s.into().to_ascii_lowercase();
        if s.len() == 40 && s.bytes().all(|b| b.is_ascii_hexdigit()) {
            Ok(Self(s))
        } else {
            Err(InvalidCommitSha)
        }
    }
}

string_value!(CommitSha.0, InvalidCommitSha, Self::parse, {
    "type": "string", "pattern": "^[0-9a-fA-F]{40}$"
});

/// Output of a session for its owner to review (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionOutput {
    /// Number of lines of output.
    pub output_line_count: u32,
    /// Number of files changed.
    pub files_changed: u32,
    /// Number of tests added.
    pub tests_added: u32,
    /// Whether all tests pass.
    pub all_tests_passing: bool,
    /// The commit that contains the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_sha: Option<CommitSha>,
    /// The result of an agent whose brief has an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How the result violates the schema. The control plane sets it (decision 83).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<OutputViolation>,
    /// The guardrails of the brief that tripped on the result. The control plane sets them (decision 79).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<GuardrailTrip>,
}

/// The rules of a brief for the outputs of its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputRules {
    pub schema: Option<OutputSchema>,
    pub guardrails: Vec<OutputGuardrail>,
}

impl SessionOutput {
    /// Most bytes of a result as JSON. It is stored with the session.
    pub const MAX_RESULT_BYTES: usize = 32 * 1024;

    /// Records how the result violates the schema of the agent's brief, and which guardrails trip on it. A result that is too large is
    /// left out.
    pub fn check_result(&mut self, rules: &OutputRules) {
        self.guardrails.clear();
        let bytes = self.result.as_ref().map_or(0, |result| result.to_string().len());
        if bytes > Self::MAX_RESULT_BYTES {
            self.result = None;
            let message = format!(
                "must have at most {} KiB, but has {}",
                Self::MAX_RESULT_BYTES / 1024,
                bytes.div_ceil(1024)
            );
            self.violations = vec![OutputViolation { path: String::new(), message }];
            return;
        }
        let schema = rules.schema.as_ref();
        self.violations = schema.map(|schema| schema.check(self.result.as_ref())).unwrap_or_default();
        if let Some(result) = &self.result {
            self.guardrails =
                rules.guardrails.iter().filter_map(|guardrail| guardrail.trip(result)).collect();
        }
    }

    /// Why the output is returned to the agent: the violations of the schema, and the guardrails that block it.
    pub fn objections(&self) -> Vec<OutputViolation> {
        let blocked = self.guardrails.iter().filter_map(GuardrailTrip::objection);
        self.violations.iter().cloned().chain(blocked).collect()
    }

    /// Whether a guardrail asks for its review, or blocks it although the agent had its corrections.
    pub fn is_guarded(&self) -> bool {
        self.guardrails
            .iter()
            .any(|trip| matches!(trip.action, GuardrailAction::Block | GuardrailAction::Ask))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commit_has_40_hexadecimal_digits() {
        let digits = "0123456789ABCDEFabcdef0123456789ABCDEF01";
        assert_eq!(CommitSha::parse(digits).map(String::from), Ok(digits.to_lowercase()));
        for bad in ["", &digits[1..], &format!("{digits}0"), &format!("{}g", &digits[1..])] {
            assert_eq!(CommitSha::parse(bad), Err(InvalidCommitSha), "{bad}");
        }
    }

    #[test]
    fn counts_of_an_output_are_never_negative() {
        let read = |field: &str, count: i32| serde_json::from_value::<SessionOutput>(json!({ field: count }));
        for field in ["outputLineCount", "filesChanged", "testsAdded"] {
            assert!(read(field, 0).is_ok() && read(field, -1).is_err(), "{field}");
        }
    }
}
