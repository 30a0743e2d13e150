//! Programs: their options, and what their operands are. An option that a table does not have makes the call
//! unclassified, so the tables contain only what is harmless or understood.

mod development;
mod files;
mod system;

use std::collections::HashMap;
use std::sync::LazyLock;

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Severity};

use crate::path::Access;

/// What a word of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Text,
    /// A pattern that takes the place of the first operand: `grep -e`.
    Pattern,
    Path(Access),
    /// A file that is read, and removed or changed.
    Copied,
    Url,
    /// Data that is sent to another machine, or the method of the request.
    Sent,
    /// A kind of resource of a cluster; secrets are one.
    Resource,
    /// Permissions of a file: `644`, `u+x`.
    Mode,
    /// A revision, a path, or both: `HEAD:src/lib.rs`.
    Revision,
    /// A name, not an assignment: `sysctl kernel.hostname`.
    Name,
    /// What a build makes or tests: a name, or a path in the workspace.
    Target,
    /// Code of another language.
    Code,
    /// A file that is run.
    ProgramFile,
}

/// What the operands of a program are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operands {
    /// No operands are known.
    None,
    Each(Value),
    First(Value, Value),
    /// The last operand is the target.
    LastIs(Value, Value),
    /// The program runs its operands as a command, after some of its own.
    Command {
        skipped: usize,
    },
}

/// A program whose words have a grammar of their own. The shell inspects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    Awk,
    Env,
    Find,
    Jq,
    Sed,
    Shell,
    Xargs,
}

/// What a program prints.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Prints {
    Data,
    /// Paths below its operands.
    Paths,
    /// Lines of its input.
    Input,
}

/// A program, or a subcommand of one.
#[allow(clippy::struct_excessive_bools)] // independent properties
pub(crate) struct Program {
    /// Names, separated by `|`. A subcommand has the name of its program before it: `git stash list`.
    pub(crate) names: &'static str,
    /// Short options without a value. `#` is any digits.
    pub(crate) flags: &'static str,
    /// Long options without a value or with an optional one, separated by spaces.
    pub(crate) long: &'static str,
    /// Options with a value: their names, separated by spaces.
    pub(crate) values: &'static [(&'static str, Value)],
    pub(crate) operands: Operands,
    pub(crate) prints: Prints,
    /// The effect of running it at all.
    pub(crate) effect: Option<Effect>,
    pub(crate) grammar: Option<Grammar>,
    /// Options that the table does not have are harmless.
    pub(crate) any_option: bool,
    /// Long options have one dash: `find -name`.
    pub(crate) one_dash: bool,
    /// The first operand is a group of short options: `tar xf`.
    pub(crate) letters_first: bool,
    /// Words after the first operand are no options of this program.
    pub(crate) stops_at_operand: bool,
    /// It runs code of the workspace, such as a test.
    pub(crate) runs_project_code: bool,
}

pub(crate) const fn program(names: &'static str) -> Program {
    Program {
        names,
        flags: "",
        long: "",
        values: &[],
        operands: Operands::None,
        prints: Prints::Data,
        effect: None,
        grammar: None,
        any_option: false,
        one_dash: false,
        letters_first: false,
        stops_at_operand: false,
        runs_project_code: false,
    }
}

impl Program {
    const fn flags(mut self, flags: &'static str) -> Self {
        self.flags = flags;
        self
    }
    const fn long(mut self, long: &'static str) -> Self {
        self.long = long;
        self
    }
    const fn takes(mut self, values: &'static [(&'static str, Value)]) -> Self {
        self.values = values;
        self
    }
    const fn operands(mut self, operands: Operands) -> Self {
        self.operands = operands;
        self
    }
    const fn each(self, value: Value) -> Self {
        self.operands(Operands::Each(value))
    }
    const fn prints(mut self, prints: Prints) -> Self {
        self.prints = prints;
        self
    }
    const fn effect(mut self, effect: Effect) -> Self {
        self.effect = Some(effect);
        self
    }
    const fn grammar(mut self, grammar: Grammar) -> Self {
        self.grammar = Some(grammar);
        self
    }
    const fn any_option(mut self) -> Self {
        self.any_option = true;
        self
    }
    const fn one_dash(mut self) -> Self {
        self.one_dash = true;
        self
    }
    const fn letters_first(mut self) -> Self {
        self.letters_first = true;
        self
    }
    const fn stops_at_operand(mut self) -> Self {
        self.stops_at_operand = true;
        self
    }
    const fn runs_project_code(mut self) -> Self {
        self.runs_project_code = true;
        self
    }

    /// Whether it writes files in its working directory that its words do not name.
    pub(crate) fn changes_working_directory(&self) -> bool {
        self.effect
            .is_some_and(|effect| matches!(effect.action_kind, ActionKind::Execute | ActionKind::Update))
    }

    /// Whether it writes files whose names an archive or a patch contains.
    pub(crate) fn unpacks(&self, words: &[String]) -> bool {
        let extracts = |word: &String| {
            let letters = word.strip_prefix('-').unwrap_or(word);
            word == "--extract"
                || (!letters.starts_with('-') && letters.contains('x') && !letters.contains('.'))
        };
        match self.names {
            "unzip" | "patch" => true,
            "tar|bsdtar" => words.iter().take(3).any(extracts),
            _ => false,
        }
    }

    pub(crate) fn has_long(&self, name: &str) -> bool {
        self.long.split(' ').any(|long| long == name) && !name.is_empty()
    }

    pub(crate) fn value_of(&self, name: &str) -> Option<Value> {
        let found = |names: &str| names.split(' ').any(|n| n == name && (n.len() > 1 || self.one_dash));
        self.values.iter().find(|(names, _)| found(names)).map(|(_, value)| *value)
    }

    pub(crate) fn value_of_letter(&self, letter: char) -> Option<Value> {
        let found =
            |names: &str| names.split(' ').any(|n| n.len() == letter.len_utf8() && n.starts_with(letter));
        self.values.iter().find(|(names, _)| found(names)).map(|(_, value)| *value)
    }
}

