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

struct Given {
    work: TempDir,
    _run: TempDir,
    spool: Spool,
    deliverables: Deliverables,
}

fn given() -> Given {
    let (work, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let spool = open(run.path());
    let deliverables =
        Deliverables::new(work.path(), EventSink::new(spool.clone()), &Processes::unguarded()).unwrap();
    Given { work, _run: run, spool, deliverables }
}

impl Given {
    fn file(&self) -> StatusFile {
        StatusFile::of(self.work.path())
    }

    /// The same directory in another run.
    fn next_run(&self) -> Deliverables {
        Deliverables::new(self.work.path(), EventSink::new(self.spool.clone()), &Processes::unguarded())
            .unwrap()
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(self.work.path().join(file::FOLDER)).unwrap();
        fs::write(self.file().path(), text).unwrap();
    }

    /// All published snapshots: ids with their states.
    async fn published(&self) -> Vec<String> {
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
async fn missing_file_reads_as_empty_and_creates_nothing() {
    let given = given();
    assert!(!given.file().exists().unwrap());
    assert!(given.file().load().unwrap().deliverables().is_empty());
    assert!(given.deliverables.refresh().await.unwrap().deliverables().is_empty());
    assert_eq!(fs::read_dir(given.work.path()).unwrap().count(), 0);
    assert!(given.published().await.is_empty());
}

#[tokio::test]
async fn each_change_is_stored_and_reported() {
    let given = given();
    assert!(given.deliverables.create(create(&["DL-001", "DL-002"])).await.success);
    let result = given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await;
    assert_eq!(result.message, "DL-001 is now passed. All deliverables: 1 passed, 0 blocked, 1 pending.");
    let result = given.deliverables.set_status(set("DL-001", DeliverableState::Blocked)).await;
    assert_eq!(result.error, Some(OperationError::InvalidTransition));
    assert_eq!(
        given.published().await,
        ["DL-001 pending, DL-002 pending", "DL-001 passed, DL-002 pending"],
        "a refusal changes nothing, so nothing is published"
    );
    assert!(given.file().exists().unwrap());
    let json: Value = serde_json::from_slice(&fs::read(given.file().path()).unwrap()).unwrap();
    assert_eq!(json["deliverables"][0]["status"], "passed");
    assert_eq!(json["createdAt"].as_str().map(str::len), Some(10));
    let left: Vec<_> = fs::read_dir(given.work.path().join(file::FOLDER)).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the file is left behind");
}

#[test]
fn saved_status_is_loaded_again() {
    let work = tempfile::tempdir().unwrap();
    let file = StatusFile::of(work.path());
    let mut status = DeliverableStatus::empty(today());
    status.create(create(&["DL-001", "DL-002"]), today()).unwrap();
    status.set_status("DL-002", DeliverableState::Blocked, today()).unwrap();
    file.save(&status).unwrap();
    assert_eq!(file.load().unwrap(), status);
}

#[tokio::test]
async fn file_of_an_earlier_run_is_reported_once() {
    let given = given();
    given.deliverables.create(create(&["DL-001"])).await;
    let next = given.next_run();
    next.refresh().await.unwrap();
    next.refresh().await.unwrap();
    assert_eq!(given.published().await, ["DL-001 pending", "DL-001 pending"], "each run publishes it once");
    given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await;
    next.refresh().await.unwrap();
    assert_eq!(
        given.published().await.last().unwrap(),
        "DL-001 passed",
        "a change by another process is published"
    );
    assert!(!next.create(create(&["DL-001"])).await.success, "an id stays taken");
}

#[tokio::test]
async fn invalid_file_is_an_error_and_is_kept() {
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
async fn file_behind_a_link_is_neither_read_nor_written() {
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
    // The temporary file is a link.
    let given_new = given();
    fs::create_dir(given_new.work.path().join(file::FOLDER)).unwrap();
    symlink(&target, given_new.work.path().join(file::FOLDER).join("status.json.new")).unwrap();
    assert!(given_new.deliverables.create(create(&["DL-001"])).await.success);
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn pipe_or_folder_in_place_of_the_file_is_an_error() {
    let pipe = given();
    fs::create_dir(pipe.work.path().join(file::FOLDER)).unwrap();
    nix::unistd::mkfifo(&pipe.file().path(), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(matches!(pipe.file().load(), Err(RepositoryError::NotConfined { .. })));
    let folder = given();
    fs::create_dir_all(folder.file().path()).unwrap();
    assert!(matches!(folder.file().load(), Err(RepositoryError::NotConfined { .. })));
}

#[tokio::test]
async fn interrupted_write_keeps_the_old_file_and_is_cleaned_up() {
    let given = given();
    given.deliverables.create(create(&["DL-001"])).await;
    let new = given.work.path().join(file::FOLDER).join("status.json.new");
    fs::write(&new, "{\"createdAt\": \"2026-").unwrap();
    assert_eq!(given.file().load().unwrap().deliverables().len(), 1);
    assert!(given.deliverables.set_status(set("DL-001", DeliverableState::Passed)).await.success);
    assert!(!new.exists());
}

#[tokio::test]
async fn concurrent_creates_in_one_directory_lose_nothing() {
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
async fn missing_directory_is_named_in_the_error() {
    let run = tempfile::tempdir().unwrap();
    let gone = run.path().join("gone");
    let deliverables =
        Deliverables::new(&gone, EventSink::new(open(run.path())), &Processes::unguarded()).unwrap();
    let result = deliverables.create(create(&["DL-001"])).await;
    assert_eq!(result.error, Some(OperationError::StorageFailed));
    assert!(result.message.contains("gone"), "{}", result.message);
}
