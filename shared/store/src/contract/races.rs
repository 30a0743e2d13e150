use std::sync::Arc;
use std::time::Duration;

use super::{Condition, Item, Key, SortRange, Subject, Write, all, item, put, query};
use crate::table::{Table, TableError};

const WRITERS: usize = 8;
const ROUNDS: u64 = 12;

/// Runs a transaction and retries it while it is contended. Returns whether its conditions held.
async fn won(table: &Arc<dyn Table>, writes: &[Write]) -> bool {
    for attempt in 0..200_u64 {
        match table.transact(writes.to_vec()).await {
            Ok(()) => return true,
            Err(TableError::ConditionFailed { .. }) => return false,
            Err(TableError::Contended | TableError::Throttled) => {
                tokio::time::sleep(Duration::from_millis(attempt % 7)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("always contended");
}

/// If all writers write the same next version, one succeeds.
pub async fn one_writer_wins_each_round(subject: &dyn Subject) {
    let table = subject.table();
    put(&table, [Item { version: 1, ..item("p", "a") }]).await;
    for round in 1..=ROUNDS {
        let tasks: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let table = Arc::clone(&table);
                tokio::spawn(async move {
                    let mut writes = vec![Write::Put(
                        Item { version: round + 1, body: format!("\"{writer}\""), ..item("p", "a") },
                        Condition::Version(round),
                    )];
                    // Even rounds use a transaction, odd rounds a single write.
                    if round.is_multiple_of(2) {
                        let claim = item("claims", &format!("{round}-{writer}"));
                        writes.push(Write::Put(claim, Condition::Absent));
                    }
                    won(&table, &writes).await
                })
            })
            .collect();
        let mut winners = Vec::new();
        for (writer, task) in tasks.into_iter().enumerate() {
            if task.await.unwrap() {
                winners.push(writer);
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let now = table.get(&Key::new("p", "a")).await.unwrap().unwrap();
        assert_eq!((now.version, now.body), (round + 1, format!("\"{}\"", winners[0])));
    }
    let claims = all(&table, query("claims", SortRange::All)).await;
    assert_eq!(claims.len() as u64, ROUNDS / 2, "losers left nothing behind");
}

/// Each writer appends until it has written its share. The sequence has no gaps and no duplicates.
pub async fn sequences_have_no_gaps_under_concurrent_writers(subject: &dyn Subject) {
    let table = subject.table();
    let each = 6;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let table = Arc::clone(&table);
            tokio::spawn(async move {
                let head = Key::new("p", "#head");
                let mut appended = 0;
                while appended < each {
                    let version = table.get(&head).await.unwrap().map_or(0, |head| head.version);
                    let condition =
                        if version == 0 { Condition::Absent } else { Condition::Version(version) };
                    let next = version + 1;
                    let entry = Item { body: format!("{writer}"), ..item("p", &format!("J#{next:06}")) };
                    let writes = [
                        Write::Put(Item { version: next, ..item("p", "#head") }, condition),
                        Write::Put(entry, Condition::Absent),
                    ];
                    appended += u32::from(won(&table, &writes).await);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let journal = all(&table, query("p", SortRange::Prefix("J#".to_owned()))).await;
    let total = WRITERS as u64 * u64::from(each);
    let expected = (1..=total).map(|n| format!("J#{n:06}"));
    assert!(journal.iter().map(|item| item.key.sort.clone()).eq(expected), "{journal:?}");
    assert_eq!(table.get(&Key::new("p", "#head")).await.unwrap().unwrap().version, total);
}
