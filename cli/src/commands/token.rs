//! `pilothouse token`.

use std::time::Duration;

use clap::Args;
use pilothouse_domain::UserId;
use pilothouse_local_keys::{DEFAULT_OWNER, LocalKeys};
use serde_json::json;

use super::parse;
use crate::context::{write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::profile::Place;

/// Mint a token from the local data folder, for another machine or program.
///
/// The token gives access to all sessions of its owner until it expires. On this machine you need no token, because the
/// program mints one for each use.
#[derive(Debug, Args)]
pub struct Token {
    /// The owner of the token
    #[arg(long, default_value = DEFAULT_OWNER, value_name = "NAME")]
    pub owner: UserId,
    /// The lifetime of the token: 90s, 15m, 12h, 30d
    #[arg(long, default_value = "12h", value_parser = parse::duration, value_name = "TIME")]
    pub ttl: Duration,
}

impl Token {
    pub(super) fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let place = Place::of(globals)?;
        let folder = place.keys.or_else(|| globals.data_folder()).ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        let trust = place.trust.ok_or_else(|| {
            CliError::Usage("this deployment accepts only tokens of its identity provider; name the issuer with --issuer if it uses your keys".into())
        })?;
        let token = LocalKeys::open_or_create(&folder)?.mint_with(&trust, &self.owner, self.ttl)?;
        if globals.json {
            write_json(
                &json!({ "token": token, "owner": self.owner, "expiresInSeconds": self.ttl.as_secs() }),
            )?;
        } else {
            write(&format!("{token}\n"))?;
        }
        Ok(Exit::Done)
    }
}
