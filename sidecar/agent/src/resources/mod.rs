//! Skills and prompt templates that a prompt can name (S1 6.3), from folders and from extensions.
//!
//! A skill is `name.md` or `name/SKILL.md` in a folder of skills; it replaces `/skill:name` in a prompt. A template is
//! `name.md` in a folder of prompts; it replaces `/name`, with the rest of the prompt as its arguments. Of two with the
//! same name, the first applies (decision 38).

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

/// In bytes, for a skill or a template.
const MAX_FILE: u64 = 1024 * 1024;

/// Locations of skills and templates, by precedence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceLoader {
    /// Folders of skills, or files with one skill.
    pub skills: Vec<PathBuf>,
    /// Folders of prompt templates, or files with one template.
    pub prompts: Vec<PathBuf>,
}

impl ResourceLoader {
    /// Adds locations with lower precedence, for example those of extensions.
    pub fn extend(&mut self, other: Self) {
        self.skills.extend(other.skills);
        self.prompts.extend(other.prompts);
    }

    /// Skips unreadable files and duplicate names with a notice. Blocks while reading.
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

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    skills: Vec<Skill>,
    templates: Vec<Template>,
    notices: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expansion {
    /// The prompt refers to no skill or template.
    Unchanged,
    Skill {
        name: String,
        text: String,
    },
    Template {
        name: String,
        text: String,
    },
}

impl Resources {
    /// Keeps an earlier skill with the same name.
    pub fn add_skill(&mut self, skill: Skill) {
        match self.skills.iter().find(|other| other.name == skill.name) {
            // The folders of several kinds of agents often have the same skills.
            Some(other) if other.body == skill.body => {}
            Some(other) => self.notices.push(format!(
                "the skill `{}` of {} is skipped: that of {} takes precedence",
                skill.name,
                skill.location.display(),
                other.location.display()
            )),
            None => self.skills.push(skill),
        }
    }

    /// Keeps an earlier template with the same name.
    pub fn add_template(&mut self, template: Template) {
        match self.templates.iter().find(|other| other.name == template.name) {
            Some(other) => self.notices.push(format!(
                "the prompt template `{}` of {} is skipped: that of {} takes precedence",
                template.name,
                template.location.display(),
                other.location.display()
            )),
            None => self.templates.push(template),
        }
    }

    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Expands `/skill:name arguments` and `/template arguments` (S1 6.3).
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

    /// The section of the system prompt that lists the skills and their files, from which the agent can read one. Empty
    /// if there are none.
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

/// Splits a slash command into its name and the rest. `None` if the prompt is not a command.
pub fn command(prompt: &str) -> Option<(&str, &str)> {
    let rest = prompt.trim().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // The prompt may begin with a path.
    (!name.is_empty() && !name.contains('/')).then(|| (name, arguments.trim()))
}

fn read(path: &std::path::Path, notices: &mut Vec<String>) -> Option<String> {
    let result = std::fs::metadata(path).and_then(|metadata| {
        if metadata.len() > MAX_FILE {
            return Err(std::io::Error::other("it is too large"));
        }
        std::fs::read_to_string(path)
    });
    result.inspect_err(|error| notices.push(format!("{} is skipped: {error}", path.display()))).ok()
}

/// Sorted by name. Empty if the folder does not exist.
fn listed(folder: &std::path::Path, notices: &mut Vec<String>) -> Vec<PathBuf> {
    let mut paths: Vec<_> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                notices.push(format!("{} is skipped: {error}", folder.display()));
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
