//! The values of variables.

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Severity};

use super::walk::Walker;
use crate::marks::{ANY, UNKNOWN};
use crate::syntax::{Operation, Parameter};

/// Reading a variable whose name says that it is a secret.
const READS_SECRET: Effect = Effect {
    action_kind: ActionKind::Read,
    severity: Severity::High,
    blast_radius: BlastRadius::Medium,
    confidence: Confidence::percent(60),
};

/// Variables that have a number, or a name without slashes.
const PLAIN_VARIABLES: &[&str] = &[
    "UID",
    "EUID",
    "PPID",
    "RANDOM",
    "SECONDS",
    "LINENO",
    "HOSTNAME",
    "USER",
    "LOGNAME",
    "SHLVL",
    "COLUMNS",
    "LINES",
    "HOSTTYPE",
    "MACHTYPE",
    "OSTYPE",
    "EPOCHSECONDS",
    "BASHPID",
    "LANG",
];

impl Walker<'_> {
    pub(super) fn parameter(&mut self, parameter: &Parameter) -> Vec<String> {
        let words: Vec<Vec<String>> = parameter.words.iter().map(|word| self.alternatives(word)).collect();
        let unknown = || vec![UNKNOWN.to_string()];
        match parameter.operation {
            Operation::Value | Operation::Bare | Operation::Elements | Operation::Required => {
                self.variable(&parameter.name)
            }
            Operation::Default => {
                let mut values = self.variable(&parameter.name);
                values.extend(words.into_iter().flatten());
                values
            }
            Operation::Alternative => {
                let mut values: Vec<String> = words.into_iter().flatten().collect();
                values.push(String::new());
                values
            }
            Operation::Length | Operation::FileName => vec![ANY.to_string()],
            Operation::WithoutEnding => {
                let ending = words.first().and_then(|values| values.first()).cloned().unwrap_or_default();
                let without = |value: String| {
                    value.strip_suffix(ending.as_str()).map_or_else(|| UNKNOWN.to_string(), str::to_owned)
                };
                self.variable(&parameter.name).into_iter().map(without).collect()
            }
            Operation::Change => {
                self.variable(&parameter.name);
                unknown()
            }
            Operation::Indirect => {
                self.findings.unclassified("a variable whose value is expanded again");
                unknown()
            }
        }
    }

    fn variable(&mut self, name: &str) -> Vec<String> {
        if let Some(values) = self.variables.get(name) {
            return values.clone();
        }
        match name {
            "HOME" => vec![self.places.home.to_owned()],
            "PWD" => self.folders.clone(),
            "TMPDIR" => vec!["/tmp".to_owned()],
            "PATH" => vec!["/usr/bin".to_owned()],
            "?" | "#" | "$" | "!" | "-" => vec![ANY.to_string()],
            name if PLAIN_VARIABLES.contains(&name) => vec![ANY.to_string()],
            name => {
                if is_secret_variable(name) {
                    self.findings.add(READS_SECRET, &format!("${name}"));
                }
                vec![UNKNOWN.to_string()]
            }
        }
    }
}

/// Variables of this kind keep keys and passwords.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE_KEY", "ACCESS_KEY"]
        .iter()
        .any(|part| name.contains(part))
}
