//! Files whose content is a secret, and files that decide what others run.

use super::names::matches_name;
use super::{Access, BaseFolders, Scope, below, normalise};
use crate::marks::{ANY, UNKNOWN};

/// Secrets below a home directory: keys, tokens, histories and profiles of browsers.
const HOME_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/op",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".thunderbird",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".mysql_history",
    ".psql_history",
    ".claude",
    ".claude.json",
    ".codex",
    ".Xauthority",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
];

/// Secrets of the machine.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/krb5.keytab",
    "/etc/security/opasswd",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/master.passwd",
    "/var/lib/kubelet",
    "/var/lib/docker",
    "/var/run/secrets",
    "/run/secrets",
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/var/log/auth.log",
    "/var/log/secure",
    "/var/log/audit",
    "/var/log/btmp",
    "/var/spool/cron",
    "/var/mail",
    "/var/spool/mail",
    "/proc/kcore",
    "/proc/self/environ",
    "/proc/self/mem",
    "/dev/mem",
    "/dev/kmem",
    "/dev/port",
    "/dev/tcp",
    "/dev/udp",
    "/root",
    "/boot/grub",
    "/var/backups",
];

/// Names of secret files in any folder. `*` matches any characters.
const SECRET_NAMES: &[&str] = &[
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*_rsa",
    ".htpasswd",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "credentials",
    "credentials.json",
    "credentials.yml",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "service-account*.json",
    "kubeconfig",
    "*.tfstate",
    "*.ovpn",
    "shadow",
    "authorized_keys",
    "wp-config.php",
];

/// Names that look like secrets and are published.
const PUBLIC_NAMES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist", ".env.test"];

/// Files in the workspace that decide what runs elsewhere or later: hooks, CI, and the settings of agents and editors.
const CONTROL: &[&str] = &[
    ".git",
    ".github/workflows",
    ".github/actions",
    ".gitlab-ci.yml",
    ".gitlab-ci",
    ".circleci",
    ".travis.yml",
    ".drone.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    "buildspec.yml",
    ".buildkite",
    ".husky",
    ".pre-commit-config.yaml",
    ".gitmodules",
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".claude",
    ".mcp.json",
    ".cursor",
    ".codex",
];

/// Whether a path is one of the folders or in one of them. The components of the path can contain wildcards.
fn is_in(entry: &str, path: &str) -> bool {
    if !path.contains(ANY) {
        return below(entry, path).is_some();
    }
    let mut parts = path.split('/');
    entry.split('/').all(|wanted| parts.next().is_some_and(|part| matches_name(wanted, part)))
}

fn in_home<'p>(path: &'p str, home: &str) -> Option<&'p str> {
    if let Some(rest) = below(home, path) {
        return Some(rest);
    }
    let rest = ["/home/", "/Users/"].iter().find_map(|root| path.strip_prefix(root))?;
    rest.split_once('/').map(|(_, rest)| rest)
}

pub(super) fn is_secret_name(name: &str, wildcards: bool) -> bool {
    // Wildcards in the workspace match no hidden files, unless the pattern starts with a dot.
    if name.contains(ANY) && !wildcards && !name.starts_with('.') {
        return false;
    }
    SECRET_NAMES.iter().any(|pattern| matches_name(pattern, name)) && !PUBLIC_NAMES.contains(&name)
}

