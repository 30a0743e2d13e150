//! Prompt templates: prompts with a name.

use std::path::{Path, PathBuf};

use super::{front_matter, is_markdown, listed, read, split, substitute};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The slash command that expands the template.
    pub name: String,
    pub description: String,
    pub location: PathBuf,
    /// Text with placeholders, without front matter.
    pub body: String,
}

impl Template {
    pub(super) fn prompt(&self, arguments: &str) -> String {
        substitute(&self.body, &split(arguments)).trim().to_owned()
    }
}

/// Loads the templates of a folder, or the one in this file.
pub(super) fn load(place: &Path, notices: &mut Vec<String>) -> Vec<Template> {
    let files = if place.is_file() { vec![place.to_owned()] } else { listed(place, notices) };
    let files = files.into_iter().filter(|path| is_markdown(path) && path.is_file());
    files.collect::<Vec<_>>().into_iter().filter_map(|file| load_one(file, notices)).collect()
}

fn load_one(location: PathBuf, notices: &mut Vec<String>) -> Option<Template> {
    let content = read(&location, notices)?;
    let (keys, body) = front_matter::split(&content);
    let name = location.file_stem()?.to_string_lossy().into_owned();
    if name.contains(char::is_whitespace) {
        notices.push(format!("{} is skipped: `{name}` is not a valid command name", location.display()));
        return None;
    }
    let first_line =
        || body.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
    let description = keys.get("description").cloned().unwrap_or_else(first_line);
    Some(Template { name, description, body: body.to_owned(), location })
}
