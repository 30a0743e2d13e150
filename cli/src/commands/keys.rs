//! `pilothouse keys`.

use clap::Subcommand;
use pilothouse_local_keys::LocalKeys;

use crate::context::write_json;
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::Globals;

/// Print keys of the local data folder.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Print the public key as a JSON Web Key Set, for an issuer that publishes it
    Jwks,
}

impl Keys {
    pub(super) fn run(self, globals: &Globals) -> Result<Exit, CliError> {
        let Self::Jwks = self;
        let folder = globals.data_folder().ok_or_else(|| {
            CliError::Usage("there is no home folder; name a data folder with --data".into())
        })?;
        write_json(LocalKeys::open_or_create(&folder)?.jwks())?;
        Ok(Exit::Done)
    }
}
