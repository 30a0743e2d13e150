//! Contract of tables, as functions that panic on a violation. [`table_cases`](crate::table_cases) makes tests of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

mod conditions;
mod limits;
mod queries;
mod races;

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::Timestamp;

pub use conditions::*;
pub use limits::*;
pub use queries::*;
pub use races::*;

use crate::table::{Condition, Index, Item, Key, Query, SortRange, Table, TableError, Write};

pub trait Subject: Send + Sync {
    fn table(&self) -> Arc<dyn Table>;

    /// Current time of the table's clock, which advances.
    fn now(&self) -> Timestamp;

    fn advance(&self, by: Duration);
}

/// Calls the macro `$run` with `$setup` and the names of all cases.
#[macro_export]
macro_rules! table_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            item_is_read_as_it_was_written,
            conditions_apply_to_the_previous_state,
            failed_condition_writes_nothing_and_names_its_index,
            condition_check_changes_nothing,
            single_write_respects_its_condition,
            expired_items_count_as_absent,
            unconditional_puts_can_be_repeated,
            items_above_the_size_limit_are_refused,
            a_transaction_has_at_most_100_writes,
            duplicate_writes_in_a_transaction_are_refused,
            invalid_keys_and_queries_are_refused,
            a_partition_is_read_in_both_directions_in_pages,
            ranges_include_their_ends,
            prefix_queries_match_every_character,
            pages_larger_than_a_megabyte_are_complete,
            index_contains_exactly_the_indexed_items,
            equal_index_keys_are_paged_without_loss,
            cursor_position_of_another_list_is_refused,
            one_writer_wins_each_round,
            sequences_have_no_gaps_under_concurrent_writers,
        }
    };
}

fn item(partition: &str, sort: &str) -> Item {
    Item {
        key: Key::new(partition, sort),
        kind: "thing".to_owned(),
        version: 1,
        listing: None,
        due: None,
        expires_at: None,
        body: "{}".to_owned(),
    }
}

fn query(partition: &str, range: SortRange) -> Query {
    Query::new(partition.to_owned(), range, 100)
}

async fn put(table: &Arc<dyn Table>, items: impl IntoIterator<Item = Item>) {
    table.put_all(items.into_iter().collect()).await.unwrap();
}

async fn sorts(table: &Arc<dyn Table>, query: Query) -> Vec<String> {
    all(table, query).await.into_iter().map(|item| item.key.sort).collect()
}

async fn all(table: &Arc<dyn Table>, mut query: Query) -> Vec<Item> {
    let mut items = Vec::new();
    for _ in 0..1000 {
        let page = table.query(&query).await.unwrap();
        assert!(page.items.len() <= query.limit);
        items.extend(page.items);
        match page.next {
            None => return items,
            Some(next) => query.after = Some(next),
        }
    }
    panic!("the pages do not end");
}

fn failed(result: Result<(), TableError>) -> Vec<usize> {
    match result {
        Err(TableError::ConditionFailed { writes }) => writes,
        other => panic!("{other:?}"),
    }
}

fn is_invalid<T: std::fmt::Debug>(result: &Result<T, TableError>) -> bool {
    matches!(result, Err(TableError::Invalid(_)))
}
