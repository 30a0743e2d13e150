//! Pairs calls and results for the model (decision 40), because providers reject conversations with unpaired calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pilothouse_domain::Timestamp;

use crate::message::{
    AgentMessage, AssistantContent, AssistantMessage, BashExecution, SharedMessages, StopReason, ToolCall,
    ToolResultMessage, UserContent, UserMessage,
};
use crate::model::OmittedContent;
use crate::tree::{Entry, EntryKind};

/// The model's result for a call without a recorded end.
pub(crate) const LOST: &str =
    "The call was cut off before its result was there. It may have run, or in part.";

/// The messages as a model sees them, updated as the conversation grows:
///
/// - Failed replies are left out, and so is an unfinished one at the end.
/// - Each call is followed by exactly one result, in the order of the calls. A missing result is replaced by one
///   which says that the call was cut off.
/// - Results without a call are left out.
/// - Commands of the user become user messages, unless they are excluded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paired {
    messages: SharedMessages,
    /// Position of the result of each open call. Providers that number calls per reply reuse ids; the latest call
    /// wins.
    open: HashMap<String, usize>,
    /// An aborted reply at the end of the conversation.
    unfinished: Option<Arc<AgentMessage>>,
}

impl Paired {
    pub(crate) fn push(&mut self, message: &Arc<AgentMessage>) {
        if is_visible(message)
            && let Some(unfinished) = self.unfinished.take()
        {
            self.add(&unfinished);
        }
        match &**message {
            AgentMessage::Assistant(reply) if reply.stop_reason == StopReason::Aborted => {
                self.unfinished = Some(Arc::clone(message));
            }
            _ => self.add(message),
        }
    }

    fn add(&mut self, message: &Arc<AgentMessage>) {
        // Copies only the pointers, and only if a request holds the messages.
        let messages = Arc::make_mut(&mut self.messages);
        match &**message {
            AgentMessage::User(_) => messages.push(Arc::clone(message)),
            AgentMessage::BashExecution(bash) if bash.exclude_from_context => {}
            AgentMessage::BashExecution(bash) => messages.push(Arc::new(AgentMessage::User(as_user(bash)))),
            AgentMessage::ToolResult(result) => {
                let place = self.open.remove(&result.tool_call_id).and_then(|at| messages.get_mut(at));
                if let Some(place) = place {
                    *place = Arc::clone(message);
                }
            }
            AgentMessage::Assistant(reply) => {
                if !is_shown(reply) {
                    return;
                }
                messages.push(Arc::clone(message));
                for call in reply.tool_calls() {
                    self.open.insert(call.id.clone(), messages.len());
                    messages.push(Arc::new(AgentMessage::ToolResult(lost(call, reply.timestamp))));
                }
            }
        }
    }

    /// Leaves out this content of all messages so far. Returns whether there was any.
    pub(crate) fn omit(&mut self, content: OmittedContent) -> bool {
        let unfinished = self.unfinished.as_mut().is_some_and(|message| omit(message, content));
        let messages = Arc::make_mut(&mut self.messages).iter_mut();
        messages.fold(unfinished, |any, message| omit(message, content) || any)
    }

    pub(crate) fn messages(&self) -> SharedMessages {
        Arc::clone(&self.messages)
    }
}

/// The messages of the latest turns. Each turn begins with a message of the user, so that no result loses its call.
pub(crate) fn latest_turns(messages: &SharedMessages, turns: u32) -> SharedMessages {
    let begins =
        messages.iter().enumerate().filter(|(_, message)| matches!(***message, AgentMessage::User(_)));
    let from = begins.map(|(at, _)| at).rev().take(turns.try_into().unwrap_or(usize::MAX)).last();
    match from {
        Some(from) if from > 0 => Arc::new(messages[from..].to_vec()),
        _ => Arc::clone(messages),
    }
}

/// The messages as a model sees them.
pub(crate) fn for_model(messages: impl IntoIterator<Item = Arc<AgentMessage>>) -> SharedMessages {
    let mut paired = Paired::default();
    messages.into_iter().for_each(|message| paired.push(&message));
    paired.messages
}

