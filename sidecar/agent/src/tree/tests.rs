use std::fs;
use std::path::Path;

use pilothouse_domain::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::{
    AssistantContent, AssistantMessage, BashExecution, StopReason, ToolCall, ToolResultMessage, Usage,
    UserContent, UserMessage,
};

fn user(text: &str) -> AgentMessage {
    AgentMessage::User(UserMessage {
        content: vec![UserContent::Text { text: text.into() }],
        timestamp: Timestamp::from_millis(1_795_293_163_467),
    })
}

fn assistant(text: &str, model: &str) -> AgentMessage {
    AgentMessage::Assistant(AssistantMessage {
        content: vec![
            AssistantContent::Thinking { thinking: "hm".into(), signature: Some("s".into()) },
            AssistantContent::Text { text: text.into() },
            AssistantContent::ToolCall(ToolCall {
                id: "toolu_1".into(),
                name: "bash".into(),
                arguments: json!({"command": text, "timeout": 5, "deep": {"nothing": null, "list": [1, -2]}}),
            }),
        ],
        provider: "anthropic".into(),
        model: model.into(),
        usage: Usage { input: 1, output: 2, cache_read: u64::MAX / 2, cache_write: 4 },
        stop_reason: StopReason::ToolUse,
        error: None,
        timestamp: Timestamp::from_millis(1_795_293_163_468),
    })
}

fn tool_result(text: &str) -> AgentMessage {
    AgentMessage::ToolResult(ToolResultMessage {
        tool_call_id: "toolu_1".into(),
        tool_name: "bash".into(),
        content: vec![
            UserContent::Text { text: text.into() },
            UserContent::Image { mime_type: "image/png".into(), data: "AAAA".into() },
        ],
        is_error: true,
        timestamp: Timestamp::from_millis(1_795_293_163_469),
    })
}

fn bash(text: &str) -> AgentMessage {
    AgentMessage::BashExecution(BashExecution {
        command: text.into(),
        output: "out".into(),
        exit_code: Some(1),
        cancelled: false,
        truncated: true,
        exclude_from_context: true,
        timestamp: Timestamp::from_millis(1_795_293_163_470),
    })
}

fn new_tree(dir: &Path) -> SessionTree {
    SessionTree::create(dir, "/workspace/project", None).unwrap()
}

fn texts(context: &Context) -> Vec<String> {
    let texts = context.messages.iter().map(|message| match &**message {
        AgentMessage::User(user) => match &user.content[0] {
            UserContent::Text { text } => text.clone(),
            UserContent::Image { .. } => String::new(),
        },
        other => format!("{other:?}"),
    });
    texts.collect()
}

fn state(tree: &SessionTree) -> (Vec<Entry>, Option<EntryId>, Context) {
    (tree.entries().to_vec(), tree.leaf(), tree.context())
}

#[test]
fn session_is_unchanged_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    tree.append_model_change("anthropic", "large").unwrap();
    tree.append_thinking_level(ThinkingLevel::High).unwrap();
    let first = tree.append_message(user("zwölf\n\u{2028}\0 lines")).unwrap();
    tree.append_message(assistant("answer", "large")).unwrap();
    tree.append_message(tool_result("result")).unwrap();
    tree.append_message(bash("ls")).unwrap();
    tree.append_label(first, Some("start")).unwrap();
    tree.append_custom("queue", json!({"steering": ["a"]})).unwrap();
    tree.append_model_change("openai", "small").unwrap();
    let (file, before) = (tree.file().to_owned(), state(&tree));
    drop(tree);

    let tree = SessionTree::open(&file).unwrap();
    assert_eq!(state(&tree), before);
    assert_eq!(tree.context().model, Some(("openai".into(), "small".into())));
    assert_eq!(tree.context().thinking, Some(ThinkingLevel::High));
    assert_eq!(tree.context().messages.len(), 4);
    assert_eq!(tree.labels(), [(first, "start")]);
    assert_eq!(tree.latest_custom("queue"), Some(&json!({"steering": ["a"]})));
    assert_eq!(tree.header().cwd, "/workspace/project");
    assert_eq!(tree.torn(), 0);
}

#[test]
fn answering_model_applies_when_none_was_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    tree.append_message(assistant("answer", "large")).unwrap();
    assert_eq!(tree.context().model, Some(("anthropic".into(), "large".into())));
    assert_eq!(tree.context().thinking, None);
}

