//! Questions of an agent to its owner (S0 8.3 `AskUserQuestion`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A predefined answer to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionOption {
    /// Text of the answer.
    pub label: String,
    /// Explanation of the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One question. A request may contain several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// Text of the question; its answer repeats it as the key.
    pub question: String,
    /// Short label of one or two words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Predefined answers. Free text is always allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Whether several options may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// Answer to one question of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Text of the question.
    pub question: String,
    /// The chosen label, several labels joined with commas, or free text.
    pub answer: String,
}
