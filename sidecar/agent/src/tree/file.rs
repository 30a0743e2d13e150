//! The file of a session: a single writer, one write per line, and recovery from a torn last line.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::TreeError;
use super::entry::{Entry, FORMAT_VERSION, Header, now};

/// An open session file. The kernel releases its lock at any end of the process.
#[derive(Debug)]
pub(super) struct SessionFile {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines.
    length: u64,
    /// Bytes known to survive a power loss. 0 after opening, because it is unknown what an earlier process synced.
    synced: Arc<AtomicU64>,
    /// Lines that did not fit on the full disk. They precede all later lines, and are durable once they are written.
    pending: Vec<u8>,
    /// An append failed in part and could not be undone.
    broken: bool,
}

pub(super) struct Loaded {
    pub(super) file: SessionFile,
    pub(super) header: Header,
    pub(super) entries: Vec<Entry>,
    pub(super) torn: usize,
}

impl SessionFile {
    /// Creates a file with these lines, atomically.
    pub(super) fn create(path: PathBuf, header: &Header, entries: &[Entry]) -> Result<Self, TreeError> {
        let failed = |source| TreeError::Io { path: path.clone(), source };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut lines = line(header).map_err(failed)?;
        for entry in entries {
            lines.extend(line(entry).map_err(failed)?);
        }
        let unfinished = path.with_extension("new");
        let written = OpenOptions::new()
            .create_new(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(failed)
            .and_then(|file| lock(&file, &path).map(|()| file))
            .and_then(|mut file| {
                file.write_all(&lines).and_then(|()| file.sync_all()).map_err(failed)?;
                fs::rename(&unfinished, &path).map_err(failed).map(|()| file)
            });
        let file = written.inspect_err(|_| _ = fs::remove_file(&unfinished))?;
        Ok(Self {
            length: lines.len() as u64,
            path,
            file,
            synced: Arc::default(),
            pending: Vec::new(),
            broken: false,
        })
    }

    /// Removes an incomplete line from the end.
    pub(super) fn open(path: &Path) -> Result<Loaded, TreeError> {
        let failed = |source| TreeError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(failed)?;
        lock(&file, path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut torn = bytes.split_off(end);
        if end == 0 && !could_be_header(&torn) {
            return Err(TreeError::Corrupt { path: path.to_owned(), line: 1, reason: "no header".into() });
        }
        // Complete except for the line break.
        if !torn.is_empty() && serde_json::from_slice::<serde::de::IgnoredAny>(&torn).is_ok() {
            bytes.append(&mut torn);
            bytes.push(b'\n');
            file.write_all(b"\n").map_err(failed)?;
        } else {
            file.set_len(bytes.len() as u64).map_err(failed)?;
        }
        let (header, entries) = parse(path, &bytes)?;
        let length = bytes.len() as u64;
        let mut file = Self {
            path: path.to_owned(),
            file,
            length,
            synced: Arc::default(),
            pending: Vec::new(),
            broken: false,
        };
        let header = match header {
            Some(header) => header,
            None => file.replace_header()?,
        };
        Ok(Loaded { file, header, entries, torn: torn.len() })
    }

    /// Writes a header for a file that has none and no other content. The session's id comes from the file name.
    fn replace_header(&mut self) -> Result<Header, TreeError> {
        let id = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let header =
            Header { version: FORMAT_VERSION, id, timestamp: now(), cwd: String::new(), parent: None };
        let line = line(&header).map_err(|source| TreeError::Io { path: self.path.clone(), source })?;
        self.write(&line)?;
        Ok(header)
    }

    /// Appends an entry with one write.
    pub(super) fn append(&mut self, entry: &Entry) -> Result<(), TreeError> {
        let line = line(entry).map_err(|source| TreeError::Io { path: self.path.clone(), source })?;
        self.write(&line)
    }

    /// `None` if a power loss could destroy no line.
    pub(super) fn unsynced(&mut self) -> Result<Option<Unsynced>, TreeError> {
        self.write_pending()?;
        if self.synced.load(Ordering::Acquire) >= self.length {
            return Ok(None);
        }
        let failed = |source| TreeError::Io { path: self.path.clone(), source };
        let file = self.file.try_clone().map_err(failed)?;
        let synced = Arc::clone(&self.synced);
        Ok(Some(Unsynced { path: self.path.clone(), file, length: self.length, synced }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a complete line or nothing: a failed write is undone. Keeps a line that does not fit on the full disk,
    /// and writes it later.
    fn write(&mut self, line: &[u8]) -> Result<(), TreeError> {
        self.pending.extend_from_slice(line);
        match self.write_pending() {
            Err(error) if error.is_disk_full() => Ok(()),
            Err(error) => {
                self.pending.truncate(self.pending.len() - line.len());
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn write_pending(&mut self) -> Result<(), TreeError> {
        if self.broken {
            return Err(TreeError::Broken { path: self.path.clone() });
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.file.write_all(&self.pending) {
            self.broken = self.file.set_len(self.length).is_err();
            return Err(TreeError::Io { path: self.path.clone(), source });
        }
        self.length += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Written lines that a power loss could still destroy.
#[derive(Debug)]
pub struct Unsynced {
    path: PathBuf,
    file: File,
    length: u64,
    synced: Arc<AtomicU64>,
}

impl Unsynced {
    /// Blocks until the lines are durable.
    pub fn sync(self) -> Result<(), TreeError> {
        let Self { path, file, length, synced } = self;
        let failed = |source| TreeError::Io { path: path.clone(), source };
        file.sync_data().map_err(failed)?;
        // The folder is synced the first time, because the file may be new.
        if synced.load(Ordering::Acquire) == 0
            && let Some(folder) = path.parent()
        {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        synced.fetch_max(length, Ordering::AcqRel);
        Ok(())
    }
}

pub(super) fn peek(path: &Path) -> Result<Header, TreeError> {
    let failed = |source| TreeError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut bytes = vec![0; 64 * 1024];
    let mut filled = 0;
    while filled < bytes.len() && !bytes[..filled].contains(&b'\n') {
        match file.read(&mut bytes[filled..]).map_err(failed)? {
            0 => break,
            more => filled += more,
        }
    }
    let first = bytes[..filled].split(|byte| *byte == b'\n').next().unwrap_or_default();
    read_header(path, first)
}

fn lock(file: &File, path: &Path) -> Result<(), TreeError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => TreeError::Locked { path: path.to_owned() },
        TryLockError::Error(source) => TreeError::Io { path: path.to_owned(), source },
    })
}

/// Whether these bytes begin a header. Only such bytes are ever removed or overwritten.
fn could_be_header(begun: &[u8]) -> bool {
    let header = br#"{"type":"session","#;
    let length = begun.len().min(header.len());
    begun[..length] == header[..length]
}

fn line(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// The header is `None` if there are no complete lines.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Option<Header>, Vec<Entry>), TreeError> {
    let mut header = None;
    let mut entries = Vec::new();
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if index == 0 {
            header = Some(read_header(path, line)?);
            continue;
        }
        entries.push(serde_json::from_slice(line).map_err(|error| TreeError::Corrupt {
            path: path.to_owned(),
            line: index + 1,
            reason: error.to_string(),
        })?);
    }
    Ok((header, entries))
}

fn read_header(path: &Path, line: &[u8]) -> Result<Header, TreeError> {
    /// The part that all versions have in common.
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    let corrupt = |error: serde_json::Error| TreeError::Corrupt {
        path: path.to_owned(),
        line: 1,
        reason: format!("no header: {error}"),
    };
    let Versioned { version } = serde_json::from_slice(line).map_err(corrupt)?;
    if version > FORMAT_VERSION {
        return Err(TreeError::UnknownVersion { path: path.to_owned(), version });
    }
    serde_json::from_slice(line).map_err(corrupt)
}