#[test]
fn branch_continues_at_an_earlier_entry_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    let one = tree.append_message(user("one")).unwrap();
    tree.append_thinking_level(ThinkingLevel::Max).unwrap();
    let two = tree.append_message(user("two")).unwrap();
    tree.branch(one).unwrap();
    assert_eq!(tree.leaf(), Some(one));
    assert_eq!((texts(&tree.context()), tree.context().thinking), (vec!["one".to_owned()], None));

    // The leaf is restored, although the move is the last line.
    let file = tree.file().to_owned();
    drop(tree);
    let mut tree = SessionTree::open(&file).unwrap();
    assert_eq!(tree.leaf(), Some(one));
    tree.append_message(user("three")).unwrap();
    assert_eq!(texts(&tree.context()), ["one", "three"]);
    tree.branch(two).unwrap();
    assert_eq!(texts(&tree.context()), ["one", "two"]);
    tree.reset_leaf().unwrap();
    assert_eq!((tree.leaf(), tree.context()), (None, Context::default()));
    let root = tree.append_message(user("again")).unwrap();
    assert_eq!(tree.entry(root).unwrap().parent_id, None);
}

#[test]
fn compaction_replaces_everything_before_the_kept_part() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    tree.append_model_change("anthropic", "large").unwrap();
    tree.append_message(user("one")).unwrap();
    let two = tree.append_message(user("two")).unwrap();
    tree.append_message(user("three")).unwrap();
    tree.append_compaction("what was said", two, 1000, FileList::default()).unwrap();
    tree.append_message(user("four")).unwrap();
    let summary = |text| format!("{SUMMARY_BEGIN}{text}{SUMMARY_END}");
    assert_eq!(texts(&tree.context()), [&summary("what was said"), "two", "three", "four"]);
    assert_eq!(tree.context().model, Some(("anthropic".into(), "large".into())));

    tree.append_compaction("everything", None, 900, FileList::default()).unwrap();
    tree.append_message(user("five")).unwrap();
    assert_eq!(texts(&tree.context()), [&summary("everything"), "five"]);

    // Has no effect before the compactions.
    tree.branch(two).unwrap();
    assert_eq!(texts(&tree.context()), ["one", "two"]);
}

#[test]
fn fork_contains_the_conversation_so_far_and_its_labels() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    tree.append_model_change("anthropic", "large").unwrap();
    let one = tree.append_message(user("one")).unwrap();
    let two = tree.append_message(user("two")).unwrap();
    tree.append_label(one, Some("first")).unwrap();
    tree.append_label(two, Some("second")).unwrap();
    let before = state(&tree);
    let elsewhere = dir.path().join("forks/deep");

    let mut fork = tree.fork(&elsewhere, one).unwrap();
    assert_ne!(fork.id(), tree.id());
    assert_eq!(fork.header().parent.as_deref(), Some(tree.id()));
    assert_eq!((fork.leaf(), fork.labels()), (Some(one), vec![(one, "first")]));
    fork.append_message(user("other")).unwrap();
    assert_eq!(texts(&fork.context()), ["one", "other"]);
    assert_eq!(state(&tree), before);
    let (file, forked) = (fork.file().to_owned(), state(&fork));
    drop(fork);
    assert_eq!(state(&SessionTree::open(&file).unwrap()), forked);
}

#[test]
fn session_has_one_writer_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let tree = new_tree(dir.path());
    let file = tree.file().to_owned();
    assert!(matches!(SessionTree::open(&file), Err(TreeError::Locked { .. })));
    drop(tree);
    assert!(SessionTree::open(&file).is_ok());
}

#[test]
fn invalid_entry_is_refused_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    let one = tree.append_message(user("one")).unwrap();
    let beside = tree.append_message(user("beside")).unwrap();
    tree.branch(one).unwrap();
    let length = fs::metadata(tree.file()).unwrap().len();
    let stranger = EntryId::mint();
    assert!(matches!(tree.branch(stranger), Err(TreeError::UnknownEntry(id)) if id == stranger));
    assert!(matches!(tree.append_label(stranger, None), Err(TreeError::UnknownEntry(_))));
    assert!(matches!(
        tree.append_compaction("s", stranger, 1, FileList::default()),
        Err(TreeError::UnknownEntry(_))
    ));
    assert!(
        matches!(tree.append_compaction("s", beside, 1, FileList::default()), Err(TreeError::NotOnPath(id)) if id == beside)
    );
    assert!(matches!(tree.fork(dir.path(), stranger), Err(TreeError::UnknownEntry(_))));
    assert_eq!(fs::metadata(tree.file()).unwrap().len(), length);
}

