//! Confines a run's agent, and provides writable replacements for folders that it cannot write to.
//!
//! | in the session's home | for |
//! |---|---|
//! | `agent/` | the agent: its configuration, conversation, tool socket and `tmp` |
//! | `outputs/` | the native agent, read-only: tool output that was too long to show |
//! | everything else | the sidecar only |

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use pilothouse_agent::process::Confinement;
use pilothouse_agent::process::confinement::{Support, support};
use pilothouse_wire::launch::{LaunchConfinement, SidecarLaunch};

/// Caches in the user's home. Sessions share those that exist.
const CACHES: [&str; 9] = [
    ".cache",
    ".npm",
    ".bun/install/cache",
    ".yarn/berry/cache",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".gradle/caches",
    ".nuget/packages",
    "go/pkg",
];
/// Caches that are created if they are missing.
const MADE: [&str; 2] = [".cache", ".npm"];
/// The writable parts of Cargo's home, without its programs and its configuration.
const CARGO_FOLDERS: [&str; 2] = ["registry", "git"];
const CARGO_FILES: [&str; 3] = [".package-cache", ".package-cache-mutate", ".global-cache"];
/// Agents that write to their configuration below `XDG_CONFIG_HOME`.
const CONFIGURED_BY_XDG: [&str; 2] = ["opencode", "goose"];
/// Login files of such agents, below `XDG_DATA_HOME`.
const LOGINS: [&str; 1] = ["opencode/auth.json"];

/// In the form that workers parse.
pub fn support_in_words() -> &'static str {
    match support() {
        Support::Nothing => "nothing",
        Support::Files => "files",
        Support::FilesAndSignals => "files-and-signals",
    }
}

/// The part of the session's home that the agent may read and write.
pub fn agent_folder(launch: &SidecarLaunch) -> PathBuf {
    Path::new(&launch.session_home).join("agent")
}

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) confinement: Confinement,
    /// Variables that point programs to folders that they can write to.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
    /// Why the agent cannot run with this confinement: a sentence for people.
    pub(super) refusal: Option<String>,
}

/// Hides paths and no other file, for an agent in a container. Without support by the kernel or the container's engine, the
/// agent is not confined, which the log says.
pub(super) fn hiding(paths: &[PathBuf]) -> Option<Confinement> {
    match try_hiding(paths) {
        Ok(confinement) => Some(confinement),
        Err(error) => {
            tracing::warn!(
                %error,
                "the agent runs as the sidecar's own user and can read the sidecar's files, among them the keys of its run"
            );
            None
        }
    }
}

fn try_hiding(paths: &[PathBuf]) -> io::Result<Confinement> {
    if support() == Support::Nothing {
        return Err(io::Error::other(
            "the kernel or the engine of the container does not support confinement",
        ));
    }
    let mut confinement = Confinement::hiding(paths.iter().cloned())?;
    confinement.allow_writing_elsewhere();
    // On a thread of its own, which stays confined: an agent that cannot be confined must start all the same.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let attempt = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .spawn_scoped(scope, || confinement.confine_thread())?
                .join()
                .map_err(|_| io::Error::other("it panicked"))
        });
        attempt??;
    }
    Ok(confinement)
}

/// Creates the folders of the session's agent, and determines the access of its processes.
pub(super) fn prepare(launch: &SidecarLaunch, asked: &LaunchConfinement) -> Result<Prepared, String> {
    if support() == Support::Nothing {
        return Err(
            "the kernel cannot confine agents as the server requires; restart the server, which will explain what to do"
                .into(),
        );
    }
    let folders = |e: io::Error| format!("failed to create the agent's own folders: {e}");
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let mut confinement = Confinement::hiding(asked.hidden.iter().cloned()).map_err(folders)?;
    let variables = own_folders(launch, home.as_deref(), &mut confinement).map_err(folders)?;
    for cache in home.as_deref().map(caches).unwrap_or_default() {
        if let Err(error) = confinement.allow_writing(&cache) {
            tracing::debug!(%error, "failed to grant access to a cache");
        }
    }
    let folder = Path::new(&launch.request.working_directory);
    let refusal = confinement.allow_writing(folder).err().map(|e| {
        format!(
            "the agent cannot work in {} and be confined: {e}; choose another working directory, or start the server with \
             --unconfined",
            folder.display()
        )
    });
    Ok(Prepared { confinement, variables, refusal })
}

