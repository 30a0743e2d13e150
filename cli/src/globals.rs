//! The global options.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

/// The platform of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Profile {
    /// One process on this machine, or another
    #[default]
    Embedded,
    /// Functions in an AWS account, or in a local cloud
    Aws,
}

/// The default address of the embedded server.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7433";

/// The help heading of global options.
const EVERYWHERE: &str = "Everywhere";
/// The help heading of options for deployments in AWS.
const CLOUD: &str = "With --profile aws";

/// Global options.
#[derive(Debug, Clone, Default, Args)]
pub struct Globals {
    /// The profile of the control plane
    #[arg(
        long,
        global = true,
        help_heading = EVERYWHERE,
        env = "PILOTHOUSE_PROFILE",
        value_enum,
        default_value_t = Profile::Embedded
    )]
    pub profile: Profile,
    /// The server, or the HTTP API of a deployment [default: the server on this machine, port 7433]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_URL", value_name = "URL")]
    pub url: Option<String>,
    /// The token for the control plane [default: a token minted from the local data folder]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_TOKEN", hide_env_values = true, value_name = "JWT")]
    pub token: Option<String>,
    /// A file with the token; it is read again for each use
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_TOKEN_FILE", value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,
    /// The data folder of the server on this machine [default: ~/.pilothouse]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "PILOTHOUSE_DATA", value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// The file that infra/deploy wrote for a deployment [default: target/deploy/pilothouse.json, here or above]
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_DEPLOYMENT", value_name = "FILE")]
    pub deployment: Option<PathBuf>,
    /// The WebSocket API of a deployment
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_WS_URL", value_name = "URL")]
    pub ws_url: Option<String>,
    /// The issuer of minted tokens
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_ISSUER", value_name = "URL")]
    pub issuer: Option<String>,
    /// The audience of minted tokens [default: pilothouse]
    #[arg(long, global = true, help_heading = CLOUD, env = "PILOTHOUSE_AUDIENCE", value_name = "NAME")]
    pub audience: Option<String>,
    /// Print JSON: one document, or one line for each message of a watch
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub json: bool,
}

impl Globals {
    /// The data folder: `--data`, or `.pilothouse` in the home folder.
    pub fn data_folder(&self) -> Option<PathBuf> {
        let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
        self.data.clone().or_else(|| home().map(|home| Path::new(&home).join(".pilothouse")))
    }
}
