//! Side requests of runtimes. They get a harmless reply and use no step.

use crate::{
    prompt::Prompt,
    script::{Step, Tokens},
};

/// Instructions of runtimes that ask for a title, in addition to a schema for the reply.
const TITLES: [&str; 3] =
    ["Generate a concise, sentence-case title", "concise title", "Summarize this coding conversation"];

/// The reply to a side request. `None` if the script answers it.
pub(crate) fn reply(prompt: &Prompt) -> Option<Step> {
    let usage = Tokens { input: 12, output: 3, ..Tokens::default() };
    let says = |text: &str| Some(Step::text(text).taking(usage));
    // Checks of the quota and of the connection.
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
    // Further side requests with a schema, for example whether there is a new topic, or which folder a command
    // concerns.
    if prompt.system.contains("isNewTopic") {
        return says(r#"{"isNewTopic":false,"title":null}"#);
    }
    None
}