fn own_folders(
    launch: &SidecarLaunch,
    home: Option<&Path>,
    confinement: &mut Confinement,
) -> io::Result<Vec<(&'static str, PathBuf)>> {
    let agent = agent_folder(launch);
    let outputs = Path::new(&launch.session_home).join("outputs");
    for folder in [&agent, &outputs] {
        private_folder(folder)?;
    }
    let mut variables = vec![];
    for (name, folder) in [
        ("TMPDIR", "tmp"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
    ] {
        let folder = agent.join(folder);
        own_folder(&folder)?;
        variables.push((name, folder));
    }
    if let Some(home) = home {
        variables.push(("XDG_CACHE_HOME", home.join(".cache")));
        link_entries(&home.join(".config"), &agent.join("config"), &CONFIGURED_BY_XDG)?;
        for login in LOGINS {
            let (there, here) = (home.join(".local/share").join(login), agent.join("data").join(login));
            if let Some(parent) = here.parent().filter(|_| there.is_file()) {
                own_folder(parent)?;
                link(&there, &here)?;
            }
        }
    }
    confinement.exempt_to_write(&agent)?;
    confinement.exempt_to_read(&outputs)?;
    Ok(variables)
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a folder. The agent of an earlier run may have replaced it, for example by a link that redirects this
/// process.
fn own_folder(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        fs::remove_file(path)?;
    }
    private_folder(path)
}

fn link(there: &Path, here: &Path) -> io::Result<()> {
    match symlink(there, here) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Links the user's configuration for read access. Creates the folders in `own` instead, and links their entries.
fn link_entries(from: &Path, to: &Path, own: &[&str]) -> io::Result<()> {
    for entry in from.read_dir().into_iter().flatten().flatten() {
        let here = to.join(entry.file_name());
        if own.iter().any(|name| entry.file_name() == *name) && entry.path().is_dir() {
            own_folder(&here)?;
            link_entries(&entry.path(), &here, &[])?;
        } else {
            link(&entry.path(), &here)?;
        }
    }
    Ok(())
}

/// Creates the missing ones of [`MADE`].
fn caches(home: &Path) -> Vec<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    for folder in MADE {
        let _ = fs::create_dir_all(home.join(folder));
    }
    if cargo.is_dir() {
        for folder in CARGO_FOLDERS {
            let _ = fs::create_dir_all(cargo.join(folder));
        }
        for file in CARGO_FILES {
            let _ = File::options().create(true).append(true).open(cargo.join(file));
        }
    }
    let of_cargo = CARGO_FOLDERS.iter().chain(&CARGO_FILES).map(|name| cargo.join(name));
    CACHES.iter().map(|name| home.join(name)).chain(of_cargo).filter(|path| path.exists()).collect()
}

/// Variables that name a folder which programs write to.
const FOLDER_VARIABLES: [&str; 9] = [
    "HOME",
    "TMPDIR",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
];

/// The folders in `FOLDER_VARIABLES`. They are writable, because whoever set the variable expects that.
pub fn named_folders<'a, N, V>(variables: impl IntoIterator<Item = (&'a N, &'a V)>) -> Vec<PathBuf>
where
    N: AsRef<std::ffi::OsStr> + ?Sized + 'a,
    V: Clone + Into<OsString> + 'a,
{
    let named = variables
        .into_iter()
        .filter(|(name, _)| FOLDER_VARIABLES.iter().any(|known| name.as_ref() == *known));
    named.map(|(_, folder)| PathBuf::from(folder.clone().into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_show_user_configuration_and_agents_get_own_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for folder in ["git", "opencode/plugin"] {
            fs::create_dir_all(from.join(folder)).unwrap();
        }
        fs::write(from.join("opencode/opencode.json"), "{}").unwrap();
        fs::create_dir(&to).unwrap();
        // Every run links again.
        for _ in 0..2 {
            link_entries(&from, &to, &CONFIGURED_BY_XDG).unwrap();
        }
        assert!(to.join("git").is_symlink() && !to.join("opencode").is_symlink());
        assert!(to.join("opencode/opencode.json").is_symlink() && to.join("opencode/plugin").is_symlink());
    }

    #[test]
    fn a_link_in_the_place_of_an_own_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (elsewhere, own) = (dir.path().join("elsewhere"), dir.path().join("own"));
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, &own).unwrap();
        own_folder(&own).unwrap();
        assert!(own.symlink_metadata().unwrap().is_dir());
    }
}
