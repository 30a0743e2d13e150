//! The position of a client in the stream of a project: how far it has read each journal. Its text is the cursor.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pilothouse_domain::{AgentSessionId, BrakeId, ProjectAgentId, ProjectId};
use uuid::Uuid;

/// The format of the cursor. A cursor of another format is unknown.
const FORMAT: u8 = 1;

/// A journal that the stream of a project reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalRef {
    /// The journal of the project.
    Project,
    /// The journal of an agent.
    Agent(ProjectAgentId),
    /// The journal of a session of an agent.
    Session(AgentSessionId),
    /// The journal of a brake.
    Brake(BrakeId),
}

/// How far each journal was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPosition {
    /// The project.
    pub project_id: ProjectId,
    /// The sequence of the last entry of the project that was sent.
    pub project: u64,
    /// The same for each agent.
    pub agents: BTreeMap<ProjectAgentId, u64>,
    /// The same for the sessions that are followed: the current one of each agent, and the one before it.
    pub sessions: BTreeMap<AgentSessionId, SessionPosition>,
    /// The same for brakes that are in force, and for a few that were.
    pub brakes: BTreeMap<BrakeId, u64>,
    /// The number of messages of the next entry of a journal that were sent.
    pub within: Option<(JournalRef, u64)>,
}

/// How far the journal of a session was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPosition {
    /// The agent of the session.
    pub agent: ProjectAgentId,
    /// The sequence of the last entry that was sent.
    pub sequence: u64,
}

impl ProjectPosition {
    /// The begin of a project.
    pub const fn new(project_id: ProjectId, project: u64) -> Self {
        Self {
            project_id,
            project,
            agents: BTreeMap::new(),
            sessions: BTreeMap::new(),
            brakes: BTreeMap::new(),
            within: None,
        }
    }

