//! The repository with failing tests, and its script.

use std::{path::Path, process::Command};

use pilothouse_model_server::fixture;
use serde_json::Value;

#[test]
fn fixture_script_makes_the_tests_pass_step_by_step() {
    let folder = std::env::temp_dir().join(format!("pilothouse-calculator-{}", std::process::id()));
    fixture::broken_calculator(&folder).unwrap();
    assert!(!fixture::tests_pass(&folder).unwrap(), "they fail at first");
    let script = fixture::make_the_tests_pass().unwrap();
    let green = script.conversations.iter().map(|conversation| {
        std::fs::remove_dir_all(&folder).unwrap();
        fixture::broken_calculator(&folder).unwrap();
        let tools = conversation.steps.iter().flat_map(|step| &step.tools);
        tools.filter_map(|tool| play(&folder, &tool.input)).collect::<Vec<_>>()
    });
    let green: Vec<_> = green.collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(green, vec![vec![false, false, true]; 2], "of each agent: red, half mended, green");
}

/// Returns whether the tests passed, if the call ran them.
fn play(folder: &Path, input: &Value) -> Option<bool> {
    let field = |names: &[&str]| names.iter().find_map(|name| input[*name].as_str());
    if let Some(command) = field(&["command"]).filter(|command| command.contains("unittest")) {
        return Some(
            Command::new("sh").args(["-c", command]).current_dir(folder).output().unwrap().status.success(),
        );
    }
    let edit = input["edits"].get(0).unwrap_or(input);
    let part = |names: [&str; 2]| names.iter().find_map(|name| edit[*name].as_str());
    if let (Some(old), Some(new)) = (part(["old_string", "old_text"]), part(["new_string", "new_text"])) {
        let path = field(&["file_path", "path"]).unwrap().rsplit("}}/").next().unwrap();
        let text = std::fs::read_to_string(folder.join(path)).unwrap();
        assert_eq!(text.matches(old).count(), 1);
        std::fs::write(folder.join(path), text.replace(old, new)).unwrap();
    }
    None
}
