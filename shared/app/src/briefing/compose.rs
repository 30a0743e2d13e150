//! Composes the sentences of a briefing. Pure: the same facts, in any order, give the same bytes.
//!
//! An event is in one sentence only: a section takes its entries out of the [`AutomaticDecisions`], and their own section has the rest.

use std::cmp::Reverse;

use pilothouse_api::briefing::{Briefing, BriefingCost, BriefingSection, BriefingSource};
use pilothouse_domain::Usd;
use pilothouse_domain::coherence::{EmbeddingUse, ReviewUse};
use pilothouse_domain::session::{AgentSessionStatus, PausedReason};

use super::automatic::AutomaticDecisions;
use super::draft::{Draft, Drafts};
use super::facts::{AgentFacts, BriefingFacts};
use super::finished::finished;
use super::risks::risks;
use super::words::{self, Names};

/// The briefing about these facts.
pub fn compose(facts: &BriefingFacts) -> Briefing {
    let project = facts.project_id;
    let names = Names::of(&facts.agents);
    let mut automatic = AutomaticDecisions::of(facts);
    Briefing {
        project_id: project,
        name: facts.name.clone(),
        archived_at: facts.archived_at,
        since: facts.period.since,
        until: facts.period.until,
        attention: attention(facts, &names, &mut automatic),
        finished: finished(facts, &names),
        risks: risks(facts, &names, &mut automatic),
        automatic_decisions: {
            let mut drafts = Drafts::new();
            for draft in automatic.into_drafts(facts, &names) {
                drafts.push((), draft);
            }
            drafts.finish(project)
        },
        cost: cost(facts, &names),
        incomplete: facts.incomplete.iter().copied().collect(),
    }
}

fn attention(
    facts: &BriefingFacts,
    names: &Names,
    automatic: &mut AutomaticDecisions<'_>,
) -> BriefingSection {
    // Sorted by severity and radius, the highest first. Sessions have neither and are last.
    let mut drafts = Drafts::new();
    for decision in &facts.open {
        let text = format!("{}.{}", words::request(decision, names), words::deadline_sentences(decision));
        let source = BriefingSource::Decision { decision_id: decision.id };
        let draft = Draft::new(text, decision.created_at, source)
            .of_agent(decision.project.as_ref().map(|of| of.agent_id))
            .with(automatic.take_timeouts(decision.id));
        let (severity, radius) = decision.rank();
        drafts.push((Reverse(Some((severity, radius))), decision.created_at, decision.id.to_string()), draft);
    }
    for agent in &facts.agents {
        let session = &agent.session;
        let state = match session.status {
            AgentSessionStatus::Interrupted => "is interrupted and waits for your message",
            AgentSessionStatus::Paused if is_paused_by_owner(agent) => "is paused until you resume it",
            _ => continue,
        };
        let text = format!("{} {state}.", names.get(agent.id));
        let source = BriefingSource::Session { session_id: session.id };
        let draft = Draft::new(text, session.updated_at, source).of_agent(Some(agent.id));
        drafts.push((Reverse(None), session.updated_at, agent.id.to_string()), draft);
    }
    drafts.finish(facts.project_id)
}

fn is_paused_by_owner(agent: &AgentFacts) -> bool {
    matches!(agent.session.paused, None | Some(PausedReason::Owner))
}

fn cost(facts: &BriefingFacts, names: &Names) -> BriefingCost {
    // Sorted by spend, the highest first. Agents without a known spend, reviews and embeddings are last.
    let mut drafts = Drafts::new();
    let (mut spent_usd, mut total_usd, mut is_partial) = (Usd::ZERO, Usd::ZERO, false);
    for agent in &facts.agents {
        let (session, name) = (&agent.session, names.get(agent.id));
        let (turns, total) = (agent.turns(), session.spent_usd);
        total_usd += total;
        let has_worked = turns.number() > 0 || agent.work.turns.is_none();
        let text = match agent.work.spent_usd {
            _ if session.unmetered && has_worked => {
                is_partial = true;
                format!("{name} does not report its spend.")
            }
            Some(spent) if spent.is_zero() => continue,
            Some(spent) => {
                spent_usd += spent;
                let before = if spent == total { String::new() } else { format!(", and ${total} in total") };
                let turns = if turns.number() == 0 { String::new() } else { format!(" in {turns}") };
                format!("{name} spent ${spent}{turns}{before}.")
            }
            None if total.is_zero() => continue,
            None => {
                is_partial = true;
                format!("{name} spent ${total} in total; how much of it in this period is not known.")
            }
        };
        let source = BriefingSource::Usage { session_id: session.id };
        let draft = Draft::new(text, session.updated_at, source).of_agent(Some(agent.id));
        drafts.push(Reverse(agent.work.spent_usd), draft);
    }
    let ReviewUse { reviews, spent_usd: reviews_usd, .. } = facts.reviews;
    if reviews > 0 {
        let reviews = if reviews == 1 { "1 review".to_owned() } else { format!("{reviews} reviews") };
        let text = format!("{reviews} of coherence issues by a model cost ${reviews_usd} so far.");
        drafts.push(Reverse(None), Draft::new(text, facts.period.until, BriefingSource::Project {}));
    }
    if let Some(text) = embeddings(&facts.embeddings) {
        drafts.push(Reverse(None), Draft::new(text, facts.period.until, BriefingSource::Project {}));
    }
    let spending_cap = facts.spending.map(|spending| spending.cap);
    let section = drafts.finish(facts.project_id);
    BriefingCost { spent_usd, is_partial, total_usd, reviews_usd, spending_cap, section }
}

/// The cost of embeddings in a sentence; `None` without any.
fn embeddings(usage: &EmbeddingUse) -> Option<String> {
    if *usage == EmbeddingUse::default() {
        return None;
    }
    let EmbeddingUse { texts, unpriced_tokens, spent_usd, .. } = usage;
    let texts = match texts {
        1 => "1 text".to_owned(),
        texts => format!("{texts} texts"),
    };
    let unpriced = match unpriced_tokens {
        0 => String::new(),
        tokens => format!(", and {tokens} tokens at an unknown price"),
    };
    Some(format!("Embeddings of {texts} cost ${spent_usd} so far{unpriced}."))
}
