use std::fs;

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::mpsc;

use super::diff::unified;
use super::edit::{Change, Replacement, locate};
use super::*;
use crate::bash::BashConfig;
use crate::message::UserContent;
use crate::output_text::{MAX_BYTES, MAX_LINES};
use crate::workspace::Environment;

struct Fixture {
    dir: tempfile::TempDir,
    tools: Vec<SharedTool>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("work");
        fs::create_dir(&root).unwrap();
        fs::write(dir.path().join("secret"), "needle").unwrap();
        let workspace = Arc::new(Workspace::new(&root, &[dir.path().join("outputs")]).unwrap());
        let bash = BashConfig::new(&root, Environment::of_this_process(&[]), dir.path().join("outputs"));
        let tools = builtin_tools(&workspace, &BashRunner::new(bash));
        Self { dir, tools }
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join("work").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join("work").join(path)).unwrap()
    }

    async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let valid = jsonschema::is_valid(&tool.spec().input_schema, &arguments);
        assert!(valid, "{arguments} does not fit the schema of {name}");
        self.call_unchecked(name, arguments).await
    }

    /// The arguments may violate the schema, as a model's may.
    async fn call_unchecked(&self, name: &str, arguments: Value) -> ToolOutput {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let (progress, _) = mpsc::unbounded_channel();
        let context = ToolContext { tool_call_id: "1".into(), cancelled: CancellationToken::new(), progress };
        tool.run(arguments, context).await
    }

    async fn text(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(!output.is_error, "{output:?}");
        text(&output)
    }

    async fn error(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(output.is_error, "{output:?}");
        text(&output)
    }
}

fn text(output: &ToolOutput) -> String {
    match &output.content[0] {
        UserContent::Text { text } => text.clone(),
        UserContent::Image { .. } => panic!("{output:?}"),
    }
}

#[tokio::test]
async fn read_shows_a_part_of_a_long_file_and_how_to_continue() {
    let fixture = Fixture::new();
    let long = (1..=5000).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
    fixture.file("long.txt", &long);
    fixture.file("short.txt", "\u{feff}one\r\ntwo");
    fixture.file("empty", "");
    assert_eq!(fixture.text("read", json!({"path": "short.txt"})).await, "one\r\ntwo");
    assert_eq!(fixture.text("read", json!({"path": "empty"})).await, "");
    let first = fixture.text("read", json!({"path": "long.txt"})).await;
    assert!(first.starts_with("line 1\n") && first.contains("line 2000\n") && !first.contains("line 2001\n"));
    assert!(first.ends_with("[Lines 1 to 2000 of 5000. Go on with offset 2001.]"), "{first}");
    let part = fixture.text("read", json!({"path": "long.txt", "offset": 4999, "limit": 5})).await;
    assert_eq!(part, "line 4999\nline 5000\n");
    let part = fixture.text("read", json!({"path": "long.txt", "offset": 7, "limit": 1})).await;
    assert_eq!(part, "line 7\n\n[Lines 7 to 7 of 5000. Go on with offset 8.]");
    let error = fixture.error("read", json!({"path": "long.txt", "offset": 5001})).await;
    assert_eq!(error, "long.txt has 5000 lines; there is no line 5001");

    fixture.file("wide.txt", format!("{}\nsecond\n", "x".repeat(2 * MAX_BYTES)));
    let wide = fixture.text("read", json!({"path": "wide.txt"})).await;
    assert!(wide.len() < MAX_BYTES + 300 && wide.contains("[Line 1 of 2 is longer"), "{}", wide.len());
    assert_eq!(fixture.text("read", json!({"path": "wide.txt", "offset": 2})).await, "second\n");
    // Returns as many complete lines as fit.
    fixture.file("kilobytes.txt", format!("{}\n", "y".repeat(1023)).repeat(100));
    let lines = fixture.text("read", json!({"path": "kilobytes.txt"})).await;
    assert!(
        lines.ends_with("[Lines 1 to 50 of 100. Go on with offset 51.]"),
        "{}",
        &lines[lines.len() - 80..]
    );
}

#[tokio::test]
async fn read_returns_images_and_refuses_other_binary_files() {
    let fixture = Fixture::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0";
    fixture.file("image.dat", png);
    fixture.file("binary", b"abc\0def");
    let output = fixture.call("read", json!({"path": "image.dat"})).await;
    assert_eq!(
        output.content[1],
        UserContent::Image { mime_type: "image/png".into(), data: "iVBORw0KGgoAAAA=".into() }
    );
    assert!(fixture.error("read", json!({"path": "binary"})).await.contains("is no text"));
    assert!(fixture.error("read", json!({"path": "none"})).await.contains("No such file"));
    assert!(
        fixture.error("read", json!({"path": "../secret"})).await.contains("outside the working directory")
    );
}

