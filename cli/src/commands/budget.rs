//! `pilothouse budget`.

use clap::{Args, Subcommand};
use pilothouse_api::sessions::BudgetView;
use pilothouse_client::inputs::UpdateBudget;
use pilothouse_domain::Usd;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Style;
use crate::output::money;
use crate::output::style::Paint;

/// Show or change the budget of a session.
#[derive(Debug, Subcommand)]
pub enum Budget {
    /// Show the spend and the remaining budget
    Show(Target),
    /// Change the cap: budget set SESSION AMOUNT
    Set(Set),
}

/// Change the cap.
#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    pub target: Target,
    /// The new cap in dollars, above the current spend; optional with --allow-unmetered or --warn-at
    #[arg(value_name = "AMOUNT")]
    pub words: Vec<String>,
    /// Warn at this share of the cap, in percent
    #[arg(long, value_name = "PERCENT")]
    pub warn_at: Option<u8>,
    /// Let the session work although its agent's spend is unknown; its cap then cannot be enforced
    #[arg(long)]
    pub allow_unmetered: bool,
}

impl Budget {
    pub(super) async fn run(self, ctx: &Context) -> Result<Exit, CliError> {
        let session = match self {
            Self::Show(target) => ctx.client.session(target.id(ctx).await?).await?,
            Self::Set(Set { target, words, warn_at, allow_unmetered }) => {
                let (session, words) = target.split(words);
                let wrong = |why: &str| CliError::Usage(format!("{why}: pilothouse budget set SESSION 10"));
                let cap_usd = match &words[..] {
                    [] if allow_unmetered || warn_at.is_some() => None,
                    [amount] => Some(
                        amount.trim_start_matches('$').parse::<Usd>().map_err(|e| wrong(&format!("{e}")))?,
                    ),
                    _ => return Err(wrong("name the new cap")),
                };
                let allow_unmetered = allow_unmetered.then_some(true);
                let budget = UpdateBudget { cap_usd, warn_at_percent: warn_at, allow_unmetered };
                ctx.client.set_budget(ctx.session_id(&session).await?, &budget).await?
            }
        };
        ctx.print(&session.budget, |budget, style, _| show(budget, style))?;
        Ok(Exit::Done)
    }
}

fn show(budget: &BudgetView, style: Style) -> String {
    let spent = money::of_cap(budget.estimated_cost_usd, budget.hard_cap_usd);
    let left = if budget.unmetered && !budget.allow_unmetered {
        style.paint(
            Paint::Red,
            "held: the spend of this agent is unknown; to let it work, use --allow-unmetered",
        )
    } else if budget.unmetered {
        "the spend of this agent is unknown, and the cap cannot be enforced".to_owned()
    } else if budget.exhausted {
        style.paint(Paint::Red, "exhausted: raise the cap to continue the session")
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
    fn money_is_shown_with_the_remainder() {
        let mut budget = session().budget;
        assert_eq!(
            show(&budget, Style::PLAIN),
            "Spent $0.42 of $5.00 (8.4 %), $4.58 left, warning at 80 %\n"
        );
        budget.exhausted = true;
        assert!(show(&budget, Style::PLAIN).contains("exhausted"));
        budget.unmetered = true;
        assert!(show(&budget, Style::PLAIN).contains("--allow-unmetered"));
        budget.allow_unmetered = true;
        assert!(show(&budget, Style::PLAIN).contains("cannot be enforced"));
    }
}
