use super::{
    Condition, Index, Item, Key, Query, SortRange, Subject, Write, all, is_invalid, item, put, query,
};
use crate::table::{MAX_ITEM_BYTES, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES};

fn sized(sort: &str, bytes: usize) -> Item {
    let empty = Item { body: String::new(), ..item("p", sort) };
    let body = "x".repeat(bytes - empty.size());
    Item { body, ..empty }
}

pub async fn items_above_the_size_limit_are_refused(subject: &dyn Subject) {
    let table = subject.table();
    let largest = sized("a", MAX_ITEM_BYTES);
    put(&table, [largest.clone()]).await;
    assert_eq!(table.get(&largest.key).await.unwrap(), Some(largest));
    let larger = sized("b", MAX_ITEM_BYTES + 1);
    assert!(is_invalid(&table.put_all(vec![item("p", "c"), larger.clone()]).await));
    assert!(is_invalid(&table.transact(vec![Write::Put(larger, Condition::Always)]).await));

    let of = |n: usize| -> Vec<_> {
        (0..n).map(|n| Write::Put(sized(&format!("t{n:02}"), MAX_ITEM_BYTES), Condition::Absent)).collect()
    };
    let fit = MAX_TRANSACTION_BYTES / MAX_ITEM_BYTES;
    assert!(is_invalid(&table.transact(of(fit + 1)).await));
    table.transact(of(fit)).await.unwrap();
    let there = all(&table, query("p", SortRange::Prefix("t".to_owned()))).await;
    assert_eq!(there.len(), fit);
}

pub async fn a_transaction_has_at_most_100_writes(subject: &dyn Subject) {
    let table = subject.table();
    let of =
        |n: usize| (0..n).map(|n| Write::Put(item("p", &format!("{n:03}")), Condition::Absent)).collect();
    assert!(is_invalid(&table.transact(of(MAX_TRANSACTION_WRITES + 1)).await));
    table.transact(of(MAX_TRANSACTION_WRITES)).await.unwrap();
    assert_eq!(all(&table, query("p", SortRange::All)).await.len(), MAX_TRANSACTION_WRITES);
}

/// A key may occur in one write of a transaction.
pub async fn duplicate_writes_in_a_transaction_are_refused(subject: &dyn Subject) {
    let table = subject.table();
    let key = Key::new("p", "a");
    let put = Write::Put(item("p", "a"), Condition::Always);
    let delete = Write::Delete(key.clone(), Condition::Always);
    let check = Write::Check(key.clone(), Condition::Absent);
    for pair in [[put.clone(), put.clone()], [put.clone(), delete.clone()], [check, delete]] {
        assert!(is_invalid(&table.transact(pair.to_vec()).await));
    }
    assert!(is_invalid(&table.put_all(vec![item("p", "a"), item("p", "a")]).await));
    assert_eq!(table.get(&key).await.unwrap(), None);
}

/// Keys and queries that no engine supports.
pub async fn invalid_keys_and_queries_are_refused(subject: &dyn Subject) {
    let table = subject.table();
    let (partition, sort) = ("p".repeat(2048), "s".repeat(1024));
    put(&table, [item(&partition, &sort)]).await;
    assert!(table.get(&Key::new(partition.clone(), sort.clone())).await.unwrap().is_some());
    for key in [
        Key::new("", "s"),
        Key::new("p", ""),
        Key::new(format!("{partition}p"), "s"),
        Key::new("p", format!("{sort}s")),
    ] {
        assert!(is_invalid(&table.get(&key).await));
        assert!(is_invalid(&table.put_all(vec![item(&key.partition, &key.sort)]).await));
        let listed = Item { listing: Some(key), ..item("p", "s") };
        assert!(is_invalid(&table.put_all(vec![listed]).await));
    }
    assert!(is_invalid(&table.query(&query("", SortRange::All)).await));
    let none = Query { limit: 0, index: Some(Index::Due), ..query("p", SortRange::All) };
    assert!(is_invalid(&table.query(&none).await));
}
