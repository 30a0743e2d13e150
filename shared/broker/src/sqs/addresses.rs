//! Cache of queue URLs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_sqs::Client;

use super::errors;
use crate::queue::QueueError;

#[derive(Debug, thiserror::Error)]
#[error("SQS did not return the URL of `{0}`")]
struct NoAddress(String);

/// Queue URLs of a deployment, by queue name in SQS.
pub(super) struct Addresses {
    client: Client,
    /// Configured URLs, which are never forgotten.
    known: HashMap<String, Arc<str>>,
    found: Mutex<HashMap<String, Arc<str>>>,
}

impl Addresses {
    pub(super) fn new(client: Client, known: impl Iterator<Item = (String, String)>) -> Self {
        let known = known.map(|(name, url)| (name, url.into())).collect();
        Self { client, known, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// URL of a queue; `None` if the queue does not exist.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Arc<str>>, QueueError> {
        if let Some(url) = self.known.get(name) {
            return Ok(Some(Arc::clone(url)));
        }
        if let Some(url) = self.found().get(name) {
            return Ok(Some(Arc::clone(url)));
        }
        match self.client.get_queue_url().queue_name(name).send().await {
            Ok(output) => self.remember(name.to_owned(), output.queue_url).map(Some),
            Err(error) if errors::is_missing(&error) => Ok(None),
            Err(error) => Err(QueueError::Engine(Box::new(error))),
        }
    }

    pub(super) fn remember(&self, name: String, url: Option<String>) -> Result<Arc<str>, QueueError> {
        let url: Arc<str> = match url {
            Some(url) => url.into(),
            None => return Err(QueueError::Engine(Box::new(NoAddress(name)))),
        };
        self.found().insert(name, Arc::clone(&url));
        Ok(url)
    }

    pub(super) fn forget(&self, name: &str) {
        self.found().remove(name);
    }
}