#[test]
fn latest_session_of_a_working_directory_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    assert!(SessionTree::continue_recent(&dir.path().join("none"), "/a").unwrap().is_none());
    let older = SessionTree::create(dir.path(), "/a", None).unwrap().id().to_owned();
    let newer = SessionTree::create(dir.path(), "/a", None).unwrap().id().to_owned();
    SessionTree::create(dir.path(), "/b", None).unwrap();
    fs::write(dir.path().join("other.jsonl"), "{\"version\": \"no\"}\n").unwrap();
    fs::write(dir.path().join("notes.txt"), "hello").unwrap();
    assert_eq!(SessionTree::continue_recent(dir.path(), "/a").unwrap().unwrap().id(), newer);
    assert!(SessionTree::continue_recent(dir.path(), "/c").unwrap().is_none());
    assert!(sessions(dir.path()).unwrap().iter().any(|session| session.header.id == older));
}

#[test]
fn corrupt_line_in_the_middle_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = new_tree(dir.path());
    tree.append_message(user("one")).unwrap();
    tree.append_message(user("two")).unwrap();
    let file = tree.file().to_owned();
    drop(tree);
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    let damaged = [
        (format!("{}\n{}garbage\n{}\n", lines[0], lines[1], lines[2]), 2),
        (format!("{}\n\n{}\n", lines[0], lines[1]), 2),
        (format!("{}\n{}\n", lines[0], lines[2]), 2),
        (format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]), 3),
        (format!("{}\n", lines[1]), 1),
        (format!("{}\n{}\n", lines[0], lines[1].replace("\"message\"", "\"unheard_of\"")), 2),
        ("no session".to_owned(), 1),
    ];
    for (content, expected) in damaged {
        fs::write(&file, &content).unwrap();
        match SessionTree::open(&file) {
            Err(TreeError::Corrupt { line, .. }) => assert_eq!(line, expected, "{content}"),
            other => panic!("{other:?} for {content}"),
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), content, "it is left as it was");
    }
}

#[test]
fn newer_format_is_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("later.jsonl");
    for end in ["", "\n"] {
        let content = format!("{{\"type\":\"session\",\"version\":2,\"shape\":\"other\"}}{end}");
        fs::write(&file, &content).unwrap();
        assert!(matches!(SessionTree::open(&file), Err(TreeError::UnknownVersion { version: 2, .. })));
        assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), content.trim_end());
    }
}

#[test]
fn session_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let tree = new_tree(&dir.path().join("sessions"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(tree.file()), mode(tree.file().parent().unwrap())), (0o600, 0o700));
}

/// An operation on a session. Numbers select among the existing entries.
#[derive(Debug, Clone)]
enum Operation {
    Say(String),
    Reply(String),
    Result(String),
    Run(String),
    Model(String),
    Think(usize),
    Compact(String, Option<usize>),
    Label(usize, Option<String>),
    Keep(String),
    Branch(usize),
    Reset,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation as O;
    let text = "(?s).{0,12}";
    prop_oneof![
        4 => text.prop_map(O::Say),
        3 => text.prop_map(O::Reply),
        2 => text.prop_map(O::Result),
        1 => text.prop_map(O::Run),
        1 => text.prop_map(O::Model),
        1 => any::<usize>().prop_map(O::Think),
        2 => (text, any::<Option<usize>>()).prop_map(|(s, at)| O::Compact(s, at)),
        1 => (any::<usize>(), proptest::option::of(text)).prop_map(|(at, l)| O::Label(at, l)),
        1 => text.prop_map(O::Keep),
        2 => any::<usize>().prop_map(O::Branch),
        1 => Just(O::Reset),
        1 => Just(O::Reopen),
    ]
}

