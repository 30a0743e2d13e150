//! The sentences of a briefing that is composed from facts.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_api::briefing::{Briefing, BriefingLimit, BriefingSection, BriefingSource};
use pilothouse_domain::coherence::{EmbeddingUse, ReviewUse};
use pilothouse_domain::decision::{Decision, DecisionLogEntry};
use pilothouse_domain::project::SpendingCap;
use pilothouse_domain::session::{AgentSessionStatus, PausedReason};
use pilothouse_domain::value::DeliverableCounts;
use pilothouse_domain::{Timestamp, Usd};
use serde_json::{Value, json};

use super::compose;
use super::facts::{
    AgentFacts, BrakeFacts, BriefingFacts, Period, SessionFacts, SpendingFacts, Work, WorkEvent,
    WorkEventKind,
};

const PROJECT: u32 = 1;

/// An id with this number.
fn id(number: u32) -> String {
    format!("01900000-0000-7000-8000-{number:012}")
}

/// Minutes after the begin of the period, which lasts two hours.
fn at(minutes: i64) -> Timestamp {
    let begin: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
    Timestamp::from_millis(begin.as_millis() + minutes * 60_000)
}

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

/// A project without events.
fn quiet() -> BriefingFacts {
    BriefingFacts {
        project_id: id(PROJECT).parse().unwrap(),
        name: "Shop".to_owned(),
        archived_at: None,
        period: Period { since: at(0), until: at(120) },
        agents: Vec::new(),
        open: Vec::new(),
        log: Vec::new(),
        logged: BTreeMap::new(),
        brakes: Vec::new(),
        spending: None,
        reviews: ReviewUse::default(),
        embeddings: EmbeddingUse::default(),
        incomplete: BTreeSet::new(),
    }
}

/// Agent number `number`, which works in session number 100 + `number`.
fn agent(number: u32, role: &str) -> AgentFacts {
    AgentFacts {
        id: id(number).parse().unwrap(),
        role: role.to_owned(),
        workstream: "api".to_owned(),
        session: SessionFacts {
            id: id(100 + number).parse().unwrap(),
            status: AgentSessionStatus::Running,
            objective: "Build it".to_owned(),
            updated_at: at(60),
            ended_at: None,
            failure: None,
            paused: None,
            unreachable_since: None,
            spent_usd: Usd::ZERO,
            budget_usd: Usd::whole(5),
            budget_warns: false,
            unmetered: false,
            deliverables: None,
        },
        work: Work::NONE,
    }
}

impl AgentFacts {
    fn status(mut self, status: AgentSessionStatus) -> Self {
        self.session.status = status;
        self.session.ended_at = status.is_terminal().then_some(at(60));
        self
    }

    fn event(mut self, sequence: u64, minutes: i64, kind: WorkEventKind) -> Self {
        let session_id = self.session.id;
        self.work.events.push(WorkEvent { session_id, sequence, at: at(minutes), kind });
        self
    }

    fn with_turns(mut self, turns: Option<u32>) -> Self {
        self.work.turns = turns;
        self
    }

    fn spent(mut self, spent: Option<&str>, total: &str) -> Self {
        self.work.spent_usd = spent.map(usd);
        self.session.spent_usd = usd(total);
        self
    }
}

/// An open question of agent 2.
fn question(number: u32, minutes: i64, severity: &str) -> Decision {
    decision(
        number,
        minutes,
        json!({
            "kind": "question", "requestId": "q", "questions": [{ "question": "Which store?" }],
            "severity": severity, "state": "pending",
        }),
    )
}

