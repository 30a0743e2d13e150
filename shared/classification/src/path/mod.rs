//! Where a path points, and what an access to it means.
//!
//! Paths are normalised as text: `.` and `..` are resolved, symbolic links are not.

mod build_files;
mod names;
mod protected;

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Severity};

use crate::marks::{ANY, UNKNOWN};
pub(crate) use protected::names_secret;

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its name or metadata is read.
    List,
    /// Its content is read.
    Read,
    Create,
    Update,
    Delete,
    /// It is run as a program.
    Execute,
}

/// The folders that paths are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseFolders<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) project_root: &'a str,
    pub(crate) home: &'a str,
    /// Build files that earlier calls changed.
    pub(crate) changed_build_files: &'a [String],
}

/// Why folders do not form a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} must be an absolute path without `.` and `..`")]
pub struct InvalidPlaces(&'static str);

impl<'a> BaseFolders<'a> {
    pub(crate) fn new(
        workspace: &'a str,
        project_root: &'a str,
        home: &'a str,
    ) -> Result<Self, InvalidPlaces> {
        for (name, path) in [("the workspace", workspace), ("the project root", project_root), ("home", home)]
        {
            if !path.starts_with('/') || normalise("/", path) != path {
                return Err(InvalidPlaces(name));
            }
        }
        Ok(Self { workspace, project_root, home, changed_build_files: &[] })
    }
}

/// Where a path points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Workspace,
    /// In the project, outside the workspace.
    Project,
    /// Folders for temporary files.
    Temporary,
    /// `/dev/null`, the terminal and the standard streams.
    Stream,
    /// Files of the system that everybody may read.
    System,
    /// In the home directory of the user.
    Home,
    /// The rest of the machine.
    Machine,
    /// Unknown before the call runs.
    Unresolved,
}

/// Resolves `.`, `..` and repeated slashes as text. A relative path starts at `base`.
pub(crate) fn normalise(base: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let start = if path.starts_with('/') { "" } else { base };
    for part in start.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut normal = String::with_capacity(base.len() + path.len() + 1);
    for part in parts {
        normal.push('/');
        normal.push_str(part);
    }
    if normal.is_empty() { "/".to_owned() } else { normal }
}

/// The path below `folder`, without a slash; `None` if it is not in it.
pub(crate) fn below<'p>(folder: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/private/tmp", "/dev/shm"];
const STREAMS: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/fd",
    "/dev/random",
    "/dev/urandom",
];
const READABLE: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/etc",
    "/proc",
    "/sys",
    "/var/log",
    "/var/lib",
    "/run",
    "/Library",
    "/System",
    "/Applications",
    "/nix",
];

impl BaseFolders<'_> {
    /// Puts the home directory in the place of a leading `~`.
    fn home_expanded(&self, path: &str) -> String {
        match path.strip_prefix('~') {
            Some("") => self.home.to_owned(),
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", self.home),
            _ => path.to_owned(),
        }
    }

    /// The normal form of a path and its scope.
    pub(crate) fn locate(&self, base: &str, path: &str) -> (String, Scope) {
        let absolute = normalise(base, &self.home_expanded(path));
        // A `..` after a wildcard was resolved against one match, and others lead elsewhere.
        let wild = (base.contains(ANY) && path.contains(".."))
            || path.find(ANY).is_some_and(|at| path.get(at..).is_some_and(|rest| rest.contains("..")));
        if wild || absolute.contains(UNKNOWN) || path.contains(UNKNOWN) {
            return (absolute, Scope::Unresolved);
        }
        let is_in = |folders: &[&str]| folders.iter().any(|folder| below(folder, &absolute).is_some());
        let scope = if below(self.workspace, &absolute).is_some() {
            Scope::Workspace
        } else if below(self.project_root, &absolute).is_some() {
            Scope::Project
        } else if is_in(STREAMS) {
            Scope::Stream
        } else if is_in(TEMPORARY) {
            Scope::Temporary
        } else if below(self.home, &absolute).is_some() {
            Scope::Home
        } else if is_in(READABLE) || absolute == "/" {
            Scope::System
        } else {
            Scope::Machine
        };
        (absolute, scope)
    }

    /// The normal form of a path, and the effect of an access to it.
    pub(crate) fn effect(&self, base: &str, path: &str, access: Access) -> (String, Effect) {
        let (absolute, scope) = self.locate(base, path);
        let is_protected = if scope == Scope::Unresolved {
            names_secret(path, self.home)
        } else {
            protected::is_protected(&absolute, self, access, scope)
        };
        let effect = if is_protected {
            protected_effect(access)
        } else {
            scope_effect(scope, access, absolute.contains(ANY))
        };
        (absolute, effect)
    }

    /// Whether a file decides what a build or a test of the workspace runs.
    pub(crate) fn is_build_file(&self, absolute: &str) -> bool {
        // A folder: one of its files is changed.
        absolute == self.workspace || absolute == self.project_root || build_files::is_build_file(absolute)
    }

    /// Whether a pattern for names of files is meant for secrets: `.env*`, `*.pem`.
    pub(crate) fn glob_names_secret(&self, glob: &str) -> bool {
        let Some(globs) = crate::braces::alternatives(glob) else { return true };
        globs.iter().any(|glob| {
            let name = glob.rsplit('/').next().unwrap_or_default().replace(['*', '?'], "");
            protected::is_secret_name(&name, true) || self.mentions_secret(glob)
        })
    }

    /// Whether a word that is no path names a secret file, such as a value of an option or a part of a program.
    pub(crate) fn mentions_secret(&self, text: &str) -> bool {
        protected::mentions_secret(text, self)
    }
}

