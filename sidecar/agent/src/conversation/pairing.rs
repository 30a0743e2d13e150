//! Calls and results are always paired in what a model gets (ruling 40), whatever stands in the tree: providers refuse
//! a conversation in which they are not.

use std::collections::HashMap;

use pilothouse_domain::Timestamp;

use crate::message::{
    AgentMessage, AssistantContent, AssistantMessage, BashExecution, StopReason, ToolCall, ToolResultMessage,
    UserContent, UserMessage,
};

/// What the model is told about a call whose end nobody saw.
pub(crate) const LOST: &str =
    "The call was cut off before its result was there. It may have run, or in part.";

/// The messages as a model gets them:
///
/// - answers that failed, and an unfinished one that nothing follows, are left out;
/// - each call is followed by exactly one result, in the order of the calls; one that is missing says that it was cut off;
/// - results without a call are left out;
/// - commands that the user ran are what the user says, unless they are excluded.
pub(crate) fn for_model(messages: Vec<AgentMessage>) -> Vec<AgentMessage> {
    let last_visible = messages.iter().rposition(is_visible);
    let mut paired = Vec::with_capacity(messages.len());
    // Where the result of each open call goes. Providers that count their calls anew with each answer use ids again:
    // the newest call counts.
    let mut open: HashMap<String, usize> = HashMap::new();
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            AgentMessage::User(_) => paired.push(message),
            AgentMessage::BashExecution(bash) if bash.exclude_from_context => {}
            AgentMessage::BashExecution(bash) => paired.push(AgentMessage::User(as_user(&bash))),
            AgentMessage::ToolResult(result) => {
                let place = open.remove(&result.tool_call_id).and_then(|at| paired.get_mut(at));
                if let Some(place) = place {
                    *place = AgentMessage::ToolResult(result);
                }
            }
            AgentMessage::Assistant(answer) => {
                let is_last = last_visible.is_none_or(|last| last <= at);
                if !is_shown(&answer, is_last) {
                    continue;
                }
                let lost: Vec<_> = answer.tool_calls().map(|call| lost(call, answer.timestamp)).collect();
                paired.push(AgentMessage::Assistant(answer));
                for lost in lost {
                    open.insert(lost.tool_call_id.clone(), paired.len());
                    paired.push(AgentMessage::ToolResult(lost));
                }
            }
        }
    }
    paired
}

/// The calls of the last answer that have no result, in order.
pub(crate) fn unanswered(messages: &[AgentMessage]) -> Vec<ToolCall> {
    let last = messages.iter().enumerate().rev().find_map(|(at, message)| match message {
        AgentMessage::Assistant(answer) => Some((at, answer)),
        _ => None,
    });
    let Some((at, answer)) = last else { return Vec::new() };
    let answered = |call: &ToolCall| {
        messages.iter().skip(at).any(
            |message| matches!(message, AgentMessage::ToolResult(result) if result.tool_call_id == call.id),
        )
    };
    answer.tool_calls().filter(|call| !answered(call)).cloned().collect()
}

fn is_shown(answer: &AssistantMessage, is_last: bool) -> bool {
    match answer.stop_reason {
        StopReason::Error => false,
        StopReason::Aborted if is_last => false,
        _ => answer.content.iter().any(|block| match block {
            AssistantContent::Text { text } => !text.trim().is_empty(),
            AssistantContent::ToolCall(_) => true,
            AssistantContent::Thinking { .. } => false,
        }),
    }
}

fn is_visible(message: &AgentMessage) -> bool {
    match message {
        AgentMessage::User(_) | AgentMessage::ToolResult(_) => true,
        AgentMessage::Assistant(answer) => answer.stop_reason != StopReason::Error,
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

    fn user(text: &str) -> AgentMessage {
        AgentMessage::User(UserMessage {
            content: vec![UserContent::Text { text: text.into() }],
            timestamp: Timestamp::from_millis(0),
        })
    }

    fn answer(stop_reason: StopReason, text: &str, calls: &[&str]) -> AgentMessage {
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

    #[test]
    fn a_missing_result_says_that_the_call_was_cut_off_and_stands_at_its_place() {
        let calls = answer(StopReason::ToolUse, "", &["a", "b"]);
        let paired = for_model(vec![user("go"), calls.clone(), result("b", "B"), user("more")]);
        let AgentMessage::ToolResult(lost) = &paired[2] else { panic!("no result: {paired:?}") };
        assert_eq!((lost.tool_call_id.as_str(), lost.is_error), ("a", true));
        assert_eq!(paired, [user("go"), calls, paired[2].clone(), result("b", "B"), user("more")]);
    }

    #[test]
    fn a_result_that_comes_late_moves_to_its_call() {
        let calls = answer(StopReason::ToolUse, "", &["a"]);
        let paired = for_model(vec![calls.clone(), user("in between"), result("a", "A")]);
        assert_eq!(paired, [calls, result("a", "A"), user("in between")]);
    }

    #[test]
    fn an_id_that_is_used_again_gets_its_own_result() {
        let calls = answer(StopReason::ToolUse, "", &["call_0"]);
        let all = [calls.clone(), result("call_0", "first"), calls, result("call_0", "second")];
        assert_eq!(for_model(all.to_vec()), all);
    }

    #[test]
    fn failed_and_empty_answers_and_results_without_a_call_are_left_out() {
        let messages = [
            result("x", "nobody asked"),
            user("go"),
            answer(StopReason::Error, "half", &["a"]),
            result("a", "A"),
            answer(StopReason::Stop, "", &[]),
        ];
        assert_eq!(for_model(messages.to_vec()), [user("go")]);
    }

    #[test]
    fn an_unfinished_answer_is_left_out_only_while_nothing_follows() {
        let half = answer(StopReason::Aborted, "half", &[]);
        assert_eq!(for_model(vec![user("go"), half.clone()]), [user("go")]);
        let all = [user("go"), half, user("go on")];
        assert_eq!(for_model(all.to_vec()), all);
    }

    #[test]
    fn the_calls_without_a_result_are_those_of_the_last_answer() {
        let messages = [user("go"), answer(StopReason::ToolUse, "", &["a", "b"]), result("a", "A")];
        assert_eq!(unanswered(&messages).iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(unanswered(&[user("go")]).is_empty());
    }
}
