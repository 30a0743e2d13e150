//! `pilothouse token`.

use std::time::Duration;

use clap::Args;
use pilothouse_domain::UserId;
use serde_json::json;

use super::parse;
use crate::args::Globals;
use crate::context::{write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::keys::{DEFAULT_OWNER, LocalKeys};
use crate::profile::Place;

/// Mint a token from the local data folder, for another machine or program.
///
/// The token speaks for its owner: whoever has it sees and commands that owner's sessions until it expires. On this
/// machine no token is needed; the program mints its own.
#[derive(Debug, Args)]
pub struct Token {
    /// Whom the token speaks for
    #[arg(long, default_value = DEFAULT_OWNER, value_name = "NAME")]
    pub owner: UserId,
    /// How long it is good: 90s, 15m, 12h, 30d
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
            CliError::Usage("this deployment takes tokens of its own identity provider only; name its issuer with --issuer if that is you".into())
        })?;
        let token = LocalKeys::open_or_create(&folder)?.mint_for(&trust, &self.owner, self.ttl)?;
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