/// The calls of the last reply that have no result, in order. `up` are the entries from the leaf upwards.
pub(crate) fn unanswered<'a>(up: impl Iterator<Item = &'a Entry>) -> Vec<ToolCall> {
    let mut answered = HashSet::new();
    for entry in up {
        let EntryKind::Message { message } = &entry.kind else { continue };
        match &**message {
            AgentMessage::ToolResult(result) => drop(answered.insert(result.tool_call_id.as_str())),
            AgentMessage::Assistant(reply) => {
                let open = reply.tool_calls().filter(|call| !answered.contains(call.id.as_str()));
                return open.cloned().collect();
            }
            AgentMessage::User(_) | AgentMessage::BashExecution(_) => {}
        }
    }
    Vec::new()
}

/// The messages without this content.
pub(crate) fn without(mut messages: SharedMessages, content: OmittedContent) -> SharedMessages {
    if messages.iter().any(|message| omitted(message, content).is_some()) {
        for message in Arc::make_mut(&mut messages) {
            omit(message, content);
        }
    }
    messages
}

/// Returns whether the message had this content.
fn omit(message: &mut Arc<AgentMessage>, content: OmittedContent) -> bool {
    match omitted(message, content) {
        Some(without) => *message = Arc::new(without),
        None => return false,
    }
    true
}

/// The message without this content. `None` if it has none.
fn omitted(message: &AgentMessage, content: OmittedContent) -> Option<AgentMessage> {
    const IMAGE: &str = "(An image was here. The model cannot see it.)";
    let is_image = |block: &UserContent| matches!(block, UserContent::Image { .. });
    let without = |blocks: &[UserContent]| -> Vec<UserContent> {
        let replaced = |block: &UserContent| match block {
            UserContent::Image { .. } => UserContent::Text { text: IMAGE.to_owned() },
            text @ UserContent::Text { .. } => text.clone(),
        };
        blocks.iter().map(replaced).collect()
    };
    match (content, message) {
        (OmittedContent::Images, AgentMessage::User(user)) if user.content.iter().any(is_image) => {
            Some(AgentMessage::User(UserMessage { content: without(&user.content), ..user.clone() }))
        }
        (OmittedContent::Images, AgentMessage::ToolResult(result)) if result.content.iter().any(is_image) => {
            let content = without(&result.content);
            Some(AgentMessage::ToolResult(ToolResultMessage { content, ..result.clone() }))
        }
        (OmittedContent::Thoughts, AgentMessage::Assistant(reply)) => {
            let is_thought = |block: &AssistantContent| matches!(block, AssistantContent::Thinking { .. });
            if !reply.content.iter().any(is_thought) {
                return None;
            }
            let mut reply = reply.clone();
            reply.content.retain(|block| !is_thought(block));
            Some(AgentMessage::Assistant(reply))
        }
        _ => None,
    }
}

fn is_shown(reply: &AssistantMessage) -> bool {
    reply.stop_reason != StopReason::Error
        && reply.content.iter().any(|block| match block {
            AssistantContent::Text { text } => !text.trim().is_empty(),
            AssistantContent::ToolCall(_) => true,
            AssistantContent::Thinking { .. } => false,
        })
}

fn is_visible(message: &AgentMessage) -> bool {
    match message {
        AgentMessage::User(_) | AgentMessage::ToolResult(_) => true,
        AgentMessage::Assistant(reply) => reply.stop_reason != StopReason::Error,
        AgentMessage::BashExecution(bash) => !bash.exclude_from_context,
    }
}

fn lost(call: &ToolCall, timestamp: Timestamp) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        content: vec![UserContent::Text { text: LOST.into() }],
        is_error: true,
        timestamp,
    }
}

