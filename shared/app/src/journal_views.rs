use pilothouse_api::records::{
    ActivityView, LogChunkView, MessageView, RawEventOutcome, RawEventView, ToolCallView, ToolResultView,
};
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::value::{AgentMessageSource, MessageImage, MessageSource, ToolCallStatus};
use pilothouse_domain::{SessionEvent, SubAgentId, ToolCallId};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::Value;

pub fn activity(entry: &JournalEntry) -> impl Iterator<Item = ActivityView> + '_ {
    let lines = entry.activity.iter().enumerate();
    lines.map(move |(at, item)| ActivityView { id: activity_id(entry, at), item: item.clone() })
}

/// The id of the line `at` of an entry, counted from 0.
pub fn activity_id(entry: &JournalEntry, at: usize) -> String {
    format!("{}.{at}", entry.sequence)
}

pub fn raw_event(entry: &JournalEntry) -> Option<RawEvent> {
    match &entry.cause {
        Cause::Agent { body, .. } => serde_json::from_value(body.clone()).ok(),
        _ => None,
    }
}

/// The view of an entry's raw event, or `None` if something else caused the entry.
pub fn recorded(entry: &JournalEntry) -> Option<RawEventView> {
    let Cause::Agent { run_id, run, sequence, occurred_at, body } = &entry.cause else { return None };
    let errors = entry.events.iter().find_map(|event| match event {
        SessionEvent::EventQuarantined { errors } => Some(errors.clone()),
        _ => None,
    });
    let outcome = match (&errors, entry.ignored_reason.as_deref()) {
        (Some(_), _) => RawEventOutcome::Quarantined,
        (None, Some("deferred")) => RawEventOutcome::Deferred,
        (None, Some(_)) => RawEventOutcome::Ignored,
        (None, None) if !entry.repairs.is_empty() => RawEventOutcome::Repaired,
        (None, None) => RawEventOutcome::Applied,
    };
    let ignored_reason = entry.ignored_reason.clone().filter(|_| outcome == RawEventOutcome::Ignored);
    Some(RawEventView {
        journal_sequence: entry.sequence,
        run_id: *run_id,
        run: *run,
        sequence: *sequence,
        at: entry.at,
        occurred_at: *occurred_at,
        event_type: body.get("type").and_then(Value::as_str).map(str::to_owned),
        outcome,
        ignored_reason,
        errors: errors.unwrap_or_default(),
        repairs: entry.repairs.clone(),
        events: entry.events.iter().map(|event| event.name().to_owned()).collect(),
        truncated: cut_to(entry).is_some(),
        blob: cut_to(entry),
        body: body.clone(),
    })
}

/// Returns a text, whether it is truncated, and the blob with the original: a blob of the sidecar with the text, or a blob of the
/// intake with the whole event.
fn text(entry: &JournalEntry, content: &Content) -> (String, bool, Option<String>) {
    match content {
        Content::Blob(blob) => (blob.head.clone(), true, Some(blob.blob.clone())),
        other => {
            let blob = cut_to(entry);
            (other.text().into_owned(), blob.is_some(), blob)
        }
    }
}

/// The blob with the whole event, if the texts in the entry are truncated (decision 6).
fn cut_to(entry: &JournalEntry) -> Option<String> {
    let Cause::Agent { body, .. } = &entry.cause else { return None };
    body.get("truncated")?.as_bool().filter(|cut| *cut)?;
    body.get("blob")?.as_str().map(str::to_owned)
}

/// The messages of the conversation in an entry. An injection precedes the message with which the agent received it.
pub fn messages(entry: &JournalEntry) -> Vec<MessageView> {
    let mut delivered: Vec<_> =
        entry.events.iter().filter_map(|event| delivered_message(entry, event)).collect();
    if delivered.is_empty() {
        return said(entry).into_iter().collect();
    }
    let is_injection = |view: &MessageView| view.source == AgentMessageSource::ContextInjection;
    if delivered.len() > 1 {
        for injection in delivered.iter_mut().filter(|view| is_injection(view)) {
            injection.id.push_str("-context");
        }
    }
    delivered.sort_by_key(|view| !is_injection(view));
    delivered
}

fn delivered_message(entry: &JournalEntry, event: &SessionEvent) -> Option<MessageView> {
    let (message_id, source, content, images) = delivered(event)?;
    Some(MessageView {
        id: entry.sequence.to_string(),
        message_id: Some(message_id),
        source,
        sub_agent_id: None,
        content,
        images: images.to_vec(),
        thinking: false,
        truncated: false,
        blob: None,
        timestamp: entry.at,
    })
}

