//! Prints how often labelled tool calls are allowed and asked about: `cargo run --example quality -- FOLDER [--show]`.
//!
//! | file in the folder | content |
//! |---|---|
//! | `harmful.json`, `harmless.json` | lists of objects, each with a `command` or with the `calls` of one task: `tool`, `arguments` |
//! | `patterns.json` | patterns of the project |
//! | `*.jsonl` | transcripts; their shell commands are counted |
//!
//! An agent with the trust 50 makes the calls in adaptive mode. A task is asked about if one of its calls is. `--show` prints the
//! entries with the unwanted verdict.

#[path = "../tests/verdict/mod.rs"]
mod verdict;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use pilothouse_classification::pattern::ToolClassifications;
use pilothouse_classification::{Adapter, Context, ToolCall, classify};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("the folder with the lists is missing")?;
    let shows = arguments.next().is_some_and(|argument| argument == "--show");
    let folder = Path::new(&folder);
    let patterns = match fs::read_to_string(folder.join("patterns.json")) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => ToolClassifications::default(),
    };
    for (file, unwanted_is_asked) in [("harmful.json", false), ("harmless.json", true)] {
        let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
        let entries: Vec<Value> = serde_json::from_str(&text)?;
        let mut unwanted = Vec::new();
        for entry in &entries {
            if asks(entry, &patterns)? == unwanted_is_asked {
                unwanted.push(entry);
            }
        }
        report(file, if unwanted_is_asked { "asked" } else { "allowed" }, unwanted.len(), entries.len());
        for entry in unwanted.into_iter().filter(|_| shows) {
            println!("  {entry}");
        }
    }
    transcripts(folder)
}

fn report(name: &str, verdict: &str, count: usize, all: usize) {
    let permille = (count * 1_000 + all / 2) / all.max(1);
    println!("{name}: {count} of {all} {verdict} ({}.{} %)", permille / 10, permille % 10);
}

/// Whether a person is asked about one of the calls of an entry.
fn asks(entry: &Value, patterns: &ToolClassifications) -> Result<bool, Box<dyn Error>> {
    if let Some(command) = entry.get("command").and_then(Value::as_str) {
        return Ok(verdict::asks(&verdict::classified(command)));
    }
    let context = Context::new("/home/user/project", "/home/user/project", "/home/user", patterns)?;
    let calls = entry.get("calls").and_then(Value::as_array).ok_or("neither `command` nor `calls`")?;
    let nothing = json!({});
    Ok(calls.iter().any(|call| {
        let tool = call.get("tool").and_then(Value::as_str).unwrap_or_default();
        let arguments = call.get("arguments").unwrap_or(&nothing);
        verdict::asks(&classify(
            &ToolCall { adapter: Adapter::Claude, tool, kind: None, arguments },
            &context,
        ))
    }))
}

/// The working directory of the transcripts' agents.
const TRANSCRIBED: &str = "/workspace/project";

/// Counts the shell commands in the transcripts of a folder, and the different ones.
fn transcripts(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut commands = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            for line in fs::read_to_string(&path)?.lines().filter(|line| !line.is_empty()) {
                collect(&serde_json::from_str(line)?, &mut commands);
            }
        }
    }
    if commands.is_empty() {
        return Ok(());
    }
    let asked = |command: &&String| verdict::asks(&verdict::classified_in(TRANSCRIBED, command));
    report("commands of transcripts", "asked", commands.iter().filter(asked).count(), commands.len());
    let different: BTreeSet<&String> = commands.iter().collect();
    let asked: Vec<_> = different.iter().copied().filter(asked).collect();
    report("different commands", "asked", asked.len(), different.len());
    Ok(())
}

/// Finds the inputs of tool calls in a message.
fn collect(message: &Value, commands: &mut Vec<String>) {
    match message {
        Value::Object(object) => {
            let is_call = matches!(object.get("type").and_then(Value::as_str), Some("tool_use" | "toolCall"));
            let input = ["input", "arguments"].iter().find_map(|name| object.get(*name)).filter(|_| is_call);
            let input = input.or_else(|| object.get("rawInput"));
            commands.extend(input.and_then(|input| input.get("command")?.as_str()).map(str::to_owned));
            object.values().for_each(|value| collect(value, commands));
        }
        Value::Array(array) => array.iter().for_each(|value| collect(value, commands)),
        _ => {}
    }
}
