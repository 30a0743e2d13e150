//! JSON objects keep the order of their fields, as the OpenAPI document, stored items, prompts and recordings require.

use std::path::{Path, PathBuf};

use serde_json::Value;

#[test]
fn objects_keep_the_order_of_their_fields() {
    let text = r#"{"b":1,"a":{"d":2,"c":3}}"#;
    assert_eq!(serde_json::from_str::<Value>(text).unwrap().to_string(), text);
}

/// The files of crates that name `serde_json`.
fn manifests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.') {
            manifests(&path, found);
        } else if name == "Cargo.toml" && std::fs::read_to_string(&path).unwrap().contains("\nserde_json") {
            found.push(path);
        }
    }
}

/// Another dependency also enables the feature, but the workspace must not rely on it.
#[test]
fn the_workspace_asks_for_that_order() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    manifests(&root, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for manifest in found {
        let text = std::fs::read_to_string(&manifest).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("serde_json"));
        for line in lines {
            let asks = line.contains("workspace = true") || line.contains("\"preserve_order\"");
            assert!(asks, "{}: {line}", manifest.display());
        }
    }
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let pinned = |line: &str| line.starts_with("serde_json = ") && line.contains("\"preserve_order\"");
    assert!(workspace.lines().any(pinned));
}
