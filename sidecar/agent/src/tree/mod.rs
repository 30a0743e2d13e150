//! The session tree: everything of a conversation, in a file that only grows (S1 9).
//!
//! A file is a header line and one line an entry. Each entry names the one that it comes after, so that a conversation
//! can go on from any point of it without losing what came after that point. The *leaf* is where it goes on; it is the
//! last entry of the file, unless that is a branch, which says where the leaf is, or a label, which stands beside the
//! conversation. Everything is in the file when an `append_…` returns, with one write a line, so a process that dies
//! at any moment loses at most the line that it was writing. A power loss is another matter: it may take away what the
//! disk does not have yet. To wait for the disk with each line would cost a turn several times its own time, so whoever
//! promises somebody that something is kept waits for it then ([`SessionTree::unsynced`]).

mod context;
mod entry;
mod error;
mod file;
mod list;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use pilothouse_domain::value::ThinkingLevel;
use serde_json::Value;
use uuid::Uuid;

pub(crate) use self::context::Beginning;
pub use self::context::{Context, SUMMARY_BEGIN, SUMMARY_END};
pub use self::entry::{Entry, EntryId, EntryKind, FORMAT_VERSION, Header};
pub use self::error::TreeError;
pub use self::file::Unsynced;
use self::file::{Loaded, SessionFile};
pub use self::list::{SessionSummary, sessions};
use crate::message::AgentMessage;

/// A session, open for writing. Nobody else can open it meanwhile.
#[derive(Debug)]
pub struct SessionTree {
    file: SessionFile,
    header: Header,
    entries: Vec<Entry>,
    index: HashMap<EntryId, usize>,
    leaf: Option<EntryId>,
    torn: usize,
}

impl SessionTree {
    /// A new session for a working directory, in a folder that is created when it is missing. `parent` is the session
    /// that it follows.
    pub fn create(dir: &Path, cwd: &str, parent: Option<&str>) -> Result<Self, TreeError> {
        Self::create_with(dir, cwd, parent, Vec::new())
    }

    fn create_with(
        dir: &Path,
        cwd: &str,
        parent: Option<&str>,
        entries: Vec<Entry>,
    ) -> Result<Self, TreeError> {
        let id = Uuid::now_v7().to_string();
        let path = dir.join(format!("{id}.jsonl"));
        let header = Header {
            version: FORMAT_VERSION,
            id,
            timestamp: entry::now(),
            cwd: cwd.to_owned(),
            parent: parent.map(str::to_owned),
        };
        let file = SessionFile::create(path, &header, &entries)?;
        Self::assemble(Loaded { file, header, entries, torn: 0 })
    }

