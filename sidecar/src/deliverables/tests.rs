//! What the status file promises, and what is told of it.

use std::fs;
use std::os::unix::fs::symlink;

use pilothouse_domain::deliverable::DeliverableInput;
use pilothouse_domain::value::DeliverableState;
use serde_json::Value;
use tempfile::TempDir;

use super::repository::{DeliverableRepository as _, DeliverableStatusReader as _};
use super::*;
use crate::spool::Spool;
use crate::spool::tests::open;

/// A working directory with deliverables, and a spool beside it.
struct Given {
    work: TempDir,
    _run: TempDir,
    spool: Spool,
    deliverables: Deliverables,
}

fn given() -> Given {
    let (work, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = open(run.path());
    let deliverables = Deliverables::new(work.path(), EventSink::new(spool.clone()), None).unwrap();
    Given { work, _run: run, spool, deliverables }
}

impl Given {
    fn file(&self) -> StatusFile {
        StatusFile::of(self.work.path())
    }

    /// The same directory in another run.
    fn next_run(&self) -> Deliverables {
        Deliverables::new(self.work.path(), EventSink::new(self.spool.clone()), None).unwrap()
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(self.work.path().join(file::FOLDER)).unwrap();
        fs::write(self.file().path(), text).unwrap();
    }

    /// Every snapshot so far: ids with their states.
    async fn told(&self) -> Vec<String> {
        let batch = self.spool.batch(1000, usize::MAX).await.unwrap();
        let snapshot = |body: &str| {
            let signed = pilothouse_wire::Signed::parse(body).unwrap();
            let envelope: Value = serde_json::from_str(signed.envelope.get()).unwrap();
            let all = envelope["body"]["deliverables"].as_array().unwrap().clone();
            let one =
                |one: &Value| format!("{} {}", one["id"].as_str().unwrap(), one["status"].as_str().unwrap());
            all.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        batch.entries.iter().map(|entry| snapshot(&entry.body)).collect()
    }
}

fn create(ids: &[&str]) -> CreateDeliverableInput {
    let one = |id: &&str| DeliverableInput {
        id: (*id).to_owned(),
        description: format!("Do {id}"),
        acceptance_criteria: vec!["It works".into()],
    };
    CreateDeliverableInput { deliverables: ids.iter().map(one).collect() }
}

fn set(id: &str, status: DeliverableState) -> SetDeliverableStatusInput {
    SetDeliverableStatusInput { deliverable_id: id.into(), status }
}

#[tokio::test]
async fn given_no_file_when_it_is_read_then_it_is_empty_and_nothing_is_made_or_told() {
    let given = given();
    assert!(!given.file().exists().unwrap());
    assert!(given.file().load().unwrap().deliverables().is_empty());
    assert!(given.deliverables.refresh().await.unwrap().deliverables().is_empty());
    assert_eq!(fs::read_dir(given.work.path()).unwrap().count(), 0);
    assert!(given.told().await.is_empty());
}

#[tokio::test]
async fn given_changes_when_they_are_made_then_each_is_kept_and_told() {
    let given = given();
    assert!(given.deliverables.create(create(&["DL-001", "DL-002"])).await.success);
    let result = given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await;
    assert_eq!(result.message, "DL-001 is now passed. All deliverables: 1 passed, 0 blocked, 1 pending.");
    let result = given.deliverables.set_status(set("DL-001", DeliverableState::Blocked)).await;
    assert_eq!(result.error, Some(OperationError::InvalidTransition));
    assert_eq!(
        given.told().await,
        ["DL-001 pending, DL-002 pending", "DL-001 passed, DL-002 pending"],
        "a refusal changes nothing, and so tells nothing"
    );
    assert!(given.file().exists().unwrap());
    let json: Value = serde_json::from_slice(&fs::read(given.file().path()).unwrap()).unwrap();
    assert_eq!(json["deliverables"][0]["status"], "passed");
    assert_eq!(json["createdAt"].as_str().map(str::len), Some(10));
    let left: Vec<_> = fs::read_dir(given.work.path().join(file::FOLDER)).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the file is left behind");
}

#[tokio::test]
async fn given_a_file_of_a_former_run_when_a_run_begins_then_it_is_told_once() {
    let given = given();
    given.deliverables.create(create(&["DL-001"])).await;
    let next = given.next_run();
    next.refresh().await.unwrap();
    next.refresh().await.unwrap();
    assert_eq!(given.told().await, ["DL-001 pending", "DL-001 pending"], "each run tells it once");
    given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await;
    next.refresh().await.unwrap();
    assert_eq!(given.told().await.last().unwrap(), "DL-001 passed", "what another one changed is told");
    assert!(!next.create(create(&["DL-001"])).await.success, "an id stays taken");
}

#[tokio::test]
async fn given_a_broken_file_when_it_is_used_then_the_error_says_so_and_the_file_stays() {
    let whole = {
        let given = given();
        given.deliverables.create(create(&["DL-001"])).await;
        fs::read_to_string(given.file().path()).unwrap()
    };
    let torn = &whole[..whole.len() / 2];
    let foreign = whole.replace("\"status\"", "\"verifiedBy\": \"me\", \"status\"");
    let twice = whole.replace("[\n    {", "[ { \"id\": \"DL-001\", \"description\": \"d\", \"acceptanceCriteria\": [\"c\"], \"status\": \"passed\" }, {");
    for text in ["", "[]", "{}", torn, &foreign, &twice] {
        let given = given();
        given.write(text);
        for result in [
            given.deliverables.create(create(&["DL-002"])).await,
            given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await,
        ] {
            assert_eq!(result.error, Some(OperationError::StatusFileBroken), "{text}");
            assert!(
                result.message.contains("status.json is broken and was left as it is"),
                "{}",
                result.message
            );
        }
        assert!(given.deliverables.refresh().await.is_err());
        assert_eq!(fs::read_to_string(given.file().path()).unwrap(), text);
    }
}

#[tokio::test]
async fn given_links_when_the_file_is_used_then_nothing_is_read_or_written_through_them() {
    let outside = tempfile::tempdir().unwrap();
    // The folder is a link.
    let given_folder = given();
    symlink(outside.path(), given_folder.work.path().join(file::FOLDER)).unwrap();
    let result = given_folder.deliverables.create(create(&["DL-001"])).await;
    assert_eq!(result.error, Some(OperationError::StatusFileBroken));
    assert!(result.message.contains("must be a folder and no link"), "{}", result.message);
    // The file is a link.
    let target = outside.path().join("target.json");
    fs::write(&target, "precious").unwrap();
    let given_file = given();
    fs::create_dir(given_file.work.path().join(file::FOLDER)).unwrap();
    symlink(&target, given_file.file().path()).unwrap();
    let result = given_file.deliverables.create(create(&["DL-001"])).await;
    assert_eq!(result.error, Some(OperationError::StatusFileBroken));
    let status = DeliverableStatus::empty(today());
    assert!(given_file.file().save(&status).is_err(), "a link is not replaced either");
    // What is written first is a link.
    let given_new = given();
    fs::create_dir(given_new.work.path().join(file::FOLDER)).unwrap();
    symlink(&target, given_new.work.path().join(file::FOLDER).join("status.json.new")).unwrap();
    assert!(given_new.deliverables.create(create(&["DL-001"])).await.success);
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn given_a_pipe_or_a_folder_in_its_place_when_it_is_read_then_that_is_an_error_and_ends() {
    let pipe = given();
    fs::create_dir(pipe.work.path().join(file::FOLDER)).unwrap();
    nix::unistd::mkfifo(&pipe.file().path(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(matches!(pipe.file().load(), Err(RepositoryError::NotConfined { .. })));
    let folder = given();
    fs::create_dir_all(folder.file().path()).unwrap();
    assert!(matches!(folder.file().load(), Err(RepositoryError::NotConfined { .. })));
}

#[tokio::test]
async fn given_a_write_that_died_when_the_next_one_comes_then_the_old_file_counts_and_the_rest_is_removed() {
    let given = given();
    given.deliverables.create(create(&["DL-001"])).await;
    let new = given.work.path().join(file::FOLDER).join("status.json.new");
    fs::write(&new, "{\"createdAt\": \"2026-").unwrap();
    assert_eq!(given.file().load().unwrap().deliverables().len(), 1);
    assert!(given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await.success);
    assert!(!new.exists());
}

#[tokio::test]
async fn given_two_sessions_in_one_directory_when_both_create_then_nothing_is_lost() {
    let given = given();
    let other = given.next_run();
    let mut made = Vec::new();
    for n in 0..10 {
        let (one, two) = (format!("A-{n}"), format!("B-{n}"));
        made.extend([one.clone(), two.clone()]);
        let (a, b) = ([one.as_str()], [two.as_str()]);
        let (first, second) = tokio::join!(given.deliverables.create(create(&a)), other.create(create(&b)));
        assert!(first.success && second.success);
    }
    let status = given.file().load().unwrap();
    assert_eq!(status.deliverables().len(), 20);
    assert!(made.iter().all(|id| status.deliverables().iter().any(|one| one.id.as_str() == id)));
}

#[tokio::test]
async fn given_a_directory_that_is_not_there_when_it_is_used_then_the_error_names_it() {
    let run = tempfile::tempdir().unwrap();
    let gone = run.path().join("gone");
    let deliverables = Deliverables::new(&gone, EventSink::new(open(run.path())), None).unwrap();
    let result = deliverables.create(create(&["DL-001"])).await;
    assert_eq!(result.error, Some(OperationError::StorageFailed));
    assert!(result.message.contains("gone"), "{}", result.message);
}
