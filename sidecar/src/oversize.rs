//! Makes events fit an envelope (decision 6). Contents move to blobs. Other texts are cut to the limits of the control plane, so that an
//! event keeps its kind and its effect: without it, a session would wait for ever.

use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::output::SessionOutput;
use pilothouse_domain::text::{HandoffText, PlanContent, cut};
use pilothouse_domain::value::{AgentSettings, OptionProposal, Question, SessionTaskList};
use pilothouse_wire::RawEvent;
use pilothouse_wire::envelope::MAX_ENVELOPE_BYTES;
use pilothouse_wire::event::{AssistantContent, BlobRef, Content, HandoffDocument};
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Map, Value, json};

/// Size limit of a body. The rest is for the envelope, its signature, and the escaping when the signed envelope becomes
/// a string in a request.
const MAX_BODY_BYTES: usize = MAX_ENVELOPE_BYTES - 8 * 1024;

/// Bytes of a blob's beginning that stay in the event.
const HEAD_BYTES: usize = 4 * 1024;

/// Most characters of a text in an input, tried in this order. The control plane reads plans and questions from inputs, and shows the
/// beginning of an input whose call needs permission. That beginning is the same before and after the cut.
const INPUT_TEXTS: [usize; 2] = [PlanContent::MAX, ToolApproval::MAX_INPUT];
const MAX_INPUT_BYTES: usize = 64 * 1024;

/// Bytes of a result that is too large. What stays is still too large for the control plane, which therefore tells the agent.
const RESULT_BYTES: usize = 48 * 1024;
const _: () = assert!(RESULT_BYTES > SessionOutput::MAX_RESULT_BYTES + 4);

/// The limits of texts are divided by these numbers, tried in this order.
const DIVISORS: [usize; 4] = [1, 4, 16, 64];
const MAX_QUESTIONS: usize = 100;
const MAX_OPTIONS: usize = 50;
/// Most acceptance criteria of a deliverable.
const MAX_CRITERIA: usize = 50;
/// In characters.
const MAX_SUMMARY: usize = 1000;

/// A log piece of this size fits even if every character is escaped.
pub(crate) const LOG_PIECE_BYTES: usize = 16 * 1024;

/// Content that moves to the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of the bytes in hexadecimal. It is also the key.
    pub sha256: String,
    pub bytes: Vec<u8>,
}

/// Splits or shrinks an event so that each part fits an envelope. Adds the blobs of the parts to `blobs`.
pub fn fit(event: RawEvent, blobs: &mut Vec<Blob>) -> serde_json::Result<Vec<RawEvent>> {
    let json = serde_json::to_string(&event)?;
    if json.len() <= MAX_BODY_BYTES {
        return Ok(vec![event]);
    }
    if let RawEvent::LogChunk { stream, content } = &event {
        let chunk = |piece: &str| RawEvent::LogChunk { stream: stream.clone(), content: piece.to_owned() };
        return Ok(pieces(content, LOG_PIECE_BYTES).map(chunk).collect());
    }
    for divisor in DIVISORS {
        let mut moved = Vec::new();
        let smaller = shrink(event.clone(), Limits { divisor }, &mut moved)?;
        if serde_json::to_string(&smaller)?.len() <= MAX_BODY_BYTES {
            blobs.append(&mut moved);
            return Ok(vec![smaller]);
        }
    }
    // It has too many parts: the whole event becomes a blob, and a notice takes its place.
    let whole = store(json.into_bytes(), blobs);
    Ok(vec![RawEvent::Notice {
        name: "oversized_event".into(),
        summary: format!("a `{}` of {} bytes is too large for a message", event.name(), whole.size),
        detail: Some(json!({ "event": event.name(), "truncated": true, "blob": whole })),
    }])
}

/// Cuts texts. An event with many texts needs smaller limits.
#[derive(Debug, Clone, Copy)]
struct Limits {
    divisor: usize,
}

impl Limits {
    /// `most` is in characters.
    fn cut<'a>(self, texts: impl IntoIterator<Item = &'a mut String>, most: usize) {
        for text in texts {
            *text = cut(text, most / self.divisor);
        }
    }
}

