//! Shortens a snapshot to its number of tokens: by the steps of S2, "Snapshot sizing", in their order, then from the end of each list.

use super::snapshot::{KnowledgeSnapshot, TokenBudget};
use crate::text::{WorkstreamId, cut};

/// Most characters of the title of an issue that is summarized.
const SHORT_TITLE: usize = 40;

type Step = fn(&mut KnowledgeSnapshot, &WorkstreamId);

/// S2's steps. Each applies only while the snapshot is too large.
const STEPS: [Step; 4] = [
    |snapshot, _| {
        for issue in &mut snapshot.recent_coherence_issues {
            issue.title = cut(&issue.title, SHORT_TITLE);
        }
    },
    |snapshot, own| {
        let before = snapshot.artifact_index.len();
        snapshot.artifact_index.retain(|artifact| artifact.workstream == *own);
        snapshot.omitted.artifacts += before - snapshot.artifact_index.len();
    },
    |snapshot, _| {
        for agent in &mut snapshot.active_agents {
            agent.plugin_name = None;
            agent.model_preference = None;
        }
    },
    |snapshot, own| {
        let before = snapshot.pending_decisions.len();
        snapshot.pending_decisions.retain(|decision| decision.workstream == *own);
        snapshot.omitted.pending_decisions += before - snapshot.pending_decisions.len();
    },
];

type Length = fn(&KnowledgeSnapshot) -> usize;

/// Keeps the first `count` entries of a list.
type Keep = fn(&mut KnowledgeSnapshot, usize);

/// The lists that are shortened afterwards, in this order, each with its least length.
const LISTS: [(Length, Keep, usize); 7] = [
    (
        |it| it.artifact_index.len(),
        |it, count| it.omitted.artifacts += drop_after(&mut it.artifact_index, count),
        0,
    ),
    (
        |it| it.recent_coherence_issues.len(),
        |it, count| it.omitted.coherence_issues += drop_after(&mut it.recent_coherence_issues, count),
        0,
    ),
    (
        |it| it.active_agents.len(),
        |it, count| it.omitted.agents += drop_after(&mut it.active_agents, count),
        0,
    ),
    (
        |it| it.pending_decisions.len(),
        |it, count| it.omitted.pending_decisions += drop_after(&mut it.pending_decisions, count),
        0,
    ),
    (
        |it| it.workstreams.len(),
        |it, count| it.omitted.workstreams += drop_after(&mut it.workstreams, count),
        1,
    ),
    (
        |it| it.workstreams.iter().map(|workstream| workstream.active_agent_ids.len()).max().unwrap_or(0),
        |it, count| {
            it.workstreams.iter_mut().for_each(|workstream| workstream.active_agent_ids.truncate(count));
        },
        0,
    ),
    (
        |it| {
            it.workstreams
                .iter()
                .map(|workstream| workstream.recent_activity.chars().count())
                .max()
                .unwrap_or(0)
        },
        |it, count| {
            for workstream in &mut it.workstreams {
                workstream.recent_activity = cut(&workstream.recent_activity, count);
            }
        },
        0,
    ),
];

fn drop_after<T>(list: &mut Vec<T>, count: usize) -> usize {
    let dropped = list.len().saturating_sub(count);
    list.truncate(count);
    dropped
}

/// Omits as little as the order allows. The smallest snapshot has only the agent's own workstream, which always fits.
pub(super) fn to_budget(snapshot: &mut KnowledgeSnapshot, own: &WorkstreamId, budget: TokenBudget) {
    let fits = |snapshot: &KnowledgeSnapshot| snapshot.tokens() <= budget.tokens();
    for step in STEPS {
        if fits(snapshot) {
            return;
        }
        step(snapshot, own);
    }
    for (length, keep, least) in LISTS {
        if fits(snapshot) {
            return;
        }
        let kept = |count: usize| {
            let mut shorter = snapshot.clone();
            keep(&mut shorter, count);
            shorter
        };
        // The largest number of entries that fits: halve the interval between one that fits and one that does not.
        let (mut fitting, mut excessive) = (least, length(snapshot).max(least));
        while excessive - fitting > 1 {
            let middle = fitting + (excessive - fitting) / 2;
            if fits(&kept(middle)) { fitting = middle } else { excessive = middle }
        }
        *snapshot = kept(fitting);
    }
}