const fn effect(kind: ActionKind, severity: Severity, radius: BlastRadius, percent: u8) -> Effect {
    Effect { action_kind: kind, severity, blast_radius: radius, confidence: Confidence::percent(percent) }
}

use crate::findings::INERT as SHOWS;
const SEARCHES: Effect = effect(ActionKind::Search, Severity::Warning, BlastRadius::Trivial, 95);
/// Prints the environment, which contains keys.
pub(crate) const PRINTS_VARIABLES: Effect =
    effect(ActionKind::Read, Severity::Medium, BlastRadius::Small, 80);
/// Changes a state that is restored easily: a local branch, the volume, the lock of the screen.
const CHANGES_LITTLE: Effect = effect(ActionKind::Update, Severity::Low, BlastRadius::Trivial, 85);
/// Changes settings or processes of the user.
const CHANGES_SETTINGS: Effect = effect(ActionKind::Update, Severity::Medium, BlastRadius::Medium, 85);
/// Changes the machine for everybody.
pub(crate) const CHANGES_MACHINE: Effect = effect(ActionKind::Update, Severity::High, BlastRadius::Large, 85);
/// Sends a request whose text is known, and no data.
pub(crate) const ASKS_NETWORK: Effect = effect(ActionKind::Network, Severity::Low, BlastRadius::Trivial, 80);
/// Gets data from the network.
pub(crate) const USES_NETWORK: Effect = effect(ActionKind::Network, Severity::Medium, BlastRadius::Small, 80);
/// Removes work that version control or a registry does not keep.
const REMOVES: Effect = effect(ActionKind::Delete, Severity::Medium, BlastRadius::Medium, 85);
/// Builds or tests the project by its own rules.
const BUILDS: Effect = effect(ActionKind::Execute, Severity::Low, BlastRadius::Trivial, 70);
/// Runs code that comes from elsewhere.
const INSTALLS: Effect = effect(ActionKind::Execute, Severity::Medium, BlastRadius::Medium, 60);
pub(crate) const PUBLISHES: Effect = effect(ActionKind::Deploy, Severity::High, BlastRadius::Large, 90);
/// Opens a window on the screen of the user.
const OPENS_WINDOW: Effect = effect(ActionKind::Execute, Severity::Warning, BlastRadius::Trivial, 80);
/// Runs a command with other rights or on another machine.
pub(crate) const ESCALATES: Effect = effect(ActionKind::Execute, Severity::High, BlastRadius::Large, 70);

const LIST: Value = Value::Path(Access::List);
const READ: Value = Value::Path(Access::Read);
const CREATE: Value = Value::Path(Access::Create);
const UPDATE: Value = Value::Path(Access::Update);
const DELETE: Value = Value::Path(Access::Delete);
const TEXT: Value = Value::Text;
const REVISION: Value = Value::Revision;
const MODE: Value = Value::Mode;

static PROGRAMS: LazyLock<HashMap<&'static str, &'static Program>> = LazyLock::new(|| {
    let tables = [
        system::SHOW,
        system::CONTROL,
        files::READING,
        files::CHANGING,
        development::VERSIONS,
        development::TOOLS,
    ];
    tables
        .iter()
        .flat_map(|table| table.iter())
        .flat_map(|p| p.names.split('|').map(move |name| (name, p)))
        .collect()
});

/// The entry of a program with the longest subcommand, and how many words name the subcommand.
pub(crate) fn find_program(name: &str, words: &[String]) -> Option<(&'static Program, usize)> {
    let mut found = PROGRAMS.get(name).map(|program| (*program, 0));
    let mut full = name.to_owned();
    // Harmless, and in front of many subcommands.
    let skipped = usize::from(name == "git" && words.first().is_some_and(|word| word == "--no-pager"));
    for (at, word) in words.iter().enumerate().skip(skipped).take(3) {
        full.push(' ');
        full.push_str(word);
        if let Some(program) = PROGRAMS.get(full.as_str()) {
            found = Some((program, at + 1));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique() {
        let mut seen = std::collections::HashSet::new();
        for table in [
            system::SHOW,
            system::CONTROL,
            files::READING,
            files::CHANGING,
            development::VERSIONS,
            development::TOOLS,
        ] {
            for name in table.iter().flat_map(|program| program.names.split('|')) {
                assert!(seen.insert(name), "{name}");
            }
        }
    }
}
