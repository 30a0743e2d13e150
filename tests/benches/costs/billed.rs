//! A table that counts billed units.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};

use super::ledger::{Bill, Kind, Ledger, Touched};

/// Clones share the table and its bill.
#[derive(Clone)]
pub(crate) struct Billed {
    inner: Arc<dyn Table>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Billed {
    pub(crate) fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, ledger: Arc::default() }
    }

    pub(crate) fn bill(&self) -> Bill {
        self.ledger.lock().unwrap().bill
    }

    pub(crate) fn touched(&self) -> Vec<Touched> {
        std::mem::take(&mut self.ledger.lock().unwrap().touched)
    }

    pub(crate) fn kinds(&self) -> BTreeMap<String, Kind> {
        self.ledger.lock().unwrap().kinds.clone()
    }
}

#[async_trait]
impl Table for Billed {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        let item = self.inner.get(key).await?;
        self.ledger.lock().unwrap().read(item.as_slice(), true);
        Ok(item)
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        let page = self.inner.query(query).await?;
        let mut ledger = self.ledger.lock().unwrap();
        if query.index.is_some() {
            // Keys first, then each item individually.
            ledger.read(&[], false);
            page.items.iter().for_each(|item| ledger.read(std::slice::from_ref(item), false));
        } else {
            ledger.read(&page.items, true);
        }
        drop(ledger);
        Ok(page)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        self.inner.transact(writes.clone()).await?;
        self.ledger.lock().unwrap().committed(&writes);
        Ok(())
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.inner.put_all(items.clone()).await?;
        self.ledger.lock().unwrap().put_alone(&items);
        Ok(())
    }
}
