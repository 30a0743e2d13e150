//! The handoff document, which an agent writes as its last message (S0 design note "Handoff system prompt
//! requirement").

use pilothouse_wire::command::Handoff;
use pilothouse_wire::event::HandoffDocument;
use serde::Deserialize;

/// The reason of `session_end` after a handoff.
pub(crate) const EXHAUSTED: &str = "context_exhausted";
const BEGIN: &str = "<handoff_document>";
const END: &str = "</handoff_document>";

/// The prompt for an agent whose context window is nearly full, with the percentage if known. Requests the format of
/// [`pilothouse_domain::composition::HANDOFF_INSTRUCTION`], which the system prompts of this policy contain.
pub(crate) fn request(percent: Option<&str>) -> String {
    let full = percent.map_or_else(|| "nearly full".to_owned(), |percent| format!("{percent}% full"));
    format!(
        "Your context window is {full}. Begin nothing new. Save what must be saved, then write the handoff document as your \
         last message, in exactly the form that you were told, within {BEGIN} tags, and stop."
    )
}

/// The introduction of an agent that receives the document of the previous session (decision 34).
pub(crate) fn received(handoff: &Handoff) -> String {
    let document = &handoff.document;
    let mut text = format!(
        "You go on with work that another session began.\n\nDone so far:\n{}\n\nRemaining:\n{}",
        document.summary, document.remaining_work
    );
    if let Some(decisions) = &document.key_decisions {
        text.push_str("\n\nDecisions to keep:\n");
        text.push_str(decisions.as_str());
    }
    text
}

/// A document as the agent wrote it. Missing fields are empty.
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

/// Parses the last complete document in a text. If it is not JSON, its text becomes the summary: a handoff is never
/// rejected (decision 6).
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
    fn last_complete_document_wins() {
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
    fn documented_handoff_format_is_the_parsed_one() {
        let found = document(pilothouse_domain::composition::HANDOFF_INSTRUCTION).unwrap();
        assert!(
            found.summary.starts_with("What was done") && found.remaining_work.starts_with("What is left")
        );
        assert!(found.key_decisions.is_some());
    }

    #[test]
    fn document_without_json_becomes_a_summary() {
        let found = document("<handoff_document>All done but the tests.</handoff_document>").unwrap();
        assert_eq!(found.summary, "All done but the tests.");
    }
}
