//! The handoff document that the agent writes as its last message (S0 design note "Handoff system prompt requirement").

use pilothouse_wire::event::HandoffDocument;
use serde::Deserialize;

const BEGIN: &str = "<handoff_document>";
const END: &str = "</handoff_document>";

/// What an agent is told when its context window is nearly full: by so many percent, where that is known. The form is the
/// one of [`pilothouse_domain::composition::HANDOFF_INSTRUCTION`], with which system prompts end under this policy.
pub(crate) fn request(percent: Option<&str>) -> String {
    let full = percent.map_or_else(|| "nearly full".to_owned(), |percent| format!("{percent}% full"));
    format!(
        "Your context window is {full}. Begin nothing new. Save what must be saved, then write the handoff document as your \
         last message, in exactly the form that you were told, within {BEGIN} tags, and stop."
    )
}

/// What it wrote, with the fields that it left out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    summary: String,
    #[serde(default)]
    remaining_work: String,
    #[serde(default)]
    key_decisions: Option<String>,
}

/// The last whole document in a text. One that is no JSON is taken as the summary: what an agent wrote is never refused
/// (ruling 6).
pub(crate) fn document(text: &str) -> Option<HandoffDocument> {
    let (before, _) = text.rsplit_once(END)?;
    let (_, inner) = before.rsplit_once(BEGIN)?;
    let inner = inner.trim().trim_start_matches("```json").trim_matches('`').trim();
    if inner.is_empty() {
        return None;
    }
    let written = serde_json::from_str(inner).unwrap_or_else(|_| Written {
        summary: inner.to_owned(),
        remaining_work: String::new(),
        key_decisions: None,
    });
    Some(HandoffDocument {
        summary: written.summary,
        remaining_work: written.remaining_work,
        key_decisions: written.key_decisions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_document_counts() {
        let text = "In <handoff_document> tags:\n<handoff_document>\n```json\n{\"summary\": \"a\", \"remainingWork\": \"b\"}\n```\n</handoff_document>";
        let found = document(text).unwrap();
        assert_eq!(
            (found.summary.as_str(), found.remaining_work.as_str(), found.key_decisions),
            ("a", "b", None)
        );
        assert_eq!(document("<handoff_document>{\"summary\": \"cut o"), None);
        assert_eq!(document("nothing"), None);
        assert_eq!(document("<handoff_document></handoff_document>"), None);
    }

    #[test]
    fn the_form_that_agents_are_told_is_the_form_that_is_read() {
        let found = document(pilothouse_domain::composition::HANDOFF_INSTRUCTION).unwrap();
        assert!(
            found.summary.starts_with("What was done") && found.remaining_work.starts_with("What is left")
        );
        assert!(found.key_decisions.is_some());
    }

    #[test]
    fn a_document_that_is_no_json_is_a_summary() {
        let found = document("<handoff_document>All done but the tests.</handoff_document>").unwrap();
        assert_eq!(found.summary, "All done but the tests.");
    }
}
