//! Converts the increments of a script to running totals (decision 31).

use pilothouse_domain::{InvalidId, MeterId, SubAgentId};
use pilothouse_wire::RawEvent;

use super::format::{Context, Usage};
use super::state::State;
use crate::kit::usage::{ModelTotals, Window};

/// Adds to the meter and returns its totals. Also returns the warning that the context window has passed
/// `warn_at_percent`, once.
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
    let totals = ModelTotals { cost_usd: totals.cost_usd, tokens: totals.tokens };
    let window = usage.context.map(|Context { tokens, limit }| Window { tokens, limit });
    let mut events = vec![totals.event(meter_id, model_id, subagent, window.map(Window::reported))];
    events.extend(window.and_then(|window| window.warning(warn_at_percent, &mut state.warned)));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::TokenUsage;

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
