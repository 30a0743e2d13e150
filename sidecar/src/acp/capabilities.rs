//! Capabilities: an upper bound before the agent is known, and the exact ones afterwards.

use pilothouse_domain::value::Capabilities;

use super::agents::{Advertised, Resumption, Steering};
use super::translator::Translator;

/// Everything that the protocol and this adapter support. What an agent lacks is refused by name.
pub(super) const MAXIMUM: Capabilities = Capabilities {
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
    // `session/fork` copies a whole conversation; the protocol cannot return to before a turn.
    fork: false,
    // The protocol has one conversation per session; others would need a session of their own.
    conversations: false,
    // The protocol reports a model call only after it has ended.
    budget_before_call: false,
    allowance: true,
    unmetered: false,
};

/// The agent's capabilities, from what it advertises and what it has reported so far.
pub(super) fn of(agent: &Advertised, translator: &Translator) -> Capabilities {
    let settings = &translator.settings;
    let takes_up = agent.resumption != Resumption::Never;
    Capabilities {
        steer_mid_turn: agent.steering == Steering::Extension,
        resume_conversation: takes_up,
        // Starts a new process in the same conversation.
        hot_reload: takes_up,
        cost: translator.meter.has_cost(),
        context_usage: translator.meter.has_window(),
        questions: agent.profile.asks.questions || translator.asks,
        plans: agent.profile.asks.plans
            && settings.mode.as_ref().is_some_and(|mode| mode.values.iter().any(|value| value == "plan")),
        subagents: translator.has_subagents(),
        model_switch: settings.has_other_models(),
        thinking_levels: settings.has_other_levels(),
        compaction: settings.compacts,
        unmetered: translator.meter.is_unmetered(),
        ..MAXIMUM
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
    fn agent_without_capabilities_has_only_the_basic_abilities() {
        let nothing = of(&Advertised::read(&json!({}), UNKNOWN), &translator());
        let expected =
            Capabilities { pause: true, approvals: true, allowance: true, ..Capabilities::default() };
        assert_eq!(nothing, expected);
        let mut asking = translator();
        asking.asks = true;
        assert!(of(&Advertised::read(&json!({}), UNKNOWN), &asking).questions);
    }

    #[test]
    fn abilities_follow_capabilities_options_and_reports() {
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
        // Gemini leaves its mode `plan` without asking the owner.
        let gemini = Advertised::read(&json!({}), crate::acp::agents::named("gemini").unwrap());
        assert!(!of(&gemini, &translator).plans);
    }
}
