//! What every blob store promises, as functions that panic when it does not. [`blob_cases`](crate::blob_cases) makes tests
//! of them.

// A suite speaks by panicking, wherever it is compiled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

use std::sync::Arc;

use bytes::Bytes;

use super::{BlobError, BlobKey, Blobs};

/// A blob store under test.
pub trait Subject: Send + Sync {
    /// The store, anew on what it had stored.
    fn blobs(&self) -> Arc<dyn Blobs>;
}

/// Calls the macro `$run` with `$setup` and the names of all cases.
#[macro_export]
macro_rules! blob_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            a_blob_is_found_again_under_its_key_alone,
            storing_a_blob_again_does_nothing,
            content_that_its_key_does_not_name_is_refused,
            large_and_empty_blobs_are_kept_whole,
            many_may_store_the_same_blob_at_once,
        }
    };
}

fn key(prefix: &str, content: &[u8]) -> BlobKey {
    BlobKey::of(prefix, content).unwrap()
}

/// Reading what is there, what is not, and what is another's.
pub async fn a_blob_is_found_again_under_its_key_alone(subject: &dyn Subject) {
    let mine = key("sessions/1", b"content");
    assert!(subject.blobs().get(&mine).await.unwrap().is_none());
    subject.blobs().put(&mine, Bytes::from_static(b"content")).await.unwrap();
    assert_eq!(subject.blobs().get(&mine).await.unwrap().unwrap(), "content");
    assert!(subject.blobs().get(&key("sessions/2", b"content")).await.unwrap().is_none());
    assert!(subject.blobs().get(&key("sessions/1", b"other")).await.unwrap().is_none());
}

/// A repeat.
pub async fn storing_a_blob_again_does_nothing(subject: &dyn Subject) {
    let key = key("sessions/1", b"content");
    for _ in 0..3 {
        subject.blobs().put(&key, Bytes::from_static(b"content")).await.unwrap();
    }
    assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), "content");
}

/// A wrong hash, of a new blob and of one that is there.
pub async fn content_that_its_key_does_not_name_is_refused(subject: &dyn Subject) {
    let key = key("sessions/1", b"content");
    for _ in 0..2 {
        let other = subject.blobs().put(&key, Bytes::from_static(b"other")).await;
        assert!(matches!(other, Err(BlobError::WrongContent)));
        subject.blobs().put(&key, Bytes::from_static(b"content")).await.unwrap();
    }
    assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), "content");
}

/// Sizes at both ends.
pub async fn large_and_empty_blobs_are_kept_whole(subject: &dyn Subject) {
    for bytes in [0, 1, 3 * 1024 * 1024] {
        let content = Bytes::from(vec![b'x'; bytes]);
        let key = key("sessions/1", &content);
        subject.blobs().put(&key, content.clone()).await.unwrap();
        assert_eq!(subject.blobs().get(&key).await.unwrap().unwrap(), content);
    }
}

/// Two runs of one session may produce the same content.
pub async fn many_may_store_the_same_blob_at_once(subject: &dyn Subject) {
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
