//! What a prompt can call by name (S1 6.3): skills and prompt templates, from folders and from extensions.
//!
//! A skill is `name.md` or `name/SKILL.md` in a folder of skills; `/skill:name` in a prompt is replaced by it. A template is
//! `name.md` in a folder of prompts; `/name` is replaced by it, with what follows in its placeholders. Of two with one name
//! the first counts (ruling 38).

mod arguments;
mod front_matter;
mod skill;
mod template;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use self::arguments::{split, substitute};
pub use self::skill::Skill;
pub use self::template::Template;

/// The largest file that is taken for a skill or a template.
const MAX_FILE: u64 = 1024 * 1024;

/// Where skills and templates come from, in the order in which they count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceLoader {
    /// Folders of skills; a file is a skill of its own.
    pub skills: Vec<PathBuf>,
    /// Folders of prompt templates; a file is a template of its own.
    pub prompts: Vec<PathBuf>,
}

impl ResourceLoader {
    /// Adds what comes after what is there: what extensions bring.
    pub fn extend(&mut self, other: Self) {
        self.skills.extend(other.skills);
        self.prompts.extend(other.prompts);
    }

    /// Reads all of them. What cannot be read, and what has the name of another, is left out with a notice. Blocks for as
    /// long as reading takes.
    pub fn load(&self) -> Resources {
        let mut resources = Resources::default();
        for place in &self.skills {
            for skill in skill::load(place, &mut resources.notices) {
                resources.add_skill(skill);
            }
        }
        for place in &self.prompts {
            for template in template::load(place, &mut resources.notices) {
                resources.add_template(template);
            }
        }
        resources
    }
}

/// Skills and templates that were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    skills: Vec<Skill>,
    templates: Vec<Template>,
    notices: Vec<String>,
}

/// What became of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expansion {
    /// It names neither a skill nor a template, and stays as it is.
    Unchanged,
    /// A skill stands in its place.
    Skill {
        /// Which.
        name: String,
        /// The text that the agent gets.
        text: String,
    },
    /// A template stands in its place.
    Template {
        /// Which.
        name: String,
        /// The text that the agent gets.
        text: String,
    },
}

impl Resources {
    /// Adds a skill, unless there is one with its name.
    pub fn add_skill(&mut self, skill: Skill) {
        match self.skills.iter().find(|other| other.name == skill.name) {
            Some(other) => self.notices.push(format!(
                "the skill `{}` of {} is left out: that of {} comes first",
                skill.name,
                skill.location.display(),
                other.location.display()
            )),
            None => self.skills.push(skill),
        }
    }

    /// Adds a template, unless there is one with its name.
    pub fn add_template(&mut self, template: Template) {
        match self.templates.iter().find(|other| other.name == template.name) {
            Some(other) => self.notices.push(format!(
                "the prompt template `{}` of {} is left out: that of {} comes first",
                template.name,
                template.location.display(),
                other.location.display()
            )),
            None => self.templates.push(template),
        }
    }

    /// The skills.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// The templates.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// What was left out, and why.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Replaces `/skill:name arguments` and `/template arguments` (S1 6.3).
    pub fn expand(&self, prompt: &str) -> Expansion {
        let Some((name, arguments)) = command(prompt) else { return Expansion::Unchanged };
        if let Some(skill) = name.strip_prefix("skill:") {
            return match self.skills.iter().find(|other| other.name == skill) {
                Some(skill) => Expansion::Skill { name: skill.name.clone(), text: skill.prompt(arguments) },
                None => Expansion::Unchanged,
            };
        }
        match self.templates.iter().find(|template| template.name == name) {
            Some(template) => {
                Expansion::Template { name: template.name.clone(), text: template.prompt(arguments) }
            }
            None => Expansion::Unchanged,
        }
    }

    /// For the system prompt: which skills there are and where, so that the agent can read one when it fits. Empty when
    /// there are none.
    pub fn skills_section(&self) -> String {
        if self.skills.is_empty() {
            return String::new();
        }
        let listed: String = self.skills.iter().map(Skill::listing).collect();
        format!(
            "<available_skills>\nRead the file of a skill when the work fits its description.\n{listed}</available_skills>"
        )
    }
}

/// A slash command: its name, and what follows it. None when a prompt is none.
pub fn command(prompt: &str) -> Option<(&str, &str)> {
    let rest = prompt.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path is no command.
    (!name.is_empty() && !name.contains('/')).then(|| (name, arguments.trim()))
}

/// Reads a file that is not too large for what it is taken for.
fn read(path: &std::path::Path, notices: &mut Vec<String>) -> Option<String> {
    let result = std::fs::metadata(path).and_then(|metadata| {
        if metadata.len() > MAX_FILE {
            return Err(std::io::Error::other("it is too large"));
        }
        std::fs::read_to_string(path)
    });
    result.inspect_err(|error| notices.push(format!("{} is left out: {error}", path.display()))).ok()
}

/// What a folder holds, by name; a folder that is not there holds nothing.
fn listed(folder: &std::path::Path, notices: &mut Vec<String>) -> Vec<PathBuf> {
    let mut paths: Vec<_> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                notices.push(format!("{} is left out: {error}", folder.display()));
            }
            Vec::new()
        }
    };
    paths.sort();
    paths
}

fn is_markdown(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}
