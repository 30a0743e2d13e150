//! Compares the SQLite engine with a map over random operations.

use std::collections::BTreeMap;

use pilothouse_store::table::{Condition, Index, Item, Key, Query, SortRange, Table, TableError, Write};
use proptest::prelude::*;

use crate::sqlite::Sqlite;

type Model = BTreeMap<Key, Item>;

#[derive(Debug, Clone)]
enum Step {
    Transact(Vec<Write>),
    Query(Query),
}

fn key() -> impl Strategy<Value = Key> {
    ("[pq]", "[ab]{1,2}[#é]?").prop_map(|(partition, sort)| Key { partition, sort })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![Just(Condition::Always), Just(Condition::Absent), (1..4_u64).prop_map(Condition::Version)]
}

fn item() -> impl Strategy<Value = Item> {
    (key(), 1..4_u64, proptest::option::of(key()), proptest::option::of(key())).prop_map(
        |(key, version, listing, due)| Item {
            body: format!("{version}"),
            key,
            kind: "thing".to_owned(),
            version,
            listing,
            due,
            expires_at: None,
        },
    )
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => (item(), condition()).prop_map(|(item, condition)| Write::Put(item, condition)),
        1 => (key(), condition()).prop_map(|(key, condition)| Write::Delete(key, condition)),
        1 => (key(), condition()).prop_map(|(key, condition)| Write::Check(key, condition)),
    ]
}

fn range() -> impl Strategy<Value = SortRange> {
    prop_oneof![
        Just(SortRange::All),
        "[ab]{0,2}".prop_map(SortRange::Prefix),
        ("[ab]{0,2}", "[ab]{0,2}é?").prop_map(|(from, to)| SortRange::Between(from, to)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let index = prop_oneof![Just(None), Just(Some(Index::Listing)), Just(Some(Index::Due))];
    prop_oneof![
        proptest::collection::vec(write(), 1..5).prop_map(Step::Transact),
        (index, "[pq]", range(), any::<bool>(), 1..4_usize).prop_map(
            |(index, partition, range, descending, limit)| Step::Query(Query {
                index,
                partition,
                range,
                descending,
                limit,
                after: None
            })
        ),
    ]
}

fn holds(model: &Model, key: &Key, condition: Condition) -> bool {
    let version = model.get(key).map(|item| item.version);
    match condition {
        Condition::Always => true,
        Condition::Absent => version.is_none(),
        Condition::Version(expected) => version == Some(expected),
    }
}

/// A minimal implementation of the contract of the port.
fn transact(model: &mut Model, writes: &[Write]) -> Result<(), Option<Vec<usize>>> {
    let doubled =
        writes.iter().enumerate().any(|(n, write)| writes[..n].iter().any(|w| w.key() == write.key()));
    if doubled {
        return Err(None);
    }
    let failed: Vec<usize> = (0..writes.len())
        .filter(|&n| {
            let (Write::Put(_, condition) | Write::Delete(_, condition) | Write::Check(_, condition)) =
                &writes[n];
            !holds(model, writes[n].key(), *condition)
        })
        .collect();
    if !failed.is_empty() {
        return Err(Some(failed));
    }
    for write in writes {
        match write {
            Write::Put(item, _) => drop(model.insert(item.key.clone(), item.clone())),
            Write::Delete(key, _) => drop(model.remove(key)),
            Write::Check(..) => {}
        }
    }
    Ok(())
}

fn select(model: &Model, query: &Query) -> Vec<Item> {
    let place = |item: &Item| match query.index {
        None => Some(item.key.clone()),
        Some(Index::Listing) => item.listing.clone(),
        Some(Index::Due) => item.due.clone(),
    };
    let mut found: Vec<_> = model
        .values()
        .filter_map(|item| Some((place(item)?, item.clone())))
        .filter(|(place, _)| place.partition == query.partition)
        .filter(|(place, _)| match &query.range {
            SortRange::All => true,
            SortRange::Prefix(prefix) => place.sort.starts_with(prefix),
            SortRange::Between(from, to) => *from <= place.sort && place.sort <= *to,
        })
        .collect();
    found.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
    if query.descending {
        found.reverse();
    }
    found.into_iter().map(|(_, item)| item).collect()
}

async fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let subject = Sqlite::start().await;
    let table = &subject.table;
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Transact(writes) => {
                let expected = transact(&mut model, &writes);
                let result = match table.transact(writes).await {
                    Ok(()) => Ok(()),
                    Err(TableError::ConditionFailed { writes }) => Err(Some(writes)),
                    Err(TableError::Invalid(_)) => Err(None),
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                };
                prop_assert_eq!(result, expected);
            }
            Step::Query(mut query) => {
                let expected = select(&model, &query);
                let mut found = Vec::new();
                loop {
                    let page = table.query(&query).await.unwrap();
                    prop_assert!(page.items.len() <= query.limit);
                    found.extend(page.items);
                    query.after = page.next;
                    if query.after.is_none() {
                        break;
                    }
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn table_engine_matches_a_map(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(steps))?;
    }
}
