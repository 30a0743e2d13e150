//! A small exhaustive checker: a breadth-first search over all reachable states, each visited once.
//!
//! - **Safety**: [`Model::check`] holds in each state. The shortest path to a violation is printed.
//! - **Progress**: an [`Model::unsettled`] state does not last for ever. In a finite graph, an endless path ends in a cycle inside
//!   a strongly connected component of unsettled states. Such a component is a real hang unless weak fairness excludes it: an actor
//!   that can act in each of its states, but acts in none, would be delayed for ever. If every actor is sometimes unable to act or
//!   sometimes acts, the path is possible.
//!
//! States are identified by a 128-bit hash of their canonical text. The probability that two of a million states collide is about
//! one in 10^26.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};

/// A system to explore.
pub(crate) trait Model {
    type State;
    type Action: Debug + Copy;

    fn start(&self) -> Self::State;
    /// All possible steps and the states that they lead to.
    fn next(&self, state: &Self::State) -> Vec<(Self::Action, Self::State)>;
    /// Equal for states that behave the same.
    fn canonical(&self, state: &Self::State) -> String;
    /// Number below 64 of the actor, if the action must not be delayed for ever.
    fn fair(&self, action: Self::Action) -> Option<u8>;
    /// Whether something is in progress that has to end.
    fn unsettled(&self, state: &Self::State) -> bool;
    fn check(&self, state: &Self::State) -> Result<(), String>;
}

/// Result of an exploration.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) unsettled: usize,
    /// The first violation, with the path to it.
    pub(crate) violation: Option<String>,
    /// Whether every reachable state was visited.
    pub(crate) exhaustive: bool,
}

struct Edge {
    to: u32,
    fair: Option<u8>,
}

struct Graph<A> {
    /// How each state was first reached.
    parents: Vec<Option<(u32, A)>>,
    unsettled: Vec<bool>,
    /// Steps from unsettled states, and a bit for each fair actor that can act there.
    edges: Vec<Vec<Edge>>,
    able: Vec<u64>,
}

fn fingerprint(text: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    (half(1) << 64) | half(2)
}

/// Visits every reachable state, up to `most` of them.
pub(crate) fn explore<M: Model>(model: &M, most: usize) -> Found {
    let mut known = HashMap::<u128, u32>::new();
    let mut graph = Graph { parents: vec![None], unsettled: Vec::new(), edges: Vec::new(), able: Vec::new() };
    let mut frontier = VecDeque::new();
    let mut steps = 0;
    let start = model.start();
    known.insert(fingerprint(&model.canonical(&start)), 0);
    frontier.push_back(start);
    let mut violation = None;
    // States are numbered in the order of their discovery and leave the frontier in that order.
    while let Some(state) = frontier.pop_front() {
        let at = u32::try_from(graph.unsettled.len()).unwrap();
        if let Err(what) = model.check(&state) {
            violation = Some(format!("{what}\n{}", graph.way_to(at)));
            break;
        }
        let unsettled = model.unsettled(&state);
        graph.unsettled.push(unsettled);
        graph.edges.push(Vec::new());
        graph.able.push(0);
        if known.len() > most {
            break;
        }
        for (action, next) in model.next(&state) {
            steps += 1;
            let fresh = u32::try_from(known.len()).unwrap();
            let to = *known.entry(fingerprint(&model.canonical(&next))).or_insert(fresh);
            if to == fresh {
                graph.parents.push(Some((at, action)));
                frontier.push_back(next);
            }
            let fair = model.fair(action);
            if unsettled {
                graph.able[at as usize] |= fair.map_or(0, |who| 1 << who);
                graph.edges[at as usize].push(Edge { to, fair });
            }
        }
    }
    let exhaustive = violation.is_none() && frontier.is_empty();
    if exhaustive {
        violation = graph.hang().map(|at| format!("hangs\n{}", graph.way_to(at)));
    }
    let unsettled = graph.unsettled.iter().filter(|u| **u).count();
    Found { states: known.len(), steps, unsettled, violation, exhaustive }
}

impl<A: Debug + Copy> Graph<A> {
    fn way_to(&self, mut at: u32) -> String {
        let mut way = Vec::new();
        while let Some((from, action)) = self.parents[at as usize] {
            way.push(format!("{action:?}"));
            at = from;
        }
        way.reverse();
        format!("after {}", way.join(", "))
    }

    /// A state in a component of unsettled states that a fair path need not leave.
    fn hang(&self) -> Option<u32> {
        let mut part_of = vec![u32::MAX; self.unsettled.len()];
        let parts = self.parts();
        for (part, members) in parts.iter().enumerate() {
            for at in members {
                part_of[*at as usize] = u32::try_from(part).unwrap();
            }
        }
        for (part, members) in parts.iter().enumerate() {
            let inside = |to: u32| part_of[to as usize] as usize == part;
            let edges =
                || members.iter().flat_map(|at| &self.edges[*at as usize]).filter(|edge| inside(edge.to));
            let dead_end = members.len() == 1 && self.edges[members[0] as usize].is_empty();
            if edges().next().is_none() && !dead_end {
                continue;
            }
            let always_able = members.iter().fold(u64::MAX, |able, at| able & self.able[*at as usize]);
            let acts = edges().filter_map(|edge| edge.fair).fold(0, |acts, who| acts | (1u64 << who));
            if always_able & !acts == 0 {
                return members.iter().min().copied();
            }
        }
        None
    }

    /// Strongly connected components of the unsettled states (Tarjan's algorithm, without recursion).
    fn parts(&self) -> Vec<Vec<u32>> {
        let count = self.unsettled.len();
        let (mut index, mut low) = (vec![u32::MAX; count], vec![0u32; count]);
        let (mut on_stack, mut stack, mut parts) = (vec![false; count], Vec::new(), Vec::new());
        let mut counter = 0;
        for root in 0..count {
            if !self.unsettled[root] || index[root] != u32::MAX {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((at, edge)) = calls.pop() {
                if edge == 0 {
                    (index[at], low[at]) = (counter, counter);
                    counter += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                let mut descends = false;
                for (place, next) in self.edges[at].iter().enumerate().skip(edge) {
                    let to = next.to as usize;
                    if !self.unsettled[to] {
                        continue;
                    }
                    if index[to] == u32::MAX {
                        calls.push((at, place + 1));
                        calls.push((to, 0));
                        descends = true;
                        break;
                    }
                    if on_stack[to] {
                        low[at] = low[at].min(index[to]);
                    }
                }
                if descends {
                    continue;
                }
                if low[at] == index[at] {
                    let from = stack.iter().rposition(|member| *member == at).unwrap();
                    let part: Vec<_> =
                        stack.drain(from..).map(|member| u32::try_from(member).unwrap()).collect();
                    for member in &part {
                        on_stack[*member as usize] = false;
                    }
                    parts.push(part);
                }
                if let Some((caller, _)) = calls.last() {
                    low[*caller] = low[*caller].min(low[at]);
                }
            }
        }
        parts
    }
}
