//! `pilothouse chain`.

use clap::{Args, Subcommand};
use pilothouse_domain::chain::SessionChainStatus;
use serde_json::json;

use super::parse;
use crate::client::inputs::Slice;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::chains::{detail, list};

/// The most that one answer of the server holds.
const PAGE: u32 = 100;

/// Work that went on over several sessions, as their context windows were full.
#[derive(Debug, Subcommand)]
pub enum Chain {
    /// List chains, latest first
    List(List),
    /// Show a chain with its sessions and what they left to each other
    Show(Named),
    /// Say that the work is done; closes the current session if it rests
    Complete(Named),
    /// End a chain with all of its sessions that are not over
    Cancel(Named),
}

/// List chains, latest first.
#[derive(Debug, Args)]
pub struct List {
    /// Only those of this status: Active, Completed or Cancelled
    #[arg(long, value_parser = parse::chain_status, value_name = "STATUS")]
    pub status: Option<SessionChainStatus>,
    /// The most chains
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: usize,
}

/// A chain by its name.
#[derive(Debug, Args)]
pub struct Named {
    /// The chain: its id, or at least 4 characters of the beginning or the end of it
    pub chain: String,
}

impl Chain {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let chain = match self {
            Self::List(list) => return list.run(cx).await,
            Self::Show(named) => cx.client.chain(cx.client.resolve_chain(&named.chain).await?).await?,
            Self::Complete(named) => {
                cx.client.complete_chain(cx.client.resolve_chain(&named.chain).await?).await?
            }
            Self::Cancel(named) => {
                cx.client.cancel_chain(cx.client.resolve_chain(&named.chain).await?).await?
            }
        };
        cx.answer(&chain, detail)?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let mut slice = Slice { limit: Some(PAGE), cursor: None };
        let mut chains = Vec::new();
        while chains.len() < self.limit {
            let page = cx.client.chains(self.status, &slice).await?;
            chains.extend(page.items);
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        let more = slice.cursor.is_some() || chains.len() > self.limit;
        chains.truncate(self.limit);
        if cx.json {
            write_json(&json!({ "items": chains }))?;
        } else if chains.is_empty() {
            write("There is no chain. One begins when the context window of a session is full.\n")?;
        } else {
            let hint = cx.style.dim("There are more; see --limit.\n");
            write(&(list(&chains, cx.style, now()) + if more { &hint } else { "" }))?;
        }
        Ok(Exit::Done)
    }
}
