//! Variables that change what programs do.

use super::parameters::is_secret_variable;
use super::walk::Walker;
use crate::marks::is_literal;

/// Variables whose value is a command.
const COMMANDS: &[&str] = &[
    "PAGER", "EDITOR", "VISUAL", "BROWSER", "_COMMAND", "ASKPASS", "_PAGER", "_EDITOR", "_WRAPPER", "SHELL",
];
/// Variables that make programs load or run other code. A name that ends with one of these counts too.
const LOADERS: &[&str] = &[
    "PATH",
    "PRELOAD",
    "LESSOPEN",
    "LESSCLOSE",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PS4",
    "OPTS",
    "OPTIONS",
    "5OPT",
    "RUBYOPT",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "MAKEFLAGS",
    "GIT_SSH",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG",
    "CC",
    "CXX",
    "LD",
    "RUSTC",
    "HOME",
    "INPUTRC",
    "TERMINFO",
    "_CONFIG",
    "RC",
];

impl Walker<'_> {
    /// The effect of setting a variable that programs see.
    pub(super) fn variable_effect(&mut self, name: &str, value: &str, for_command: bool) {
        if is_secret_variable(name) && value.is_empty() {
            return;
        }
        if COMMANDS.iter().any(|end| name.ends_with(end)) {
            if !is_literal(value) {
                self.findings.unclassified(&format!("the variable `{name}`"));
            } else if !value.is_empty() {
                self.nested_script(value);
            }
        } else if name.starts_with("LD_")
            || name.starts_with("DYLD_")
            || name.starts_with("BASH_FUNC")
            || (LOADERS.iter().any(|end| name.ends_with(end)) && (for_command || name.len() <= 8))
        {
            self.findings.unclassified(&format!("the variable `{name}`"));
        } else {
            self.check_text(value);
        }
    }
}
