//! Compares `docs/specification.md` with the sources: named files and tests exist, endpoints have rows with a test that calls them, the
//! tests of events name them, and each decision record has a row.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pilothouse_app::function::CallerKind;
use pilothouse_functions::catalog::HTTP_FUNCTIONS;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A row: the item, the files that implement it, and the tests that prove it.
struct Row {
    section: String,
    item: String,
    files: Vec<String>,
    tests: Vec<String>,
}

/// The parts of a cell between backticks.
fn named(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The cells of a line of a table. `None` if the line does not have three, or one of them is empty.
fn cells(line: &str) -> Option<[&str; 3]> {
    let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let cells = <[&str; 3]>::try_from(line.split(" | ").collect::<Vec<_>>()).ok()?;
    cells.iter().all(|cell| !cell.trim().is_empty()).then_some(cells)
}

fn rows() -> Vec<Row> {
    rows_of("docs/specification.md")
}

fn rows_of(document: &str) -> Vec<Row> {
    let table = std::fs::read_to_string(root().join(document)).unwrap();
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in table.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            heading.clone_into(&mut section);
        }
        if let Some([item, files, tests]) = cells(line)
            && !matches!(item, "Item" | "What fails")
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

/// Appends all Rust sources of a folder to `into`.
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

/// The texts of all tests of all crates by their names. Several tests may have the same name.
fn tests() -> BTreeMap<String, String> {
    let mut text = String::new();
    sources(&root(), &mut text);
    let mut tests: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = text.lines();
    let mut is_test = false;
    while let Some(line) = lines.next() {
        let (code, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        let declaration = ["fn ", "async fn "].iter().find_map(|keyword| code.strip_prefix(keyword));
        if let Some(rest) = declaration
            && is_test
        {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let is_end = |line: &&str| line.trim_end() == format!("{}}}", " ".repeat(indent));
            let body: Vec<_> = lines.by_ref().take_while(|line| !is_end(line)).collect();
            tests.entry(rest[..end].to_owned()).or_default().push_str(&body.join("\n"));
        }
        // There may be other attributes and comments between the attribute and the function.
        is_test = ["#[test]", "#[tokio::test"].iter().any(|attribute| code.starts_with(attribute))
            || is_test && code.starts_with(['#', '/']);
    }
    tests
}

/// The recordings of HTTP exchanges by their names.
fn recordings() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(root().join("tests/recordings")).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.map(|file| read(file.unwrap().path())).collect()
}

/// The recordings that one of these tests makes.
fn recordings_of<'a>(
    names: &[String],
    tests: &BTreeMap<String, String>,
    recordings: &'a BTreeMap<String, String>,
) -> Vec<&'a String> {
    let starts = |name: &&String, recording: &str| {
        let begin = ["start", "on"].map(|function| format!("Recorder::{function}(\"{recording}\""));
        tests.get(*name).is_some_and(|body| begin.iter().any(|call| body.contains(call)))
    };
    recordings
        .iter()
        .filter(|(recording, _)| names.iter().any(|name| starts(&name, recording)))
        .map(|(_, text)| text)
        .collect()
}

/// The other tests skip a row without three cells.
#[test]
fn every_row_of_the_tables_has_three_cells() {
    let page = std::fs::read_to_string(root().join("docs/specification.md")).unwrap();
    // The tables above the first anchor explain the page.
    let (_, tables) = page.split_once("<a id=").unwrap();
    let rows = tables.lines().filter(|line| line.trim_start().starts_with('|') && *line != "|---|---|---|");
    let malformed: Vec<_> = rows.filter(|row| cells(row).is_none()).collect();
    assert!(malformed.is_empty(), "rows without three cells: {malformed:#?}");
}

#[test]
fn every_file_and_test_named_in_the_table_exists() {
    let tests = tests();
    let rows = rows();
    assert!(rows.len() > 550, "the table was not read: {} rows", rows.len());
    let mut missing = Vec::new();
    for row in &rows {
        missing.extend(row.files.iter().filter(|file| !root().join(file).exists()));
        missing.extend(row.tests.iter().filter(|test| !tests.contains_key(*test)));
    }
    assert!(missing.is_empty(), "these files and tests do not exist: {missing:?}");
}

