//! Skills: instructions for a kind of work.

use std::path::{Path, PathBuf};

use super::{front_matter, is_markdown, listed, read};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// When the skill applies.
    pub description: String,
    /// Paths in the skill's text are relative to the folder of this file.
    pub location: PathBuf,
    /// Text without front matter.
    pub body: String,
}

impl Skill {
    pub(super) fn prompt(&self, arguments: &str) -> String {
        let folder = self.location.parent().unwrap_or(Path::new("."));
        let block = format!(
            "<skill name=\"{}\" location=\"{}\">\nPaths in it are relative to {}.\n\n{}\n</skill>",
            attribute(&self.name),
            attribute(&self.location.display().to_string()),
            folder.display(),
            self.body.trim()
        );
        if arguments.is_empty() { block } else { format!("{block}\n\n{arguments}") }
    }

    pub(super) fn listing(&self) -> String {
        format!("- {}: {} ({})\n", self.name, self.description, self.location.display())
    }
}

/// Loads the skills of a folder, or the one in this file.
pub(super) fn load(place: &Path, notices: &mut Vec<String>) -> Vec<Skill> {
    if place.is_file() {
        return load_one(place.to_owned(), notices).into_iter().collect();
    }
    let own = place.join("SKILL.md");
    if own.is_file() {
        return load_one(own, notices).into_iter().collect();
    }
    let files = listed(place, notices).into_iter().filter_map(|path| {
        if path.is_dir() {
            let file = path.join("SKILL.md");
            return file.is_file().then_some(file);
        }
        is_markdown(&path).then_some(path)
    });
    files.collect::<Vec<_>>().into_iter().filter_map(|file| load_one(file, notices)).collect()
}

fn load_one(location: PathBuf, notices: &mut Vec<String>) -> Option<Skill> {
    let content = read(&location, notices)?;
    let (keys, body) = front_matter::split(&content);
    let in_folder = location.file_name().is_some_and(|name| name == "SKILL.md");
    let named = if in_folder { location.parent().and_then(Path::file_name) } else { location.file_stem() };
    let named = named.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = keys.get("name").filter(|name| !name.is_empty()).cloned().unwrap_or(named);
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains('/') {
        notices.push(format!("{} is skipped: `{name}` is not a valid skill name", location.display()));
        return None;
    }
    let description = keys.get("description").cloned().unwrap_or_default();
    Some(Skill { name, description, body: body.to_owned(), location })
}

fn attribute(value: &str) -> String {
    value.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}
