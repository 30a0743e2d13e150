//! `pilothouse logins`.

use clap::Subcommand;
use pilothouse_domain::ConsoleLoginId;
use serde_json::json;

use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output;

/// List the browsers that are logged in to the web console, and log one out.
#[derive(Debug, Subcommand)]
pub enum Logins {
    /// List the browsers that are logged in
    #[command(visible_alias = "ls")]
    List,
    /// Log a browser out, at once
    Remove {
        /// The id of the login
        #[arg(value_name = "LOGIN")]
        id: ConsoleLoginId,
    },
}

impl Logins {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        match self {
            Self::List => {
                let logins = ctx.client.console_logins().await?;
                ctx.print(&logins, |page, style, now| output::logins::list(&page.items, style, now))?;
            }
            Self::Remove { id } => {
                ctx.client.remove_console_login(id).await?;
                if ctx.json {
                    write_json(&json!({ "login": id }))?;
                } else {
                    write("The browser is logged out.\n")?;
                }
            }
        }
        Ok(Exit::Done)
    }
}