#[tokio::test]
async fn write_creates_folders_and_reports_the_result() {
    let fixture = Fixture::new();
    let arguments = json!({"path": "a/b/new.txt", "content": "zwölf"});
    assert_eq!(fixture.text("write", arguments.clone()).await, "Created a/b/new.txt (6 bytes).");
    assert_eq!(fixture.text("write", arguments).await, "Replaced a/b/new.txt (6 bytes).");
    assert_eq!(fixture.content("a/b/new.txt"), "zwölf");
    let error = fixture.error("write", json!({"path": "../out", "content": ""})).await;
    assert!(error.contains("outside the working directory"));
    assert!(!fixture.dir.path().join("out").exists());
}

#[tokio::test]
async fn edit_replaces_passages_and_shows_the_difference() {
    let fixture = Fixture::new();
    let before = (1..=20).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
    fixture.file("file.txt", &before);
    let edits = json!([
        {"old_text": "line 15\n", "new_text": ""},
        {"old_text": "line 2\nline 3", "new_text": "line two\nline three\nline extra"},
    ]);
    let diff = fixture.text("edit", json!({"path": "file.txt", "edits": edits})).await;
    let expected = "Edited file.txt:\n@@ -1,6 +1,7 @@\n line 1\n-line 2\n-line 3\n+line two\n+line three\n+line extra\n \
                    line 4\n line 5\n line 6\n@@ -12,7 +13,6 @@\n line 12\n line 13\n line 14\n-line 15\n line 16\n line \
                    17\n line 18\n";
    assert_eq!(diff, expected);
    let after =
        before.replace("line 15\n", "").replace("line 2\nline 3\n", "line two\nline three\nline extra\n");
    assert_eq!(fixture.content("file.txt"), after);
}

#[tokio::test]
async fn edit_keeps_line_endings_and_a_byte_order_mark() {
    let fixture = Fixture::new();
    fixture.file("dos.txt", "\u{feff}one\r\ntwo\r\nthree\nfour\r\n");
    let edits = json!([{"old_text": "one\ntwo", "new_text": "1\n2"}, {"old_text": "three\nfour", "new_text": "3\r\n4"}]);
    fixture.text("edit", json!({"path": "dos.txt", "edits": edits})).await;
    assert_eq!(fixture.content("dos.txt"), "\u{feff}1\r\n2\r\n3\r\n4\r\n");
    fixture.file("unix.txt", "a\nb\nodd\r\n");
    let edits = json!([{"old_text": "a\r\nb", "new_text": "c\r\nd"}]);
    fixture.text("edit", json!({"path": "unix.txt", "edits": edits})).await;
    assert_eq!(fixture.content("unix.txt"), "c\nd\nodd\r\n");
}

