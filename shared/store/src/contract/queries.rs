use super::{
    Condition, Index, Item, Key, Query, SortRange, Subject, Write, all, is_invalid, item, put, query, sorts,
};
use crate::table::{MAX_PAGE_BYTES, Position};

pub async fn a_partition_is_read_in_both_directions_in_pages(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, (0..23).map(|n| item("p", &format!("{n:02}")))).await;
    put(&table, [item("o", "00"), item("q", "00"), item("pp", "00")]).await;
    let mut expected: Vec<_> = (0..23).map(|n| format!("{n:02}")).collect();
    for limit in [1, 7, 23, 60] {
        assert_eq!(sorts(&table, Query { limit, ..query("p", SortRange::All) }).await, expected);
    }
    expected.reverse();
    for limit in [1, 7, 23, 60] {
        let descending = Query { limit, descending: true, ..query("p", SortRange::All) };
        assert_eq!(sorts(&table, descending).await, expected);
    }
    assert!(sorts(&table, query("none", SortRange::All)).await.is_empty());
}

pub async fn ranges_include_their_ends(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, ["a", "b", "b#1", "c", "d"].map(|sort| item("p", sort))).await;
    for (from, to, expected) in [
        ("b", "c", vec!["b", "b#1", "c"]),
        ("b", "b", vec!["b"]),
        ("aa", "b#", vec!["b"]),
        ("", "b", vec!["a", "b"]),
        ("c", "z", vec!["c", "d"]),
        ("c", "b", vec![]),
        ("c", "", vec![]),
        ("", "", vec![]),
    ] {
        let range = SortRange::Between(from.to_owned(), to.to_owned());
        for limit in [1, 10] {
            assert_eq!(
                sorts(&table, Query { limit, ..query("p", range.clone()) }).await,
                expected,
                "{range:?}"
            );
            let descending = Query { limit, descending: true, ..query("p", range.clone()) };
            let reversed: Vec<_> = expected.iter().rev().copied().collect();
            assert_eq!(sorts(&table, descending).await, reversed, "{range:?}");
        }
    }
}

/// Prefixes that end at boundaries of characters.
pub async fn prefix_queries_match_every_character(subject: &dyn Subject) {
    let table = subject.table();
    let all_sorts =
        ["J", "J#", "J#1", "J#\u{D7FF}", "J#\u{E000}", "J#\u{10FFFF}", "J#\u{10FFFF}x", "J$", "K"];
    put(&table, all_sorts.map(|sort| item("p", sort))).await;
    for prefix in ["", "J", "J#", "J#\u{D7FF}", "J#\u{10FFFF}", "J#\u{10FFFF}xy", "K", "L"] {
        let expected: Vec<_> = all_sorts.iter().filter(|sort| sort.starts_with(prefix)).copied().collect();
        let range = SortRange::Prefix(prefix.to_owned());
        for descending in [false, true] {
            let mut found = sorts(&table, Query { limit: 2, descending, ..query("p", range.clone()) }).await;
            if descending {
                found.reverse();
            }
            assert_eq!(found, expected, "{prefix:?}");
        }
    }
}

/// A text that barely compresses.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let sign = u8::try_from(state >> 58).unwrap();
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[usize::from(sign)])
    };
    (0..length).map(|_| next()).collect()
}

pub async fn pages_larger_than_a_megabyte_are_complete(subject: &dyn Subject) {
    let table = subject.table();
    let items: Vec<_> =
        (0..25).map(|n| Item { body: noise(n, 150_000), ..item("p", &format!("{n:02}")) }).collect();
    put(&table, items.clone()).await;
    let whole = Query { limit: 1000, ..query("p", SortRange::All) };
    let first = table.query(&whole).await.unwrap();
    let bytes: usize = first.items.iter().map(Item::size).sum();
    // Engines that pack bodies fit more of them into a page.
    assert!(first.items.len() > 3 && bytes <= 2 * MAX_PAGE_BYTES, "{bytes}");
    assert!(first.next.is_some());
    assert_eq!(all(&table, whole.clone()).await, items);
    let descending = all(&table, Query { descending: true, ..whole }).await;
    assert!(descending.iter().rev().eq(&items));
}

