//! `pilothouse budget`.

use clap::{Args, Subcommand};
use pilothouse_domain::Usd;
use pilothouse_functions::api::sessions::BudgetView;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Style;
use crate::output::money;
use crate::output::style::Paint;

/// What a session may spend.
#[derive(Debug, Subcommand)]
pub enum Budget {
    /// Show what is spent and what is left
    Show(Target),
    /// Change the cap: budget set SESSION AMOUNT
    Set(Set),
}

/// Change the cap.
#[derive(Debug, Args)]
pub struct Set {
    /// The session.
    #[command(flatten)]
    pub target: Target,
    /// The new cap in dollars; above what is spent already
    #[arg(value_name = "AMOUNT")]
    pub words: Vec<String>,
    /// Warn at this share of the cap, in percent
    #[arg(long, value_name = "PERCENT")]
    pub warn_at: Option<u8>,
}

impl Budget {
    pub(super) async fn run(self, cx: &Context) -> Result<Exit, CliError> {
        let session = match self {
            Self::Show(target) => cx.client.session(target.id(cx).await?).await?,
            Self::Set(Set { target, words, warn_at }) => {
                let (session, words) = target.split(words);
                let wrong = |why: &str| CliError::Usage(format!("{why}: pilothouse budget set SESSION 10"));
                let [amount] = &words[..] else { return Err(wrong("say the new cap")) };
                let cap: Usd = amount.trim_start_matches('$').parse().map_err(|e| wrong(&format!("{e}")))?;
                cx.client.set_budget(cx.session_id(&session).await?, cap, warn_at).await?
            }
        };
        cx.answer(&session.budget, |budget, style, _| show(budget, style))?;
        Ok(Exit::Done)
    }
}

fn show(budget: &BudgetView, style: Style) -> String {
    let spent = money::of_cap(budget.estimated_cost_usd, budget.hard_cap_usd);
    let left = if budget.exhausted {
        style.paint(Paint::Red, "exhausted: the session goes on when the cap is raised")
    } else {
        format!("{} left, warning at {} %", money::usd(budget.remaining_usd), budget.warn_at_percent)
    };
    format!("Spent {spent}, {left}\n")
}

#[cfg(test)]
mod tests {
    use super::show;
    use crate::output::Style;
    use crate::output::fixtures::session;

    #[test]
    fn money_is_shown_with_what_is_left() {
        let mut budget = session().budget;
        assert_eq!(
            show(&budget, Style::PLAIN),
            "Spent $0.42 of $5.00 (8.4 %), $4.58 left, warning at 80 %\n"
        );
        budget.exhausted = true;
        assert!(show(&budget, Style::PLAIN).contains("exhausted"));
    }
}