/// What the agent or a subagent said.
fn said(entry: &JournalEntry) -> Option<MessageView> {
    let (sub_agent_id, content) = match raw_event(entry)? {
        RawEvent::AssistantMessage { content, .. } => (None, content),
        RawEvent::SubagentMessage { subagent_id, content } => (Some(subagent_id), content),
        _ => return None,
    };
    let (said, thinking) = match &content {
        AssistantContent::Text { text } => (text, false),
        AssistantContent::Thinking { text } => (text, true),
        AssistantContent::ToolUse { .. } => return None,
    };
    let (content, truncated, blob) = text(entry, said);
    let source =
        if sub_agent_id.is_some() { AgentMessageSource::SubAgent } else { AgentMessageSource::Agent };
    Some(MessageView {
        id: entry.sequence.to_string(),
        message_id: None,
        source,
        sub_agent_id,
        content,
        images: Vec::new(),
        thinking,
        truncated,
        blob,
        timestamp: entry.at,
    })
}

type Delivered<'a> = (pilothouse_domain::MessageId, AgentMessageSource, String, &'a [MessageImage]);

fn delivered(event: &SessionEvent) -> Option<Delivered<'_>> {
    match event {
        SessionEvent::MessageDelivered { message_id, source, content, images, .. } => {
            let source = match source {
                MessageSource::User => AgentMessageSource::User,
                MessageSource::System => AgentMessageSource::System,
                MessageSource::Webhook => AgentMessageSource::Webhook,
                MessageSource::ContextInjection => AgentMessageSource::ContextInjection,
            };
            Some((*message_id, source, content.as_str().to_owned(), images))
        }
        _ => None,
    }
}

/// The tool call that an entry starts.
pub fn tool_call(entry: &JournalEntry) -> Option<ToolCallView> {
    let (sub_agent_id, content) = match raw_event(entry)? {
        RawEvent::AssistantMessage { content, .. } => (None, content),
        RawEvent::SubagentMessage { subagent_id, content } => (Some(subagent_id), content),
        _ => return None,
    };
    let AssistantContent::ToolUse { tool_call_id, tool_name, input } = content else { return None };
    Some(ToolCallView {
        id: tool_call_id,
        sub_agent_id,
        tool_name,
        input,
        truncated: cut_to(entry).is_some(),
        blob: cut_to(entry),
        result: None,
        status: ToolCallStatus::Pending,
        started_at: entry.at,
        completed_at: None,
    })
}

/// The view of a result whose call has expired or never arrived.
pub fn orphan(id: ToolCallId, sub_agent_id: Option<SubAgentId>, entry: &JournalEntry) -> ToolCallView {
    ToolCallView {
        id,
        sub_agent_id,
        tool_name: "unknown".to_owned(),
        input: Value::Null,
        truncated: false,
        blob: None,
        result: None,
        status: ToolCallStatus::Pending,
        started_at: entry.at,
        completed_at: None,
    }
}

pub fn tool_result(entry: &JournalEntry) -> Option<(ToolCallId, Option<SubAgentId>, ToolResultView)> {
    let RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id } = raw_event(entry)? else {
        return None;
    };
    let (content, truncated, blob) = text(entry, &content);
    Some((tool_call_id, subagent_id, ToolResultView { content, is_error, truncated, blob }))
}

