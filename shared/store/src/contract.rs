//! What every table promises, as functions that panic when it does not. [`table_cases`](crate::table_cases) makes
//! tests of them.

// A suite speaks by panicking, wherever it is compiled.
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

/// A table under test, empty.
pub trait Subject: Send + Sync {
    /// The table.
    fn table(&self) -> Arc<dyn Table>;

    /// The time on its clock, which goes on by itself.
    fn now(&self) -> Timestamp;

    /// Makes its clock jump ahead.
    fn advance(&self, by: Duration);
}

/// Calls the macro `$run` with `$setup` and the names of all cases.
#[macro_export]
macro_rules! table_cases {
    ($run:ident, $setup:path) => {
        $run! { $setup;
            an_item_comes_back_as_it_was_put,
            conditions_decide_on_what_was_there_before,
            a_failed_condition_writes_nothing_and_tells_its_position,
            a_check_guards_and_changes_nothing,
            a_single_write_keeps_its_condition,
            expired_items_are_gone_and_count_as_absent,
            items_that_are_put_alone_can_be_put_again,
            items_up_to_the_limit_fit_and_larger_ones_do_not,
            a_transaction_has_at_most_100_writes,
            two_writes_of_one_key_are_refused,
            impossible_keys_and_queries_are_refused,
            a_partition_is_read_in_both_directions_in_pages,
            ranges_include_their_ends,
            prefixes_hold_to_the_last_character,
            pages_beyond_a_megabyte_lose_nothing,
            indexes_hold_what_has_a_place_in_them,
            ties_in_an_index_are_paged_without_loss,
            a_position_of_another_list_is_refused,
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
    Query { index: None, partition: partition.to_owned(), range, descending: false, limit: 100, after: None }
}

async fn put(table: &Arc<dyn Table>, items: impl IntoIterator<Item = Item>) {
    table.put_all(items.into_iter().collect()).await.unwrap();
}

async fn sorts(table: &Arc<dyn Table>, query: Query) -> Vec<String> {
    all(table, query).await.into_iter().map(|item| item.key.sort).collect()
}

/// Every item of a query, page by page.
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
