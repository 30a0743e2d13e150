//! Selects the step that answers a request.

use std::collections::{HashMap, HashSet};

use crate::{
    failure::Failure,
    prompt::Prompt,
    script::{Conversation, Progress, Script, Step},
};

#[derive(Debug, Default)]
pub(crate) struct Director {
    taken: HashSet<(String, usize)>,
    failed: HashMap<(String, usize), usize>,
    seen: HashMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// With the key after `#` if the marker has one.
    pub(crate) conversation: String,
    /// Index of the step; `None` for the script's default reply.
    pub(crate) index: Option<usize>,
    pub(crate) step: Step,
    /// The failure to play instead of the reply.
    pub(crate) failure: Option<Failure>,
    /// Tokens of the conversation that are in the provider's cache.
    pub(crate) cached: u64,
}

impl Director {
    /// Selects a step and records it. The error describes what is missing in the script.
    pub(crate) fn choose(&mut self, script: &Script, prompt: &Prompt) -> Result<Choice, String> {
        let Some(Selection { conversation, key, since }) = select_conversation(script, prompt) else {
            return otherwise(script, "", "no conversation of the script matches this request");
        };
        let size = crate::tokens::of_bytes(prompt.bytes);
        let cached = self.seen.insert(key.clone(), size).unwrap_or(0);
        let replies = match conversation.progress {
            Progress::Order => None,
            Progress::History => Some(prompt.replies_since(since)),
        };
        let out_of_turn = (0..conversation.steps.len()).find(|index| {
            let step = &conversation.steps[*index];
            let said = |text: &String| prompt.recent_text().any(|recent_text| recent_text.contains(text));
            step.when.as_ref().is_some_and(said) && (replies.is_some() || self.is_left(&key, *index, step))
        });
        let in_order = || {
            let mut plain =
                (0..conversation.steps.len()).filter(|index| conversation.steps[*index].when.is_none());
            match replies {
                Some(replies) => {
                    let plain: Vec<_> = plain.collect();
                    let last = plain.last().filter(|last| conversation.steps[**last].repeat);
                    plain.get(replies).or(last).copied()
                }
                None => plain.find(|index| self.is_left(&key, *index, &conversation.steps[*index])),
            }
        };
        let Some(index) = out_of_turn.or_else(in_order) else {
            return otherwise(script, &key, "the script has no step left for this conversation");
        };
        let step = conversation.steps[index].clone();
        let failed = self.failed.entry((key.clone(), index)).or_default();
        let failure = step.fail.get(*failed).cloned();
        if failure.is_some() {
            *failed += 1;
        } else {
            self.taken.insert((key.clone(), index));
        }
        Ok(Choice { conversation: key, index: Some(index), step, failure, cached })
    }

    fn is_left(&self, key: &str, index: usize, step: &Step) -> bool {
        step.repeat || !self.taken.contains(&(key.to_owned(), index))
    }
}

/// A conversation, the key under which its steps are counted, and the turn in which it began.
struct Selection<'a> {
    conversation: &'a Conversation,
    key: String,
    since: usize,
}

fn select_conversation<'a>(script: &'a Script, prompt: &Prompt) -> Option<Selection<'a>> {
    // The latest marker applies. A runtime that repeats a text (a reminder, a summary) repeats its marker, too.
    let named = prompt.user_texts().find_map(|(since, text)| {
        let (_, marker) = text.rsplit_once("[[script:")?;
        let (key, _) = marker.split_once("]]")?;
        let name = key.split_once('#').map_or(key, |(name, _)| name);
        let conversation = script
            .conversations
            .iter()
            .find(|conversation| conversation.name == name && fits(conversation, prompt))?;
        Some(Selection { conversation, key: key.to_owned(), since })
    });
    named.or_else(|| {
        script
            .conversations
            .iter()
            .enumerate()
            .filter(|(_, conversation)| fits(conversation, prompt))
            .find_map(|(index, conversation)| {
                let key = if conversation.name.is_empty() {
                    format!("#{index}")
                } else {
                    conversation.name.clone()
                };
                let since = match &conversation.when {
                    Some(when) => prompt.user_texts().find(|(_, text)| text.contains(when.as_str()))?.0,
                    None => 0,
                };
                Some(Selection { conversation, key, since })
            })
    })
}

fn fits(conversation: &Conversation, prompt: &Prompt) -> bool {
    conversation.model.as_ref().is_none_or(|model| *model == prompt.model)
        && conversation.offers.as_ref().is_none_or(|tool| prompt.tools.contains(tool))
}

fn otherwise(script: &Script, key: &str, why: &str) -> Result<Choice, String> {
    let step = script.otherwise.clone().ok_or_else(|| why.to_owned())?;
    Ok(Choice { conversation: key.to_owned(), index: None, step, failure: None, cached: 0 })
}
