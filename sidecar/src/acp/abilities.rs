//! What can be asked of the agent: at most, before one is known, and exactly, when one is.

use pilothouse_domain::value::Capabilities;

use super::agents::{Advertised, Steering, TakingUp};
use super::translator::Translator;

/// What the protocol and this adapter offer together. What an agent does not have of it is refused by name.
pub(super) const AT_MOST: Capabilities = Capabilities {
    steer_mid_turn: true,
    pause: true,
    resume_conversation: true,
    hot_reload: true,
    cost: true,
    context_usage: true,
    approvals: true,
    questions: true,
    plans: true,
    subagents: true,
    model_switch: true,
    thinking_levels: true,
    compaction: true,
    // `session/fork` copies a whole conversation; nothing of the protocol goes back to before a turn.
    fork: false,
    // The client hears of a call of the model when it is over.
    budget_before_call: false,
};

/// What this agent can do: what it advertises, what its conversation offers, and what it has reported so far.
pub(super) fn of(agent: &Advertised, translator: &Translator) -> Capabilities {
    let settings = &translator.settings;
    let takes_up = agent.taking_up != TakingUp::Never;
    Capabilities {
        steer_mid_turn: agent.steering == Steering::Extension,
        resume_conversation: takes_up,
        // By a new process in the same conversation.
        hot_reload: takes_up,
        cost: translator.meter.has_cost(),
        context_usage: translator.meter.has_window(),
        plans: settings.mode.as_ref().is_some_and(|mode| mode.values.iter().any(|value| value == "plan")),
        subagents: translator.has_subagents(),
        model_switch: settings.model.is_some(),
        thinking_levels: settings.thinking.is_some(),
        compaction: settings.compacts,
        ..AT_MOST
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::agents::UNKNOWN;
    use crate::acp::meter::{Meter, Totals};

    fn translator() -> Translator {
        Translator::new("s", "m", Meter::new("s", Totals::default(), "m", 80))
    }

    #[test]
    fn an_agent_that_advertises_nothing_can_do_what_needs_nothing_of_it() {
        let nothing = of(&Advertised::read(&json!({}), UNKNOWN), &translator());
        let expected =
            Capabilities { pause: true, approvals: true, questions: true, ..Capabilities::default() };
        assert_eq!(nothing, expected);
    }

    #[test]
    fn what_is_advertised_offered_and_reported_is_what_it_can_do() {
        let agent = Advertised::read(
            &json!({"agentCapabilities": {"loadSession": true}, "_meta": {"steering": {"supported": true}}}),
            UNKNOWN,
        );
        let mut translator = translator();
        translator.settings.opened(&json!({
            "models": {"currentModelId": "a", "availableModels": []},
            "modes": {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "plan"}]}}));
        let can = of(&agent, &translator);
        assert!(
            can.steer_mid_turn && can.resume_conversation && can.hot_reload && can.model_switch && can.plans
        );
        assert!(!can.compaction && !can.thinking_levels && !can.cost && !can.context_usage && !can.subagents);
        let mut hear =
            |update| drop(translator.update(&json!({"sessionId": "s", "update": update}), &|_| None));
        hear(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "compact"}]}),
        );
        hear(json!({"sessionUpdate": "usage_update", "used": 1, "size": 100}));
        let can = of(&agent, &translator);
        assert!(can.compaction && can.context_usage && !can.cost);
        let gone = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
        translator.update(&json!({"sessionId": "s", "update": gone}), &|_| None);
        assert!(!of(&agent, &translator).compaction);
    }
}
