//! The session tree: a whole conversation in an append-only file (S1 9).
//!
//! A file has a header line and one line per entry. Each entry refers to its predecessor, so a conversation can
//! continue from any point without losing the entries after it. The *leaf* is the entry after which the conversation
//! continues: the last entry of the file, unless that is a branch, which moves the leaf, or a label, which is not part
//! of the conversation.
//!
//! An entry is in the file when its `append_…` call returns. Each line is one write, so a process that dies loses at
//! most the line that it was writing. A power loss may destroy lines that have not reached the disk. Syncing every line
//! would take several times as long as the turn itself, so a caller that promises durability syncs at that point
//! ([`SessionTree::unsynced`]).

mod context;
mod entry;
mod error;
mod file;
mod files;
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
pub use self::files::FileList;
pub use self::list::{SessionSummary, sessions};
use crate::message::AgentMessage;

/// A session, open for writing by this process only.
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
    /// Creates a session for a working directory in a folder, which need not exist. The session continues `parent`.
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

    /// Removes an incomplete last line; any other invalid line is an error.
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        Self::assemble(SessionFile::open(path)?)
    }

    /// The latest session with this working directory in this folder (S1 10, `ContinueRecent`).
    pub fn continue_recent(dir: &Path, cwd: &str) -> Result<Option<Self>, TreeError> {
        let recent = sessions(dir)?.into_iter().find(|session| session.header.cwd == cwd);
        recent.map(|session| Self::open(&session.path)).transpose()
    }

    /// Fails if an entry does not refer to an earlier one.
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

    pub fn id(&self) -> &str {
        &self.header.id
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// The written part that a power loss can destroy, if any. Fails with [`TreeError::is_disk_full`] while lines wait
    /// for space on the disk.
    pub fn unsynced(&mut self) -> Result<Option<Unsynced>, TreeError> {
        self.file.unsynced()
    }

    /// Bytes that were removed from the end when the session was opened.
    pub fn torn(&self) -> usize {
        self.torn
    }

    pub fn append_message(&mut self, message: AgentMessage) -> Result<EntryId, TreeError> {
        self.append(EntryKind::Message { message: Arc::new(message) })
    }

    pub fn append_model_change(&mut self, provider: &str, model: &str) -> Result<EntryId, TreeError> {
        self.append(EntryKind::ModelChange { provider: provider.to_owned(), model_id: model.to_owned() })
    }

    pub fn append_thinking_level(&mut self, level: ThinkingLevel) -> Result<EntryId, TreeError> {
        self.append(EntryKind::ThinkingLevelChange { thinking_level: level })
    }

    /// Summarises all entries before `first_kept`, which is on the path. `None`: all entries.
    pub fn append_compaction(
        &mut self,
        summary: &str,
        first_kept: impl Into<Option<EntryId>>,
        tokens_before: u64,
        files: FileList,
    ) -> Result<EntryId, TreeError> {
        let first_kept = first_kept.into();
        if let Some(first) = first_kept {
            self.known(first)?;
            if !self.path().iter().any(|entry| entry.id == first) {
                return Err(TreeError::NotOnPath(first));
            }
        }
        self.append(EntryKind::Compaction { summary: summary.to_owned(), first_kept, tokens_before, files })
    }

    /// `None` removes the label (S1 9).
    pub fn append_label(&mut self, target: EntryId, label: Option<&str>) -> Result<EntryId, TreeError> {
        self.known(target)?;
        self.append(EntryKind::Label { target, label: label.map(str::to_owned) })
    }

    /// The data is not part of the context.
    pub fn append_custom(&mut self, kind: &str, data: Value) -> Result<EntryId, TreeError> {
        self.append(EntryKind::Custom { kind: kind.to_owned(), data })
    }

    /// Later entries stay in the file.
    pub fn branch(&mut self, target: EntryId) -> Result<(), TreeError> {
        self.known(target)?;
        self.move_leaf(Some(target))
    }

    /// All entries stay in the file.
    pub fn reset_leaf(&mut self) -> Result<(), TreeError> {
        self.move_leaf(None)
    }

    fn move_leaf(&mut self, target: Option<EntryId>) -> Result<(), TreeError> {
        if self.leaf == target {
            return Ok(());
        }
        self.append(EntryKind::Branch { target }).map(|_| ())
    }

    /// Creates a session with the conversation up to and including this entry, and its labels.
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

    /// The entry after which the conversation continues.
    pub fn leaf(&self) -> Option<EntryId> {
        self.leaf
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.index.get(&id).map(|at| &self.entries[*at])
    }

    pub fn path(&self) -> Vec<&Entry> {
        self.path_to(self.leaf)
    }

    fn path_to(&self, end: Option<EntryId>) -> Vec<&Entry> {
        let mut path: Vec<_> = self.up_from(end).collect();
        path.reverse();
        path
    }

    pub fn up(&self) -> impl Iterator<Item = &Entry> {
        self.up_from(self.leaf)
    }

    fn up_from(&self, end: Option<EntryId>) -> impl Iterator<Item = &Entry> {
        // Parents precede their children in the file, so this terminates.
        std::iter::successors(end.and_then(|id| self.entry(id)), |entry| {
            entry.parent_id.and_then(|id| self.entry(id))
        })
    }

    /// The model's context, and the current model and thinking level.
    pub fn context(&self) -> Context {
        Context::of(&self.path())
    }

    /// In the order of the labelled entries.
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

    /// The latest data of this kind on the path to the leaf.
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