const fn kind(access: Access) -> ActionKind {
    match access {
        Access::List => ActionKind::Search,
        Access::Read => ActionKind::Read,
        Access::Create => ActionKind::Create,
        Access::Update => ActionKind::Update,
        Access::Delete => ActionKind::Delete,
        Access::Execute => ActionKind::Execute,
    }
}

/// What follows from a credential or from a file that others run is not bounded by the call: the confidence is low.
pub(crate) const fn protected_effect(access: Access) -> Effect {
    let (severity, radius, confidence) = match access {
        Access::List => (Severity::Low, BlastRadius::Small, 80),
        Access::Read => (Severity::High, BlastRadius::Large, 50),
        _ => (Severity::Critical, BlastRadius::Large, 50),
    };
    Effect {
        action_kind: kind(access),
        severity,
        blast_radius: radius,
        confidence: Confidence::percent(confidence),
    }
}

// One row for each combination is easier to check than joined ones.
#[allow(clippy::match_same_arms, clippy::unnested_or_patterns)]
fn scope_effect(scope: Scope, access: Access, wildcard: bool) -> Effect {
    use BlastRadius::{Large, Medium, Small, Trivial, Unknown};
    use Severity::{High, Low, Warning};
    let (severity, blast_radius) = match (scope, access) {
        (Scope::Unresolved, Access::List) => (Low, Small),
        (Scope::Unresolved, _) => (High, Unknown),
        (_, Access::List)
        | (
            Scope::Workspace | Scope::Project | Scope::Stream | Scope::System | Scope::Temporary,
            Access::Read,
        ) => (Warning, Trivial),
        (Scope::Workspace, Access::Create | Access::Update)
        | (Scope::Stream, Access::Create | Access::Update) => (Low, Trivial),
        (Scope::Workspace, Access::Delete) => (Severity::Medium, Small),
        (Scope::Workspace, Access::Execute) => (Severity::Medium, Small),
        (Scope::Project | Scope::Temporary, Access::Create | Access::Update) => (Low, Small),
        (Scope::Project | Scope::Temporary, Access::Delete) => (Severity::Medium, Small),
        (Scope::Home | Scope::Machine, Access::Read) => (Severity::Low, Small),
        (Scope::Home, Access::Create | Access::Update) => (Severity::Medium, Medium),
        (Scope::Home, Access::Delete) => (High, Medium),
        (_, Access::Execute) => (High, Unknown),
        (Scope::Stream, _) => (Low, Trivial),
        (Scope::System | Scope::Machine, _) => (High, Large),
    };
    let percent = match (scope, wildcard) {
        (Scope::Unresolved, _) => 20,
        (_, true) => 85,
        (_, false) => 95,
    };
    Effect { action_kind: kind(access), severity, blast_radius, confidence: Confidence::percent(percent) }
}