fn shrink(mut event: RawEvent, limits: Limits, blobs: &mut Vec<Blob>) -> serde_json::Result<RawEvent> {
    match &mut event {
        RawEvent::AssistantMessage { content, .. } | RawEvent::SubagentMessage { content, .. } => {
            shrink_block(content, limits, blobs)?;
        }
        RawEvent::ToolResult { content, .. } => shrink_content(content, blobs)?,
        RawEvent::Notice { summary, detail, .. } => {
            if summary.chars().nth(MAX_SUMMARY).is_some() {
                *detail = Some(json!({ "summary": summary, "detail": detail }));
                limits.cut([summary], MAX_SUMMARY);
            }
            if let Some(detail) = detail {
                *detail = Value::Object(reference(serde_json::to_vec(detail)?, blobs)?);
            }
        }
        RawEvent::QuestionAsked { questions, approval, proposal, .. } => {
            cut_questions(questions, limits);
            if let Some(approval) = approval {
                approval.tool_name = cut(&approval.tool_name, ToolApproval::MAX_TOOL);
                // Answers repeat these texts, so their limits are not divided.
                approval.allow = cut(&approval.allow, 500);
                approval.deny = cut(&approval.deny, 500);
                approval.input_blob = shrink_input(&mut approval.input, blobs)?;
            }
            *proposal =
                proposal.take().map(|proposal| *proposal).and_then(OptionProposal::fitting).map(Box::new);
        }
        _ => cut_texts(&mut event, limits),
    }
    Ok(event)
}

/// Cuts texts to the limits that the control plane has for them.
fn cut_texts(event: &mut RawEvent, limits: Limits) {
    match event {
        RawEvent::UsageUpdate(usage) => {
            limits.cut([&mut usage.model_id], 200);
            limits.cut([&mut usage.cost_usd], 50);
        }
        RawEvent::ContextNearingLimit { usage_percent } => limits.cut([usage_percent], 20),
        RawEvent::HandoffDocument(document) => cut_document(document, limits),
        RawEvent::VoluntaryHandoff { reason, document } => {
            limits.cut([reason], 1000);
            cut_document(document, limits);
        }
        RawEvent::SessionEnd(end) => {
            limits.cut([&mut end.reason], 200);
            limits.cut(&mut end.message, 1000);
            end.output.iter_mut().for_each(cut_result);
        }
        RawEvent::TurnCompleted { output, .. } => output.iter_mut().for_each(cut_result),
        RawEvent::ValidationResult { results, .. } => {
            for result in results {
                limits.cut(&mut result.reason, 1000);
                limits.cut(&mut result.output, 3000);
            }
        }
        RawEvent::CommandRefused { code, message, .. } => {
            limits.cut([code], 50);
            limits.cut([message], 500);
        }
        RawEvent::AgentSettings { model_id, available_models, .. } => {
            limits.cut([model_id], AgentSettings::MAX_NAME);
            // A shortened name would not identify the model.
            available_models.retain(|model| model.chars().count() <= AgentSettings::MAX_NAME);
            available_models.truncate(AgentSettings::MAX_MODELS / limits.divisor);
        }
        RawEvent::BudgetExceeded { needed_usd, left_usd } => limits.cut([needed_usd, left_usd], 50),
        RawEvent::QuotaExceeded { message, .. } | RawEvent::ModelUnavailable { message, .. } => {
            limits.cut(message, 500);
        }
        RawEvent::Deliverables { deliverables } => {
            // All of them are counted.
            for deliverable in deliverables {
                limits.cut([&mut deliverable.id], 200);
                limits.cut([&mut deliverable.description], 1000);
                deliverable.acceptance_criteria.truncate(MAX_CRITERIA / limits.divisor);
                limits.cut(&mut deliverable.acceptance_criteria, 1000);
            }
        }
        RawEvent::TaskList { tasks } => {
            tasks.truncate(SessionTaskList::MAX_TASKS);
            for task in tasks {
                limits.cut([&mut task.id], 200);
                limits.cut([&mut task.subject], 500);
                limits.cut(&mut task.active_form, 500);
            }
        }
        RawEvent::SubagentStarted { model_id, objective, .. } => {
            limits.cut(model_id, 200);
            limits.cut([objective], 2000);
        }
        RawEvent::SubagentEnded { failure, .. } => limits.cut(failure, 1000),
        // Small by their types, or handled before.
        RawEvent::AssistantMessage { .. }
        | RawEvent::ToolResult { .. }
        | RawEvent::SubagentMessage { .. }
        | RawEvent::ContextExhausted {}
        | RawEvent::InterruptAck(_)
        | RawEvent::PauseAck(_)
        | RawEvent::ResumeAck(_)
        | RawEvent::StopAck(_)
        | RawEvent::ReloadConfigAck(_)
        | RawEvent::AdjustAck(_)
        | RawEvent::SidecarReady { .. }
        | RawEvent::BeginAck(_)
        | RawEvent::AnswerAck(_)
        | RawEvent::ValidationAck(_)
        | RawEvent::MessageAck { .. }
        | RawEvent::TurnStarted { .. }
        | RawEvent::Conversations(_)
        | RawEvent::QuestionAsked { .. }
        | RawEvent::LogChunk { .. }
        | RawEvent::Notice { .. }
        | RawEvent::Heartbeat { .. }
        | RawEvent::RunExited(_) => {}
    }
}