    /// All journals.
    pub fn journals(&self) -> impl Iterator<Item = JournalRef> + '_ {
        let agents = self.agents.keys().copied().map(JournalRef::Agent);
        let sessions = self.sessions.keys().copied().map(JournalRef::Session);
        let brakes = self.brakes.keys().copied().map(JournalRef::Brake);
        std::iter::once(JournalRef::Project).chain(agents).chain(sessions).chain(brakes)
    }

    /// How far a journal was read: the sequence of its last entry, and the number of messages of the next one. `None` if the journal is
    /// not read.
    pub fn of(&self, journal: JournalRef) -> Option<(u64, u64)> {
        let sequence = match journal {
            JournalRef::Project => Some(self.project),
            JournalRef::Agent(id) => self.agents.get(&id).copied(),
            JournalRef::Session(id) => self.sessions.get(&id).map(|at| at.sequence),
            JournalRef::Brake(id) => self.brakes.get(&id).copied(),
        }?;
        let seen = self.within.filter(|(within, _)| *within == journal).map_or(0, |(_, seen)| seen);
        Some((sequence, seen))
    }

    /// Moves to the end of the entry `sequence` of a journal that is read.
    pub fn advance(&mut self, journal: JournalRef, sequence: u64) {
        let at = match journal {
            JournalRef::Project => Some(&mut self.project),
            JournalRef::Agent(id) => self.agents.get_mut(&id),
            JournalRef::Session(id) => self.sessions.get_mut(&id).map(|at| &mut at.sequence),
            JournalRef::Brake(id) => self.brakes.get_mut(&id),
        };
        if let Some(at) = at {
            *at = sequence;
        }
        self.within.take_if(|(within, _)| *within == journal);
    }

    /// Whether everything up to `earlier` was read. Positions of one connection are compared.
    pub fn covers(&self, earlier: &Self) -> bool {
        earlier.project_id == self.project_id
            && earlier.journals().all(|journal| match (self.of(journal), earlier.of(journal)) {
                (Some(mine), Some(other)) => other <= mine,
                // The agent has another session since, or a brake was released long ago.
                (None, _) => self.has_left(journal, earlier),
                (_, None) => true,
            })
    }

    /// Adds what was read up to `other`. A WebSocket API repeats messages from an earlier position on, and may then read the journals in
    /// another order, so that neither position covers the other.
    ///
    /// Only one entry can be begun: if there are two, that of `other` remains, and messages of the first one count as new.
    pub fn merge(&mut self, other: &Self) {
        let before = self.clone();
        self.project = self.project.max(other.project);
        for (id, sequence) in &other.agents {
            let at = self.agents.entry(*id).or_default();
            *at = (*at).max(*sequence);
        }
        self.sessions.retain(|id, _| !other.has_left(JournalRef::Session(*id), &before));
        for (id, session) in &other.sessions {
            if !before.has_left(JournalRef::Session(*id), other) {
                let at = self.sessions.entry(*id).or_insert(*session);
                at.sequence = at.sequence.max(session.sequence);
            }
        }
        self.brakes.retain(|id, _| !other.has_left(JournalRef::Brake(*id), &before));
        for (id, sequence) in &other.brakes {
            if !before.has_left(JournalRef::Brake(*id), other) {
                let at = self.brakes.entry(*id).or_default();
                *at = (*at).max(*sequence);
            }
        }
        self.within = None;
        for position in [&before, other] {
            let Some((journal, seen)) = position.within else { continue };
            let place = self.of(journal);
            // Otherwise the entry was read to its end.
            if place.map(|(sequence, _)| sequence) == position.of(journal).map(|(sequence, _)| sequence) {
                let most = place.map_or(seen, |(_, most)| most.max(seen));
                self.within = Some((journal, most));
            }
        }
    }

    /// Whether this position, in which a journal of `earlier` is missing, is the later one.
    fn has_left(&self, journal: JournalRef, earlier: &Self) -> bool {
        match journal {
            _ if self.of(journal).is_some() => false,
            JournalRef::Session(id) => earlier.sessions.get(&id).is_some_and(|at| {
                let read = |position: &Self| position.agents.get(&at.agent).copied();
                read(self) > read(earlier)
            }),
            JournalRef::Brake(id) => self.brakes.keys().next_back().is_some_and(|last| id < *last),
            JournalRef::Project | JournalRef::Agent(_) => false,
        }
    }

    /// The cursor.
    pub fn encode(&self) -> String {
        let mut bytes = vec![FORMAT];
        put_id(&mut bytes, self.project_id.uuid());
        put(&mut bytes, self.project);
        put(&mut bytes, self.agents.len() as u64);
        let mut places = BTreeMap::new();
        for (at, (id, sequence)) in self.agents.iter().enumerate() {
            places.insert(*id, at as u64);
            put_id(&mut bytes, id.uuid());
            put(&mut bytes, *sequence);
        }
        // A session of an agent that is not read cannot be resumed.
        let sessions: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(id, at)| Some((id, *places.get(&at.agent)?, at.sequence)))
            .collect();
        put(&mut bytes, sessions.len() as u64);
        for (id, agent, sequence) in sessions {
            put_id(&mut bytes, id.uuid());
            put(&mut bytes, agent);
            put(&mut bytes, sequence);
        }
        put(&mut bytes, self.brakes.len() as u64);
        for (id, sequence) in &self.brakes {
            put_id(&mut bytes, id.uuid());
            put(&mut bytes, *sequence);
        }
        if let Some((journal, seen)) = self.within {
            let (kind, id) = match journal {
                JournalRef::Project => (0, self.project_id.uuid()),
                JournalRef::Agent(id) => (1, id.uuid()),
                JournalRef::Session(id) => (2, id.uuid()),
                JournalRef::Brake(id) => (3, id.uuid()),
            };
            bytes.push(kind);
            put_id(&mut bytes, id);
            put(&mut bytes, seen);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Parses a cursor. `None` if it is none.
    pub fn decode(cursor: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let mut rest = bytes.as_slice();
        let rest = &mut rest;
        if take(rest)? != FORMAT {
            return None;
        }
        let mut position = Self::new(ProjectId::new(take_id(rest)?), take_number(rest)?);
        let mut agents = Vec::new();
        for _ in 0..take_number(rest)? {
            let id = ProjectAgentId::new(take_id(rest)?);
            agents.push(id);
            position.agents.insert(id, take_number(rest)?);
        }
        for _ in 0..take_number(rest)? {
            let id = AgentSessionId::new(take_id(rest)?);
            let agent = *agents.get(usize::try_from(take_number(rest)?).ok()?)?;
            position.sessions.insert(id, SessionPosition { agent, sequence: take_number(rest)? });
        }
        for _ in 0..take_number(rest)? {
            position.brakes.insert(BrakeId::new(take_id(rest)?), take_number(rest)?);
        }
        if !rest.is_empty() {
            let (kind, id) = (take(rest)?, take_id(rest)?);
            let journal = match kind {
                0 => JournalRef::Project,
                1 => JournalRef::Agent(ProjectAgentId::new(id)),
                2 => JournalRef::Session(AgentSessionId::new(id)),
                3 => JournalRef::Brake(BrakeId::new(id)),
                _ => return None,
            };
            position.within = Some((journal, take_number(rest)?));
        }
        rest.is_empty().then_some(position)
    }
}

fn put_id(bytes: &mut Vec<u8>, id: Uuid) {
    bytes.extend_from_slice(id.as_bytes());
}

/// Seven bits in each byte, the lowest first; the highest bit says that more follow.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(*first)
}