fn fields(of: Value) -> serde_json::Map<String, Value> {
    match of {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

fn decision(number: u32, minutes: i64, with: Value) -> Decision {
    let mut decision = json!({
        "id": id(number), "ownerId": "ada", "sessionId": id(102), "sessionName": "s", "createdAt": at(minutes),
        "project": { "projectId": id(PROJECT), "agentId": id(2), "workstream": "api" },
    });
    decision.as_object_mut().unwrap().extend(fields(with));
    serde_json::from_value(decision).unwrap()
}

/// An entry of the decision log about agent 2.
fn logged(minutes: i64, with: Value) -> DecisionLogEntry {
    let mut entry = json!({
        "ownerId": "ada", "projectId": id(PROJECT), "agentId": id(2), "sessionId": id(102), "at": at(minutes),
    });
    entry.as_object_mut().unwrap().extend(fields(with));
    serde_json::from_value(entry).unwrap()
}

fn verdict(number: u32, minutes: i64, verdict: &str, tool: &str) -> DecisionLogEntry {
    let effect =
        json!({ "actionKind": "read", "severity": "low", "blastRadius": "trivial", "confidence": 1.0 });
    logged(
        minutes,
        json!({
            "type": "verdict", "verdictId": id(number), "toolCallId": format!("c{number}"), "tool": tool,
            "verdict": verdict, "rule": { "type": "modeDefault", "mode": "adaptive" },
            "effect": effect, "effects": [effect], "mode": "adaptive", "modeRevision": 0,
        }),
    )
}

fn taken(number: u32, minutes: i64, by: Option<&Value>) -> DecisionLogEntry {
    let state = if by.is_some() { "auto_resolved" } else { "expired" };
    logged(
        minutes,
        json!({
            "type": "decision", "decisionId": id(number), "kind": "question", "state": state,
            "resolutionType": by.is_some().then_some("answer"), "resolvedBy": by,
        }),
    )
}

fn escalated(number: u32, minutes: i64) -> DecisionLogEntry {
    logged(
        minutes,
        json!({
            "type": "timeout", "decisionId": id(number), "kind": "question", "severity": "critical", "extensions": 0,
            "timeout": { "number": 1, "at": at(minutes), "tick": 9, "effect": "escalated",
                         "rule": { "type": "mode_default", "mode": "adaptive" } },
        }),
    )
}

fn trust(number: u32, minutes: i64, outcome: &str, before: i64, after: i64) -> DecisionLogEntry {
    logged(
        minutes,
        json!({
            "type": "trust", "eventId": id(number),
            "change": { "outcome": outcome, "tick": 3, "before": before, "after": after,
                "rule": { "base": after - before, "overridden": false, "multiplier": 1, "riskWeight": 1,
                          "halved": false, "delta": after - before } },
        }),
    )
}

fn trip(number: u32, minutes: i64, name: &str, subject: &str, action: &str) -> DecisionLogEntry {
    let level = if subject == "output" { "output" } else { "input" };
    logged(
        minutes,
        json!({
            "type": "guardrail", "eventId": id(number), "number": 0, "level": level, "subject": subject,
            "guardrail": { "name": name, "action": action },
        }),
    )
}

fn system_brake(minutes: i64) -> DecisionLogEntry {
    logged(
        minutes,
        json!({
            "type": "brake", "eventId": id(70), "brakeId": id(7), "agentId": null, "sessionId": null,
            "scope": { "type": "project", "projectId": id(PROJECT) }, "action": "pulled", "by": "system",
            "reason": "The cap is reached",
        }),
    )
}

fn brake() -> BrakeFacts {
    BrakeFacts {
        id: id(7).parse().unwrap(),
        scope: serde_json::from_value(json!({ "type": "project", "projectId": id(PROJECT) })).unwrap(),
        reason: "The cap is reached".to_owned(),
        pulled_at: at(30),
    }
}

fn sections(briefing: &Briefing) -> [&BriefingSection; 5] {
    [
        &briefing.attention,
        &briefing.finished,
        &briefing.risks,
        &briefing.automatic_decisions,
        &briefing.cost.section,
    ]
}

fn texts(section: &BriefingSection) -> Vec<&str> {
    section.sentences.iter().map(|sentence| sentence.text.as_str()).collect()
}

/// A project with events for each section.
fn eventful() -> BriefingFacts {
    use WorkEventKind as K;
    let mut blocked = agent(4, "Tester").status(AgentSessionStatus::Idle).event(6, 12, K::UnreportedFiles);
    blocked.session.deliverables = Some((DeliverableCounts { pending: 1, passed: 2, blocked: 1 }, 31));
    let mut passed = agent(5, "Writer").event(32, 40, K::DeliverablesChanged);
    passed.session.deliverables = Some((DeliverableCounts { pending: 1, passed: 2, blocked: 0 }, 32));
    let mut limited = agent(6, "Writer").status(AgentSessionStatus::Paused);
    limited.session.paused = Some(PausedReason::QuotaExceeded);
    let mut stopped = agent(9, "Stopped").status(AgentSessionStatus::Paused).event(4, 11, K::ActedAfterStop);
    stopped.session.paused = Some(PausedReason::Owner);
    BriefingFacts {
        agents: vec![
            agent(2, "Builder")
                .status(AgentSessionStatus::WaitingForInput)
                .with_turns(Some(2))
                .event(10, 10, K::TurnCompleted)
                .event(20, 20, K::TurnCompleted)
                .spent(Some("0.5"), "2"),
            agent(3, "Finisher")
                .status(AgentSessionStatus::Completed)
                .with_turns(Some(1))
                .event(8, 50, K::TurnCompleted)
                .event(9, 60, K::Completed)
                .spent(Some("1"), "1"),
            blocked,
            passed,
            limited,
            agent(8, "Crashed").status(AgentSessionStatus::Failed).event(5, 60, K::Failed).spent(None, "3"),
            stopped,
        ],
        open: vec![question(200, 15, "medium"), question(201, 5, "high")],
        log: vec![
            verdict(300, 1, "allow", "Read"),
            verdict(301, 2, "allow", "Read"),
            verdict(302, 3, "deny", "Bash"),
            verdict(303, 4, "ask", "Bash"),
            escalated(201, 6),
            taken(202, 7, Some(&json!({ "type": "timeout", "rule": { "type": "brief" } }))),
            taken(203, 8, Some(&json!({ "type": "owner", "id": "ada" }))),
            taken(204, 9, None),
            trust(400, 10, "human_rejects_tool_call", 50, 48),
            trust(401, 11, "human_approves_tool_call", 48, 49),
            trip(500, 12, "no cards", "message", "block"),
            trip(501, 13, "no cards", "message", "block"),
            trip(502, 14, "prices", "output", "ask"),
            system_brake(30),
        ],
        brakes: vec![brake()],
        ..quiet()
    }
}

#[test]
fn each_event_is_a_sentence_of_its_section() {
    // Given
    let facts = eventful();
    // When
    let briefing = compose(&facts);
    // Then
    assert_eq!(
        texts(&briefing.attention),
        [
            "Builder asks “Which store?”.",
            "Builder asks “Which store?”.",
            "Stopped is paused until you resume it.",
        ]
    );
    assert_eq!(
        texts(&briefing.finished),
        [
            "Finisher completed its objective “Build it” after 1 turn.",
            "Writer (api, 000005) has passed 2 of 3 deliverables.",
            "Builder finished 2 turns.",
        ]
    );
    assert_eq!(
        texts(&briefing.risks),
        [
            "A brake stops the project: “The cap is reached”.",
            "Crashed failed.",
            "Writer (api, 000006) is paused, because its quota is used up.",
            "1 deliverable of Tester is blocked by an external cause; 2 of 4 are passed.",
            "Tester left files in its workspace that are not saved as artifacts.",
            "The guardrail “prices” of Builder asks for a review of the output.",
            "The guardrail “no cards” of Builder refused a message to the agent 2 times.",
            "Stopped acted after it had been stopped.",
            "The trust in Builder went from 50 to 49: 1 × human approves tool call, 1 × human rejects tool call.",
        ]
    );
    assert_eq!(
        texts(&briefing.automatic_decisions),
        [
            "The question of Builder expired without you: nobody decided in time.",
            "The question of Builder was answered without you: timeout of the agent's brief.",
            "1 call of Bash by Builder was denied: default of the mode adaptive.",
            "2 calls of Read by Builder were allowed without you: default of the mode adaptive.",
        ]
    );
    assert_eq!(
        texts(&briefing.cost.section),
        [
            "Finisher spent $1 in 1 turn.",
            "Builder spent $0.5 in 2 turns, and $2 in total.",
            "Crashed spent $3 in total; how much of it in this period is not known.",
        ]
    );
    let cost = &briefing.cost;
    assert_eq!((cost.spent_usd, cost.total_usd, cost.is_partial), (usd("1.5"), usd("6"), true));
}

#[test]
fn same_facts_in_any_order_give_the_same_bytes() {
    let first = serde_json::to_string(&compose(&eventful())).unwrap();
    assert_eq!(serde_json::to_string(&compose(&eventful())).unwrap(), first);
    let mut facts = eventful();
    facts.agents.reverse();
    facts.open.reverse();
    facts.log.reverse();
    facts.agents.iter_mut().for_each(|agent| agent.work.events.reverse());
    assert_eq!(serde_json::to_string(&compose(&facts)).unwrap(), first);
}

#[test]
fn each_sentence_has_a_link_and_no_event_is_in_two() {
    let briefing = compose(&eventful());
    let mut seen = BTreeSet::new();
    for sentence in sections(&briefing).iter().flat_map(|section| &section.sentences) {
        assert!((1..=5).contains(&sentence.links.len()), "{sentence:?}");
        assert!(sentence.event_count >= sentence.links.len(), "{sentence:?}");
        for link in &sentence.links {
            assert!(link.href.starts_with("/api/"), "{link:?}");
            let is_event = matches!(
                link.source,
                BriefingSource::SessionEvent { .. }
                    | BriefingSource::DecisionLog { .. }
                    | BriefingSource::Decision { .. }
                    | BriefingSource::Brake { .. }
            );
            assert!(!is_event || seen.insert(link.source.clone()), "twice: {link:?}");
        }
    }
    assert_eq!(seen.len(), 24, "each event of the project is linked: {seen:#?}");
}

#[test]
fn escalated_decision_is_more_urgent_and_has_its_timeout() {
    let briefing = compose(&eventful());
    let [urgent, other, _] = &briefing.attention.sentences[..] else { panic!("{briefing:?}") };
    assert_eq!(urgent.links[1].source, BriefingSource::Decision { decision_id: id(201).parse().unwrap() });
    assert!(
        matches!(&urgent.links[0].source, BriefingSource::DecisionLog { entry, .. } if entry.contains("timeout"))
    );
    assert_eq!((urgent.event_count, other.event_count), (2, 1));
}

#[test]
fn entries_outside_of_the_period_are_ignored() {
    // Given
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder").status(AgentSessionStatus::Completed)];
    facts.agents[0].session.ended_at = Some(at(-1));
    for minutes in [-1, 120] {
        facts.log.extend([
            verdict(300, minutes, "allow", "Read"),
            taken(202, minutes, None),
            system_brake(minutes),
        ]);
        facts.log.push(trust(400, minutes, "human_rejects_tool_call", 50, 48));
    }
    // When
    let briefing = compose(&facts);
    // Then
    assert!(sections(&briefing).iter().all(|section| section.count == 0), "{briefing:#?}");
}

#[test]
fn begin_of_the_period_belongs_to_it_and_its_end_does_not() {
    let mut facts = quiet();
    facts.log = vec![verdict(300, 0, "allow", "Read"), verdict(301, 120, "allow", "Read")];
    facts.agents = vec![agent(2, "Builder").status(AgentSessionStatus::Failed)];
    facts.agents[0].session.ended_at = Some(at(0));
    let briefing = compose(&facts);
    assert_eq!(briefing.automatic_decisions.sentences[0].event_count, 1);
    assert_eq!(texts(&briefing.risks), ["Builder failed."]);
}

#[test]
fn sections_and_links_are_limited_and_counted() {
    // Given
    let mut facts = quiet();
    facts.open = (0..30).map(|number| question(200 + number, 5, "high")).collect();
    facts.log = (0..30).map(|number| verdict(300 + number, i64::from(number), "allow", "Read")).collect();
    facts.incomplete.insert(BriefingLimit::DecisionLog);
    // When
    let briefing = compose(&facts);
    // Then
    let section = &briefing.attention;
    assert_eq!((section.count, section.sentences.len(), section.omitted()), (30, 20, 10));
    let [calls] = &briefing.automatic_decisions.sentences[..] else { panic!("{briefing:?}") };
    assert_eq!((calls.event_count, calls.links.len(), calls.at), (30, 5, at(29)));
    assert!(calls.links[0].href.contains("since=2026-05-01T12:29:00.000Z&until=2026-05-01T12:29:00.001Z"));
    assert_eq!(briefing.incomplete, [BriefingLimit::DecisionLog]);
}

#[test]
fn agents_of_one_role_have_different_names() {
    let mut facts = quiet();
    let turns =
        |number| agent(number, "Builder").with_turns(Some(1)).event(1, 1, WorkEventKind::TurnCompleted);
    facts.agents = vec![turns(2), turns(3), AgentFacts { workstream: "docs".to_owned(), ..turns(4) }];
    let briefing = compose(&facts);
    let names: BTreeSet<_> = texts(&briefing.finished).into_iter().collect();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        [
            "Builder (api, 000002) finished 1 turn.",
            "Builder (api, 000003) finished 1 turn.",
            "Builder (docs) finished 1 turn.",
        ]
    );
}

#[test]
fn texts_of_agents_are_one_short_line() {
    let mut facts = quiet();
    let long = format!("a\u{1b}[2J\nb {}", "x".repeat(500));
    facts.open = vec![decision(
        200,
        1,
        json!({
            "kind": "question", "requestId": "q", "questions": [{ "question": long }], "state": "pending",
        }),
    )];
    let briefing = compose(&facts);
    let text = &briefing.attention.sentences[0].text;
    assert!(text.starts_with("An agent asks “a [2J b xxx"), "{text}");
    assert!(text.chars().count() < 160 && !text.chars().any(char::is_control), "{text}");
}

#[test]
fn unknown_turns_are_counted_as_at_least_those_that_were_read() {
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder").with_turns(None).event(1, 1, WorkEventKind::TurnCompleted)];
    assert_eq!(texts(&compose(&facts).finished), ["Builder finished at least 1 turn."]);
}

#[test]
fn crash_with_a_decision_is_not_a_risk_as_well() {
    // Given
    let mut facts = quiet();
    facts.agents =
        vec![agent(2, "Builder").status(AgentSessionStatus::Failed).event(5, 60, WorkEventKind::Failed)];
    facts.open = vec![decision(
        200,
        60,
        json!({
            "kind": "crash_recovery", "failureReason": "InfrastructureError", "consecutiveCrashes": 1, "options": [],
            "automatic": { "at": at(90), "recovery": "restart" }, "severity": "high", "state": "pending",
        }),
    )];
    // When
    let briefing = compose(&facts);
    // Then
    assert_eq!(
        texts(&briefing.attention),
        ["Builder failed (InfrastructureError) and asks how to continue; it is crash 1 in a row. \
          Without you, the recovery is restart at 2026-05-01 13:30 UTC."]
    );
    assert_eq!(briefing.risks.count, 0);
}

#[test]
fn brake_with_a_release_decision_is_not_a_risk_as_well() {
    let mut facts = quiet();
    facts.brakes = vec![brake()];
    facts.open = vec![decision(
        200,
        30,
        json!({
            "kind": "brake_release", "brakeId": id(7), "scope": brake().scope, "brakeReason": "Look",
            "project": null, "state": "pending",
        }),
    )];
    let briefing = compose(&facts);
    assert_eq!(texts(&briefing.attention), ["The brake on the project waits for its release: “Look”."]);
    assert_eq!(briefing.risks.count, 0);
}

#[test]
fn spending_cap_is_a_risk_from_its_warning_on() {
    let cap = SpendingCap::new(Usd::whole(10), None).unwrap();
    let with = |drawn, is_exhausted, brakes: Vec<BrakeFacts>| {
        let is_braked = !brakes.is_empty();
        let spending = Some(SpendingFacts { cap, drawn_usd: Usd::whole(drawn), is_exhausted, is_braked });
        compose(&BriefingFacts { brakes, spending, ..quiet() })
    };
    assert_eq!(with(7, false, Vec::new()).risks.count, 0);
    assert_eq!(
        texts(&with(8, false, Vec::new()).risks),
        ["The agents have drawn $8 of the spending cap of $10."]
    );
    let exhausted = with(10, true, Vec::new());
    assert!(texts(&exhausted.risks)[0].contains("no agent can start"));
    let braked = with(10, true, vec![brake()]);
    assert_eq!(texts(&braked.risks), ["A brake stops the project: “The cap is reached”."]);
}

#[test]
fn content_of_a_decision_is_in_its_sentence() {
    // Given
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder")];
    facts.log = vec![taken(202, 7, Some(&json!({ "type": "default_answer" })))];
    let options = json!([{ "id": "1", "label": "SQLite" }, { "id": "2", "label": "Postgres" }]);
    let resolved = decision(
        202,
        1,
        json!({
            "kind": "option", "requestId": "q", "question": "Which store?", "options": options,
            "state": "auto_resolved", "resolution": { "resolutionType": "choose_option", "chosenOptionId": "2" },
            "resolvedBy": { "type": "default_answer" }, "resolvedAt": at(7),
        }),
    );
    facts.logged.insert(resolved.id, resolved);
    // When
    let briefing = compose(&facts);
    // Then
    assert_eq!(
        texts(&briefing.automatic_decisions),
        [
            "The choice “Which store?” of Builder was decided as “Postgres” without you: nobody answered in time, and the session \
          has a default answer."
        ]
    );
}

#[test]
fn refused_uses_of_knowledge_are_automatic_decisions() {
    // Given
    let used = |number: u32, allowed| {
        logged(
            number.into(),
            json!({
                "type": "knowledge", "accessId": id(500 + number), "access": "read_artifact", "allowed": allowed,
                "workstream": "docs", "subject": id(600),
            }),
        )
    };
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder")];
    facts.log = vec![used(1, false), used(2, true), used(3, false)];
    // When
    let briefing = compose(&facts);
    // Then
    assert_eq!(
        texts(&briefing.automatic_decisions),
        ["2 calls of read_artifact by Builder were denied: outside of its workstreams."]
    );
}

#[test]
fn risen_trust_is_an_automatic_decision() {
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder")];
    facts.log = vec![trust(400, 1, "task_completed_success", 50, 53)];
    let briefing = compose(&facts);
    assert_eq!(
        texts(&briefing.automatic_decisions),
        ["The trust in Builder went from 50 to 53: 1 × task completed success."]
    );
    assert_eq!(briefing.risks.count, 0);
}

#[test]
fn agents_without_a_meter_make_the_cost_partial() {
    let mut facts = quiet();
    facts.agents = vec![agent(2, "Builder").with_turns(Some(1)).event(1, 1, WorkEventKind::TurnCompleted)];
    facts.agents[0].session.unmetered = true;
    let cost = compose(&facts).cost;
    assert!(cost.is_partial);
    assert_eq!(texts(&cost.section), ["Builder does not report its spend."]);
}
