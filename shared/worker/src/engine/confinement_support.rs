//! Asks the sidecar whether this machine can confine agents.

use std::path::Path;

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
    match command.output().await {
        Ok(output) if output.status.success() => match String::from_utf8_lossy(&output.stdout).trim() {
            "files" => ConfinementSupport::Files,
            "files-and-signals" => ConfinementSupport::FilesAndSignals,
            _ => ConfinementSupport::Nothing,
        },
        _ => ConfinementSupport::Nothing,
    }
}
