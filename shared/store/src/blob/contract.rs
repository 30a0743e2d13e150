//! Contract of blob stores, as functions that panic on a violation. [`blob_cases`](crate::blob_cases) makes tests of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

use std::sync::Arc;

use bytes::Bytes;

use super::{BlobError, BlobKey, Blobs};

pub trait Subject: Send + Sync {
    /// Opens the store again with its previous contents.
    fn blobs(&self) -> Arc<dyn Blobs>;
}

/// Calls the macro `$run` with `$setup` and the names of all cases.
#[macro_export]
macro_rules! blob_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            blob_is_found_only_under_its_own_key,
            repeated_blob_write_changes_nothing,
            content_that_does_not_match_its_key_is_refused,
            large_and_empty_blobs_are_stored_whole,
            concurrent_writes_of_one_blob_succeed,
            size_of_a_blob_is_known_after_its_write,
        }
    };
}

fn key(prefix: &str, content: &[u8]) -> BlobKey {
    BlobKey::of(prefix, content).unwrap()
}

pub async fn blob_is_found_only_under_its_own_key(subject: &dyn Subject) {
    let mine = key("sessions/1", b"content");
    assert!(subject.blobs().get(&mine).await.unwrap().is_none());
    subject.blobs().put(&mine, Bytes::from_static(b"content")).await.unwrap();
    assert_eq!(subject.blobs().get(&mine).await.unwrap().unwrap(), "content");
    assert!(subject.blobs().get(&key("sessions/2", b"content")).await.unwrap().is_none());
    assert!(subject.blobs().get(&key("sessions/1", b"other")).await.unwrap().is_none());
}

pub async fn repeated_blob_write_changes_nothing(subject: &dyn Subject) {
    let key = key("sessions/1", b"content");
    for _ in 0..3 {
        subject.blobs().put(&key, Bytes::from_static(b"content")).await.unwrap();
    }
    assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), "content");
}

/// Stores a content under the hash of another, with a new and with an existing key.
pub async fn content_that_does_not_match_its_key_is_refused(subject: &dyn Subject) {
    let key = key("sessions/1", b"content");
    for _ in 0..2 {
        let other = subject.blobs().put(&key, Bytes::from_static(b"other")).await;
        assert!(matches!(other, Err(BlobError::WrongContent)));
        subject.blobs().put(&key, Bytes::from_static(b"content")).await.unwrap();
    }
    assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), "content");
}

pub async fn large_and_empty_blobs_are_stored_whole(subject: &dyn Subject) {
    for bytes in [0, 1, 3 * 1024 * 1024] {
        let content = Bytes::from(vec![b'x'; bytes]);
        let key = key("sessions/1", &content);
        subject.blobs().put(&key, content.clone()).await.unwrap();
        assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), content);
    }
}

/// Two runs of one session may produce the same content at the same time.
pub async fn concurrent_writes_of_one_blob_succeed(subject: &dyn Subject) {
    let content = Bytes::from(vec![b'y'; 100_000]);
    let key = key("sessions/1", &content);
    let blobs = subject.blobs();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (blobs, key, content) = (Arc::clone(&blobs), key.clone(), content.clone());
            tokio::spawn(async move { blobs.put(&key, content).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), content);
}

pub async fn size_of_a_blob_is_known_after_its_write(subject: &dyn Subject) {
    let key = key("artifacts/1/people", b"content");
    assert_eq!(subject.blobs().size(&key).await.unwrap(), None);
    subject.blobs().put(&key, Bytes::from_static(b"content")).await.unwrap();
    assert_eq!(subject.blobs().size(&key).await.unwrap(), Some(7));
}
