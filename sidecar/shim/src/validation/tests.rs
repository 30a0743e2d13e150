use pilothouse_domain::value::DraftKind;
use serde_json::json;

use super::*;
use crate::event::{Decision, ToolPhase};

const EXPECTED: Expected<'static> = Expected { agent_id: "a", run_id: "r" };

fn envelope(event: &Value) -> String {
    json!({ "sourceEventId": "e1", "sourceSequence": 4, "sourceOccurredAt": "2026-01-01T00:00:00Z", "runId": "r",
        "event": event })
    .to_string()
}

fn received(event: &Value) -> Received {
    validate(&envelope(event), EXPECTED)
}

fn repaired(event: &Value) -> (AgentEvent, Vec<String>) {
    match received(event) {
        Received::Repaired(event, repairs) => {
            (event.event, repairs.iter().map(ToString::to_string).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn complete_event_of_each_type_is_valid() {
    let option = json!({ "id": "1", "label": "Yes", "description": "d", "tradeoffs": "t" });
    let events = [
        json!({ "type": "status", "message": "hi" }),
        json!({ "type": "decision", "subtype": "option", "decisionId": "d", "title": "t", "summary": "s",
            "severity": "high", "confidence": 0.5, "blastRadius": "small", "options": [option],
            "affectedArtifactIds": [], "requiresRationale": false, "dueByTick": null }),
        json!({ "type": "decision", "subtype": "tool_approval", "decisionId": "d", "toolName": "t", "toolArgs": {} }),
        json!({ "type": "artifact", "artifactId": "x", "name": "n", "kind": "code", "workstream": "w",
            "status": "draft", "qualityScore": 0.5, "provenance": { "createdBy": "a" } }),
        json!({ "type": "coherence", "issueId": "i", "title": "t", "description": "d", "category": "gap",
            "severity": "low", "affectedWorkstreams": [], "affectedArtifactIds": [] }),
        json!({ "type": "tool_call", "toolCallId": "c", "toolName": "t", "phase": "completed", "input": {},
            "output": [1], "approved": true, "durationMs": 3 }),
        json!({ "type": "completion", "summary": "s", "artifactsProduced": [], "decisionsNeeded": [],
            "outcome": "max_turns" }),
        json!({ "type": "error", "severity": "high", "message": "m", "recoverable": false, "category": "tool" }),
        json!({ "type": "delegation", "action": "spawned", "childAgentId": "c", "childRole": "r", "reason": "x",
            "delegationDepth": 1, "rootAgentId": "a" }),
        json!({ "type": "guardrail", "guardrailName": "g", "level": "input", "tripped": true, "message": "m" }),
        json!({ "type": "lifecycle", "action": "session_start" }),
        json!({ "type": "progress", "operationId": "o", "description": "d", "progressPct": null }),
        json!({ "type": "raw_provider", "providerName": "p", "eventType": "e", "payload": { "a": 1 } }),
    ];
    for mut event in events {
        event["agentId"] = "a".into();
        assert!(matches!(received(&event), Received::Valid(_)), "{:?}", received(&event));
    }
}

#[test]
fn each_rule_repairs_its_mistake() {
    let (event, repairs) = repaired(&json!({ "type": "decision", "decisionId": 7, "title": "t",
        "options": ["Yes", { "label": "No", "description": "d" }], "confidence": "1.5", "severity": "High",
        "blastRadius": "huge", "affectedArtifactIds": "x", "requiresRationale": "true" }));
    let AgentEvent::Decision(Decision::Option(decision)) = event else { panic!("{event:?}") };
    assert_eq!((decision.decision_id.as_str(), decision.summary.as_str()), ("7", ""));
    let ids: Vec<_> = decision.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(ids, ["1", "2"]);
    assert_eq!((decision.blast_radius, decision.requires_rationale), (None, true));
    assert_eq!(decision.affected_artifact_ids, ["x"]);
    assert_eq!(
        repairs,
        [
            "`agentId` was missing",
            "`subtype` was missing",
            "`decisionId` had another type",
            "`summary` was missing",
            "`severity` was spelled differently",
            "`confidence` was out of range",
            "`blastRadius` was left out, because it cannot be read",
            "`options[0]` was not a list",
            "`options[0].id` was missing",
            "`options[0].description` was missing",
            "`options[1].id` was missing",
            "`affectedArtifactIds` was not a list",
            "`requiresRationale` had another type",
        ]
    );
    let (event, _) =
        repaired(&json!({ "type": "tool_call", "agentId": "a", "toolCallId": "c", "toolName": "t",
        "phase": "Completed", "input": "{\"a\":1}" }));
    let AgentEvent::ToolCall(call) = event else { panic!("{event:?}") };
    assert_eq!((call.phase, call.input), (ToolPhase::Completed, json!({ "a": 1 })));
}

#[test]
fn event_without_an_envelope_gets_one() {
    let bare =
        json!({ "type": "status", "agentId": "a", "message": "hi", "sourceSequence": "9" }).to_string();
    let Received::Repaired(event, repairs) = validate(&bare, EXPECTED) else { panic!() };
    let source = Source { event_id: "r/9".into(), run_id: "r".into(), sequence: Some(9), occurred_at: None };
    assert_eq!(event.source, source);
    assert_eq!(repairs.len(), 4, "{repairs:?}");
}

#[test]
fn time_of_emission_is_read_or_left_out() {
    let with = |time: &str| {
        let event = json!({ "type": "status", "agentId": "a", "message": "hi" });
        let envelope = json!({ "sourceEventId": "e1", "sourceSequence": 4, "sourceOccurredAt": time, "runId": "r",
            "event": event });
        validate(&envelope.to_string(), EXPECTED)
    };
    let time = |received: &Received| received.source().unwrap().occurred_at.map(|at| at.to_string());
    let valid = with("2026-01-01T02:00:00.123456+01:00");
    assert!(matches!(valid, Received::Valid(_)), "{valid:?}");
    assert_eq!(time(&valid).as_deref(), Some("2026-01-01T01:00:00.123Z"));
    let repaired = with("yesterday");
    assert_eq!(time(&repaired), None);
    let Received::Repaired(_, repairs) = repaired else { panic!("{repaired:?}") };
    assert_eq!(repairs, [Repair::Dropped("sourceOccurredAt".into())]);
}

#[test]
fn draft_has_no_place_in_the_order_of_events() {
    let draft = |message: Value| {
        let received = validate(&message.to_string(), EXPECTED);
        assert_eq!((received.source(), received.event()), (None, None));
        let Received::Draft(draft) = received else { panic!("{received:?}") };
        draft
    };
    let piece = draft(json!({ "type": "draft", "text": "Hel" })).unwrap();
    assert_eq!(piece, Draft { kind: DraftKind::Text, text: "Hel".into(), restart: false });
    let other = json!({ "type": "draft", "kind": "thinking", "text": "Hm", "restart": true, "new": 1 });
    assert_eq!(draft(other).unwrap(), Draft { kind: DraftKind::Thinking, text: "Hm".into(), restart: true });
    for wrong in [json!({ "type": "draft" }), json!({ "type": "draft", "text": "x", "kind": "poem" })] {
        assert!(draft(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn unusable_event_is_quarantined_with_every_error() {
    let event = json!({ "type": "tool_call", "agentId": "a", "phase": "later" });
    let Received::Quarantined { source, errors, raw } = received(&event) else { panic!() };
    assert_eq!((source.sequence, raw), (Some(4), envelope(&event)));
    assert_eq!(
        errors,
        [
            "`toolCallId` is missing",
            "`toolName` is missing",
            "`phase` must be one of requested, running, completed, failed"
        ]
    );
    for event in [json!({ "type": "dance" }), json!({}), json!({ "type": "decision" }), json!(3)] {
        assert!(matches!(received(&event), Received::Quarantined { .. }), "{event}");
    }
    for id in [" ", "a\u{7}"] {
        let decision =
            json!({ "type": "decision", "subtype": "tool_approval", "decisionId": id, "toolName": "t" });
        let call = json!({ "type": "tool_call", "toolCallId": id, "toolName": "t", "phase": "running" });
        for event in [decision, call] {
            assert!(matches!(received(&event), Received::Quarantined { .. }), "{event}");
        }
    }
}

#[test]
fn text_that_is_no_object_is_plain_text() {
    for text in ["I think so", "[1]", "\"x\"", "{broken"] {
        assert_eq!(validate(text, EXPECTED), Received::PlainText(text.to_owned()));
    }
}

#[test]
fn defaults_are_json() {
    for (name, _) in fields::TYPES {
        // With no field at all, an event is repaired or names what is missing.
        let event = json!({ "type": name, "agentId": "a" });
        assert!(!matches!(received(&event), Received::Valid(_) | Received::PlainText(_)), "{name}");
    }
    let completed = json!({ "type": "completion", "agentId": "a" });
    assert!(matches!(received(&completed), Received::Repaired(..)));
}

proptest::proptest! {
    #[test]
    fn no_message_is_lost_or_panics(text in ".{0,200}", key in "[a-z]{1,9}", number in proptest::num::f64::ANY) {
        let _ = validate(&text, EXPECTED);
        let event = json!({ "type": "decision", "subtype": "option", "decisionId": "d", "title": text, key: number,
            "options": [{ "label": number, "id": text }], "confidence": number });
        let _ = received(&event);
    }
}
