//! Runs the table suite on both engines.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use pilothouse_domain::Timestamp;
use pilothouse_store::contract::{self, Subject};
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::table::Table;

use crate::clock::Ahead;
use crate::sqlite::Sqlite;

impl Subject for Sqlite {
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

/// DynamoDB's API over loopback, in this process.
pub(crate) struct Dynamo {
    table: DynamoTable,
    ahead: Ahead,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Dynamo {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Dynamo {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let database = dynoxide::Database::memory().unwrap();
        let server = tokio::spawn(dynoxide::server::serve_on(listener, database));
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        let ahead = Ahead::default();
        let table = DynamoTable::new(Client::from_conf(config), "pilothouse", ahead.clock());
        table.create_table().await.unwrap();
        Self { table, ahead, server }
    }
}

impl Subject for Dynamo {
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
            async fn $case() {
                contract::$case(&$setup().await).await;
            }
        )*
    };
}

mod sqlite_engine {
    use super::{Sqlite, contract};

    pilothouse_store::table_cases!(run, Sqlite::start);
}

mod dynamodb_engine {
    use super::{Dynamo, contract};

    pilothouse_store::table_cases!(run, Dynamo::start);
}
