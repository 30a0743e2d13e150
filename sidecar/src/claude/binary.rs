//! Finds the `claude` binary.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::options::AdapterOptions;
use crate::adapter::AdapterError;

/// Variable that names the binary for the whole machine.
const VARIABLE: &str = "PILOTHOUSE_CLAUDE";
/// The binary's name in `PATH`.
const NAME: &str = "claude";

/// The binary from the options, from the machine's configuration, or from `PATH`, in this order.
pub(super) fn find(options: &AdapterOptions) -> Result<PathBuf, AdapterError> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let path = std::env::var_os("PATH").unwrap_or_default();
    choose(options.binary.as_deref(), variable.as_deref(), &path)
}

fn choose(option: Option<&str>, variable: Option<&OsStr>, path: &OsStr) -> Result<PathBuf, AdapterError> {
    let named = match (option, variable) {
        (Some(option), _) => Some((PathBuf::from(option), "`adapterOptions.binary`")),
        (None, Some(variable)) => Some((PathBuf::from(variable), "`PILOTHOUSE_CLAUDE`")),
        (None, None) => None,
    };
    if let Some((named, by)) = named {
        return if is_program(&named) {
            Ok(named)
        } else {
            Err(AdapterError::Configuration(format!(
                "{by} names {}, which is no program that can be run",
                named.display()
            )))
        };
    }
    std::env::split_paths(path).map(|folder| folder.join(NAME)).find(|candidate| is_program(candidate)).ok_or_else(
        || {
            AdapterError::Configuration(
                "Claude Code is not installed: put `claude` on the path (`npm install -g @anthropic-ai/claude-code`), or \
                 name it with `adapterOptions.binary` or the variable `PILOTHOUSE_CLAUDE`"
                    .into(),
            )
        },
    )
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn nearest_configuration_wins_before_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = (program(dir.path(), "a"), program(dir.path(), "b"), program(dir.path(), "claude"));
        let path = dir.path().as_os_str();
        assert_eq!(choose(a.to_str(), Some(b.as_os_str()), path).unwrap(), a);
        assert_eq!(choose(None, Some(b.as_os_str()), path).unwrap(), b);
        assert_eq!(choose(None, None, path).unwrap(), c);
    }

    #[test]
    fn missing_binary_is_reported_in_one_sentence() {
        let none = choose(None, None, OsStr::new("/nowhere")).unwrap_err().to_string();
        assert!(
            none.contains("Claude Code is not installed") && none.contains("PILOTHOUSE_CLAUDE"),
            "{none}"
        );
        let wrong = choose(Some("/nowhere/claude"), None, OsStr::new("/bin")).unwrap_err().to_string();
        assert!(wrong.contains("`adapterOptions.binary` names /nowhere/claude"), "{wrong}");
    }
}