fn apply(mut tree: SessionTree, operation: Operation) -> SessionTree {
    let any_entry = |tree: &SessionTree, at: usize| {
        (!tree.entries().is_empty()).then(|| tree.entries()[at % tree.entries().len()].id)
    };
    match operation {
        Operation::Say(text) => _ = tree.append_message(user(&text)).unwrap(),
        Operation::Reply(text) => _ = tree.append_message(assistant(&text, "m")).unwrap(),
        Operation::Result(text) => _ = tree.append_message(tool_result(&text)).unwrap(),
        Operation::Run(text) => _ = tree.append_message(bash(&text)).unwrap(),
        Operation::Model(model) => _ = tree.append_model_change("p", &model).unwrap(),
        Operation::Think(at) => {
            tree.append_thinking_level(ThinkingLevel::ALL[at % ThinkingLevel::ALL.len()]).unwrap();
        }
        Operation::Compact(summary, at) => {
            let path: Vec<_> = tree.path().iter().map(|entry| entry.id).collect();
            let kept = at.filter(|_| !path.is_empty()).map(|at| path[at % path.len()]);
            tree.append_compaction(&summary, kept, 7, FileList::default()).unwrap();
        }
        Operation::Label(at, label) => {
            if let Some(id) = any_entry(&tree, at) {
                tree.append_label(id, label.as_deref()).unwrap();
            }
        }
        Operation::Keep(text) => _ = tree.append_custom("kept", json!({"text": text})).unwrap(),
        Operation::Branch(at) => {
            if let Some(id) = any_entry(&tree, at) {
                tree.branch(id).unwrap();
            }
        }
        Operation::Reset => tree.reset_leaf().unwrap(),
        Operation::Reopen => {
            let file = tree.file().to_owned();
            drop(tree);
            return SessionTree::open(&file).unwrap();
        }
    }
    tree
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    /// A file with any content, cut at any byte, opens with its complete lines in the state after them, and can be
    /// continued.
    #[test]
    fn truncated_session_recovers_its_complete_entries(
        operations in proptest::collection::vec(operation(), 1..10)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = new_tree(dir.path());
        let mut states = std::collections::HashMap::from([(0, state(&tree))]);
        for operation in operations {
            tree = apply(tree, operation);
            states.insert(tree.entries().len(), state(&tree));
        }
        let bytes = fs::read(tree.file()).unwrap();
        drop(tree);
        let cut_file = dir.path().join("0197aaaa-0000-7000-8000-000000000000.jsonl");
        for cut in 0..=bytes.len() {
            fs::write(&cut_file, &bytes[..cut]).unwrap();
            let mut tree = SessionTree::open(&cut_file).unwrap();
            // A line without only its line break counts as complete.
            let lines = bytes[..cut].iter().chain(b"\n").zip(&bytes).filter(|(cut, whole)| {
                **cut == b'\n' && **whole == b'\n'
            }).count();
            prop_assert_eq!(tree.entries().len(), lines.saturating_sub(1));
            prop_assert_eq!(&state(&tree), &states[&tree.entries().len()]);
            // Continuing is tested on both sides of each line's end and at some other positions.
            if cut % 23 != 0 && !bytes[cut.saturating_sub(1)..bytes.len().min(cut + 2)].contains(&b'\n') {
                continue;
            }
            tree.append_message(user("on")).unwrap();
            let after = state(&tree);
            drop(tree);
            prop_assert_eq!(state(&SessionTree::open(&cut_file).unwrap()), after);
        }
    }
}

#[test]
fn power_loss_takes_at_most_the_unsynced_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = SessionTree::create(dir.path(), "/work", None).unwrap();
    tree.append_message(user("one")).unwrap();
    let first = tree.unsynced().unwrap().unwrap();
    tree.append_message(user("two")).unwrap();
    first.sync().unwrap();
    let second = tree.unsynced().unwrap().expect("the entry written during the sync is not durable yet");
    second.sync().unwrap();
    assert!(tree.unsynced().unwrap().is_none(), "nothing is synced twice");
    let file = tree.file().to_owned();
    drop(tree);
    let mut tree = SessionTree::open(&file).unwrap();
    assert!(tree.unsynced().unwrap().is_some(), "it is unknown whether the earlier process synced");
}

/// A small file system. Needs root and the permission to mount it.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(at).stderr(std::process::Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn entries_refused_by_a_full_disk_are_written_later_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(dir.path()) else {
        eprintln!("skipped: only root can mount the small disk of this test");
        return;
    };
    let mut tree = SessionTree::create(dir.path(), "/work", None).unwrap();
    tree.append_message(user("before")).unwrap();
    let ballast = dir.path().join("ballast");
    assert!(std::fs::write(&ballast, vec![0; 1 << 20]).is_err());
    let long = "x".repeat(20_000);
    tree.append_message(user(&long)).unwrap();
    tree.append_message(user("after")).unwrap();
    assert!(tree.unsynced().unwrap_err().is_disk_full(), "nothing counts as durable");
    std::fs::remove_file(&ballast).unwrap();
    tree.unsynced().unwrap().unwrap().sync().unwrap();
    let expected = state(&tree);
    let file = tree.file().to_owned();
    drop(tree);
    let tree = SessionTree::open(&file).unwrap();
    assert_eq!((tree.torn(), tree.entries().len()), (0, 3));
    assert_eq!(state(&tree), expected);
}
