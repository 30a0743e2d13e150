//! Runs the blob suite on the file engine.

use std::sync::Arc;

use pilothouse_store::blob::contract::{self, Subject};
use pilothouse_store::blob::{Blobs, FileBlobs};
use tempfile::TempDir;

struct Files(TempDir);

impl Files {
    fn start() -> Self {
        Self(TempDir::new().unwrap())
    }
}

impl Subject for Files {
    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(FileBlobs::open(self.0.path().join("blobs")).unwrap())
    }
}

macro_rules! run {
    ($setup:path; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                contract::$case(&$setup()).await;
            }
        )*
    };
}

mod files {
    use super::{Files, contract};

    pilothouse_store::blob_cases!(run, Files::start);
}
