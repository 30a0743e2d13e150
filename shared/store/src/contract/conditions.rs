use std::time::Duration;

use super::{Condition, Index, Item, Key, SortRange, Subject, Write, all, failed, item, put, query};

/// Covers all fields, non-ASCII characters, replacement and deletion.
pub async fn item_is_read_as_it_was_written(subject: &dyn Subject) {
    let table = subject.table();
    let full = Item {
        kind: "session".to_owned(),
        version: 9_007_199_254_740_993,
        listing: Some(Key::new("OWNER#1", "2026-11-21")),
        due: Some(Key::new("DUE#1", "2026-11-22")),
        expires_at: Some(subject.now() + Duration::from_millis(86_400_123)),
        body: "{\"text\":\"ü \u{10FFFF} \\u0000 \\\"x\\\"\"}".to_owned(),
        ..item("p/ü", "s#\u{1F600}")
    };
    assert_eq!(table.get(&full.key).await.unwrap(), None);
    put(&table, [full.clone()]).await;
    assert_eq!(table.get(&full.key).await.unwrap(), Some(full.clone()));
    let plain = Item { body: "[]".to_owned(), ..item("p/ü", "s#\u{1F600}") };
    table.transact(vec![Write::Put(plain.clone(), Condition::Always)]).await.unwrap();
    assert_eq!(table.get(&full.key).await.unwrap(), Some(plain));
    table.transact(vec![Write::Delete(full.key.clone(), Condition::Always)]).await.unwrap();
    assert_eq!(table.get(&full.key).await.unwrap(), None);
    table.transact(vec![Write::Delete(full.key, Condition::Always)]).await.unwrap();
    table.transact(Vec::new()).await.unwrap();
}

/// A transaction's own writes do not affect its conditions.
pub async fn conditions_apply_to_the_previous_state(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, [item("p", "a")]).await;
    table
        .transact(vec![
            Write::Put(Item { version: 2, ..item("p", "a") }, Condition::Version(1)),
            Write::Put(item("p", "b"), Condition::Absent),
            Write::Check(Key::new("p", "c"), Condition::Absent),
        ])
        .await
        .unwrap();
    assert_eq!(table.get(&Key::new("p", "a")).await.unwrap().unwrap().version, 2);
    table
        .transact(vec![
            Write::Delete(Key::new("p", "a"), Condition::Version(2)),
            Write::Put(Item { version: 2, ..item("p", "b") }, Condition::Version(1)),
        ])
        .await
        .unwrap();
    assert_eq!(table.get(&Key::new("p", "a")).await.unwrap(), None);
}

/// Nothing is written, and all failed positions are returned.
pub async fn failed_condition_writes_nothing_and_names_its_index(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, [item("p", "a"), item("p", "b")]).await;
    let result = table
        .transact(vec![
            Write::Put(item("p", "new"), Condition::Absent),
            Write::Put(Item { version: 3, ..item("p", "a") }, Condition::Version(2)),
            Write::Check(Key::new("p", "always"), Condition::Always),
            Write::Delete(Key::new("p", "b"), Condition::Absent),
            Write::Check(Key::new("p", "none"), Condition::Version(1)),
            Write::Put(item("p", "other"), Condition::Always),
        ])
        .await;
    assert_eq!(failed(result), [1, 3, 4]);
    let there = all(&table, query("p", SortRange::All)).await;
    assert_eq!(there, [item("p", "a"), item("p", "b")]);
}

/// Checks alone, together with other writes, and of missing items.
pub async fn condition_check_changes_nothing(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, [item("p", "a"), item("p", "b")]).await;
    let (a, b, none) = (Key::new("p", "a"), Key::new("p", "b"), Key::new("p", "none"));
    let check = |key: &Key, condition| Write::Check(key.clone(), condition);
    table.transact(vec![check(&a, Condition::Version(1))]).await.unwrap();
    table.transact(vec![check(&a, Condition::Always)]).await.unwrap();
    table.transact(vec![check(&a, Condition::Always), check(&none, Condition::Always)]).await.unwrap();
    table.transact(vec![check(&a, Condition::Version(1)), check(&none, Condition::Absent)]).await.unwrap();
    assert_eq!(failed(table.transact(vec![check(&a, Condition::Absent)]).await), [0]);
    assert_eq!(failed(table.transact(vec![check(&none, Condition::Version(1))]).await), [0]);
    let both = vec![check(&a, Condition::Version(1)), check(&b, Condition::Version(7))];
    assert_eq!(failed(table.transact(both).await), [1]);
    assert_eq!(all(&table, query("p", SortRange::All)).await, [item("p", "a"), item("p", "b")]);
}

pub async fn single_write_respects_its_condition(subject: &dyn Subject) {
    let table = subject.table();
    let put = |version, condition| vec![Write::Put(Item { version, ..item("p", "a") }, condition)];
    assert_eq!(failed(table.transact(put(2, Condition::Version(1))).await), [0]);
    table.transact(put(1, Condition::Absent)).await.unwrap();
    assert_eq!(failed(table.transact(put(1, Condition::Absent)).await), [0]);
    table.transact(put(2, Condition::Version(1))).await.unwrap();
    assert_eq!(failed(table.transact(put(2, Condition::Version(1))).await), [0]);
    let delete = |condition| vec![Write::Delete(Key::new("p", "a"), condition)];
    assert_eq!(failed(table.transact(delete(Condition::Version(1))).await), [0]);
    assert_eq!(failed(table.transact(delete(Condition::Absent)).await), [0]);
    table.transact(delete(Condition::Version(2))).await.unwrap();
    table.transact(delete(Condition::Absent)).await.unwrap();
}

/// Items expire at the millisecond, whether or not they were deleted.
pub async fn expired_items_count_as_absent(subject: &dyn Subject) {
    let table = subject.table();
    let at = subject.now() + Duration::from_millis(100_500);
    let place = Some(Key::new("L", "x"));
    let short = Item { expires_at: Some(at), listing: place.clone(), ..item("p", "short") };
    let long = Item { expires_at: Some(at + Duration::from_secs(1000)), listing: place, ..item("p", "long") };
    put(&table, [short.clone(), long.clone()]).await;
    subject.advance(Duration::from_secs(90));
    assert_eq!(table.get(&short.key).await.unwrap(), Some(short.clone()), "not before its time");
    subject.advance(Duration::from_millis(10_500));
    assert_eq!(table.get(&short.key).await.unwrap(), None);
    assert_eq!(all(&table, query("p", SortRange::All)).await, std::slice::from_ref(&long));
    let listed = super::Query { index: Some(Index::Listing), ..query("L", SortRange::All) };
    assert_eq!(all(&table, listed).await, [long]);
    let version = vec![Write::Delete(short.key.clone(), Condition::Version(1))];
    assert_eq!(failed(table.transact(version).await), [0]);
    table
        .transact(vec![
            Write::Put(item("p", "short"), Condition::Absent),
            Write::Check(Key::new("p", "long"), Condition::Version(1)),
        ])
        .await
        .unwrap();
    assert_eq!(table.get(&short.key).await.unwrap(), Some(item("p", "short")));
}

pub async fn unconditional_puts_can_be_repeated(subject: &dyn Subject) {
    let table = subject.table();
    let items: Vec<_> = (0..130).map(|n| item("p", &format!("{n:03}"))).collect();
    put(&table, items.clone()).await;
    put(&table, items.clone()).await;
    assert_eq!(all(&table, query("p", SortRange::All)).await, items);
    put(&table, []).await;
}