#[tokio::test]
async fn failed_edit_gives_the_reason_and_changes_nothing() {
    let fixture = Fixture::new();
    fixture.file("file.txt", "fn one() {\n    body\n}\naaa\n");
    let cases = [
        (json!([{"old_text": "two", "new_text": "x"}]), "edit 1: old_text is not in the file; read it again"),
        (
            json!([{"old_text": "fn one() {\n  body\n}", "new_text": "x"}]),
            "edit 1: old_text is not in the file; lines 1 to 3 differ from it in blanks only",
        ),
        (json!([{"old_text": "aa", "new_text": "x"}]), "edit 1: old_text is in the file 2 times"),
        (json!([{"old_text": "one", "new_text": "one"}]), "edit 1: old_text and new_text are the same"),
        (
            json!([{"old_text": "body", "new_text": "x"}, {"old_text": "one() {\n    b", "new_text": "y"}]),
            "edits 2 and 1 overlap",
        ),
    ];
    for (edits, expected) in cases {
        let error = fixture.error("edit", json!({"path": "file.txt", "edits": edits})).await;
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(fixture.content("file.txt"), "fn one() {\n    body\n}\naaa\n");
    fixture.file("latin", b"caf\xe9");
    let edits = json!([{"old_text": "caf", "new_text": "x"}]);
    assert!(fixture.error("edit", json!({"path": "latin", "edits": edits})).await.contains("no UTF-8"));
}

#[tokio::test]
async fn bash_gives_output_and_code_to_the_model() {
    let fixture = Fixture::new();
    assert_eq!(fixture.text("bash", json!({"command": "echo hi"})).await, "hi");
    let error = fixture.error("bash", json!({"command": "echo no; false"})).await;
    assert_eq!(error, "no\n\nThe command exited with code 1.");
    let error = fixture.error("bash", json!({"command": "sleep 60", "timeout": 1})).await;
    assert!(error.contains("stopped after 1 seconds"), "{error}");
    for timeout in [0, 86_401, 1 << 63, u64::MAX] {
        let output = fixture.call_unchecked("bash", json!({"command": "echo hi", "timeout": timeout})).await;
        assert!(output.is_error && text(&output).contains("timeout"), "{timeout}: {output:?}");
    }
    // The agent can read the kept file of a long output.
    let long = fixture.text("bash", json!({"command": "seq 1 9999"})).await;
    let kept = fs::read_dir(fixture.dir.path().join("outputs")).unwrap().next().unwrap().unwrap().path();
    assert!(long.contains(&kept.display().to_string()) && long.lines().count() <= MAX_LINES + 2);
}

#[tokio::test]
async fn list_shows_directory_entries() {
    let fixture = Fixture::new();
    fixture.file("b.txt", "");
    fixture.file("A/x", "");
    fixture.file(".hidden", "");
    std::os::unix::fs::symlink("../secret", fixture.dir.path().join("work/link")).unwrap();
    assert_eq!(fixture.text("list", json!({})).await, ".hidden\nA/\nb.txt\nlink -> ../secret");
    assert_eq!(fixture.text("list", json!({"limit": 1})).await, ".hidden\n\n[1 of 4 names.]");
    assert_eq!(fixture.text("list", json!({"path": "A"})).await, "x");
    fs::create_dir(fixture.dir.path().join("work/none")).unwrap();
    assert_eq!(fixture.text("list", json!({"path": "none"})).await, "(empty)");
    assert!(fixture.error("list", json!({"path": ".."})).await.contains("outside"));
    assert!(fixture.error("list", json!({"path": "b.txt"})).await.contains("not a folder"));
}

/// A tree with ignored files, and links that lead outside.
fn project(fixture: &Fixture) {
    fixture.file(".gitignore", "target/\n*.log\n");
    fixture.file("src/lib.rs", "one\nneedle here\nthree\nfour\nNEEDLE there\n");
    fixture.file("src/deep/mod.rs", "a.b\naxb\n");
    fixture.file("target/needle.rs", "needle\n");
    fixture.file("needle.log", "needle\n");
    fixture.file(".github/needle.yml", "needle\n");
    fixture.file("binary.rs", b"needle\0\n");
    fixture.file(".git/needle.rs", "needle\n");
    std::os::unix::fs::symlink("../secret", fixture.dir.path().join("work/link.rs")).unwrap();
    std::os::unix::fs::symlink("..", fixture.dir.path().join("work/up")).unwrap();
}

#[tokio::test]
async fn find_lists_matching_files_that_git_does_not_ignore() {
    let fixture = Fixture::new();
    project(&fixture);
    let find = |arguments| fixture.text("find", arguments);
    assert_eq!(find(json!({"pattern": "*.rs"})).await, "binary.rs\nlink.rs\nsrc/deep/mod.rs\nsrc/lib.rs");
    assert_eq!(find(json!({"pattern": "src/*.rs"})).await, "src/lib.rs");
    assert_eq!(find(json!({"pattern": "deep"})).await, "src/deep/");
    assert_eq!(find(json!({"pattern": "*.{yml,log}"})).await, ".github/needle.yml");
    assert_eq!(find(json!({"pattern": "*.rs", "path": "src/deep"})).await, "src/deep/mod.rs");
    assert!(find(json!({"pattern": "*.rs", "limit": 2})).await.contains("[The first 2; there are more."));
    assert_eq!(find(json!({"pattern": "secret"})).await, "Nothing fits `secret`.");
    assert!(fixture.error("find", json!({"pattern": "*", "path": "up"})).await.contains("outside"));
    assert!(fixture.error("find", json!({"pattern": "{a"})).await.contains("is no glob"));
}

#[tokio::test]
async fn grep_lists_matching_lines_and_reads_nothing_outside() {
    let fixture = Fixture::new();
    project(&fixture);
    let grep = |arguments| fixture.text("grep", arguments);
    let both = ".github/needle.yml:1: needle\nsrc/lib.rs:2: needle here";
    assert_eq!(grep(json!({"pattern": "needle"})).await, both);
    assert_eq!(grep(json!({"pattern": "NEEDLE", "path": "src/lib.rs"})).await, "src/lib.rs:5: NEEDLE there");
    assert_eq!(
        grep(json!({"pattern": "needle", "ignore_case": true, "glob": "*.rs", "context": 1})).await,
        "src/lib.rs-1- one\nsrc/lib.rs:2: needle here\nsrc/lib.rs-3- three\nsrc/lib.rs-4- four\nsrc/lib.rs:5: NEEDLE there"
    );
    assert_eq!(grep(json!({"pattern": "a.b", "literal": true})).await, "src/deep/mod.rs:1: a.b");
    assert_eq!(grep(json!({"pattern": "a.b"})).await.lines().count(), 2);
    let limited = grep(json!({"pattern": "needle", "limit": 1})).await;
    assert!(limited.ends_with("[The first 1 lines that fit; there are more.]"), "{limited}");
    assert_eq!(grep(json!({"pattern": "nowhere"})).await, "No line fits `nowhere`.");
    assert!(fixture.error("grep", json!({"pattern": "("})).await.contains("is no regular expression"));
    assert!(fixture.error("grep", json!({"pattern": "x", "path": "link.rs"})).await.contains("outside"));
}

#[tokio::test]
async fn aborted_tool_returns() {
    let fixture = Fixture::new();
    for (name, arguments) in [
        ("read", json!({"path": "."})),
        ("grep", json!({"pattern": "x"})),
        ("bash", json!({"command": "sleep 600"})),
    ] {
        let tool = fixture.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let (progress, _) = mpsc::unbounded_channel();
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        let output = tool.run(arguments, ToolContext { tool_call_id: "1".into(), cancelled, progress }).await;
        assert!(output.is_error && text(&output).contains("stopped"), "{output:?}");
    }
}

#[test]
fn tools_have_valid_schemas_and_unique_names() {
    let fixture = Fixture::new();
    let mut names: Vec<_> = fixture.tools.iter().map(|tool| tool.spec().name.clone()).collect();
    for tool in &fixture.tools {
        let spec = tool.spec();
        assert!(jsonschema::meta::is_valid(&spec.input_schema), "{}", spec.name);
        assert!(!jsonschema::is_valid(&spec.input_schema, &json!({"unheard_of": 1})), "{}", spec.name);
    }
    names.sort();
    let expected = ["bash", "bash_output", "bash_stop", "edit", "find", "grep", "list", "read", "write"];
    assert_eq!(names, expected);
}

/// Applies a unified diff like `patch`, to check that the displayed diff matches the edit.
fn patched(content: &str, diff: &str) -> String {
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    let (mut patched, mut at) = (String::new(), 0);
    let mut hunks = diff.lines().peekable();
    while let Some(line) = hunks.next() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let range = header.split(' ').next().unwrap();
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            let start: usize = start.parse().unwrap();
            let start = if count == "0" { start } else { start - 1 };
            lines[at..start].iter().for_each(|line| patched.push_str(line));
            at = start;
            continue;
        }
        let ends = if hunks.peek().is_some_and(|next| next.starts_with('\\')) { "" } else { "\n" };
        match line.chars().next() {
            Some('-') => at += 1,
            Some('+') => patched.extend([&line[1..], ends]),
            Some(' ') => {
                assert_eq!(lines[at], format!("{}{ends}", &line[1..]));
                patched.push_str(lines[at]);
                at += 1;
            }
            Some('\\') => {}
            other => panic!("{other:?} in {diff}"),
        }
    }
    lines[at..].iter().for_each(|line| patched.push_str(line));
    patched
}

