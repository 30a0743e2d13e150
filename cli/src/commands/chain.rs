//! `pilothouse chain`.

use clap::{Args, Subcommand};
use pilothouse_client::inputs::PageQuery;
use pilothouse_domain::chain::SessionChainStatus;
use serde_json::json;

use super::parse;
use crate::context::{Context, now, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::chains::{detail, list};

/// The maximum page size of the server.
const PAGE: u32 = 100;

/// Show and end chains: work that continues over several sessions when a context window is full.
#[derive(Debug, Subcommand)]
pub enum Chain {
    /// List chains, latest first
    #[command(visible_alias = "ls")]
    List(List),
    /// Show a chain with its sessions and handoff documents
    Show(ChainArg),
    /// Complete a chain; closes the current session if it is idle
    Complete(ChainArg),
    /// Cancel a chain and its unfinished sessions
    Cancel(ChainArg),
}

/// List chains, latest first.
#[derive(Debug, Args)]
pub struct List {
    /// Only chains with this status: Active, Completed or Cancelled
    #[arg(long, value_parser = parse::chain_status, value_name = "STATUS")]
    pub status: Option<SessionChainStatus>,
    /// The maximum number of chains
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub limit: usize,
}

/// A chain.
#[derive(Debug, Args)]
pub struct ChainArg {
    /// The chain: its id, or at least 4 characters of the beginning or end of the id
    pub chain: String,
}

impl Chain {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let chain = match self {
            Self::List(list) => return list.run(ctx).await,
            Self::Show(named) => ctx.client.chain(ctx.client.resolve_chain(&named.chain).await?).await?,
            Self::Complete(named) => {
                ctx.client.complete_chain(ctx.client.resolve_chain(&named.chain).await?).await?
            }
            Self::Cancel(named) => {
                ctx.client.cancel_chain(ctx.client.resolve_chain(&named.chain).await?).await?
            }
        };
        ctx.print(&chain, detail)?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let mut slice = PageQuery { limit: Some(PAGE), cursor: None };
        let mut chains = Vec::new();
        while chains.len() < self.limit {
            let page = ctx.client.chains(self.status, &slice).await?;
            chains.extend(page.items);
            slice.cursor = page.next_cursor;
            if slice.cursor.is_none() {
                break;
            }
        }
        let more = slice.cursor.is_some() || chains.len() > self.limit;
        chains.truncate(self.limit);
        if ctx.json {
            write_json(&json!({ "items": chains }))?;
        } else if chains.is_empty() {
            write("There are no chains. A chain begins when the context window of a session is full.\n")?;
        } else {
            let hint = ctx.style.dim("There are more; see --limit.\n");
            write(&(list(&chains, ctx.style, now()) + if more { &hint } else { "" }))?;
        }
        Ok(Exit::Done)
    }
}
