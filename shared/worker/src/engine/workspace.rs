//! The workspace that a worker offers to agents, and the mounts and limits of their containers (decision 92).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::statvfs::statvfs;
use pilothouse_domain::project_agent::{
    ResourceLimits, SandboxCapability, WorkspaceMount, WorkspaceOffer, WorkspacePart, WorkspaceRequirements,
};

/// The offer of this machine: a shell, the network, an installed git, and `more`. The free disk is added when it is announced.
///
/// With `containers`, it includes mounts, limits, and the choice of the image, unless the worker is `shared` by several owners.
pub fn detected(
    more: impl IntoIterator<Item = SandboxCapability>,
    containers: bool,
    shared: bool,
) -> WorkspaceOffer {
    let mut capabilities = BTreeSet::from([SandboxCapability::Terminal, SandboxCapability::NetworkExternal]);
    // The programs of a container are those of its image.
    if !containers && is_installed("git", &std::env::var_os("PATH").unwrap_or_default()) {
        capabilities.insert(SandboxCapability::Git);
    }
    capabilities.extend(more);
    let mut applies = BTreeSet::new();
    if containers {
        applies.extend([WorkspacePart::Mounts, WorkspacePart::CpuAndMemory]);
        applies.extend((!shared).then_some(WorkspacePart::BaseImage));
    }
    WorkspaceOffer { capabilities, applies, free_disk_mb: None }
}

/// The bytes that users without privileges can write to the file system of a folder. `None` if the system does not tell.
pub fn free_disk(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    // The types differ between systems.
    #[allow(clippy::useless_conversion)]
    Some(u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())))
}

/// Whether a folder of `path`, a value of the variable `PATH`, has an executable file with this name.
pub fn is_installed(program: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|folder| is_program(&folder.join(program)))
}

/// Whether a path is an executable file.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Folders through which a container would reach other processes of the worker's user, and their sockets.
const HIDDEN_FROM_CONTAINERS: [&str; 2] = ["/proc", "/run/user"];

/// Adds the mounts of the working directory and the limits to the arguments of a container. Without mounts, the whole directory is
/// mounted. Fails for a working directory through which the agent would reach a `hidden` path.
pub(super) fn apply<'a>(
    command: &mut Command,
    working_directory: &Path,
    needed: Option<&WorkspaceRequirements>,
    hidden: impl Iterator<Item = &'a Path>,
    mount: impl Fn(&Path, &Path) -> String,
) -> io::Result<()> {
    let root = working_directory.canonicalize().map_err(|error| named(working_directory, &error))?;
    // Mounts of a brief are folders of the working directory, so this covers them too.
    check_hidden(&root, hidden.chain(HIDDEN_FROM_CONTAINERS.map(Path::new)))?;
    let mounts = needed.map_or(&[][..], |needed| &needed.mounts);
    if mounts.is_empty() {
        command.arg("--mount").arg(mount(&root, working_directory));
    } else {
        if mounts.iter().all(|mount| Path::new(&mount.sandbox_path) != working_directory) {
            // The agent starts in the working directory, and has access to its mounts only.
            command.arg("--tmpfs").arg(working_directory);
        }
        for WorkspaceMount { host_path, sandbox_path, read_only } in mounts {
            let mut bind = mount(&inside(&root, host_path)?, Path::new(sandbox_path));
            if *read_only {
                bind.push_str(",readonly");
            }
            command.arg("--mount").arg(bind);
        }
    }
    let ResourceLimits { cpu_cores, memory_mb, .. } =
        needed.and_then(|needed| needed.resource_limits).unwrap_or_default();
    if let Some(cores) = cpu_cores {
        command.args(["--cpus", &cores.to_string()]);
    }
    if let Some(memory) = memory_mb {
        command.args(["--memory", &format!("{memory}m")]);
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Refuses a working directory that is inside a hidden path or contains one. `root` has no links.
fn check_hidden<'a>(root: &Path, hidden: impl Iterator<Item = &'a Path>) -> io::Result<()> {
    for hidden in hidden.map(resolve) {
        let relation = if root.starts_with(&hidden) {
            "is inside"
        } else if hidden.starts_with(root) {
            "contains"
        } else {
            continue;
        };
        return Err(io::Error::other(format!(
            "the agent cannot work in {}, which {relation} {}, a path that agents must not reach; choose another working \
             directory",
            root.display(),
            hidden.display()
        )));
    }
    Ok(())
}

/// Resolves links. Missing parts are kept as written.
fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(parent).join(name),
        _ => path.to_owned(),
    })
}

