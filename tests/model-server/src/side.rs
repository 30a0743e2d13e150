//! Requests that runtimes make on the side: they get a harmless answer and use up no step.

use crate::{
    prompt::Prompt,
    script::{Step, Tokens},
};

/// What runtimes say to a model that names a conversation, beside the form that they want the answer in.
const TITLES: [&str; 3] =
    ["Generate a concise, sentence-case title", "concise title", "Summarize this coding conversation"];

/// The answer to a request on the side; none for what the script answers.
pub(crate) fn answer(prompt: &Prompt) -> Option<Step> {
    let usage = Tokens { input: 12, output: 3, ..Tokens::default() };
    let says = |text: &str| Some(Step::text(text).taking(usage));
    // Whether the plan still pays, and whether anybody is there.
    if prompt.max_output.is_some_and(|max| max <= 1) {
        return says("#");
    }
    if !prompt.tools.is_empty() {
        return None;
    }
    let names = TITLES.iter().any(|title| prompt.system.contains(title));
    if names && prompt.structured {
        return says(r#"{"title":"Scripted work"}"#);
    }
    if names {
        return says("Scripted work");
    }
    // Is this a new topic? Of which folder does this command tell? And the like, all in forms of their own.
    if prompt.system.contains("isNewTopic") {
        return says(r#"{"isNewTopic":false,"title":null}"#);
    }
    None
}
