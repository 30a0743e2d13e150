//! Tools of each adapter, patterns of projects, and paths.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod verdict;

use pilothouse_classification::pattern::{ToolClassification, ToolClassifications};
use pilothouse_classification::{Adapter, Classification, Context, ToolCall, classify, written_files};
use pilothouse_domain::effect::{ActionKind, BlastRadius, Effect, Severity};
use serde_json::{Value, json};
use verdict::{asks, classified};

fn call(adapter: Adapter, tool: &str, kind: Option<&str>, arguments: &Value) -> Classification {
    let patterns = ToolClassifications::default();
    let context =
        Context::new("/home/user/project/app", "/home/user/project", "/home/user", &patterns).unwrap();
    classify(&ToolCall { adapter, tool, kind, arguments }, &context)
}

fn claude(tool: &str, arguments: &Value) -> Classification {
    call(Adapter::Claude, tool, None, arguments)
}

#[test]
fn an_unknown_tool_is_unclassified() {
    for (adapter, tool) in [
        (Adapter::Claude, "mcp__bank__send_money"),
        (Adapter::Claude, "bash"),
        (Adapter::Claude, "deliverable"),
        (Adapter::Claude, "mcp__pilothouse__other"),
        (Adapter::Native, "Bash"),
        (Adapter::Script, "unknown"),
        (Adapter::Acp, "Terminal"),
    ] {
        let found = call(adapter, tool, None, &json!({}));
        assert_eq!(found.effects.iter().collect::<Vec<_>>(), [Effect::UNCLASSIFIED], "{adapter:?} {tool}");
    }
}

#[test]
fn arguments_of_an_unexpected_form_are_unclassified() {
    for (tool, arguments) in [
        ("Bash", json!({})),
        ("Bash", json!({ "command": ["ls"] })),
        ("Read", json!({})),
        ("Write", json!({ "file_path": 1 })),
        ("Grep", json!({ "pattern": "x", "path": null })),
        ("Grep", json!({ "pattern": "x", "glob": ["*.rs"] })),
        ("WebFetch", json!({ "url": {} })),
        ("Bash", json!("ls")),
    ] {
        assert_eq!(claude(tool, &arguments).effects.levels().blast_radius, BlastRadius::Unknown, "{tool}");
    }
}

#[test]
fn file_tools_are_classified_by_path() {
    for (tool, path, expected) in [
        ("Read", "src/main.rs", false),
        ("Read", "/home/user/project/app/a", false),
        ("Read", "/home/user/project/lib/a", false),
        ("Read", "/usr/include/stdio.h", false),
        ("Read", "/home/user/.ssh/id_rsa", true),
        ("Read", "~/.aws/credentials", true),
        ("Read", "../../.ssh/id_rsa", true),
        ("Read", ".env", true),
        ("Read", "config/../.env.production", true),
        ("Read", ".env.example", false),
        ("Read", "deploy/server.pem", true),
        ("Read", "/etc/shadow", true),
        ("Read", "/proc/self/environ", true),
        ("Write", "src/main.rs", false),
        ("Write", "/home/user/project/lib/a", true),
        ("Write", ".git/hooks/pre-commit", true),
        ("Write", ".github/workflows/ci.yml", true),
        ("Edit", "/home/user/.bashrc", true),
        ("Edit", "/etc/hosts", true),
        ("Grep", "src", false),
        ("Grep", ".env", true),
        ("Grep", "/home/user/.ssh", true),
        ("Glob", "src", false),
        ("Glob", "/home/user/.ssh", true),
    ] {
        let found = claude(tool, &json!({ "file_path": path, "pattern": "x" }));
        assert_eq!(asks(&found), expected, "{tool} {path}: {found:?}");
    }
}

#[test]
fn a_search_for_secret_file_names_asks() {
    for (glob, expected) in [
        (".env*", true),
        ("*.env", true),
        ("**/.env.local", true),
        ("*.{pem,key}", true),
        ("id_rsa", true),
        ("*.rs", false),
        ("src/**/*.{ts,tsx}", false),
    ] {
        let arguments = json!({ "pattern": "x", "glob": glob });
        assert_eq!(asks(&claude("Grep", &arguments)), expected, "{glob}");
        assert_eq!(asks(&call(Adapter::Native, "grep", None, &arguments)), expected, "{glob}");
    }
}