/// Resolves a path of the working directory. Refuses a link that leads outside of the directory, because agents can create links.
fn inside(root: &Path, host_path: &str) -> io::Result<PathBuf> {
    let path = root.join(host_path);
    let folder = path.canonicalize().map_err(|error| named(&path, &error))?;
    if !folder.starts_with(root) {
        return Err(named(&path, &io::Error::other("the mount leads outside of the working directory")));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(root: &Path, needed: Option<serde_json::Value>) -> io::Result<Vec<String>> {
        let mut command = Command::new("docker");
        let needed = needed.map(|json| serde_json::from_value(json).unwrap());
        let mount = |from: &Path, to: &Path| format!("{}>{}", from.display(), to.display());
        apply(&mut command, root, needed.as_ref(), std::iter::empty(), mount)?;
        Ok(command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn mounts_replace_the_working_directory_and_limits_apply() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("src")).unwrap();
        let whole = format!("{0}>{0}", root.display());
        assert_eq!(arguments(&root, None).unwrap(), ["--mount", &whole]);
        let needed = json!({
            "mounts": [{ "hostPath": "src", "sandboxPath": "/src", "readOnly": true }],
            "capabilities": [], "resourceLimits": { "cpuCores": 2, "memoryMb": 512 },
        });
        let bind = format!("{}/src>/src,readonly", root.display());
        let expected =
            ["--tmpfs", root.to_str().unwrap(), "--mount", &bind, "--cpus", "2", "--memory", "512m"];
        assert_eq!(arguments(&root, Some(needed)).unwrap(), expected);
    }

    #[test]
    fn mount_through_a_link_that_leads_outside_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("src")).unwrap();
        let needed = json!({ "mounts": [{ "hostPath": "src", "sandboxPath": "/src", "readOnly": true }] });
        let refused = arguments(folder.path(), Some(needed)).unwrap_err().to_string();
        assert!(refused.contains("outside of the working directory"), "{refused}");
    }

    #[test]
    fn working_directory_around_or_inside_a_hidden_path_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for made in ["home/data/runs", "home/work/src", "links"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("home/data"), root.join("links/data")).unwrap();
        // The credentials do not exist yet.
        let hidden = [root.join("links/data"), root.join("home/login/token")];
        let mount = |from: &Path, _: &Path| from.display().to_string();
        let refused = |path: &Path| {
            let mut command = Command::new("docker");
            let hidden = hidden.iter().map(PathBuf::as_path);
            apply(&mut command, path, None, hidden, mount).err().map(|error| error.to_string())
        };
        for path in
            ["", "home", "home/data", "home/data/runs", "links/data", "links/data/runs", "home/work/.."]
        {
            let why = refused(&root.join(path)).unwrap_or_else(|| panic!("{path} was mounted"));
            assert!(why.contains("choose another working directory"), "{path}: {why}");
        }
        for path in [Path::new("/"), Path::new("/proc"), Path::new("/proc/self/root")] {
            assert!(refused(path).is_some(), "{}", path.display());
        }
        for path in ["home/work", "home/work/src", "links"] {
            assert_eq!(refused(&root.join(path)), None, "{path}");
        }
    }

    #[test]
    fn free_disk_of_a_missing_folder_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_disk(folder.path()).unwrap() > 0);
        assert_eq!(free_disk(&folder.path().join("missing")), None);
    }

    #[test]
    fn only_workers_with_containers_apply_mounts() {
        assert!(detected([], false, false).applies.is_empty());
        let of_containers = detected([SandboxCapability::Gpu], true, false);
        assert!(of_containers.applies.contains(&WorkspacePart::BaseImage));
        assert!(of_containers.capabilities.contains(&SandboxCapability::Gpu));
        assert!(!detected([], true, true).applies.contains(&WorkspacePart::BaseImage), "it is shared");
    }
}
