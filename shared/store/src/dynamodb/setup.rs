//! Creates the table for tests and local clouds. In an account, the templates create it.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TableStatus, TimeToLiveSpecification,
};

use super::{DynamoTable, attributes, errors};
use crate::table::{Index, TableError};

const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("the table `{0}` did not become active")]
struct NotActive(String);

impl DynamoTable {
    /// Creates the table with its indexes and time to live, billed on demand, and waits until it is active.
    pub async fn create_table(&self) -> Result<(), TableError> {
        let mut request =
            self.client.create_table().table_name(&*self.name).billing_mode(BillingMode::PayPerRequest);
        for index in [None, Some(Index::Listing), Some(Index::Due)] {
            let (partition, sort) = attributes::key_names(index);
            for name in [partition, sort] {
                let definition = AttributeDefinition::builder()
                    .attribute_name(name)
                    .attribute_type(ScalarAttributeType::S);
                request = request.attribute_definitions(definition.build().map_err(errors::engine)?);
            }
            let hash = element(partition, KeyType::Hash)?;
            let range = element(sort, KeyType::Range)?;
            request = match index {
                None => request.key_schema(hash).key_schema(range),
                Some(index) => request.global_secondary_indexes(
                    GlobalSecondaryIndex::builder()
                        .index_name(attributes::index_name(index))
                        .key_schema(hash)
                        .key_schema(range)
                        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
                        .build()
                        .map_err(errors::engine)?,
                ),
            };
        }
        request.send().await.map_err(errors::engine)?;
        self.wait_until_active().await?;
        let expiry = TimeToLiveSpecification::builder().enabled(true).attribute_name("x").build();
        self.client
            .update_time_to_live()
            .table_name(&*self.name)
            .time_to_live_specification(expiry.map_err(errors::engine)?)
            .send()
            .await
            .map(drop)
            .map_err(errors::engine)
    }

    async fn wait_until_active(&self) -> Result<(), TableError> {
        for _ in 0..TRIES {
            let described =
                self.client.describe_table().table_name(&*self.name).send().await.map_err(errors::engine)?;
            if described.table.and_then(|table| table.table_status) == Some(TableStatus::Active) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(TableError::Engine(Box::new(NotActive(self.name.to_string()))))
    }
}

fn element(name: &str, key_type: KeyType) -> Result<KeySchemaElement, TableError> {
    KeySchemaElement::builder().attribute_name(name).key_type(key_type).build().map_err(errors::engine)
}