pub fn log_chunk(entry: &JournalEntry) -> Option<LogChunkView> {
    let (stream, content) = match raw_event(entry) {
        Some(RawEvent::LogChunk { stream, content }) if !content.is_empty() => (stream, content),
        _ => entry.events.iter().find_map(|event| match event {
            SessionEvent::DecisionLogged { content } => Some(("decision".to_owned(), content.clone())),
            _ => None,
        })?,
    };
    let blob = cut_to(entry);
    Some(LogChunkView {
        sequence_number: entry.sequence,
        stream,
        content,
        truncated: blob.is_some(),
        blob,
        recorded_at: entry.at,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use pilothouse_domain::{AgentSessionId, EventId, RunId, Timestamp, UserId};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    pub(crate) fn entry(body: Value, events: Vec<SessionEvent>) -> JournalEntry {
        JournalEntry {
            id: EventId::new(Uuid::from_u128(1)),
            session_id: AgentSessionId::new(Uuid::from_u128(2)),
            owner_id: UserId::parse("ada").unwrap(),
            project: None,
            sequence: 7,
            at: Timestamp::from_millis(1),
            cause: Cause::Agent {
                run_id: RunId::new(Uuid::from_u128(3)),
                run: 1,
                sequence: Some(1),
                occurred_at: None,
                body,
            },
            events,
            status: None,
            activity: Vec::new(),
            ignored_reason: None,
            repairs: Vec::new(),
            decisions: Vec::new(),
            traceparent: None,
        }
    }

    fn message(entry: &JournalEntry) -> Option<MessageView> {
        messages(entry).into_iter().next()
    }

    #[test]
    fn truncated_content_links_to_the_full_content() {
        let text = json!({ "kind": "text", "text": "begin…" });
        let whole = entry(json!({ "type": "assistant_message", "content": text }), Vec::new());
        let cut = json!({ "type": "assistant_message", "content": text, "truncated": true, "blob": "sessions/x/y" });
        let shown = message(&whole).unwrap();
        assert_eq!((shown.truncated, shown.blob), (false, None));
        let shown = message(&entry(cut, Vec::new())).unwrap();
        assert_eq!(
            (shown.content.as_str(), shown.truncated, shown.blob.as_deref()),
            ("begin…", true, Some("sessions/x/y"))
        );

        let blob = json!({ "blob": "sessions/x/z", "size": 9, "sha256": "z", "head": "be" });
        let shown = message(&entry(
            json!({ "type": "assistant_message", "content": { "kind": "text", "text": blob } }),
            Vec::new(),
        ));
        let shown = shown.unwrap();
        assert_eq!(
            (shown.content.as_str(), shown.truncated, shown.blob.as_deref()),
            ("be", true, Some("sessions/x/z"))
        );
    }

    #[test]
    fn raw_event_has_the_time_of_its_emission() {
        let mut entry = entry(json!({ "type": "turn_started", "turnId": "t" }), Vec::new());
        assert_eq!(recorded(&entry).unwrap().occurred_at, None, "of an earlier version");
        let emitted = Some(Timestamp::from_millis(7));
        if let Cause::Agent { occurred_at, .. } = &mut entry.cause {
            *occurred_at = emitted;
        }
        assert_eq!(recorded(&entry).unwrap().occurred_at, emitted);
        let stored = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<JournalEntry>(&stored).unwrap(), entry);
        let earlier = stored.replacen("\"occurredAt\":\"1970-01-01T00:00:00.007Z\",", "", 1);
        assert_ne!(earlier, stored);
        let earlier = serde_json::from_str::<JournalEntry>(&earlier).unwrap();
        assert_eq!(recorded(&earlier).unwrap().occurred_at, None);
    }

    #[test]
    fn delivered_message_is_attributed_to_its_sender() {
        for (sender, author) in [
            (MessageSource::User, AgentMessageSource::User),
            (MessageSource::System, AgentMessageSource::System),
            (MessageSource::Webhook, AgentMessageSource::Webhook),
            (MessageSource::ContextInjection, AgentMessageSource::ContextInjection),
        ] {
            let delivered = SessionEvent::MessageDelivered {
                message_id: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap(),
                source: sender,
                content: pilothouse_domain::text::MessageContent::parse("Go on").unwrap(),
                images: Vec::new(),
                delivered_at: Timestamp::from_millis(1),
            };
            let shown =
                message(&entry(json!({ "type": "turn_started", "turnId": "t" }), vec![delivered])).unwrap();
            assert_eq!((shown.content.as_str(), shown.source), ("Go on", author), "{sender}");
        }
    }

    #[test]
    fn injection_precedes_the_message_that_it_came_with() {
        let delivered = |number: u8, source| SessionEvent::MessageDelivered {
            message_id: format!("01890a5d-ac96-774b-bcce-b302099a805{number}").parse().unwrap(),
            source,
            content: pilothouse_domain::text::MessageContent::parse("text").unwrap(),
            images: Vec::new(),
            delivered_at: Timestamp::from_millis(1),
        };
        let events = vec![delivered(1, MessageSource::User), delivered(2, MessageSource::ContextInjection)];
        let shown = messages(&entry(json!({ "type": "turn_started", "turnId": "t" }), events));
        let sources: Vec<_> = shown.iter().map(|view| view.source).collect();
        assert_eq!(sources, [AgentMessageSource::ContextInjection, AgentMessageSource::User]);
        assert_ne!(shown[0].id, shown[1].id);
    }

    #[test]
    fn calls_results_and_logs_are_distinguished() {
        let call = json!({ "kind": "tool_use", "toolCallId": "c", "toolName": "Bash", "input": {} });
        let call =
            entry(json!({ "type": "subagent_message", "subagentId": "s", "content": call }), Vec::new());
        assert!(message(&call).is_none() && tool_result(&call).is_none() && log_chunk(&call).is_none());
        assert_eq!(tool_call(&call).unwrap().sub_agent_id.unwrap().as_str(), "s");
        let result = entry(json!({ "type": "tool_result", "toolCallId": "c", "content": [1] }), Vec::new());
        assert!(message(&result).is_none() && tool_call(&result).is_none());
        assert_eq!(tool_result(&result).unwrap().2.content, "[1]");
        let silent = entry(json!({ "type": "tool_result", "toolCallId": "c", "content": "" }), Vec::new());
        let (call_id, _, view) = tool_result(&silent).unwrap();
        assert_eq!((call_id.as_str(), view.content.as_str(), view.is_error), ("c", "", false));
        let log = entry(json!({ "type": "log_chunk", "stream": "agent", "content": "x" }), Vec::new());
        assert_eq!(log_chunk(&log).unwrap().sequence_number, 7);
        let empty = entry(json!({ "type": "log_chunk", "stream": "agent", "content": "" }), Vec::new());
        assert!(log_chunk(&empty).is_none());
        let quarantined = entry(json!({ "type": "nonsense" }), Vec::new());
        assert!(raw_event(&quarantined).is_none());
    }
}
