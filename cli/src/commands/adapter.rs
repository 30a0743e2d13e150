//! `--adapter`.

use clap::Args;

#[derive(Debug, Args)]
pub struct AdapterChoice {
    /// The adapter: native, claude, acp, shim or script
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
}
