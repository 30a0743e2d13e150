//! The adapter of sessions that name none (decision 20). The first start chooses it from the agents that are installed, and the
//! data folder keeps it, so that an agent that is installed later does not change the sessions of a template.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pilothouse_domain::text::{AdapterName, InvalidText};
use pilothouse_worker::is_installed;

const FILE: &str = "default-adapter";

#[derive(Debug, thiserror::Error)]
pub enum DefaultAdapterError {
    #[error("failed to access {}: {source}", .file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} does not contain the name of an adapter: {source}; delete it, or start with --default-adapter", .file.display())]
    Invalid { file: PathBuf, source: InvalidText },
}

/// Returns `named` and keeps it in `folder`. Without a name, returns the adapter of an earlier start, or else that of an installed
/// agent. `None` if no agent is found; the next start looks again.
pub(super) fn choose(
    folder: &Path,
    named: Option<AdapterName>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<AdapterName>, DefaultAdapterError> {
    let file = folder.join(FILE);
    let failed = |source| DefaultAdapterError::Io { file: file.clone(), source };
    let kept = match fs::read_to_string(&file) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if let (None, Some(kept)) = (&named, &kept) {
        let invalid = |source| DefaultAdapterError::Invalid { file: file.clone(), source };
        return AdapterName::parse(kept.clone()).map(Some).map_err(invalid);
    }
    let chosen = named.or_else(|| detected(environment));
    if let Some(chosen) = &chosen
        && kept.as_deref() != Some(chosen.as_str())
    {
        write(folder, &file, chosen).map_err(failed)?;
    }
    Ok(chosen)
}

/// The adapter of Claude Code if it is installed, or else of the native agent if there is a key of a provider.
fn detected(environment: impl Fn(&str) -> Option<OsString>) -> Option<AdapterName> {
    let given = |name: &str| environment(name).filter(|value| !value.is_empty());
    let claude = given(pilothouse_worker::CLAUDE).is_some()
        || given("PATH").is_some_and(|path| is_installed("claude", &path));
    let native = pilothouse_worker::model_variables().any(|name| given(name).is_some());
    match (claude, native) {
        (true, _) => Some(AdapterName::claude()),
        (false, true) => Some(AdapterName::native()),
        (false, false) => None,
    }
}

fn write(folder: &Path, file: &Path, adapter: &AdapterName) -> io::Result<()> {
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(written, "{adapter}")?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn chosen(folder: &Path, named: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let named = named.map(|name| AdapterName::parse(name).unwrap());
        choose(folder, named, variable).unwrap().map(|adapter| adapter.to_string())
    }

    #[test]
    fn installed_agent_is_chosen_once_and_a_name_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let key = [("OPENAI_API_KEY", "k")];
        assert_eq!(chosen(folder.path(), None, &[("OPENAI_API_KEY", ""), ("PATH", "/nowhere")]), None);
        assert_eq!(chosen(folder.path(), None, &key).as_deref(), Some("native"));

        let programs = tempfile::tempdir().unwrap();
        let claude = programs.path().join("claude");
        fs::write(&claude, "").unwrap();
        let both = [("PATH", programs.path().to_str().unwrap()), key[0]];
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o600)).unwrap();
        let first =
            |environment: &[(&str, &str)]| chosen(tempfile::tempdir().unwrap().path(), None, environment);
        assert_eq!(first(&both).as_deref(), Some("native"), "the file is not executable");
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(chosen(folder.path(), None, &both).as_deref(), Some("native"));
        assert_eq!(first(&both).as_deref(), Some("claude"));

        assert_eq!(chosen(folder.path(), Some("acp"), &both).as_deref(), Some("acp"));
        assert_eq!(chosen(folder.path(), None, &[]).as_deref(), Some("acp"));
    }

    #[test]
    fn damaged_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "no adapter!\n").unwrap();
        let refused = choose(folder.path(), None, |_| None).unwrap_err();
        assert!(refused.to_string().contains("start with --default-adapter"), "{refused}");
    }
}