pub async fn index_contains_exactly_the_indexed_items(subject: &dyn Subject) {
    let table = subject.table();
    let listing = |partition: &str| Query { index: Some(Index::Listing), ..query(partition, SortRange::All) };
    let due = Query { index: Some(Index::Due), ..query("D", SortRange::All) };
    let at = |listing: Option<(&str, &str)>, due: Option<(&str, &str)>| Item {
        listing: listing.map(|(p, s)| Key::new(p, s)),
        due: due.map(|(p, s)| Key::new(p, s)),
        ..item("p", "a")
    };
    let write = async |item: Item| table.transact(vec![Write::Put(item, Condition::Always)]).await.unwrap();
    put(&table, [item("p", "nowhere")]).await;

    let both = at(Some(("L", "1")), Some(("D", "1")));
    write(both.clone()).await;
    assert_eq!(all(&table, listing("L")).await, std::slice::from_ref(&both));
    assert_eq!(all(&table, due.clone()).await, [both]);
    let moved = at(Some(("M", "2")), None);
    write(moved.clone()).await;
    assert!(all(&table, listing("L")).await.is_empty());
    assert_eq!(all(&table, listing("M")).await, [moved]);
    assert!(all(&table, due.clone()).await.is_empty());
    write(at(None, Some(("D", "9")))).await;
    assert!(all(&table, listing("M")).await.is_empty());
    let until = |to: &str| SortRange::Between(String::new(), to.to_owned());
    assert!(all(&table, Query { range: until("8"), ..due.clone() }).await.is_empty());
    assert_eq!(all(&table, Query { range: until("9"), ..due.clone() }).await.len(), 1);
    table.transact(vec![Write::Delete(Key::new("p", "a"), Condition::Always)]).await.unwrap();
    assert!(all(&table, due).await.is_empty());
}

pub async fn equal_index_keys_are_paged_without_loss(subject: &dyn Subject) {
    let table = subject.table();
    let items: Vec<_> = (0..30)
        .map(|n| Item {
            listing: Some(Key::new("L", if n < 10 { "early" } else { "same" })),
            ..item(&format!("p{}", n % 7), &format!("{n:02}"))
        })
        .collect();
    put(&table, items.clone()).await;
    for (limit, descending) in [(1, false), (4, false), (4, true), (100, true)] {
        let pages = Query { index: Some(Index::Listing), limit, descending, ..query("L", SortRange::All) };
        let found = all(&table, pages).await;
        let mut places: Vec<_> = found.iter().map(|item| item.listing.clone().unwrap().sort).collect();
        if descending {
            places.reverse();
        }
        assert!(places.is_sorted());
        let mut keys: Vec<_> = found.into_iter().map(|item| item.key.sort).collect();
        keys.sort();
        assert!(keys.iter().eq(items.iter().map(|item| &item.key.sort)), "{keys:?}");
    }
}

/// Positions are valid only for their own list.
pub async fn cursor_position_of_another_list_is_refused(subject: &dyn Subject) {
    let table = subject.table();
    let position = |partition: &str, index_sort: Option<&str>| Position {
        partition: partition.to_owned(),
        sort: "a".to_owned(),
        index_sort: index_sort.map(str::to_owned),
    };
    let from = |index, after| Query { index, after: Some(after), ..query("p", SortRange::All) };
    assert!(is_invalid(&table.query(&from(None, position("other", None))).await));
    assert!(is_invalid(&table.query(&from(None, position("p", Some("x")))).await));
    assert!(is_invalid(&table.query(&from(Some(Index::Listing), position("p", None))).await));
    assert!(is_invalid(&table.query(&from(None, position("", None))).await));
}
