//! Runs the commands of an agent, and has those that run beside its calls.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::execution::{Limits, execute};
use super::output::MAX_PROGRESS_BYTES;
use super::{BackgroundCommands, BashConfig, BashOutcome};

#[derive(Debug, Clone)]
pub struct BashRunner {
    config: BashConfig,
    background: BackgroundCommands,
}

impl BashRunner {
    pub fn new(config: BashConfig) -> Self {
        Self { config, background: BackgroundCommands::default() }
    }

    /// The commands that run beside calls. Clones of the runner share them.
    pub const fn background(&self) -> &BackgroundCommands {
        &self.background
    }

    pub fn config(&self) -> &BashConfig {
        &self.config
    }

    /// Runs a command until it ends, is cancelled or exceeds its time limit. No process of it runs afterwards. Emits
    /// output as it arrives.
    pub async fn run(
        &self,
        command: &str,
        timeout: Option<Duration>,
        cancelled: &CancellationToken,
        progress: &mpsc::UnboundedSender<String>,
    ) -> io::Result<BashOutcome> {
        let limits = Limits { time: timeout, piece: MAX_PROGRESS_BYTES };
        execute(&self.config, command, limits, cancelled, progress, |_| {}).await
    }
}