fn as_user(bash: &BashExecution) -> UserMessage {
    let end = match bash.exit_code {
        _ if bash.cancelled => "It was cut off.".to_owned(),
        Some(code) => format!("It ended with exit code {code}."),
        None => "It was killed.".to_owned(),
    };
    let text = format!("I ran this command:\n\n{}\n\n{end} It wrote:\n\n{}", bash.command, bash.output);
    UserMessage { content: vec![UserContent::Text { text }], timestamp: bash.timestamp }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::Usage;
    use crate::tree::SessionTree;

    fn user(text: &str) -> AgentMessage {
        AgentMessage::User(UserMessage {
            content: vec![UserContent::Text { text: text.into() }],
            timestamp: Timestamp::from_millis(0),
        })
    }

    fn reply(stop_reason: StopReason, text: &str, calls: &[&str]) -> AgentMessage {
        let call = |id: &&str| {
            AssistantContent::ToolCall(ToolCall {
                id: (*id).into(),
                name: "read".into(),
                arguments: json!({}),
            })
        };
        let text = (!text.is_empty()).then(|| AssistantContent::Text { text: text.into() });
        AgentMessage::Assistant(AssistantMessage {
            content: text.into_iter().chain(calls.iter().map(call)).collect(),
            provider: "p".into(),
            model: "m".into(),
            usage: Usage::default(),
            stop_reason,
            error: None,
            timestamp: Timestamp::from_millis(0),
        })
    }

    fn result(call: &str, text: &str) -> AgentMessage {
        AgentMessage::ToolResult(ToolResultMessage {
            tool_call_id: call.into(),
            tool_name: "read".into(),
            content: vec![UserContent::Text { text: text.into() }],
            is_error: false,
            timestamp: Timestamp::from_millis(0),
        })
    }

    fn seen(messages: Vec<AgentMessage>) -> Vec<AgentMessage> {
        for_model(messages.into_iter().map(Arc::new)).iter().map(|message| (**message).clone()).collect()
    }

    #[test]
    fn missing_result_is_replaced_by_an_interruption_notice() {
        let calls = reply(StopReason::ToolUse, "", &["a", "b"]);
        let paired = seen(vec![user("go"), calls.clone(), result("b", "B"), user("more")]);
        let AgentMessage::ToolResult(lost) = &paired[2] else { panic!("no result: {paired:?}") };
        assert_eq!((lost.tool_call_id.as_str(), lost.is_error), ("a", true));
        assert_eq!(paired, [user("go"), calls, paired[2].clone(), result("b", "B"), user("more")]);
    }

    #[test]
    fn late_result_moves_to_its_call() {
        let calls = reply(StopReason::ToolUse, "", &["a"]);
        let paired = seen(vec![calls.clone(), user("in between"), result("a", "A")]);
        assert_eq!(paired, [calls, result("a", "A"), user("in between")]);
    }

    #[test]
    fn reused_id_gets_its_own_result() {
        let calls = reply(StopReason::ToolUse, "", &["call_0"]);
        let all = [calls.clone(), result("call_0", "first"), calls, result("call_0", "second")];
        assert_eq!(seen(all.to_vec()), all);
    }

    #[test]
    fn unpaired_results_and_failed_replies_are_omitted() {
        let messages = [
            result("x", "nobody asked"),
            user("go"),
            reply(StopReason::Error, "half", &["a"]),
            result("a", "A"),
            reply(StopReason::Stop, "", &[]),
        ];
        assert_eq!(seen(messages.to_vec()), [user("go")]);
    }

    #[test]
    fn unfinished_reply_is_omitted_only_at_the_end() {
        let half = reply(StopReason::Aborted, "half", &[]);
        assert_eq!(seen(vec![user("go"), half.clone()]), [user("go")]);
        let all = [user("go"), half, user("go on")];
        assert_eq!(seen(all.to_vec()), all);
    }

    #[test]
    fn calls_without_results_are_those_of_the_last_reply() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = SessionTree::create(dir.path(), "/work", None).unwrap();
        tree.append_message(user("go")).unwrap();
        assert!(unanswered(tree.up()).is_empty());
        for message in [
            reply(StopReason::ToolUse, "", &["c"]),
            reply(StopReason::ToolUse, "", &["a", "b"]),
            result("a", "A"),
        ] {
            tree.append_message(message).unwrap();
        }
        assert_eq!(unanswered(tree.up()).iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["b"]);
    }
}
