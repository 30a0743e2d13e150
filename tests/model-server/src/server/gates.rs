//! Gates that block replies until a test opens them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

/// Gates by name, initially closed.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: Mutex<HashMap<String, watch::Sender<bool>>>,
}

impl Gates {
    pub(crate) fn open(&self, name: &str) {
        self.with(name, |gate| gate.send_replace(true));
    }

    pub(crate) fn close(&self, name: &str) {
        self.with(name, |gate| gate.send_replace(false));
    }

    pub(crate) async fn pass(&self, name: &str) {
        let mut gate = self.with(name, watch::Sender::subscribe);
        // A gate lives as long as the server, so this fails only when nobody waits for a reply.
        let _ = gate.wait_for(|is_open| *is_open).await;
    }

    fn with<T>(&self, name: &str, act: impl FnOnce(&watch::Sender<bool>) -> T) -> T {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        act(gates.entry(name.to_owned()).or_insert_with(|| watch::Sender::new(false)))
    }
}