#[test]
fn acp_tools_are_classified_by_name_then_kind() {
    let secret = json!({ "path": ".env" });
    assert!(!asks(&call(Adapter::Acp, "Read", None, &json!({ "file_path": "a.txt" }))));
    assert!(asks(&call(Adapter::Acp, "Read File", Some("read"), &secret)));
    assert!(!asks(&call(Adapter::Acp, "Read File", Some("read"), &json!({ "path": "a" }))));
    let locations = json!({ "locations": [{ "path": "a" }, { "path": "/etc/shadow" }] });
    assert!(asks(&call(Adapter::Acp, "Look", Some("read"), &locations)));
    // Named after its kind, which is not the tool `read` of another agent.
    let elsewhere = json!({ "path": "a", "locations": [{ "path": "/etc/shadow" }] });
    assert!(asks(&call(Adapter::Acp, "read", Some("read"), &elsewhere)));
    assert!(!asks(&call(Adapter::Acp, "read", Some("read"), &json!({ "locations": [{ "path": "a" }] }))));
    assert!(!asks(&call(Adapter::Acp, "Terminal", Some("execute"), &json!({ "command": "ls" }))));
    assert!(asks(&call(Adapter::Acp, "Terminal", Some("execute"), &json!({ "command": "rm a" }))));
    assert!(asks(&call(Adapter::Acp, "Terminal", Some("execute"), &json!({}))));
    assert!(asks(&call(Adapter::Acp, "Remove", Some("delete"), &json!({ "path": "a" }))));
    assert!(asks(&call(Adapter::Acp, "Thing", Some("other"), &json!({}))));
    // Kinds are ACP's: another adapter cannot lower the risk with one.
    assert!(asks(&call(Adapter::Claude, "Thing", Some("think"), &json!({}))));
}

#[test]
fn requests_to_other_machines_ask() {
    for (url, expected) in [
        ("https://example.com/a", true),
        ("http://localhost:8080/health", false),
        ("http://127.0.0.1/", false),
        ("http://localhost@example.com/", true),
        ("http://localhost.example.com/", true),
        ("http://example.com\\@localhost/", true),
        ("file:///etc/shadow", true),
    ] {
        assert_eq!(asks(&claude("WebFetch", &json!({ "url": url }))), expected, "{url}");
        assert_eq!(asks(&classified(&format!("curl -s '{url}'"))), expected, "{url}");
    }
}

