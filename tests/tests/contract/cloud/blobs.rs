//! Blobs in S3.

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};
use pilothouse_store::blob::contract::{self, Subject};
use pilothouse_store::blob::{Blobs, S3Blobs};

use super::{client, then_clean, unique};

#[derive(Clone)]
struct Bucket {
    client: Client,
    name: String,
}

impl Bucket {
    async fn start() -> Self {
        let config = client!(aws_sdk_s3).force_path_style(true).build();
        let (client, name) = (Client::from_conf(config), unique());
        let here =
            CreateBucketConfiguration::builder().location_constraint(BucketLocationConstraint::EuCentral1);
        client.create_bucket().bucket(&name).create_bucket_configuration(here.build()).send().await.unwrap();
        Self { client, name }
    }

    async fn remove(self) {
        let objects = self.client.list_objects_v2().bucket(&self.name).send().await.unwrap();
        for object in objects.contents() {
            let key = object.key().unwrap();
            let below = key.strip_prefix("below/here/");
            let is_known = |key: &str| key.starts_with("sessions/") || key.starts_with("artifacts/");
            assert!(below.is_some_and(is_known), "{key}");
            self.client.delete_object().bucket(&self.name).key(key).send().await.unwrap();
        }
        self.client.delete_bucket().bucket(&self.name).send().await.unwrap();
    }
}

impl Subject for Bucket {
    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(S3Blobs::new(self.client.clone(), &self.name, Some("below/here/")))
    }
}

macro_rules! run {
    ($setup:path; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
            async fn $case() {
                let bucket = $setup().await;
                let subject = bucket.clone();
                then_clean(async move { contract::$case(&subject).await }, bucket.remove()).await;
            }
        )*
    };
}

pilothouse_store::blob_cases!(run, Bucket::start);