    /// Opens a session. A last line that was not written to its end is cut off, however much of it is there; a line
    /// before it that makes no sense is an error.
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        Self::assemble(SessionFile::open(path)?)
    }

    /// Opens the session of this folder and working directory that was written to last; none when there is none (S1
    /// 10, `ContinueRecent`).
    pub fn continue_recent(dir: &Path, cwd: &str) -> Result<Option<Self>, TreeError> {
        let recent = sessions(dir)?.into_iter().find(|session| session.header.cwd == cwd);
        recent.map(|session| Self::open(&session.path)).transpose()
    }

    /// Checks that every entry names only what comes before it.
    fn assemble(loaded: Loaded) -> Result<Self, TreeError> {
        let Loaded { file, header, entries, torn } = loaded;
        let mut index = HashMap::with_capacity(entries.len());
        let mut leaf = None;
        for (at, entry) in entries.iter().enumerate() {
            let corrupt =
                |reason: String| TreeError::Corrupt { path: file.path().to_owned(), line: at + 2, reason };
            for named in [entry.parent_id, entry.kind.refers_to()].into_iter().flatten() {
                if !index.contains_key(&named) {
                    return Err(corrupt(format!("no entry {named} comes before it")));
                }
            }
            if index.insert(entry.id, at).is_some() {
                return Err(corrupt(format!("there is an entry {} already", entry.id)));
            }
            leaf = entry.kind.leaf_after(entry.id, leaf);
        }
        Ok(Self { file, header, entries, index, leaf, torn })
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// What was written and a power loss could still take away; none, when there is nothing.
    pub fn unsynced(&self) -> Result<Option<Unsynced>, TreeError> {
        self.file.unsynced()
    }

    /// How many bytes were cut off at the end when it was opened.
    pub fn torn(&self) -> usize {
        self.torn
    }

    /// A message is complete.
    pub fn append_message(&mut self, message: AgentMessage) -> Result<EntryId, TreeError> {
        self.append(EntryKind::Message { message: Arc::new(message) })
    }

    /// Another model answers from here on.
    pub fn append_model_change(&mut self, provider: &str, model: &str) -> Result<EntryId, TreeError> {
        self.append(EntryKind::ModelChange { provider: provider.to_owned(), model_id: model.to_owned() })
    }

    /// The model thinks more or less deeply from here on.
    pub fn append_thinking_level(&mut self, level: ThinkingLevel) -> Result<EntryId, TreeError> {
        self.append(EntryKind::ThinkingLevelChange { thinking_level: level })
    }

    /// What comes before `first_kept`, an entry on the path, is summarised; everything, when it is none.
    pub fn append_compaction(
        &mut self,
        summary: &str,
        first_kept: impl Into<Option<EntryId>>,
        tokens_before: u64,
    ) -> Result<EntryId, TreeError> {
        let first_kept = first_kept.into();
        if let Some(first) = first_kept {
            self.known(first)?;
            if !self.path().iter().any(|entry| entry.id == first) {
                return Err(TreeError::NotOnPath(first));
            }
        }
        self.append(EntryKind::Compaction { summary: summary.to_owned(), first_kept, tokens_before })
    }

    /// Bookmarks an entry; no label takes the bookmark away (S1 9).
    pub fn append_label(&mut self, target: EntryId, label: Option<&str>) -> Result<EntryId, TreeError> {
        self.known(target)?;
        self.append(EntryKind::Label { target, label: label.map(str::to_owned) })
    }

    /// Keeps something that is no part of the context.
    pub fn append_custom(&mut self, kind: &str, data: Value) -> Result<EntryId, TreeError> {
        self.append(EntryKind::Custom { kind: kind.to_owned(), data })
    }

    /// The conversation goes on after this entry. What came after it stays in the file.
    pub fn branch(&mut self, target: EntryId) -> Result<(), TreeError> {
        self.known(target)?;
        self.move_leaf(Some(target))
    }

    /// The conversation starts over; what was said stays in the file.
    pub fn reset_leaf(&mut self) -> Result<(), TreeError> {
        self.move_leaf(None)
    }

    fn move_leaf(&mut self, target: Option<EntryId>) -> Result<(), TreeError> {
        if self.leaf == target {
            return Ok(());
        }
        self.append(EntryKind::Branch { target }).map(|_| ())
    }

    /// A new session in a folder, with what was said up to this entry and the entry itself, and with the labels of
    /// both. This one does not change.
    pub fn fork(&self, dir: &Path, at: EntryId) -> Result<Self, TreeError> {
        self.known(at)?;
        let mut entries: Vec<Entry> = self.path_to(Some(at)).into_iter().cloned().collect();
        let last = entries.last().map(|entry| entry.id);
        let labels: Vec<Entry> = self
            .labels()
            .into_iter()
            .filter(|(target, _)| entries.iter().any(|entry| entry.id == *target))
            .map(|(target, label)| Entry {
                id: EntryId::mint(),
                parent_id: last,
                timestamp: entry::now(),
                kind: EntryKind::Label { target, label: Some(label.to_owned()) },
            })
            .collect();
        entries.extend(labels);
        Self::create_with(dir, &self.header.cwd, Some(&self.header.id), entries)
    }

    /// Where the conversation goes on.
    pub fn leaf(&self) -> Option<EntryId> {
        self.leaf
    }

    /// All entries, as they were written.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// An entry.
    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.index.get(&id).map(|at| &self.entries[*at])
    }

    /// The entries from a root to the leaf.
    pub fn path(&self) -> Vec<&Entry> {
        self.path_to(self.leaf)
    }

    fn path_to(&self, end: Option<EntryId>) -> Vec<&Entry> {
        let mut path: Vec<_> = self.up_from(end).collect();
        path.reverse();
        path
    }

    /// The entries from the leaf to a root.
    pub fn up(&self) -> impl Iterator<Item = &Entry> {
        self.up_from(self.leaf)
    }

    fn up_from(&self, end: Option<EntryId>) -> impl Iterator<Item = &Entry> {
        // Parents come before their children in the file, so this ends.
        std::iter::successors(end.and_then(|id| self.entry(id)), |entry| {
            entry.parent_id.and_then(|id| self.entry(id))
        })
    }

    /// What a model gets to see, and which model and how deeply it thinks.
    pub fn context(&self) -> Context {
        Context::of(&self.path())
    }

    /// The bookmarks, in the order of what they are at.
    pub fn labels(&self) -> Vec<(EntryId, &str)> {
        let mut labels = HashMap::new();
        for entry in &self.entries {
            if let EntryKind::Label { target, label } = &entry.kind {
                labels.insert(*target, label.as_deref());
            }
        }
        let mut labels: Vec<_> =
            labels.into_iter().filter_map(|(id, label)| label.map(|label| (id, label))).collect();
        labels.sort_by_key(|(id, _)| self.index.get(id).copied());
        labels
    }

    /// What was kept last under this kind on the way to the leaf.
    pub fn latest_custom(&self, kind: &str) -> Option<&Value> {
        self.up().find_map(|entry| match &entry.kind {
            EntryKind::Custom { kind: of, data } if of == kind => Some(data),
            _ => None,
        })
    }

    fn known(&self, id: EntryId) -> Result<(), TreeError> {
        if self.index.contains_key(&id) { Ok(()) } else { Err(TreeError::UnknownEntry(id)) }
    }

    fn append(&mut self, kind: EntryKind) -> Result<EntryId, TreeError> {
        let id = EntryId::mint();
        let entry = Entry { id, parent_id: self.leaf, timestamp: entry::now(), kind };
        self.file.append(&entry)?;
        self.leaf = entry.kind.leaf_after(id, self.leaf);
        self.index.insert(id, self.entries.len());
        self.entries.push(entry);
        Ok(id)
    }
}
