//! `docs/specification.md` against the sources: what the table names is there, and what is there stands in it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pilothouse_functions::catalogue::{CallerKind, http_functions};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A row: what is asked for, the files that do it, and the tests that prove it.
struct Row {
    section: String,
    item: String,
    files: Vec<String>,
    tests: Vec<String>,
}

/// What stands between backticks.
fn named(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn rows() -> Vec<Row> {
    let table = std::fs::read_to_string(root().join("docs/specification.md")).unwrap();
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in table.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        let Some(line) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let cells: Vec<_> = line.split(" | ").collect();
        if let [item, files, tests] = cells[..]
            && item != "Item"
        {
            let row = Row {
                section: section.clone(),
                item: item.to_owned(),
                files: named(files),
                tests: named(tests),
            };
            rows.push(row);
        }
    }
    rows
}

/// Every Rust source of the workspace.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Names of functions, as they stand after `fn`.
fn functions(sources: &str) -> BTreeSet<&str> {
    let name = |rest: &'_ str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    sources.split("fn ").skip(1).map(|rest| &rest[..name(rest)]).collect()
}

#[test]
fn every_file_and_every_test_that_the_table_names_is_there() {
    let mut text = String::new();
    sources(&root(), &mut text);
    let functions = functions(&text);
    let rows = rows();
    assert!(rows.len() > 550, "the table was not read: {} rows", rows.len());
    let mut missing = Vec::new();
    for row in &rows {
        missing.extend(row.files.iter().filter(|file| !root().join(file).exists()));
        missing.extend(row.tests.iter().filter(|test| !functions.contains(test.as_str())));
    }
    assert!(missing.is_empty(), "named and not there: {missing:?}");
}

/// Each section of S1 that says what the agent loop does, and each of S4, is there clause by clause, and each is proved by something.
#[test]
fn every_section_of_the_agent_loop_and_of_deliverables_has_rows() {
    const LOOP: [&str; 14] =
        ["3.1", "3.2", "3.3", "3.4", "3.5", "4.1", "4.2", "5.", "6.1", "6.2", "6.3", "7.", "8.", "9."];
    const DELIVERABLES: [&str; 8] = [
        "Stream events",
        "MessageStream error handling",
        "Value objects",
        "Entities",
        "Aggregates",
        "Repository interfaces",
        "Enums",
        "Interface types",
    ];
    let rows = rows();
    let sections = LOOP.iter().map(|section| format!("S1 {section}"));
    for section in sections.chain(DELIVERABLES.iter().map(|section| format!("S4 {section}"))) {
        let of_it: Vec<_> = rows.iter().filter(|row| row.section.starts_with(&section)).collect();
        assert!(!of_it.is_empty(), "{section} does not stand in docs/specification.md");
        let open: Vec<_> = of_it.iter().filter(|row| row.tests.is_empty()).map(|row| &row.item).collect();
        assert!(open.len() < of_it.len(), "nothing of {section} is proved: {open:?}");
    }
}

/// Who adds a function says in the table what proves it.
#[test]
fn every_endpoint_stands_in_the_table() {
    let plain = |path: &str| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        parts.collect::<Vec<_>>().join("/")
    };
    let listed: BTreeSet<_> = rows()
        .iter()
        .flat_map(|row| named(&row.item))
        .filter_map(|item| {
            let (method, path) = item.split_once(' ')?;
            Some(format!("{} {}", if method == "WS" { "GET" } else { method }, plain(path)))
        })
        .collect();
    let missing: Vec<_> = http_functions()
        .iter()
        .filter(|function| function.caller != CallerKind::Sidecar)
        .map(|function| format!("{} {}", function.method, plain(function.path)))
        .filter(|endpoint| !listed.contains(endpoint))
        .collect();
    assert!(missing.is_empty(), "not in docs/specification.md: {missing:?}");
}

/// S0 8.1, principles 2 and 3: the domain does no I/O, and of projects, worktrees and queues of work it knows nothing.
#[test]
fn the_domain_is_pure_and_knows_no_other_context() {
    const PURE: [&str; 7] = ["jiff", "rust_decimal", "schemars", "serde", "serde_json", "thiserror", "uuid"];
    let domain = root().join("shared/domain");
    let manifest = std::fs::read_to_string(domain.join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in dependencies.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let name = line.split(['=', '.', ' ']).next().unwrap();
        assert!(PURE.contains(&name), "the domain depends on {name}");
    }
    let mut text = String::new();
    sources(&domain.join("src"), &mut text);
    for word in ["Worktree", "ProjectId", "WorkQueue", "WorkItem"] {
        assert!(!text.contains(word), "the domain speaks of {word}");
    }
}
