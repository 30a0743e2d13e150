//! Converts the increments of a script to running totals (decision 31).

use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{InvalidId, MeterId, SubAgentId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{RawContextWindow, UsageUpdate};

use super::format::{Context, Usage};
use super::state::State;

/// Adds to the meter and returns its totals. Also returns, once, the warning that the context window has passed
/// `warn_at_percent`.
pub(super) fn count(
    state: &mut State,
    usage: &Usage,
    subagent: Option<SubAgentId>,
    model: &str,
    warn_at_percent: u8,
) -> Result<Vec<RawEvent>, InvalidId> {
    let meter_id = match &usage.meter {
        Some(meter) => meter.clone(),
        None => MeterId::parse(format!("script-{}", state.conversation))?,
    };
    let model_id = usage.model.as_deref().unwrap_or(model).to_owned();
    let key = format!("{meter_id}\n{model_id}\n{}", subagent.as_ref().map_or("", SubAgentId::as_str));
    let totals = state.meters.entry(key).or_default();
    totals.cost_usd += usage.cost_usd;
    totals.tokens = totals.tokens.plus(usage.tokens);
    let mut events = vec![RawEvent::UsageUpdate(UsageUpdate {
        meter_id,
        model_id,
        subagent_id: subagent,
        cost_usd: totals.cost_usd.to_string(),
        token_usage: totals.tokens,
        context_window: usage.context.map(window),
    })];
    if let Some(Context { tokens, limit }) = usage.context {
        let limit = u128::from(limit.max(1));
        let hundredths = u128::from(tokens) * 10_000 / limit;
        let near = hundredths >= u128::from(warn_at_percent) * 100;
        if near && !state.warned {
            let usage_percent = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            events.push(RawEvent::ContextNearingLimit { usage_percent });
        }
        state.warned = near;
    }
    Ok(events)
}

fn window(context: Context) -> RawContextWindow {
    let usage = TokenUsage { input_tokens: context.tokens, ..TokenUsage::default() };
    RawContextWindow { usage, model_context_limit: context.limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cost: &str, tokens: u64) -> Usage {
        Usage {
            meter: None,
            model: None,
            cost_usd: cost.parse().unwrap(),
            tokens: TokenUsage { input_tokens: 10, ..TokenUsage::default() },
            context: Some(Context { tokens, limit: 1000 }),
        }
    }

    #[test]
    fn running_totals_are_exact_and_the_warning_comes_once() {
        let mut state = State { conversation: 3, ..State::default() };
        let first = count(&mut state, &usage("0.1", 100), None, "m", 80).unwrap();
        assert_eq!(first.len(), 1);
        let second = count(&mut state, &usage("0.2", 805), None, "m", 80).unwrap();
        let RawEvent::UsageUpdate(total) = &second[0] else { panic!("no usage") };
        assert_eq!((total.cost_usd.as_str(), total.token_usage.input_tokens), ("0.3", 20));
        assert_eq!(total.meter_id.as_str(), "script-3");
        assert_eq!(second[1], RawEvent::ContextNearingLimit { usage_percent: "80.50".into() });
        assert_eq!(count(&mut state, &usage("0", 810), None, "m", 80).unwrap().len(), 1);
        let other = count(&mut state, &usage("1", 0), Some("s".parse().unwrap()), "m", 80).unwrap();
        assert!(matches!(&other[0], RawEvent::UsageUpdate(u) if u.cost_usd == "1"));
    }
}
