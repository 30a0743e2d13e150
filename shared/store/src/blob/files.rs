//! Blobs as files, for the embedded profile.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::{BlobError, BlobKey, Blobs, sha256_hex};

/// Blobs in a folder of their own.
#[derive(Debug, Clone)]
pub struct FileBlobs {
    root: PathBuf,
    /// Names unfinished files.
    writes: Arc<AtomicU64>,
}

impl FileBlobs {
    /// Blobs in `root`, which is created when it is missing. Unfinished files of an earlier process are removed, so
    /// only one process may write there.
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
        // A key holds nothing but lowercase names between slashes.
        key.as_str().split('/').fold(self.root.clone(), |path, segment| path.join(segment))
    }
}

/// The folder of unfinished files. No prefix begins with a dot.
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
}

/// Writes beside, then renames: a file under its name is whole.
fn store(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    fs::rename(unfinished, path)?;
    // The name is durable when the folder is, and the folder when the one above it is.
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
    async fn a_blob_is_stored_once_whole_and_found_again() {
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
}
