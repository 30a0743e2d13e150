//! Fixed inputs for tests of the output.

use pilothouse_api::sessions::{SessionSummary, SessionView};
use pilothouse_domain::Timestamp;
use serde_json::json;

/// Two minutes after the creation of the sessions below.
pub(crate) fn now() -> Timestamp {
    "2026-11-21T20:02:00.000Z".parse().unwrap()
}

pub(crate) fn summary() -> SessionSummary {
    serde_json::from_value(json!({
        "id": "0197b1c0-1111-7000-8000-00000000aaaa", "name": "demo", "status": "Idle", "hibernated": false,
        "hasPendingReview": false, "totalCostUsd": "0.42", "hardCapUsd": "5", "turnCount": 3, "elapsedSeconds": 65,
        "enabledSkillCount": 0, "labels": {}, "createdAt": "2026-11-21T20:00:00.000Z",
    }))
    .unwrap()
}

pub(crate) fn session() -> SessionView {
    serde_json::from_value(json!({
        "id": "0197b1c0-1111-7000-8000-00000000aaaa", "ownerId": "local", "name": "demo",
        "workingDirectory": "/home/me/app", "objective": "Make the tests pass.\nAll of them.",
        "modelId": "claude-sonnet-4-5", "adapter": "script", "enabledSkillIds": [], "labels": { "team": "core" },
        "executionMode": "Standalone", "status": "WaitingForInput", "hibernated": false, "hasPendingReview": false,
        "cancelAccepted": false,
        "budget": {
            "hardCapUsd": "5", "warnAtPercent": 80, "tokensUsed": 12_345, "estimatedCostUsd": "0.42",
            "remainingUsd": "4.58", "overshootUsd": "0", "percentUsed": "8.4", "exhausted": false,
        },
        "metrics": {
            "totalCostUsd": "0.42",
            "tokenUsageByModel": { "claude-sonnet-4-5": {
                "inputTokens": 2345, "outputTokens": 1000, "cacheReadTokens": 9000, "cacheWriteTokens": 0,
            }},
            "costUsdByModel": { "claude-sonnet-4-5": "0.4" },
            "unattributedCostUsd": "0.02",
            "contextWindow": {
                "inputTokens": 50_000, "modelContextLimit": 200_000, "recordedAt": "2026-11-21T20:01:00.000Z",
                "totalTokens": 50_000, "usagePercent": "25",
            },
            "turnCount": 1,
        },
        "sessionTaskList": { "lastUpdatedAt": "2026-11-21T20:01:00.000Z", "tasks": [
            { "id": "1", "subject": "Look", "status": "Completed", "updatedAt": "2026-11-21T20:01:00.000Z" },
            { "id": "2", "subject": "Change", "status": "InProgress", "activeForm": "Changing it",
              "updatedAt": "2026-11-21T20:01:00.000Z" },
            { "id": "3", "subject": "Check", "status": "Pending", "updatedAt": "2026-11-21T20:01:00.000Z" },
        ]},
        "pendingRequests": [{
            "id": "toolu_1", "kind": "question", "askedAt": "2026-11-21T20:01:30.000Z",
            "expiresAt": "2026-11-22T20:01:30.000Z",
            "questions": [{ "question": "Which database?", "header": "Database", "multiSelect": false, "options": [
                { "label": "SQLite", "description": "One file" }, { "label": "Postgres" },
            ]}],
        }],
        "retryCount": 0, "maxRetries": 3, "startedAt": "2026-11-21T20:00:05.000Z",
        "createdAt": "2026-11-21T20:00:00.000Z", "updatedAt": "2026-11-21T20:01:30.000Z", "version": 7, "cursor": "j42",
    }))
    .unwrap()
}

/// A decision of the session `demo`, with these fields.
pub(crate) fn decision(more: &serde_json::Value) -> pilothouse_api::decisions::DecisionView {
    let mut view = serde_json::json!({
        "id": "92944b5c-793e-8b52-bac8-e2d4a75f6e63", "sessionId": "0197b1c0-1111-7000-8000-00000000aaaa",
        "sessionName": "demo", "createdAt": "2026-11-21T20:01:30.000Z",
    });
    for (name, value) in more.as_object().unwrap() {
        view[name] = value.clone();
    }
    serde_json::from_value(view).unwrap()
}
