//! Asks the sidecar whether this machine can confine agents.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

/// Longest wait for the response.
const LIMIT: Duration = Duration::from_secs(5);

/// Confinement that the kernel can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfinementSupport {
    /// Nothing, or the sidecar does not respond.
    Nothing,
    /// Access to files.
    Files,
    /// Access to files, and signals to other processes.
    FilesAndSignals,
}

/// Runs `pilothouse-sidecar confinement` at this path.
pub async fn confinement_support(sidecar: &Path) -> ConfinementSupport {
    let mut command = tokio::process::Command::new(sidecar);
    command.arg("confinement").env_clear().stdin(std::process::Stdio::null()).kill_on_drop(true);
    match timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => match String::from_utf8_lossy(&output.stdout).trim() {
            "files" => ConfinementSupport::Files,
            "files-and-signals" => ConfinementSupport::FilesAndSignals,
            _ => ConfinementSupport::Nothing,
        },
        _ => ConfinementSupport::Nothing,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sidecar_that_does_not_respond_confines_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let sidecar = folder.path().join("sidecar");
        std::fs::write(&sidecar, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&sidecar, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(confinement_support(&sidecar).await, ConfinementSupport::Nothing);
    }
}
