//! Blobs as files, for the embedded profile.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_wire::keys::sha256_hex;

use super::{BlobError, BlobKey, Blobs};

#[derive(Debug, Clone)]
pub struct FileBlobs {
    root: PathBuf,
    writes: Arc<AtomicU64>,
}

impl FileBlobs {
    /// Opens the blobs in `root` and creates the folder if necessary. Removes unfinished files of an earlier process, so only one
    /// process may write to the folder.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let root = root.into();
        let unfinished = root.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(engine(error)),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(&unfinished).map_err(engine)?;
        Ok(Self { root, writes: Arc::default() })
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        key.as_str().split('/').fold(self.root.clone(), |path, segment| path.join(segment))
    }
}

/// Folder of unfinished files. No prefix begins with a dot.
const UNFINISHED: &str = ".unfinished";

#[async_trait]
impl Blobs for FileBlobs {
    async fn put(&self, key: &BlobKey, content: Bytes) -> Result<(), BlobError> {
        let path = self.path(key);
        let write = self.writes.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.root.join(UNFINISHED).join(write.to_string());
        let digest = key.digest().to_owned();
        blocking(move || {
            if sha256_hex(&content) != digest {
                return Err(BlobError::WrongContent);
            }
            if path.try_exists().map_err(engine)? {
                return Ok(());
            }
            store(&unfinished, &path, &content).map_err(engine)
        })
        .await
    }

    async fn get(&self, key: &BlobKey) -> Result<Option<Bytes>, BlobError> {
        let path = self.path(key);
        blocking(move || match fs::read(path) {
            Ok(content) => Ok(Some(content.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(engine(error)),
        })
        .await
    }

    async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        let path = self.path(key);
        blocking(move || match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(engine(error)),
        })
        .await
    }
}

/// Writes a temporary file and renames it, so that a file under its final name is complete.
fn store(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let stored = write_and_rename(unfinished, path, content);
    if stored.is_err() {
        // A part of the content must not keep the disk full. After the rename there is no such file.
        let _ = fs::remove_file(unfinished);
    }
    stored
}

fn write_and_rename(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    fs::rename(unfinished, path)?;
    // A name is durable once its folder is synced, and so on up to the root.
    for folder in folder.ancestors().take(super::MAX_SEGMENTS + 1) {
        if folder.as_os_str().is_empty() {
            break;
        }
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| BlobError::Engine(Box::new(error)))?
}

fn engine(error: io::Error) -> BlobError {
    BlobError::Engine(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blob_is_stored_whole_once_and_found_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let blobs = FileBlobs::open(dir.path().join("blobs")).unwrap();
        let key = BlobKey::of("sessions/1", b"content").unwrap();
        assert!(blobs.get(&key).await.unwrap().is_none());
        for _ in 0..2 {
            blobs.put(&key, Bytes::from_static(b"content")).await.unwrap();
        }
        let blobs = FileBlobs::open(dir.path().join("blobs")).unwrap();
        assert_eq!(blobs.get(&key).await.unwrap().unwrap(), "content");
        assert!(blobs.get(&BlobKey::of("sessions/2", b"content").unwrap()).await.unwrap().is_none());
        let other = blobs.put(&BlobKey::of("sessions/1", b"x").unwrap(), Bytes::from_static(b"y")).await;
        assert!(matches!(other, Err(BlobError::WrongContent)));
        assert_eq!(fs::read_dir(dir.path().join("blobs").join(UNFINISHED)).unwrap().count(), 0);
    }

    /// Its part of the content must not keep a disk full.
    #[test]
    fn refused_blob_leaves_no_unfinished_file() {
        let dir = tempfile::TempDir::new().unwrap();
        let unfinished = dir.path().join("0");
        // A file where the folder of the blob would be, so that the write fails after the content is in the unfinished file.
        fs::write(dir.path().join("sessions"), "").unwrap();
        store(&unfinished, &dir.path().join("sessions/1/blob"), b"content").unwrap_err();
        assert!(!unfinished.exists());
    }
}
