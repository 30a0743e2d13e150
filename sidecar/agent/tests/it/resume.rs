//! Resuming the work of an earlier process, forks and branches (S1 5, 9).

use pilothouse_agent::event::{AgentOutcome, SessionEvent};
use pilothouse_agent::session::{SessionError, Start};
use serde_json::json;

use crate::support::*;

fn cut(file: &std::path::Path, lines: usize, bytes: usize) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut all = text.split_inclusive('\n');
    let mut kept: String = all.by_ref().take(lines).collect();
    kept.push_str(all.next().unwrap_or_default().get(..bytes).unwrap_or_default());
    std::fs::write(file, kept).unwrap();
}

#[tokio::test]
async fn agent_killed_at_any_write_resumes_the_same_conversation() {
    let calls = || call(&[("a", "echo", json!({ "text": "one" })), ("b", "echo", json!({ "text": "two" }))]);
    let model = Scripted::new([calls(), say("done")]);
    let setup = SessionSetup::new(model, vec![TestTool::echo()]);
    let open = setup.open();
    open.prompt("go").await;
    let whole = open.texts();
    let file = file(&open.session);
    drop(open);
    let original = std::fs::read(&file).unwrap();
    let count = lines(&file).len();
    for kept in 1..count {
        for bytes in [0, 1, 40] {
            std::fs::write(&file, &original).unwrap();
            cut(&file, kept, bytes);
            let model = Scripted::then_always([], say("done"));
            let mut config = setup.config.clone();
            config.language_model = model.clone();
            let open = Open::start(config, Start::File(file.clone()));
            let before = open.texts();
            let same = before.iter().zip(&whole).take_while(|(left, right)| left == right).count();
            // The only difference is a call that was cut off.
            assert!(before[same..].iter().all(|text| text.contains("cut off")), "{before:?}");
            match within(open.session.resume()).await {
                Ok(outcome) => assert_eq!(outcome, AgentOutcome::Completed),
                Err(SessionError::NothingToDo) => {
                    assert!(before.is_empty() || same == whole.len(), "{before:?}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn interrupted_call_gets_a_result_in_the_file() {
    let model = Scripted::new([call(&[("a", "echo", json!({ "text": "one" }))]), say("done")]);
    let setup = SessionSetup::new(model, vec![TestTool::echo()]);
    let open = setup.open();
    open.prompt("go").await;
    let file = file(&open.session);
    drop(open);
    let at = lines(&file).iter().position(|line| line["message"]["role"] == "assistant").unwrap();
    cut(&file, at + 1, 0);
    let mut open = Open::start(setup.config.clone(), Start::File(file.clone()));
    let texts = open.texts();
    assert!(texts[2].starts_with("error a: The call was cut off"), "{texts:?}");
    assert!(open.received_events().iter().any(|event| matches!(event, SessionEvent::MessageEnd { .. })));
    assert_eq!(lines(&file).last().unwrap()["message"]["toolCallId"], "a");
}

#[tokio::test]
async fn newest_conversation_continues_and_others_can_be_opened() {
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::new(model, Vec::new());
    let open = Open::start(setup.config.clone(), Start::ContinueRecent);
    open.prompt("one").await;
    let first = open.session.state();
    let second = open.session.new_session(Some(&first.session_id)).unwrap();
    assert_ne!(second, first.session_id);
    assert!(open.texts().is_empty());
    open.prompt("two").await;
    assert_eq!(open.session.switch_session(&first.session_id).unwrap(), first.session_id);
    assert_eq!(open.texts(), ["user: one", "assistant: done"]);
    open.prompt("three").await;
    // The file system's clock is coarse, so the other file is set to be clearly older.
    let other = first.file.with_file_name(format!("{second}.jsonl"));
    let hour = std::time::Duration::from_hours(1);
    std::fs::File::options()
        .append(true)
        .open(other)
        .unwrap()
        .set_modified(std::time::SystemTime::now() - hour)
        .unwrap();
    drop(open);
    let open = Open::start(setup.config.clone(), Start::ContinueRecent);
    assert_eq!(open.session.state().session_id, first.session_id);
}

#[tokio::test]
async fn branch_keeps_later_entries_and_fork_keeps_the_session() {
    let model = Scripted::then_always([], say("done"));
    let setup = SessionSetup::new(model, Vec::new());
    let mut open = setup.open();
    open.prompt("one").await;
    let after_one = open.session.state().leaf.unwrap();
    open.received_events();
    open.prompt("two").await;
    let original = open.session.state();
    open.session.branch(Some(&after_one)).unwrap();
    open.prompt("instead").await;
    assert_eq!(open.texts(), ["user: one", "assistant: done", "user: instead", "assistant: done"]);
    let all = lines(&original.file);
    assert!(all.iter().any(|line| line["message"]["content"][0]["text"] == "two"), "earlier messages stay");

    let size = std::fs::metadata(&original.file).unwrap().len();
    let forked = open.session.fork(&after_one).unwrap();
    assert_eq!(open.texts(), ["user: one", "assistant: done"]);
    open.prompt("in the fork").await;
    assert_ne!(forked, original.session_id);
    assert_eq!(std::fs::metadata(&original.file).unwrap().len(), size);

    open.session.branch(None).unwrap();
    assert!(open.texts().is_empty());
    assert!(matches!(open.session.branch(Some("nonsense")), Err(SessionError::Entry(_))));
}

#[tokio::test]
async fn conversation_changes_wait_until_the_agent_is_idle() {
    let model = Scripted::new([Reply::Hang("…")]);
    let open = SessionSetup::new(model.clone(), Vec::new()).open();
    let run = open.begin("go");
    model.wait_for(1).await;
    let leaf = open.session.state().leaf.unwrap();
    assert!(matches!(open.session.fork(&leaf), Err(SessionError::Busy)));
    assert!(matches!(open.session.branch(None), Err(SessionError::Busy)));
    assert!(matches!(open.session.new_session(None), Err(SessionError::Busy)));
    open.session.label(&leaf, Some("here")).unwrap();
    within(open.session.abort()).await;
    within(run).await.unwrap();
}
