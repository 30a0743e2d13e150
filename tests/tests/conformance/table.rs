//! The table of `docs/adapters.md`: declared and observed capabilities of each agent.

use std::fmt::Write as _;
use std::path::Path;

use crate::agents::Agent;
use crate::verbs::{Finding, Observed, Verb};

const BEGIN: &str = "<!-- conformance: written by tests/conformance -->";
const END: &str = "<!-- conformance: end -->";

pub(crate) struct Column {
    pub(crate) agent: Agent,
    pub(crate) findings: Vec<Finding>,
}

/// Writes the table between its markers.
pub(crate) fn write(columns: &[Column]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/adapters.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) =
        text.split_once(BEGIN).expect("docs/adapters.md contains the marker of the start of the table");
    let (_, after) =
        rest.split_once(END).expect("docs/adapters.md contains the marker of the end of the table");
    std::fs::write(path, format!("{before}{BEGIN}\n\n{}\n{END}{after}", table(columns))).unwrap();
}

fn table(columns: &[Column]) -> String {
    let mut text = String::from("| |");
    let row = |text: &mut String, name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<_> = cells.collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    };
    for column in columns {
        let _ = write!(text, " {} |", column.agent.name());
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
    row(&mut text, "version", &mut columns.iter().map(|column| column.agent.version()));
    let mut notes = Vec::new();
    for verb in Verb::ALL {
        let name = match verb.capability() {
            Some(capability) => format!("{} (`{capability}`)", verb.name()),
            None => verb.name().to_owned(),
        };
        let mut cells = columns.iter().map(|column| {
            let finding = column.findings.iter().find(|finding| finding.verb == verb);
            finding.map_or_else(|| "not tried".to_owned(), |finding| cell(column.agent, finding, &mut notes))
        });
        row(&mut text, &name, &mut cells);
    }
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}{}. {note}", if number == 0 { "\n" } else { "" }, number + 1);
    }
    text
}

fn cell(agent: Agent, finding: &Finding, notes: &mut Vec<String>) -> String {
    let word = match &finding.observed {
        Observed::Yes => "yes",
        Observed::No(_) => "no",
        Observed::Failed(_) => "failed",
        Observed::NotApplicable => return "–".to_owned(),
    };
    if finding.agrees() {
        return match &finding.observed {
            // The table shows by how much the agent exceeded the cap.
            Observed::No(measured) if finding.verb == Verb::BudgetBeforeCall => format!("{word}: {measured}"),
            _ => word.to_owned(),
        };
    }
    let why = match &finding.observed {
        Observed::No(why) | Observed::Failed(why) => why.as_str(),
        _ => "the agent can do what it declared as missing",
    };
    notes.push(format!("{}, {}: {}.", agent.name(), finding.verb.name(), why.trim_end_matches('.')));
    let declared = if finding.declared { "yes" } else { "no" };
    format!("**{word}**, declared {declared} ({})", notes.len())
}
