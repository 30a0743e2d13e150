//! Sentences before they are ordered and limited.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use pilothouse_api::briefing::{BriefingLink, BriefingSection, BriefingSentence, BriefingSource};
use pilothouse_domain::{ProjectAgentId, ProjectId, Timestamp};

/// The most sentences of a section.
const MAX_SENTENCES: usize = 20;
/// The most links of a sentence.
const MAX_LINKS: usize = 5;

/// A sentence with all of its events.
pub(super) struct Draft {
    text: String,
    agent_id: Option<ProjectAgentId>,
    /// The time and source of an event. A sentence has at least one.
    first: (Timestamp, BriefingSource),
    further: Vec<(Timestamp, BriefingSource)>,
    /// The number of events, if it is larger than that of the known ones.
    event_count: usize,
}

impl Draft {
    pub(super) const fn new(text: String, at: Timestamp, source: BriefingSource) -> Self {
        Self { text, agent_id: None, first: (at, source), further: Vec::new(), event_count: 0 }
    }

    /// A sentence about several events; `None` without any.
    pub(super) fn about(
        text: String,
        events: impl IntoIterator<Item = (Timestamp, BriefingSource)>,
    ) -> Option<Self> {
        let mut events = events.into_iter();
        let (at, source) = events.next()?;
        Some(Self::new(text, at, source).with(events))
    }

    #[must_use]
    pub(super) const fn of_agent(mut self, id: Option<ProjectAgentId>) -> Self {
        self.agent_id = id;
        self
    }

    #[must_use]
    pub(super) fn with(mut self, events: impl IntoIterator<Item = (Timestamp, BriefingSource)>) -> Self {
        self.further.extend(events);
        self
    }

    /// The number of events, if not all of them are known.
    #[must_use]
    pub(super) const fn with_count(mut self, event_count: usize) -> Self {
        self.event_count = event_count;
        self
    }

    fn at(&self) -> Timestamp {
        self.further.iter().map(|(at, _)| *at).fold(self.first.0, Timestamp::max)
    }

    fn finish(self, project: ProjectId) -> BriefingSentence {
        let at = self.at();
        let events: BTreeSet<_> = std::iter::once(self.first)
            .chain(self.further)
            .map(|(at, source)| (Reverse(at), source))
            .collect();
        let event_count = events.len().max(self.event_count);
        let latest = events.into_iter().take(MAX_LINKS);
        let links = latest.map(|(_, source)| BriefingLink::new(project, source)).collect();
        BriefingSentence { text: self.text, at, agent_id: self.agent_id, event_count, links }
    }
}

/// The drafts of a section with their sort keys.
pub(super) struct Drafts<K>(Vec<(K, Draft)>);

impl<K: Ord> Drafts<K> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, key: K, draft: Draft) {
        self.0.push((key, draft));
    }

    pub(super) fn finish(mut self, project: ProjectId) -> BriefingSection {
        self.0.sort_by(|(one, draft), (other, another)| {
            let latest_first = || another.at().cmp(&draft.at());
            one.cmp(other).then_with(latest_first).then_with(|| draft.text.cmp(&another.text))
        });
        let count = self.0.len();
        let sentences =
            self.0.into_iter().take(MAX_SENTENCES).map(|(_, draft)| draft.finish(project)).collect();
        BriefingSection { count, sentences }
    }
}