fn pattern(name: &str, glob: &str, kind: ActionKind, radius: BlastRadius) -> ToolClassification {
    let json = json!({
        "name": name, "toolPattern": glob, "actionKind": kind, "defaultSeverity": Severity::Low,
        "defaultBlastRadius": radius, "defaultConfidence": 0.9, "requiresRationale": name == "money",
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn patterns_decide_about_tools_without_a_rule() {
    let patterns = ToolClassifications::new(vec![
        pattern("reads", "mcp__bank__get_*", ActionKind::Read, BlastRadius::Trivial),
        pattern("money", "mcp__bank__*", ActionKind::Execute, BlastRadius::Large),
        pattern("shell", "Bash", ActionKind::Execute, BlastRadius::Trivial),
    ])
    .unwrap();
    let context = Context::new("/w", "/w", "/home/user", &patterns).unwrap();
    let found = |tool: &str, arguments: Value| {
        classify(&ToolCall { adapter: Adapter::Claude, tool, kind: None, arguments: &arguments }, &context)
    };
    let read = found("mcp__bank__get_balance", json!({}));
    assert_eq!(read.pattern.as_deref(), Some("reads"));
    assert!(!asks(&read) && !read.requires_rationale);
    let money = found("mcp__bank__send_money", json!({}));
    assert!(asks(&money) && money.requires_rationale);
    // A pattern does not hide what a command does.
    assert!(asks(&found("Bash", json!({ "command": "rm -rf a" }))));
}

#[test]
fn builds_ask_after_a_build_file_was_changed() {
    let patterns = ToolClassifications::default();
    let context = Context::new("/w", "/w", "/home/user", &patterns).unwrap();
    let run = |context: &Context<'_>, tool: &str, arguments: Value| {
        classify(&ToolCall { adapter: Adapter::Claude, tool, kind: None, arguments: &arguments }, context)
    };
    let edit = run(&context, "Edit", json!({ "file_path": "Makefile" }));
    assert_eq!(edit.changed_build_files, ["/w/Makefile"]);
    assert!(!asks(&edit));
    let source = run(&context, "Edit", json!({ "file_path": "src/main.rs" }));
    assert!(source.changed_build_files.is_empty());
    let written = run(&context, "Bash", json!({ "command": "cd sub && echo '{}' > package.json" }));
    assert!(written.changed_build_files.contains(&"/w/sub/package.json".to_owned()), "{written:?}");

    let after = context.after_changes(&edit.changed_build_files);
    for command in ["make test", "cargo test", "npm run build", "cd a && pytest"] {
        assert!(!asks(&run(&context, "Bash", json!({ "command": command }))), "{command}");
        assert!(asks(&run(&after, "Bash", json!({ "command": command }))), "{command}");
    }
    assert!(!asks(&run(&after, "Bash", json!({ "command": "git status" }))));
}

#[test]
fn a_workspace_in_a_protected_folder_can_be_used() {
    let patterns = ToolClassifications::default();
    for (workspace, home) in [("/root/shop", "/root"), ("/home/user/.claude/trees/a", "/home/user")] {
        let context = Context::new(workspace, workspace, home, &patterns).unwrap();
        let read = |path: &str| {
            let arguments = json!({ "file_path": path });
            let call = ToolCall { adapter: Adapter::Claude, tool: "Read", kind: None, arguments: &arguments };
            asks(&classify(&call, &context))
        };
        assert!(!read("src/main.rs"), "{workspace}");
        for secret in [".env", "~/.ssh/id_rsa", "../../.claude/x", "/etc/shadow"] {
            assert!(read(secret), "{workspace} {secret}");
        }
    }
    let home = Context::new("/home/user", "/home/user", "/home/user", &patterns).unwrap();
    let arguments = json!({ "file_path": ".ssh/config" });
    let call = ToolCall { adapter: Adapter::Claude, tool: "Read", kind: None, arguments: &arguments };
    assert!(asks(&classify(&call, &home)));
}

#[test]
fn invalid_folders_are_refused() {
    let patterns = ToolClassifications::default();
    for folder in ["", "relative", "/a/../b", "/a/"] {
        assert!(Context::new(folder, "/", "/", &patterns).is_err(), "{folder}");
    }
}

#[test]
fn findings_name_the_part_of_the_call() {
    let found = classified("ls; cat /etc/shadow | frobnicate --all");
    let subjects: Vec<_> = found.findings.iter().map(|finding| finding.subject.as_str()).collect();
    assert!(
        subjects.contains(&"/etc/shadow") && subjects.contains(&"the program `frobnicate`"),
        "{subjects:?}"
    );
    let many = classified(&"x1 ; ".repeat(1_000));
    assert!(many.findings.len() <= Classification::MAX_FINDINGS);
}

#[test]
fn written_files_are_those_that_the_arguments_name() {
    let written = |adapter, tool: &str, arguments: Value| {
        let call = ToolCall { adapter, tool, kind: Some(tool), arguments: &arguments };
        written_files(&call).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(written(Adapter::Claude, "MultiEdit", json!({ "file_path": "/w/a" })), ["/w/a"]);
    assert_eq!(written(Adapter::Claude, "NotebookEdit", json!({ "notebook_path": "a.ipynb" })), ["a.ipynb"]);
    assert_eq!(written(Adapter::Native, "edit", json!({ "path": "a" })), ["a"]);
    let locations = json!({ "locations": [{ "path": "a" }, { "line": 1 }], "path": "b" });
    assert_eq!(written(Adapter::Acp, "edit", locations.clone()), ["a", "b"]);
    assert_eq!(written(Adapter::Acp, "Write", locations.clone()), ["a", "b"]);
    for (adapter, tool) in [
        (Adapter::Acp, "read"),
        (Adapter::Acp, "delete"),
        (Adapter::Claude, "Read"),
        (Adapter::Claude, "Bash"),
        (Adapter::Other, "Write"),
    ] {
        assert_eq!(written(adapter, tool, locations.clone()), [""; 0], "{tool}");
    }
    assert_eq!(written(Adapter::Claude, "Write", json!({ "file_path": 1 })), [""; 0]);
}
