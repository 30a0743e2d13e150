//! The escalation engine (decision 69) and control modes (decision 70).

use pilothouse_domain::control_mode::{ControlMode as M, ControlModeSetting, ModeRevision};
use pilothouse_domain::effect::pattern::ToolClassifications;
use pilothouse_domain::effect::{
    ActionKind as K, BlastRadius as B, Confidence, Effect, Effects, Severity as S,
};
use pilothouse_domain::escalation::{
    AgentTrust, DecidingRule as R, EscalationPredicate, EscalationProtocol, Listing, Policy, PredicateFacts,
    ReportedRisk, StandingApproval, ToolCall, ToolGuardrail, Verdict, VerdictKind as V, evaluate,
};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::trust::{Points, Rate, TrustCalibrationProfile, TrustProfile};
use pilothouse_domain::{AgentSessionId, DecisionId, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

fn now() -> Timestamp {
    Timestamp::from_millis(0)
}

struct Case {
    mode: ControlModeSetting,
    trust: i16,
    protocol: EscalationProtocol,
    effects: Vec<Effect>,
    reported: ReportedRisk,
    multiple: bool,
    guardrails: Vec<ToolGuardrail>,
    arguments: Value,
    approvals: Vec<StandingApproval>,
    minimum: Option<Rate>,
    /// The kind of action for which a person granted autonomy.
    autonomous: Option<K>,
    listing: Listing,
}

fn effect(kind: K, severity: S, radius: B) -> Effect {
    Effect::new(kind, severity, radius)
}

fn given(mode: M, trust: i16, effects: &[Effect]) -> Case {
    Case {
        mode: ControlModeSetting::new(mode, now()),
        trust,
        protocol: EscalationProtocol::default(),
        effects: effects.to_vec(),
        reported: ReportedRisk::default(),
        multiple: false,
        guardrails: Vec::new(),
        arguments: json!({ "command": "terraform apply -auto-approve" }),
        approvals: Vec::new(),
        minimum: None,
        autonomous: None,
        listing: Listing::Allowed,
    }
}

fn session() -> AgentSessionId {
    AgentSessionId::new(Uuid::from_u128(1))
}

impl Case {
    fn brief(mut self, json: &Value) -> Self {
        self.protocol = EscalationProtocol::parse(json).unwrap();
        self
    }

    /// The trust profile, as it is stored.
    fn profile(&self) -> TrustProfile {
        let profile = TrustProfile::new(&TrustCalibrationProfile::default(), Tick::ZERO);
        let mut stored = serde_json::to_value(profile).unwrap();
        if let Some(kind) = self.autonomous {
            stored["autonomy"][kind.to_string()] = json!({ "status": "granted", "since": now() });
        }
        serde_json::from_value(stored).unwrap()
    }

    fn verdict(&self) -> Verdict {
        let effects = Effects::try_from(self.effects.clone()).unwrap();
        let call = ToolCall {
            tool: "Bash",
            listing: &self.listing,
            session_id: session(),
            effects: &effects,
            patterns: &["migrations".to_owned()],
            reported: self.reported,
            affects_multiple_workstreams: self.multiple,
            arguments: &self.arguments,
        };
        let policy = Policy {
            mode: &self.mode,
            mode_protocol: &EscalationProtocol::of_mode(self.mode.mode()),
            agent_protocol: &self.protocol,
            patterns: &ToolClassifications::default(),
            guardrails: &self.guardrails,
            approvals: &self.approvals,
        };
        let profile = self.profile();
        let score = Points::whole(self.trust);
        evaluate(
            &policy,
            &call,
            &AgentTrust { score, profile: &profile, minimum_approval_rate: self.minimum },
        )
    }

    fn then(&self, expected: V) {
        let verdict = self.verdict();
        assert_eq!(verdict.verdict, expected, "{verdict:?}");
    }
}

#[test]
fn each_mode_has_its_defaults() {
    let (low, small) = (S::Low, B::Small);
    for (kind, orchestrator, trusted, ecosystem) in [
        (K::Read, V::Allow, V::Allow, V::Allow),
        (K::Search, V::Allow, V::Allow, V::Allow),
        (K::Analyze, V::Allow, V::Allow, V::Allow),
        (K::Create, V::Ask, V::Allow, V::Allow),
        (K::Update, V::Ask, V::Allow, V::Allow),
        (K::Delete, V::Ask, V::Ask, V::Ask),
        (K::Execute, V::Ask, V::Allow, V::Allow),
        (K::Network, V::Ask, V::Allow, V::Allow),
        (K::Deploy, V::Ask, V::Ask, V::Ask),
        (K::Review, V::Ask, V::Allow, V::Allow),
    ] {
        let effects = [effect(kind, low, small)];
        given(M::Orchestrator, 100, &effects).then(orchestrator);
        given(M::Adaptive, 82, &effects).then(trusted);
        given(M::Ecosystem, 10, &effects).then(ecosystem);
    }
}

#[test]
fn adaptive_mode_asks_low_trust_agents_unless_trivial() {
    let update = |radius| [effect(K::Update, S::Low, radius)];
    given(M::Adaptive, 69, &update(B::Small)).then(V::Ask);
    given(M::Adaptive, 70, &update(B::Small)).then(V::Allow);
    given(M::Adaptive, 50, &[effect(K::Read, S::Low, B::Trivial)]).then(V::Allow);
    let uncertain = update(B::Medium).map(|effect| effect.with_confidence(Confidence::percent(79)));
    given(M::Adaptive, 82, &uncertain).then(V::Ask);
    let sure = |radius, percent| update(radius).map(|it| it.with_confidence(Confidence::percent(percent)));
    given(M::Adaptive, 82, &sure(B::Small, 79)).then(V::Allow);
    given(M::Adaptive, 82, &sure(B::Medium, 80)).then(V::Allow);
    let mut case = given(M::Adaptive, 82, &update(B::Small));
    case.multiple = true;
    case.then(V::Ask);
}

#[test]
fn ecosystem_mode_asks_at_low_confidence() {
    let at = |percent| [effect(K::Update, S::Low, B::Small).with_confidence(Confidence::percent(percent))];
    given(M::Ecosystem, 50, &at(49)).then(V::Ask);
    given(M::Ecosystem, 50, &at(50)).then(V::Allow);
}

#[test]
fn unclassified_calls_ask_in_every_mode() {
    for mode in M::ALL {
        given(mode, 100, &[Effect::UNCLASSIFIED]).then(V::Ask);
        given(mode, 100, &[Effect::UNCLASSIFIED.with_confidence(Confidence::FULL)]).then(V::Ask);
    }
}

#[test]
fn the_strictest_effect_decides() {
    let shell = [effect(K::Execute, S::Low, B::Small), effect(K::Delete, S::High, B::Medium)];
    let case = given(M::Ecosystem, 90, &shell).brief(&json!({ "neverEscalate": ["execute"] }));
    let verdict = case.verdict();
    assert_eq!((verdict.verdict, verdict.effect), (V::Ask, shell[1]));
    assert_eq!(verdict.rule, R::AlwaysEscalate { entry: "delete".to_owned() });
}

#[test]
fn rules_apply_in_their_order() {
    let update = [effect(K::Update, S::Low, B::Small)];
    let both = json!({ "alwaysEscalate": ["Ba*"], "neverEscalate": ["Bash"] });
    given(M::Ecosystem, 90, &update).brief(&both).then(V::Ask);
    let never = json!({ "neverEscalate": ["Bash"] });
    // A named tool is covered even if a call of it cannot be classified, but not against a rule of the mode.
    let unknown = [Effect::UNCLASSIFIED.with_confidence(Confidence::FULL)];
    given(M::Adaptive, 90, &unknown).brief(&never).then(V::Allow);
    given(M::Adaptive, 50, &unknown).brief(&never).then(V::Ask);
    given(M::Ecosystem, 90, &update).brief(&json!({ "alwaysEscalate": ["pattern:migrations"] })).then(V::Ask);
    let when = json!({ "escalateWhen": [{
        "predicate": { "type": "not", "rule": { "field": "trustScore", "op": "gte", "value": 95 } },
        "description": "Only veterans",
    }] });
    let verdict = given(M::Ecosystem, 90, &update).brief(&when).verdict();
    assert_eq!(verdict.rule, R::EscalateWhen { description: "Only veterans".to_owned() });
}

/// A call to which every rule applies. Without the first one, the next one decides.
#[test]
fn first_rule_that_applies_decides() {
    let update = effect(K::Update, S::Low, B::Small);
    let entry = "Bash".to_owned();
    let always = json!({ "field": "trustScore", "op": "gte", "value": 0 });
    let mut protocol = json!({
        "alwaysEscalate": ["Bash"],
        "escalateWhen": [{ "predicate": always, "description": "Always" }],
        "neverEscalate": ["update"],
    });
    let decision_id = DecisionId::new(Uuid::from_u128(2));
    let mut case = given(M::Adaptive, 90, &[update]).brief(&protocol);
    case.listing = Listing::NotAllowed("You may not.".to_owned());
    case.guardrails = ["ask", "block"].map(|it| guardrail(it, it, &json!({ "tool": "Bash" }))).into();
    case.approvals = vec![StandingApproval {
        decision_id,
        session_id: session(),
        tool: entry.clone(),
        effects: Effects::one(update),
        mode_revision: ModeRevision::default(),
    }];
    case.minimum = Some(Rate::percent(50));
    case.autonomous = Some(K::Update);
    let then = |case: &Case, verdict: V, rule: R| {
        let decided = case.verdict();
        assert_eq!((decided.verdict, decided.rule), (verdict, rule));
    };
    then(&case, V::Deny, R::NotAllowed { tool: entry.clone() });
    case.listing = Listing::Unknown;
    then(&case, V::Deny, R::Guardrail { name: "block".to_owned() });
    case.guardrails.pop();
    then(&case, V::Ask, R::NotAllowed { tool: entry.clone() });
    case.listing = Listing::Allowed;
    then(&case, V::Ask, R::Guardrail { name: "ask".to_owned() });
    case.guardrails.clear();
    then(&case, V::Ask, R::AlwaysEscalate { entry });
    protocol["alwaysEscalate"] = json!([]);
    case = case.brief(&protocol);
    then(&case, V::Allow, R::AlwaysApprove { decision_id });
    case.approvals.clear();
    then(&case, V::Ask, R::EscalateWhen { description: "Always".to_owned() });
    protocol["escalateWhen"] = json!([]);
    case = case.brief(&protocol);
    then(&case, V::Ask, R::ApprovalRate { action_kind: K::Update, lower_bound: Rate::ZERO });
    case.minimum = None;
    then(&case, V::Allow, R::NeverEscalate { entry: "update".to_owned() });
    case = case.brief(&json!({}));
    then(&case, V::Allow, R::Autonomy { action_kind: K::Update });
    case.autonomous = None;
    then(&case, V::Allow, R::ModeDefault { mode: M::Adaptive });
}

#[test]
fn predicates_hold_at_and_beyond_their_limits() {
    let facts = PredicateFacts {
        confidence: Confidence::percent(60),
        blast_radius: B::Medium,
        trust_score: Points::whole(40),
        affects_multiple_workstreams: false,
    };
    let unknown = PredicateFacts { blast_radius: B::Unknown, ..facts };
    let holds = |json: &Value, facts| EscalationPredicate::parse(json).unwrap().holds(facts);
    let number = |field, op, value: Value| json!({ "field": field, "op": op, "value": value });
    let trust = |op, value| number("trustScore", op, json!(value));
    let confidence = |op, value: f64| number("confidence", op, json!(value));
    let radius = |op, value| number("blastRadius", op, json!(value));
    let either = |rules: &[Value]| json!({ "type": "or", "rules": rules });
    let all = |rules: &[Value]| json!({ "type": "and", "rules": rules });
    for (predicate, expected) in [
        (trust("lt", 41), true),
        (trust("lt", 40), false),
        (trust("gt", 39), true),
        (trust("gt", 40), false),
        (trust("lte", 40), true),
        (trust("lte", 39), false),
        (trust("gte", 40), true),
        (trust("gte", 41), false),
        (confidence("gt", 0.6), false),
        (confidence("lte", 0.6), true),
        (radius("eq", "medium"), true),
        (radius("eq", "large"), false),
        (radius("gte", "medium"), true),
        (radius("gte", "large"), false),
        (either(&[trust("lt", 40), trust("gt", 39)]), true),
        (either(&[trust("lt", 40), trust("gt", 40)]), false),
        (all(&[trust("lte", 40), trust("gt", 39)]), true),
        (all(&[trust("lt", 40), trust("gt", 39)]), false),
    ] {
        assert_eq!(holds(&predicate, &facts), expected, "{predicate}");
    }
    for (predicate, expected) in [
        (radius("eq", "large"), true),
        (radius("eq", "unknown"), true),
        (radius("eq", "medium"), false),
        (radius("gte", "large"), true),
    ] {
        assert_eq!(holds(&predicate, &unknown), expected, "{predicate} of an unknown radius");
    }
}

/// It is not known which calls the entry meant, so every call asks.
#[test]
fn an_entry_of_a_removed_pattern_asks_about_every_call() {
    let read = [effect(K::Read, S::Warning, B::Trivial)];
    let case = given(M::Ecosystem, 100, &read).brief(&json!({ "alwaysEscalate": ["pattern:gone"] }));
    assert_eq!(case.verdict().rule, R::AlwaysEscalate { entry: "pattern:gone".to_owned() });
    case.then(V::Ask);
    given(M::Ecosystem, 100, &read).brief(&json!({ "neverEscalate": ["pattern:gone"] })).then(V::Allow);
}

#[test]
fn a_tool_that_is_not_listed_is_denied_before_all_rules() {
    let mut case = given(M::Ecosystem, 100, &[effect(K::Read, S::Warning, B::Trivial)])
        .brief(&json!({ "neverEscalate": ["Bash"] }));
    case.then(V::Allow);
    let rule = R::NotAllowed { tool: "Bash".to_owned() };
    case.listing = Listing::NotAllowed("You may not.".to_owned());
    assert_eq!((case.verdict().verdict, case.verdict().rule), (V::Deny, rule.clone()));
    // It cannot be told whether the tool is listed: a person decides.
    case.listing = Listing::Unknown;
    assert_eq!((case.verdict().verdict, case.verdict().rule), (V::Ask, rule));
    case.guardrails = vec![guardrail("no shell", "block", &json!({ "tool": "Bash" }))];
    assert_eq!(case.verdict().verdict, V::Deny);
}

fn guardrail(name: &str, action: &str, condition: &Value) -> ToolGuardrail {
    serde_json::from_value(json!({ "name": name, "action": action, "condition": condition })).unwrap()
}

#[test]
fn a_blocking_guardrail_denies_whatever_is_allowed() {
    let mut case = given(M::Ecosystem, 100, &[effect(K::Read, S::Warning, B::Trivial)]);
    case.guardrails = vec![guardrail("watch", "warn", &json!({ "tool": "Ba?h" }))];
    assert_eq!((case.verdict().verdict, case.verdict().notices), (V::Allow, vec!["watch".to_owned()]));
    case.guardrails.push(guardrail("asks", "ask", &json!({ "tool": "Bash" })));
    case.guardrails.push(guardrail("no shell", "block", &json!({ "tool": "Ba?h" })));
    assert_eq!(case.verdict().rule, R::Guardrail { name: "no shell".to_owned() });
    case.then(V::Deny);
}

#[test]
fn an_asking_guardrail_overrides_approvals() {
    let read = effect(K::Read, S::Warning, B::Trivial);
    let mut case = given(M::Ecosystem, 100, &[read]);
    case.approvals = vec![StandingApproval {
        decision_id: DecisionId::new(Uuid::from_u128(2)),
        session_id: session(),
        tool: "Bash".to_owned(),
        effects: Effects::one(read),
        mode_revision: ModeRevision::default(),
    }];
    case.then(V::Allow);
    case.guardrails = vec![guardrail("asks", "ask", &json!({ "tool": "Bash" }))];
    assert_eq!(case.verdict().rule, R::Guardrail { name: "asks".to_owned() });
    case.then(V::Ask);
}

#[test]
fn a_guardrail_trips_if_all_parts_of_its_condition_hold() {
    let mut case = given(M::Ecosystem, 100, &[effect(K::Execute, S::Low, B::Small)]);
    case.then(V::Allow);
    for (trips, condition) in [
        (true, json!({ "arguments": [{ "matches": "*terraform*" }] })),
        (true, json!({ "arguments": [{ "at": "/command", "matches": "terraform *" }] })),
        (false, json!({ "arguments": [{ "at": "/command", "matches": "terraform" }] })),
        (false, json!({ "arguments": [{ "at": "/path", "matches": "*" }] })),
        (true, json!({ "actionKinds": ["delete", "execute"] })),
        (false, json!({ "actionKinds": ["delete"], "tool": "Bash" })),
        (false, json!({ "tool": "Write", "arguments": [{ "matches": "*" }] })),
        (false, json!({ "arguments": [{ "matches": "*apply*" }, { "matches": "*destroy*" }] })),
    ] {
        case.guardrails = vec![guardrail("g", "block", &condition)];
        let expected = if trips { V::Deny } else { V::Allow };
        assert_eq!(case.verdict().verdict, expected, "{condition}");
    }
    case.arguments = json!({ "edits": [{ "old": 1, "new": "prod" }] });
    case.guardrails = vec![guardrail("g", "block", &json!({ "arguments": [{ "matches": "prod" }] }))];
    case.then(V::Deny);
}

#[test]
fn a_standing_approval_covers_up_to_its_severity_and_lapses() {
    let approved = effect(K::Update, S::Medium, B::Medium);
    let mut case = given(M::Adaptive, 20, &[approved]);
    case.then(V::Ask);
    case.approvals = vec![StandingApproval {
        decision_id: DecisionId::new(Uuid::from_u128(2)),
        session_id: session(),
        tool: "Bash".to_owned(),
        effects: Effects::one(approved),
        mode_revision: ModeRevision::default(),
    }];
    case.then(V::Allow);
    for effects in [
        vec![effect(K::Update, S::High, B::Medium)],
        vec![effect(K::Update, S::Medium, B::Large)],
        vec![effect(K::Create, S::Medium, B::Medium)],
        vec![approved, effect(K::Delete, S::Low, B::Small)],
    ] {
        case.effects = effects;
        case.then(V::Ask);
    }
    case.effects = vec![approved];
    case.mode.change(M::Orchestrator, now()).unwrap();
    case.mode.change(M::Adaptive, now()).unwrap();
    case.then(V::Ask);
}

#[test]
fn reported_risk_makes_the_verdict_stricter_only() {
    let mut case = given(M::Adaptive, 50, &[effect(K::Update, S::Low, B::Trivial)]);
    case.then(V::Allow);
    case.reported = ReportedRisk { blast_radius: Some(B::Unknown), ..ReportedRisk::default() };
    case.then(V::Ask);
    let mut case = given(M::Adaptive, 50, &[effect(K::Update, S::High, B::Large)]);
    case.reported = ReportedRisk {
        severity: Some(S::Warning),
        blast_radius: Some(B::Trivial),
        confidence: Some(Confidence::FULL),
    };
    case.then(V::Ask);
}

#[test]
fn a_minimum_approval_rate_asks_agents_with_few_verdicts() {
    let mut case = given(M::Ecosystem, 90, &[effect(K::Update, S::Low, B::Small)]);
    case.minimum = Some(Rate::percent(50));
    assert_eq!(case.verdict().rule, R::ApprovalRate { action_kind: K::Update, lower_bound: Rate::ZERO });
    case.effects = vec![effect(K::Read, S::Low, B::Trivial)];
    case.then(V::Allow);
}

#[test]
fn every_violation_of_a_protocol_is_named() {
    let deep = (0..9).fold(
        json!({ "field": "trustScore", "op": "lt", "value": 1 }),
        |rule, _| json!({ "type": "not", "rule": rule }),
    );
    let json = json!({
        "alwaysEscalate": ["delete files", 7],
        "escalateWhen": [
            { "predicate": { "field": "confidence", "op": "eq", "value": 2 }, "description": "" },
            { "predicate": { "type": "and", "rules": [{ "field": "speed" }, { "type": "or", "rules": [] }] }, "description": "x" },
            { "predicate": deep, "description": "x" },
        ],
        "sometimes": [],
    });
    let found = EscalationProtocol::parse(&json).unwrap_err();
    let paths: Vec<_> = found.0.iter().map(|(path, _)| path.as_str()).collect();
    for path in [
        "sometimes",
        "alwaysEscalate[0]",
        "alwaysEscalate[1]",
        "escalateWhen[0].description",
        "escalateWhen[0].predicate.op",
        "escalateWhen[0].predicate.value",
        "escalateWhen[1].predicate.rules[0].field",
        "escalateWhen[1].predicate.rules[1].rules",
        "escalateWhen[2].predicate.rule.rule.rule.rule.rule.rule.rule.rule",
    ] {
        assert!(paths.contains(&path), "{path} is missing in {paths:?}");
    }
    let every = EscalationProtocol::parse(&json!({ "neverEscalate": ["*"] })).unwrap_err();
    assert_eq!(every.to_string(), "neverEscalate[0] must not match every tool");
}

#[test]
fn misspelt_entries_are_found() {
    let json = json!({ "alwaysEscalate": ["delte", "delete", "pattern:db"], "neverEscalate": ["Bash", "mcp__x__y"] });
    let protocol = EscalationProtocol::parse(&json).unwrap();
    let found = protocol.check_names(&["Bash".to_owned()], &ToolClassifications::default()).unwrap_err();
    let paths: Vec<_> = found.0.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["alwaysEscalate[0]", "alwaysEscalate[2]"]);
}

#[test]
fn protocols_survive_storage_and_large_predicates_are_refused() {
    for mode in M::ALL {
        let protocol = EscalationProtocol::of_mode(mode);
        let text = serde_json::to_string(&protocol).unwrap();
        assert_eq!(serde_json::from_str::<EscalationProtocol>(&text).unwrap(), protocol);
    }
    let rule = json!({ "field": "affectsMultipleWorkstreams", "op": "eq", "value": true });
    let group = |n| json!({ "type": "or", "rules": vec![rule.clone(); n] });
    assert!(EscalationPredicate::parse(&group(EscalationPredicate::MAX_SIZE - 1)).is_ok());
    assert!(EscalationPredicate::parse(&group(EscalationPredicate::MAX_SIZE)).is_err());
}

#[test]
fn a_mode_change_raises_the_revision() {
    let mut mode = ControlModeSetting::new(M::Ecosystem, now());
    assert_eq!(mode.change(M::Ecosystem, now()), None);
    let change = mode.change(M::Orchestrator, now()).unwrap();
    assert_eq!((change.from, change.to, change.revision.get()), (M::Ecosystem, M::Orchestrator, 1));
    assert_eq!((mode.mode(), mode.revision()), (M::Orchestrator, change.revision));
}