/// Whether the path has a secret. `inside` is the workspace or the project if the path is in it.
fn is_secret(path: &str, home: &str, inside: Option<&str>) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    if is_secret_name(name, inside.is_none()) {
        return true;
    }
    // A folder of secrets in which the whole workspace is does not protect the files of the workspace.
    let counts = |entry: &str| inside.is_none_or(|root| below(root, entry).is_some());
    let is_system = |path: &str| SYSTEM_SECRETS.iter().any(|entry| counts(entry) && is_in(entry, path));
    let root_in_home = inside.and_then(|root| below(home, root));
    let counts_in_home = |entry: &str| match (inside, root_in_home) {
        (None, _) => true,
        (Some(_), Some(rest)) => rest.is_empty() || below(rest, entry).is_some(),
        (Some(root), None) => below(root, home).is_some(),
    };
    is_system(path)
        || path.strip_prefix("/private").is_some_and(is_system)
        || in_home(path, home)
            .is_some_and(|rest| HOME_SECRETS.iter().any(|entry| counts_in_home(entry) && is_in(entry, rest)))
        || (path.starts_with("/proc/") && (path.ends_with("/environ") || path.ends_with("/mem")))
}

/// Whether an access to a path needs more care than its scope says.
pub(super) fn is_protected(path: &str, places: &BaseFolders<'_>, access: Access, scope: Scope) -> bool {
    let outside = !matches!(scope, Scope::Workspace | Scope::Project);
    // Names that match a wildcard are listed with their folder.
    if matches!(access, Access::List) && (!outside || path.contains(ANY)) {
        return false;
    }
    let inside = match scope {
        Scope::Workspace => Some(places.workspace),
        Scope::Project => Some(places.project_root),
        _ => None,
    };
    if is_secret(path, places.home, inside) {
        return true;
    }
    match access {
        Access::List | Access::Execute => false,
        Access::Read => {
            // Reading everything in a folder that contains secrets.
            matches!(path, "/" | "/etc" | "/var" | "/home" | "/Users" | "/proc" | "/run")
                || (path == places.home)
        }
        Access::Create | Access::Update | Access::Delete => {
            let relative = below(places.workspace, path).or_else(|| below(places.project_root, path));
            match (relative, scope) {
                (Some(""), _) => matches!(access, Access::Delete),
                (Some(relative), _) => {
                    let hidden =
                        relative.split('/').any(|part| matches_name(".git", part) && part.starts_with('.'));
                    hidden
                        || (!relative.starts_with(ANY) && CONTROL.iter().any(|entry| is_in(entry, relative)))
                }
                (None, Scope::System) => true,
                // Start-up files and settings.
                (None, Scope::Home) => below(places.home, path).is_some_and(|rest| {
                    rest.is_empty() || (rest.starts_with('.') && !rest.starts_with(".cache/"))
                }),
                (None, Scope::Machine) => path.starts_with("/dev/") || path.starts_with("/boot"),
                (None, _) => false,
            }
        }
    }
}

/// Whether an unresolved path names a secret in its known part.
pub(crate) fn names_secret(path: &str, home: &str) -> bool {
    path.split(UNKNOWN).any(|part| part.len() > 3 && is_secret(&normalise("/", part), home, None))
}

/// Whether a text that is no path contains one that names a secret: `@/etc/shadow`, `--file=~/.ssh/id_rsa`, `include "/etc/shadow"`.
pub(super) fn mentions_secret(text: &str, places: &BaseFolders<'_>) -> bool {
    if !text.contains(['/', '~']) {
        return false;
    }
    let separators = |c: char| c.is_whitespace() || "=:@,;'\"`()<>|&{}[]#!+".contains(c);
    text.split(separators).any(|part| {
        // A short option with its value: `-f/etc/shadow`.
        let Some(at) = part.find(['/', '~']) else { return false };
        let candidate = part.get(at..).unwrap_or_default();
        if candidate.len() < 4 {
            return false;
        }
        let absolute = normalise(places.workspace, &places.home_expanded(candidate));
        names_secret_file(&absolute, places) || names_secret_file(&normalise(places.workspace, part), places)
    })
}

fn names_secret_file(absolute: &str, places: &BaseFolders<'_>) -> bool {
    let root =
        [places.workspace, places.project_root].into_iter().find(|root| below(root, absolute).is_some());
    let name = absolute.rsplit('/').next().unwrap_or_default();
    is_secret_name(name, true) || is_secret(absolute, places.home, root)
}