/// Each promise names existing tests, and each kind of failure has a promise.
#[test]
fn every_failure_promise_names_its_test() {
    let tests = tests();
    let rows = rows_of("docs/failures.md");
    for row in &rows {
        assert!(!row.tests.is_empty(), "no test for: {}", row.item);
        let missing: Vec<_> = row.tests.iter().filter(|test| !tests.contains_key(*test)).collect();
        assert!(missing.is_empty(), "{}: the tests {missing:?} do not exist", row.item);
    }
    for section in ["The server", "A worker", "A sidecar", "An agent", "A disk", "Network"] {
        assert!(rows.iter().any(|row| row.section.starts_with(section)), "no row for: {section}");
    }
}

/// Each section of S1 about the agent loop, and each of S4, has rows with tests.
#[test]
fn agent_loop_and_deliverables_sections_have_rows() {
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
        assert!(!of_it.is_empty(), "{section} has no rows in docs/specification.md");
        let open: Vec<_> = of_it.iter().filter(|row| row.tests.is_empty()).map(|row| &row.item).collect();
        assert!(open.len() < of_it.len(), "no row of {section} has a test: {open:?}");
    }
}

/// `GET /a/{id}` as `GET /a/{}`.
fn endpoint(verb: &str, path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    format!("{} {}", if verb == "WS" { "GET" } else { verb }, parts.collect::<Vec<_>>().join("/"))
}

/// The endpoints that a row is about.
fn endpoints(row: &Row) -> Vec<String> {
    let item = |item: String| item.split_once(' ').map(|(verb, path)| endpoint(verb, path));
    named(&row.item).into_iter().filter_map(item).collect()
}

/// A new endpoint needs a row, and each row of an endpoint a test that calls it and records the exchange. Requests of sidecars have
/// no recordings.
#[test]
fn row_of_an_endpoint_names_a_test_that_calls_it() {
    let (rows, tests, recordings) = (rows(), tests(), recordings());
    let mut violations = Vec::new();
    for function in HTTP_FUNCTIONS.iter().filter(|function| function.caller != CallerKind::Sidecar) {
        let endpoint = endpoint(function.verb.as_str(), function.path);
        let rows: Vec<_> = rows.iter().filter(|row| endpoints(row).contains(&endpoint)).collect();
        let is_success = |line: &str| {
            let exchange = line.strip_prefix("## ").and_then(|heading| heading.rsplit_once(' '));
            exchange
                .is_some_and(|(name, status)| name == function.name && status.starts_with(['1', '2', '3']))
        };
        let calls = |row: &&&Row| {
            recordings_of(&row.tests, &tests, &recordings).iter().any(|text| text.lines().any(is_success))
        };
        if rows.is_empty() {
            violations.push(format!("{endpoint} has no row"));
        }
        violations
            .extend(rows.iter().filter(|row| !calls(row)).map(|row| format!("no test calls {}", row.item)));
    }
    assert!(violations.is_empty(), "docs/specification.md: {violations:#?}");
}

/// Each event of S0 8.6 is asserted by its name.
#[test]
fn row_of_an_event_names_a_test_that_names_it() {
    let (rows, tests, recordings) = (rows(), tests(), recordings());
    let mut events = 0;
    let mut unnamed = Vec::new();
    for row in rows.iter().filter(|row| row.section.starts_with("S0 8.6")) {
        let Some(event) = named(&row.item).into_iter().next().filter(|name| name.ends_with("Event")) else {
            continue;
        };
        events += 1;
        let quoted = format!("\"{event}\"");
        let in_test = |name: &String| tests.get(name).is_some_and(|body| body.contains(&quoted));
        let in_recording = |text: &&String| text.contains(&quoted);
        if !row.tests.iter().any(in_test)
            && !recordings_of(&row.tests, &tests, &recordings).iter().any(in_recording)
        {
            unnamed.push(event);
        }
    }
    assert!(events > 60, "the events were not read: {events}");
    assert!(unnamed.is_empty(), "no test of the row names {unnamed:?}");
}

/// S0 8.1, principles 2 and 3: the domain does no I/O and has no types for worktrees and work queues.
#[test]
fn the_domain_is_pure_and_knows_no_other_context() {
    const PURE: [&str; 10] = [
        "icu_normalizer",
        "jiff",
        "regex-lite",
        "rust_decimal",
        "schemars",
        "serde",
        "serde_json",
        "sha2",
        "thiserror",
        "uuid",
    ];
    let domain = root().join("shared/domain");
    let manifest = std::fs::read_to_string(domain.join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    for line in dependencies.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let name = line.split(['=', '.', ' ']).next().unwrap();
        assert!(PURE.contains(&name), "the domain depends on {name}");
    }
    let mut text = String::new();
    sources(&domain.join("src"), &mut text);
    for word in ["Worktree", "WorkQueue", "WorkItem"] {
        assert!(!text.contains(word), "the domain mentions {word}");
    }
}

