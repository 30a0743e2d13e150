use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{broadcast, watch};

/// Commits that a subscriber may lag behind before it misses some.
const BACKLOG: usize = 1024;

pub(crate) struct Topics {
    watched: Mutex<HashMap<String, watch::Sender<u64>>>,
    all: broadcast::Sender<Arc<[String]>>,
}

/// Reports commits that touched a topic. Several touches between two calls count as one.
#[derive(Debug, Clone)]
pub struct Watch(watch::Receiver<u64>);

impl Watch {
    /// Waits for a touch after the last one that this watch has seen. Returns false when the database is closed.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl Topics {
    pub(crate) fn new() -> Self {
        Self { watched: Mutex::new(HashMap::new()), all: broadcast::channel(BACKLOG).0 }
    }

    pub(crate) fn watch(&self, topic: &str) -> Watch {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Topics are many and short-lived: remove unused ones as the map grows.
        if watched.len() >= 64 && watched.len().is_power_of_two() {
            watched.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = watched.entry(topic.to_owned()).or_insert_with(|| watch::channel(0).0);
        Watch(sender.subscribe())
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<[String]>> {
        self.all.subscribe()
    }

    pub(crate) fn publish(&self, topics: Vec<String>) {
        if topics.is_empty() {
            return;
        }
        {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if !watched.is_empty() {
                for topic in &topics {
                    let Some(sender) = watched.get(topic) else { continue };
                    if sender.receiver_count() == 0 {
                        watched.remove(topic);
                    } else {
                        sender.send_modify(|touches| *touches = touches.wrapping_add(1));
                    }
                }
            }
        }
        if self.all.receiver_count() > 0 {
            // Fails only if the last subscriber has just been dropped.
            let _ = self.all.send(topics.into());
        }
    }
}
