//! Tests of the rules that the aggregate keeps (S4).

use super::super::{OperationError, OperationResult};
use super::*;

fn day(text: &str) -> Day {
    text.parse().unwrap()
}

fn input(id: &str) -> DeliverableInput {
    DeliverableInput {
        id: id.into(),
        description: format!("Deliverable {id}"),
        acceptance_criteria: vec!["All tests pass".into()],
    }
}

fn create(ids: &[&str]) -> CreateDeliverableInput {
    CreateDeliverableInput { deliverables: ids.iter().map(|id| input(id)).collect() }
}

fn given(ids: &[&str]) -> DeliverableStatus {
    let mut status = DeliverableStatus::empty(day("2026-11-01"));
    status.create(create(ids), day("2026-11-02")).unwrap();
    status
}

#[test]
fn created_deliverables_are_pending_in_order() {
    let mut status = DeliverableStatus::empty(day("2026-11-01"));
    let made = status.create(create(&["DL-001", " DL-002 "]), day("2026-11-02")).unwrap();
    assert_eq!(OperationResult::created(made).message, "Created 2 deliverables: DL-001, DL-002.");
    let ids: Vec<_> = status.deliverables().iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["DL-001", "DL-002"]);
    assert_eq!(status.counts(), DeliverableCounts { pending: 2, ..DeliverableCounts::default() });
    assert_eq!((status.created_at(), status.updated_at()), (day("2026-11-02"), day("2026-11-02")));
}

#[test]
fn invalid_create_reports_all_mistakes_and_creates_nothing() {
    let mut status = given(&["DL-001"]);
    let before = status.clone();
    let wrong = CreateDeliverableInput {
        deliverables: vec![
            input("DL-001"),
            input("DL-002"),
            DeliverableInput { description: "  ".into(), ..input("DL-002") },
            DeliverableInput { acceptance_criteria: vec![], ..input(" ") },
            DeliverableInput { acceptance_criteria: vec!["ok".into(), String::new()], ..input("DL-004") },
        ],
    };
    let refused = status.create(wrong, day("2026-11-03")).unwrap_err();
    assert_eq!(
        refused,
        [
            InvalidDeliverable::Exists { at: 0, id: "DL-001".into() },
            InvalidDeliverable::Duplicate { at: 2, id: "DL-002".into() },
            InvalidDeliverable::Description { at: 2 },
            InvalidDeliverable::Id { at: 3 },
            InvalidDeliverable::Criteria { at: 3 },
            InvalidDeliverable::Criterion { at: 4, criterion: 1 },
        ]
    );
    assert_eq!(status, before);
    let result = OperationResult::from(refused);
    assert_eq!(result.error, Some(OperationError::ValidationFailed));
    assert!(result.message.contains("deliverables[4].acceptanceCriteria[1]"), "{}", result.message);
}

#[test]
fn full_directory_refuses_more_deliverables() {
    let ids: Vec<_> = (0..Deliverable::MAX_COUNT).map(|n| format!("DL-{n}")).collect();
    let mut status = given(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = status.create(create(&["one-more"]), day("2026-11-03")).unwrap_err();
    assert_eq!(refused, [InvalidDeliverable::TooMany { actual: Deliverable::MAX_COUNT + 1 }]);
    let long = DeliverableInput { acceptance_criteria: vec!["x".repeat(1000); 50], ..input("a") };
    let both = vec![long.clone(), DeliverableInput { id: "b".into(), ..long }];
    let refused = DeliverableStatus::empty(day("2026-11-01"))
        .create(CreateDeliverableInput { deliverables: both }, day("2026-11-01"))
        .unwrap_err();
    assert!(matches!(refused[..], [InvalidDeliverable::TooLong { .. }]), "{refused:?}");
    let none = CreateDeliverableInput { deliverables: vec![] };
    assert_eq!(status.create(none, day("2026-11-03")), Err(vec![InvalidDeliverable::None]));
}

#[test]
fn status_change_follows_the_table_and_a_refusal_is_harmless() {
    for from in DeliverableState::ALL {
        for to in DeliverableState::ALL {
            let mut status = given(&["DL-001", "DL-002"]);
            status.set_status("DL-001", from, day("2026-11-03")).unwrap();
            let before = status.clone();
            match status.set_status("DL-001", to, day("2026-11-04")) {
                Ok(was) => {
                    assert_eq!((was, from.set(to)), (from, Ok(to)));
                    assert_eq!(status.deliverables()[0].status, to);
                    assert_eq!(
                        (status.created_at(), status.updated_at()),
                        (day("2026-11-02"), day("2026-11-04"))
                    );
                }
                Err(error) => {
                    assert_eq!((from, to), (DeliverableState::Passed, DeliverableState::Blocked));
                    assert_eq!(status, before);
                    assert_eq!(OperationResult::from(error).error, Some(OperationError::InvalidTransition));
                }
            }
            assert_eq!(status.deliverables()[1].status, DeliverableState::Pending, "the other is untouched");
        }
    }
}

#[test]
fn unknown_deliverable_is_not_found() {
    let mut status = given(&["DL-001"]);
    let refused = status.set_status("DL-9", DeliverableState::Passed, day("2026-11-03")).unwrap_err();
    assert_eq!(refused.to_string(), "there is no deliverable `DL-9`");
    assert_eq!(OperationResult::from(refused).error, Some(OperationError::NotFound));
    assert!(status.set_status("", DeliverableState::Passed, day("2026-11-03")).is_err());
}

#[test]
fn directory_is_settled_when_all_are_passed_or_blocked() {
    assert!(!DeliverableStatus::empty(day("2026-11-01")).is_settled());
    let mut status = given(&["DL-001", "DL-002"]);
    status.set_status("DL-001", DeliverableState::Passed, day("2026-11-03")).unwrap();
    assert!(!status.is_settled());
    assert_eq!(status.open().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["DL-002"]);
    status.set_status("DL-002", DeliverableState::Blocked, day("2026-11-03")).unwrap();
    assert!(status.is_settled());
    assert_eq!(status.counts().to_string(), "1 passed, 1 blocked, 0 pending");
    status.set_status("DL-001", DeliverableState::Pending, day("2026-11-03")).unwrap();
    assert!(!status.is_settled(), "a bug was found in a passed deliverable");
}

#[test]
fn json_matches_the_specification_and_round_trips() {
    let status = given(&["DL-001"]);
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "createdAt": "2026-11-02",
            "updatedAt": "2026-11-02",
            "deliverables": [{
                "id": "DL-001",
                "description": "Deliverable DL-001",
                "acceptanceCriteria": ["All tests pass"],
                "status": "pending",
            }],
        })
    );
    assert_eq!(serde_json::from_value::<DeliverableStatus>(json).unwrap(), status);
    let empty = DeliverableStatus::empty(day("2026-11-01"));
    let json = serde_json::to_value(&empty).unwrap();
    assert_eq!(serde_json::from_value::<DeliverableStatus>(json).unwrap(), empty);
}

#[test]
fn invalid_status_file_is_refused() {
    let mut json = serde_json::to_value(given(&["DL-001", "DL-002"])).unwrap();
    json["deliverables"][1]["id"] = "DL-001".into();
    let error = serde_json::from_value::<DeliverableStatus>(json).unwrap_err().to_string();
    assert_eq!(error, "deliverables[1].id: `DL-001` occurs twice");
    let mut json = serde_json::to_value(given(&["DL-001"])).unwrap();
    json["deliverables"][0]["verifiedBy"] = "me".into();
    assert!(
        serde_json::from_value::<DeliverableStatus>(json).is_err(),
        "it would be lost when it is written back"
    );
}
