//! `--adapter`.

use clap::Args;

#[derive(Debug, Args)]
pub struct AdapterChoice {
    /// The adapter: native, claude, acp, shim or script [default: that of the template, or else of the server]
    #[arg(long, value_name = "ADAPTER")]
    pub adapter: Option<String>,
}