fn cut_document(document: &mut HandoffDocument, limits: Limits) {
    limits.cut([&mut document.summary, &mut document.remaining_work], HandoffText::MAX);
    limits.cut(&mut document.key_decisions, HandoffText::MAX);
}

fn cut_questions(questions: &mut Vec<Question>, limits: Limits) {
    questions.truncate(MAX_QUESTIONS);
    for question in questions {
        limits.cut([&mut question.question], 2000);
        limits.cut(&mut question.header, 100);
        question.options.truncate(MAX_OPTIONS / limits.divisor);
        for option in &mut question.options {
            limits.cut([&mut option.label], 500);
            limits.cut(&mut option.description, 1000);
        }
    }
}

fn cut_result(output: &mut SessionOutput) {
    // The control plane sets its own.
    output.violations.clear();
    output.guardrails.clear();
    if let Some(result) = &mut output.result {
        let json = result.to_string();
        if json.len() > RESULT_BYTES {
            *result = Value::from(&json[..json.floor_char_boundary(RESULT_BYTES)]);
        }
    }
}

fn shrink_block(
    block: &mut AssistantContent,
    limits: Limits,
    blobs: &mut Vec<Blob>,
) -> serde_json::Result<()> {
    match block {
        AssistantContent::Text { text } | AssistantContent::Thinking { text } => shrink_content(text, blobs),
        AssistantContent::ToolUse { tool_name, input, .. } => {
            limits.cut([tool_name], 200);
            shrink_input(input, blobs).map(drop)
        }
    }
}

fn shrink_content(content: &mut Content, blobs: &mut Vec<Blob>) -> serde_json::Result<()> {
    let bytes = match content {
        Content::Text(text) => std::mem::take(text).into_bytes(),
        Content::Json(value) => serde_json::to_vec(value)?,
        Content::Blob(_) => return Ok(()),
    };
    *content = Content::Blob(store(bytes, blobs));
    Ok(())
}

/// Cuts the texts of an input, and adds a reference to the whole input. An input of too many parts becomes the reference. Returns the
/// SHA-256 of the blob with the whole input. `None` if the input is small.
fn shrink_input(input: &mut Value, blobs: &mut Vec<Blob>) -> serde_json::Result<Option<String>> {
    let json = serde_json::to_vec(input)?;
    if json.len() <= HEAD_BYTES {
        return Ok(None);
    }
    let reference = reference(json, blobs)?;
    let whole = blobs.last().map(|blob| blob.sha256.clone());
    if let Value::Object(fields) = &*input {
        for most in INPUT_TEXTS {
            let mut smaller = fields.clone();
            smaller.values_mut().for_each(|value| cut_strings(value, most));
            smaller.extend(reference.clone());
            if serde_json::to_vec(&smaller)?.len() <= MAX_INPUT_BYTES {
                *input = Value::Object(smaller);
                return Ok(whole);
            }
        }
    }
    *input = Value::Object(reference);
    Ok(whole)
}

fn cut_strings(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => *text = cut(text, most),
        Value::Array(values) => values.iter_mut().for_each(|value| cut_strings(value, most)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cut_strings(value, most)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The fields that refer to JSON in the blob store.
fn reference(json: Vec<u8>, blobs: &mut Vec<Blob>) -> serde_json::Result<Map<String, Value>> {
    let blob = serde_json::to_value(store(json, blobs))?;
    Ok([("truncated".to_owned(), true.into()), ("blob".to_owned(), blob)].into_iter().collect())
}

fn store(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> BlobRef {
    let sha256 = sha256_hex(&bytes);
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES + 4)]);
    let head = text[..text.floor_char_boundary(HEAD_BYTES)].to_owned();
    let reference = BlobRef { blob: sha256.clone(), size: bytes.len() as u64, sha256: sha256.clone(), head };
    blobs.push(Blob { sha256, bytes });
    reference
}