fn take_id(rest: &mut &[u8]) -> Option<Uuid> {
    let (id, others) = rest.split_first_chunk::<16>()?;
    *rest = others;
    Some(Uuid::from_bytes(*id))
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let byte = take(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn agent(number: u128) -> ProjectAgentId {
        ProjectAgentId::new(Uuid::from_u128(number))
    }

    fn session(number: u128) -> AgentSessionId {
        AgentSessionId::new(Uuid::from_u128(number))
    }

    fn position() -> ProjectPosition {
        let mut position = ProjectPosition::new(ProjectId::new(Uuid::from_u128(1)), 300);
        position.agents.extend([(agent(2), 5), (agent(3), 128)]);
        position.sessions.insert(session(4), SessionPosition { agent: agent(3), sequence: 1 << 40 });
        position.brakes.insert(BrakeId::new(Uuid::from_u128(5)), 2);
        position
    }

    #[test]
    fn cursor_keeps_the_position() {
        let mut position = position();
        assert_eq!(ProjectPosition::decode(&position.encode()), Some(position.clone()));
        for journal in position.clone().journals() {
            position.within = Some((journal, 7));
            assert_eq!(ProjectPosition::decode(&position.encode()), Some(position.clone()), "{journal:?}");
        }
    }

    #[test]
    fn damaged_cursor_is_unknown() {
        let whole = position().encode();
        for text in ["", "j5", "AQ", "%%%"] {
            assert_eq!(ProjectPosition::decode(text), None, "{text}");
        }
        for end in 0..whole.len() {
            assert_eq!(ProjectPosition::decode(&whole[..end]), None, "the first {end} characters");
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(&whole).unwrap();
        bytes[0] = FORMAT + 1;
        assert_eq!(ProjectPosition::decode(&URL_SAFE_NO_PAD.encode(&bytes)), None, "another format");
        bytes = vec![FORMAT; 1 + 16];
        bytes.extend([0xff; 12]);
        assert_eq!(ProjectPosition::decode(&URL_SAFE_NO_PAD.encode(&bytes)), None, "a number without an end");
    }

    #[test]
    fn position_covers_what_was_read_before() {
        let before = position();
        let mut after = before.clone();
        after.within = Some((JournalRef::Session(session(4)), 1));
        assert!(after.covers(&before) && !before.covers(&after));
        after.advance(JournalRef::Session(session(4)), (1 << 40) + 1);
        assert_eq!(after.within, None, "the entry was read to its end");
        assert!(after.covers(&before) && !before.covers(&after));
        let mut moved = after.clone();
        moved.sessions.clear();
        assert!(!moved.covers(&after), "the session is missing for no reason");
        moved.advance(JournalRef::Agent(agent(3)), 129);
        assert!(moved.covers(&after), "the agent has another session");
        let other = ProjectPosition::new(ProjectId::new(Uuid::from_u128(9)), 0);
        assert!(!after.covers(&other));
    }

    #[test]
    fn merged_position_covers_both() {
        let before = position();
        let mut first = before.clone();
        first.advance(JournalRef::Session(session(4)), (1 << 40) + 3);
        first.within = Some((JournalRef::Session(session(4)), 2));
        let mut second = before.clone();
        second.advance(JournalRef::Agent(agent(2)), 6);
        second.advance(JournalRef::Brake(BrakeId::new(Uuid::from_u128(5))), 3);
        assert!(!first.covers(&second) && !second.covers(&first));
        for (mut merged, other) in [(first.clone(), &second), (second.clone(), &first)] {
            merged.merge(other);
            assert!(merged.covers(&first) && merged.covers(&second), "{merged:?}");
            assert_eq!(merged.within, first.within);
            let mut more = first.clone();
            more.within = Some((JournalRef::Session(session(4)), 3));
            assert!(!merged.covers(&more), "one message more of the entry");
            more.advance(JournalRef::Session(session(4)), (1 << 40) + 4);
            merged.merge(&more);
            assert_eq!(merged.within, None, "the entry was read to its end");
        }
    }

    #[test]
    fn merged_position_keeps_the_sessions_of_the_later_one() {
        let before = position();
        let mut after = before.clone();
        after.advance(JournalRef::Agent(agent(3)), 129);
        after.sessions = BTreeMap::from([(session(6), SessionPosition { agent: agent(3), sequence: 0 })]);
        after.brakes = BTreeMap::from([(BrakeId::new(Uuid::from_u128(7)), 1)]);
        for (mut merged, other) in [(before.clone(), &after), (after.clone(), &before)] {
            merged.merge(other);
            assert_eq!(merged, after);
        }
    }

    /// A cursor is part of each message, so that its length counts.
    #[test]
    fn cursor_of_a_hundred_agents_is_short() {
        let mut position = ProjectPosition::new(ProjectId::new(Uuid::from_u128(1)), 1000);
        for number in 0..100 {
            position.agents.insert(agent(number), 1000);
            position
                .sessions
                .insert(session(number), SessionPosition { agent: agent(number), sequence: 100_000 });
        }
        assert!(position.encode().len() < 5300, "{}", position.encode().len());
    }
}
