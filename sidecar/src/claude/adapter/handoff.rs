//! The document that an agent leaves when its context window is nearly full (S0 8.4).

use pilothouse_wire::event::HandoffDocument;

const BEGIN: &str = "<handoff_document>";
const END: &str = "</handoff_document>";

/// What the system prompt says about it, so that every agent knows the form before it has to write one.
pub(super) const INSTRUCTION: &str = "\
When you are told that the context window is nearly full, bring the step that you are in to an end that leaves the files in \
a consistent state. Then write a handoff document as your very last message, for an agent that goes on in the same folder \
and knows nothing but this document, in exactly this form:

<handoff_document>
<summary>what was accomplished</summary>
<remaining_work>what still needs to be done, in order</remaining_work>
<key_decisions>decisions and findings that must not be forgotten</key_decisions>
</handoff_document>";

/// What the agent is told when the window has filled up to the threshold.
pub(super) fn request(percent: &str) -> String {
    format!(
        "The context window is {percent}% full. Finish the step that you are in, then write the handoff document \
         (`{BEGIN}` … `{END}`, as your instructions describe it) as your last message, and stop."
    )
}

/// The last document in what the agent said; one without its parts, or torn, is none.
pub(super) fn document(said: &str) -> Option<HandoffDocument> {
    let (_, after) = said.rsplit_once(BEGIN)?;
    let (inside, _) = after.split_once(END)?;
    Some(HandoffDocument {
        summary: part(inside, "summary")?,
        remaining_work: part(inside, "remaining_work")?,
        key_decisions: part(inside, "key_decisions"),
    })
}

fn part(text: &str, name: &str) -> Option<String> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    let (inside, _) = after.split_once(&format!("</{name}>"))?;
    let inside = inside.trim();
    (!inside.is_empty()).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_document_counts() {
        let said = "As asked: <handoff_document><summary>old</summary></handoff_document>\n<handoff_document>\n\
            <summary> Did a. </summary>\n<remaining_work>Do b.</remaining_work>\n</handoff_document> Bye.";
        let document = document(said).unwrap();
        assert_eq!(document.summary, "Did a.");
        assert_eq!(document.remaining_work, "Do b.");
        assert_eq!(document.key_decisions, None);
    }

    #[test]
    fn what_is_torn_or_empty_is_none() {
        for said in [
            "",
            "<handoff_document><summary>a</summary><remaining_work>b</remaining_work>",
            "<handoff_document><summary> </summary><remaining_work>b</remaining_work></handoff_document>",
            "<handoff_document>free text</handoff_document>",
        ] {
            assert_eq!(document(said), None, "{said}");
        }
    }

    #[test]
    fn the_form_that_the_instruction_shows_is_the_form_that_is_read() {
        assert!(document(INSTRUCTION).is_some());
    }
}
