//! The table in DynamoDB.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use pilothouse_domain::Timestamp;
use pilothouse_store::contract::{self, Subject};
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::table::Table;

use super::{client, then_clean, unique};
use crate::clock::Ahead;

#[derive(Clone)]
struct Deployed {
    client: Client,
    name: String,
    table: DynamoTable,
    ahead: Ahead,
}

impl Deployed {
    async fn start() -> Self {
        let client = Client::from_conf(client!(aws_sdk_dynamodb).build());
        let (name, ahead) = (unique(), Ahead::default());
        let table = DynamoTable::new(client.clone(), &name, ahead.clock());
        table.create_table().await.unwrap();
        Self { client, name, table, ahead }
    }

    async fn remove(self) {
        self.client.delete_table().table_name(self.name).send().await.unwrap();
    }
}

impl Subject for Deployed {
    fn table(&self) -> Arc<dyn Table> {
        Arc::new(self.table.clone())
    }
    fn now(&self) -> Timestamp {
        (self.ahead.clock())()
    }
    fn advance(&self, by: Duration) {
        self.ahead.advance(by);
    }
}

macro_rules! run {
    ($setup:path; $($case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs a local cloud at PILOTHOUSE_CLOUD"]
            async fn $case() {
                let deployed = $setup().await;
                let subject = deployed.clone();
                then_clean(async move { contract::$case(&subject).await }, deployed.remove()).await;
            }
        )*
    };
}

pilothouse_store::table_cases!(run, Deployed::start);