fn pieces(mut text: &str, most: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(most));
        text = rest;
        Some(piece).filter(|p| !p.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::output::OutputRules;

    use super::*;

    fn fitted(event: RawEvent) -> (Vec<RawEvent>, Vec<Blob>) {
        let mut blobs = Vec::new();
        let events = fit(event, &mut blobs).unwrap();
        for event in &events {
            assert!(serde_json::to_string(event).unwrap().len() <= MAX_BODY_BYTES);
        }
        (events, blobs)
    }

    fn result(content: Content) -> RawEvent {
        RawEvent::ToolResult {
            tool_call_id: "t".parse().unwrap(),
            content,
            is_error: false,
            subagent_id: None,
        }
    }

    #[test]
    fn small_event_is_unchanged() {
        let event = result("short".into());
        assert_eq!(fitted(event.clone()), (vec![event], vec![]));
    }

    #[test]
    fn large_result_moves_to_a_blob_with_a_preview_in_the_event() {
        let text = "ä".repeat(100_000);
        let (events, blobs) = fitted(result(Content::Text(text.clone())));
        let [RawEvent::ToolResult { content: Content::Blob(blob), .. }] = &events[..] else {
            panic!("not a reference: {events:?}")
        };
        assert_eq!((blob.size, blob.sha256.as_str()), (200_000, sha256_hex(text.as_bytes()).as_str()));
        assert!(text.starts_with(&blob.head) && !blob.head.is_empty());
        assert_eq!(blobs[0].bytes, text.as_bytes());
    }

    #[test]
    fn large_log_is_split_without_loss() {
        let content = "€".repeat(60_000);
        let (events, _) = fitted(RawEvent::LogChunk { stream: "agent".into(), content: content.clone() });
        let joined: String = events
            .iter()
            .map(|e| if let RawEvent::LogChunk { content, .. } = e { content.as_str() } else { "" })
            .collect();
        assert_eq!(joined, content);
    }

    fn event(json: Value) -> RawEvent {
        serde_json::from_value(json).unwrap()
    }

    /// Events with long texts, or many texts like `part`.
    fn events_with(long: &str, part: &str) -> Vec<Value> {
        let command = uuid::Uuid::from_u128(1);
        let criterion = json!({ "type": "CustomCommand", "passed": false, "reason": part, "output": part });
        let deliverable = json!({ "id": "DL-1", "description": part, "acceptanceCriteria": [part, part],
            "status": "pending" });
        let task = json!({ "id": "1", "subject": part, "status": "Pending", "activeForm": part });
        let option = json!({ "id": "a", "label": "A", "description": long, "tradeoffs": long });
        let question =
            json!({ "question": part, "options": vec![json!({ "label": "A", "description": part }); 50] });
        let tokens = pilothouse_domain::value::TokenUsage::default();
        vec![
            json!({ "type": "assistant_message", "content": { "kind": "text", "text": long } }),
            json!({ "type": "subagent_message", "subagentId": "s", "content":
                { "kind": "tool_use", "toolCallId": "c", "toolName": long, "input": { "command": long } } }),
            json!({ "type": "tool_result", "toolCallId": "c", "content": [long] }),
            json!({ "type": "usage_update", "meterId": "m", "modelId": long, "costUsd": long,
                "tokenUsage": tokens }),
            json!({ "type": "context_nearing_limit", "usagePercent": long }),
            json!({ "type": "handoff_document", "summary": long, "remainingWork": long,
                "keyDecisions": long }),
            json!({ "type": "voluntary_handoff", "reason": long, "summary": long, "remainingWork": long }),
            json!({ "type": "session_end", "isError": true, "reason": long, "message": long,
                "output": { "result": long } }),
            json!({ "type": "validation_result", "commandId": command, "results": vec![criterion; 20] }),
            json!({ "type": "command_refused", "commandId": command, "code": long, "message": long }),
            json!({ "type": "turn_completed", "turnId": "t", "output": { "result": { "quotes": long } } }),
            json!({ "type": "agent_settings", "modelId": long, "availableModels": ["a", long] }),
            json!({ "type": "question_asked", "requestId": "c", "questions": vec![question; 10],
                "proposal": { "options": [option] } }),
            json!({ "type": "budget_exceeded", "neededUsd": long, "leftUsd": long }),
            json!({ "type": "quota_exceeded", "message": long }),
            json!({ "type": "model_unavailable", "message": long }),
            json!({ "type": "deliverables", "deliverables": vec![deliverable; 50] }),
            json!({ "type": "task_list", "tasks": vec![task; 250] }),
            json!({ "type": "subagent_started", "subagentId": "s", "modelId": long, "objective": long }),
            json!({ "type": "subagent_ended", "subagentId": "s", "failure": long }),
            json!({ "type": "notice", "name": "n", "summary": long }),
        ]
    }

    #[test]
    fn event_of_any_kind_keeps_its_kind() {
        for character in ["a", "\"", "\u{1}", "𝄞"] {
            for json in events_with(&character.repeat(200_000), &character.repeat(2000)) {
                let (events, _) = fitted(event(json.clone()));
                let names: Vec<_> = events.iter().map(RawEvent::name).collect();
                assert_eq!(names, [json["type"].as_str().unwrap()]);
            }
        }
    }

    #[test]
    fn owner_sees_the_beginning_of_a_long_input() {
        let input = json!({ "path": "/a", "content": "é".repeat(100_000) });
        let asked = event(json!({ "type": "question_asked", "requestId": "c",
            "questions": [{ "question": "May it?", "options": [{ "label": "Allow" }, { "label": "Deny" }] }],
            "approval": { "toolName": "Write", "input": input, "allow": "Allow", "deny": "Deny",
                "modifiable": true } }));
        let (events, blobs) = fitted(asked.clone());
        let (
            [RawEvent::QuestionAsked { questions, approval: Some(smaller), .. }],
            RawEvent::QuestionAsked { questions: all, approval: Some(whole), .. },
        ) = (&events[..], &asked)
        else {
            panic!("not a question: {events:?}")
        };
        assert_eq!((questions, &smaller.allow, smaller.modifiable), (all, &whole.allow, true));
        let shown = |input: &Value| cut(&input.to_string(), ToolApproval::MAX_INPUT);
        assert_eq!(shown(&smaller.input), shown(&whole.input));
        assert_eq!(smaller.input["blob"]["sha256"], blobs[0].sha256);
        assert_eq!(smaller.input_blob.as_ref(), Some(&blobs[0].sha256));
        assert_eq!(serde_json::from_slice::<Value>(&blobs[0].bytes).unwrap(), input);
    }

    #[test]
    fn questions_and_plan_of_a_long_call_are_kept() {
        let (question, plan) = ("q".repeat(2000), "p".repeat(PlanContent::MAX));
        let option = json!({ "label": "A", "preview": "x".repeat(200_000) });
        let input = json!({ "questions": [{ "question": question, "options": [option] }], "plan": plan });
        let call =
            json!({ "kind": "tool_use", "toolCallId": "c", "toolName": "AskUserQuestion", "input": input });
        let (events, _) = fitted(event(json!({ "type": "assistant_message", "content": call })));
        let [RawEvent::AssistantMessage { content: AssistantContent::ToolUse { input, .. }, .. }] =
            &events[..]
        else {
            panic!("not a call: {events:?}")
        };
        assert_eq!(input["questions"][0]["question"], question);
        assert_eq!(input["questions"][0]["options"][0]["label"], "A");
        assert_eq!((&input["plan"], &input["truncated"]), (&json!(plan), &json!(true)));
    }

    #[test]
    fn input_of_many_parts_becomes_a_reference() {
        let mut input = json!({ "edits": vec![json!({ "line": 1 }); 20_000] });
        let mut blobs = Vec::new();
        shrink_input(&mut input, &mut blobs).unwrap();
        assert_eq!(input, json!({ "truncated": true, "blob": input["blob"] }));
        assert_eq!(input["blob"]["sha256"], blobs[0].sha256);
    }

    #[test]
    fn result_that_is_too_large_is_still_a_violation() {
        let result = json!({ "text": "é".repeat(100_000) });
        let output = json!({ "testsAdded": 2, "result": result });
        let (events, _) = fitted(event(json!({ "type": "turn_completed", "turnId": "t", "output": output })));
        let [RawEvent::TurnCompleted { output: Some(output), .. }] = &events[..] else {
            panic!("not the end of a turn: {events:?}")
        };
        let mut output = output.clone();
        output.check_result(&OutputRules::default());
        assert_eq!((output.tests_added, output.result.is_none(), output.violations.len()), (2, true, 1));
    }

    #[test]
    fn event_of_too_many_parts_moves_to_a_blob() {
        let deliverable =
            json!({ "id": "DL-1", "description": "d", "acceptanceCriteria": [], "status": "pending" });
        let event = event(json!({ "type": "deliverables", "deliverables": vec![deliverable; 5000] }));
        let (events, blobs) = fitted(event.clone());
        assert!(matches!(&events[..], [RawEvent::Notice { name, .. }] if name == "oversized_event"));
        assert_eq!(blobs.len(), 1);
        assert_eq!(serde_json::from_slice::<RawEvent>(&blobs[0].bytes).unwrap(), event);
    }
}