fn apply(content: &str, changes: &[Change]) -> String {
    let mut edited = content.to_owned();
    for change in changes.iter().rev() {
        edited.replace_range(change.range.clone(), &change.text);
    }
    edited
}

proptest! {
    /// The displayed diff is the change that was made.
    #[test]
    fn difference_turns_the_old_text_into_the_new_one(
        content in "[ab\n]{0,60}",
        mut cuts in proptest::collection::vec(0..=60_usize, 0..6),
        texts in proptest::collection::vec("[xy\n]{0,5}", 3),
    ) {
        cuts.sort_unstable();
        let changes: Vec<_> = cuts
            .chunks_exact(2)
            .zip(texts)
            .map(|(cut, text)| Change { range: cut[0].min(content.len())..cut[1].min(content.len()), text })
            .collect();
        let edited = apply(&content, &changes);
        let diff = unified(&content, &edited);
        prop_assert_eq!(patched(&content, &diff), edited, "{}", diff);
    }

    /// An edit leaves all other bytes unchanged, with any line ends.
    #[test]
    fn edit_changes_only_its_passage(
        before in "[ab\r\n]{0,20}",
        after in "[ab\r\n]{0,20}",
        passage in "X[ab\n]{0,6}Y",
        new in "[ab\n]{0,6}",
        dos in any::<bool>(),
    ) {
        let in_file = if dos { passage.replace('\n', "\r\n") } else { passage.clone() };
        let content = format!("{before}{in_file}{after}");
        let edits = [Replacement { old_text: passage, new_text: new.clone() }];
        let changes = locate(&content, &edits).unwrap();
        let edited = apply(&content, &changes);
        prop_assert!(edited.starts_with(&before) && edited.ends_with(&after), "{edited:?}");
        let middle = &edited[before.len()..edited.len() - after.len()];
        prop_assert_eq!(middle.replace("\r\n", "\n"), new);
    }
}
