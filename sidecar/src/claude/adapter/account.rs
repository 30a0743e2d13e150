//! What is known of a conversation without the binary: what it was told, and its last words. A conversation that the binary
//! has lost is begun anew with it.

use pilothouse_domain::text::cut;
use serde::{Deserialize, Serialize};

/// The most bytes of all messages together. With the last words it stays far below what one argument of a program may be.
const MOST: usize = 24 * 1024;
/// The most characters of one message.
const MOST_MESSAGE: usize = 4000;
/// The most bytes of the last words.
const MOST_WORDS: usize = 8 * 1024;

/// A short account of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Account {
    /// What the agent was told, in order. Of too many the first and the last are kept: the task, and where it stands.
    messages: Vec<String>,
    /// What it said last.
    last_words: String,
}

impl Account {
    /// The agent was told something.
    pub(super) fn told(&mut self, message: &str) {
        self.messages.push(cut(message, MOST_MESSAGE));
        while self.messages.len() > 2 && self.messages.iter().map(String::len).sum::<usize>() > MOST {
            self.messages.remove(1);
        }
    }

    /// The agent has said this, in the turn that runs or in the last one.
    pub(super) fn said(&mut self, words: &str) {
        let excess = words.len().saturating_sub(MOST_WORDS);
        let from = (excess..=words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(words.len());
        words[from..].trim().clone_into(&mut self.last_words);
    }

    /// Whether anything is known.
    pub(super) const fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.last_words.is_empty()
    }

    /// The account of a conversation that went on where this one was lost.
    pub(super) fn followed_by(mut self, next: &Self) -> Self {
        for message in &next.messages {
            self.told(message);
        }
        if !next.last_words.is_empty() {
            self.last_words.clone_from(&next.last_words);
        }
        self
    }

    /// What an agent is told that has to go on without the conversation.
    pub(super) fn to_text(&self) -> String {
        let mut text = "You have worked in this session before, and the conversation was lost; the files are as you left them. \
                        Look at what is there before you go on, and do not repeat what is done."
            .to_owned();
        if !self.messages.is_empty() {
            text.push_str("\n\nWhat you were told, in order:");
            for message in &self.messages {
                text.push_str("\n<message>\n");
                text.push_str(message);
                text.push_str("\n</message>");
            }
        }
        if !self.last_words.is_empty() {
            text.push_str("\n\nWhat you said last:\n<last_words>\n");
            text.push_str(&self.last_words);
            text.push_str("\n</last_words>");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_what_was_asked_in_order_and_what_was_said_last() {
        let mut account = Account::default();
        assert!(account.is_empty());
        account.told("do a");
        account.told("then b");
        account.said("I did a.");
        let mut next = Account::default();
        next.told("then c");
        let text = account.followed_by(&next).to_text();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at("do a") < at("then b") && at("then b") < at("then c") && at("then c") < at("I did a."));
    }

    #[test]
    fn it_is_bounded_and_keeps_the_task_and_the_end() {
        let mut account = Account::default();
        account.told("the task");
        (0..100).for_each(|n| account.told(&format!("{n} {}", "ü".repeat(10_000))));
        account.said(&format!("{} the end", "ü".repeat(100_000)));
        let text = account.to_text();
        assert!(text.len() < MOST + MOST_WORDS + 2000, "{}", text.len());
        assert!(text.contains("the task") && text.contains("99 ü") && text.contains("the end"));
    }
}
