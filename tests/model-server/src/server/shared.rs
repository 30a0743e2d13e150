//! State that all requests share.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Gates, record::Records};
use crate::{director::Director, script::Script};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) script: Mutex<Arc<Script>>,
    pub(super) director: Mutex<Director>,
    pub(super) gates: Arc<Gates>,
    pub(super) records: Arc<Records>,
}

impl Shared {
    pub(super) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