/// The decisions that a text cites: `decision 13`, `decisions 9, 17 and 28 to 30`.
fn cited_decisions(text: &str) -> BTreeSet<usize> {
    // A citation can continue on the next line of a comment.
    let lines: Vec<_> = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim()).collect();
    let text = lines.join(" ").to_lowercase();
    let mut cited = BTreeSet::new();
    for rest in text.split("decision").skip(1) {
        let Some(mut rest) = rest.strip_prefix('s').unwrap_or(rest).strip_prefix(' ') else { continue };
        loop {
            let (digits, after) =
                rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            let Ok(number) = digits.parse() else { break };
            cited.insert(number);
            let more = [", ", " and ", " or ", " to "].into_iter().find_map(|next| after.strip_prefix(next));
            let Some(more) = more else { break };
            rest = more;
        }
    }
    cited
}

/// The decision records by their numbers: file name and text.
fn decision_records() -> BTreeMap<usize, (String, String)> {
    let mut records = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("docs/decisions")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "README.md" {
            let number = name.split('-').next().unwrap().parse().unwrap();
            let earlier = records.insert(number, (name, std::fs::read_to_string(&path).unwrap()));
            assert!(earlier.is_none(), "two decision records have the number {number}");
        }
    }
    records
}

#[test]
fn decision_records_have_no_gaps_and_are_in_the_index() {
    let records = decision_records();
    let numbers: Vec<_> = records.keys().copied().collect();
    assert_eq!(numbers, (1..=records.len()).collect::<Vec<_>>());
    let index = std::fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    for (number, (name, text)) in &records {
        assert!(index.contains(&format!("({name})")), "{name} is not in docs/decisions/README.md");
        assert!(text.starts_with(&format!("# {number}. ")), "the title of {name} has another number");
    }
}

/// The row of a record whose rule no test proves has no tests, and says why.
#[test]
fn every_decision_has_a_row() {
    let rows = rows();
    let is_cited = |name: &String| rows.iter().any(|row| row.item.contains(&format!("(decisions/{name})")));
    let missing: Vec<_> =
        decision_records().into_values().map(|(name, _)| name).filter(|name| !is_cited(name)).collect();
    assert!(missing.is_empty(), "decision records that no row cites: {missing:#?}");
}

/// Records explain why some parts of Pilothouse are not taken from other crates.
#[test]
fn rejected_crates_are_no_dependencies() {
    const REJECTED: [(usize, &[&str]); 5] = [
        (47, &["deadpool-sqlite", "tokio-rusqlite"]),
        (59, &["process-wrap", "command-group"]),
        (64, &["cron", "croner"]),
        (65, &["secrecy", "zeroize"]),
        (
            66,
            &[
                "backon",
                "backoff",
                "serde_yaml",
                "shlex",
                "shell-words",
                "comfy-table",
                "tabled",
                "atomic-write-file",
                "lambda_http",
                "aws_lambda_events",
                "opentelemetry-otlp",
            ],
        ),
    ];
    // All crates of the workspace take their dependencies from this table.
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let table = manifest.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let dependencies: BTreeSet<_> =
        table.lines().filter_map(|line| Some(line.split_once(['=', '.'])?.0.trim())).collect();
    assert!(dependencies.contains("serde"), "the dependencies were not read");
    let records = decision_records();
    for (number, crates) in REJECTED {
        for name in crates {
            let text = &records[&number].1;
            assert!(text.contains(&format!("`{name}`")), "decision {number} does not name {name}");
            assert!(!dependencies.contains(name), "decision {number} rejects {name}");
        }
    }
}

#[test]
fn every_cited_decision_has_a_record() {
    let records = decision_records();
    let mut text = String::new();
    sources(&root(), &mut text);
    for folder in [root(), root().join("docs")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let cited = cited_decisions(&text);
    assert!(cited.len() > 40, "the citations were not read: {cited:?}");
    let missing: Vec<_> = cited.iter().filter(|number| !records.contains_key(*number)).collect();
    assert!(missing.is_empty(), "cited and not in docs/decisions: {missing:?}");
}
