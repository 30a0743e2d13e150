//! The macOS sandbox: a profile that `sandbox-exec` applies before it executes a program.

use std::fmt::Write as _;
use std::path::Path;

use super::{Confinement, DEVICES};

#[cfg(target_os = "macos")]
pub(super) const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

#[cfg(target_os = "macos")]
pub(super) fn sandboxed(confinement: &Confinement, command: &std::process::Command) -> std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let mut sandboxed = std::process::Command::new(SANDBOX_EXEC);
    sandboxed
        .arg("-p")
        .arg(profile(confinement))
        .arg(command.get_program())
        .args(command.get_args())
        .process_group(0);
    sandboxed
}

/// The profile. The last matching rule decides.
#[cfg_attr(not(any(test, target_os = "macos")), allow(dead_code))]
pub(super) fn profile(confinement: &Confinement) -> String {
    let Confinement { hidden, readable, writable, writes_elsewhere } = confinement;
    let writing = if *writes_elsewhere { "" } else { "(deny file-write*)\n" };
    let mut text = format!(
        "(version 1)\n(allow default)\n{writing}(deny signal)\n(allow signal (target same-sandbox))\n"
    );
    let mut rule = |verdict: &str, path: &Path| {
        let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "({verdict} (subpath \"{path}\"))");
    };
    for device in &DEVICES {
        rule("allow file-write*", Path::new(device));
    }
    for path in hidden {
        rule("deny file-read* file-write*", path);
    }
    for path in readable {
        rule("allow file-read*", path);
    }
    for path in writable {
        rule("allow file-read* file-write*", path);
    }
    text
}
