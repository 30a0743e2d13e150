use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::Value;

use crate::log_capture::LogCapture;

const RESENDS: usize = 3;

/// Sends requests to one server with one token. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    token: Option<String>,
    /// For failure messages.
    pub(crate) log_capture: Arc<dyn LogCapture>,
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    /// `null` if it is not JSON.
    pub body: Value,
    pub text: String,
}

impl Api {
    /// Creates a client for the server at `url`.
    pub fn new(
        http: reqwest::Client,
        url: String,
        token: Option<String>,
        log_capture: Arc<dyn LogCapture>,
    ) -> Self {
        Self { http, url, token, log_capture }
    }

    /// Retries when the connection breaks, because tests kill the server, and when an emulated engine did not respond; prints the log of
    /// that failure.
    pub async fn get(&self, path: &str) -> Reply {
        const CUT_OFF: u16 = 502;
        const FAILED: u16 = 500;
        for _ in 0..RESENDS {
            let reply = self.send(Method::GET, path, &[], None).await;
            match reply.status {
                CUT_OFF => {}
                FAILED => match self.log_capture.failures().await {
                    Some(why) => eprintln!("GET {path} failed and is retried; log:\n{why}"),
                    None => return reply,
                },
                _ => return reply,
            }
        }
        self.send(Method::GET, path, &[], None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, &[], Some(body.to_string().into_bytes())).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PUT, path, &[], Some(body.to_string().into_bytes())).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PATCH, path, &[], Some(body.to_string().into_bytes())).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, &[], None).await
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Reply {
        self.try_send(method.clone(), path, headers, body)
            .await
            .unwrap_or_else(|error| panic!("{method} {path} was not answered: {error:?}"))
    }

    /// Sends any request to a server that may be unavailable.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Reply, reqwest::Error> {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Reply { status, headers, body, text })
    }

    /// All items of a list, from all pages.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.get(&format!("{path}{joint}limit=200{cursor}")).await.expect(200);
            items.extend(page.body["items"].as_array().unwrap().iter().cloned());
            match page.body["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }
}

impl Reply {
    /// Returns the response if it has this status; panics otherwise.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Returns the response if it is a problem document with this status and code (decision 5); panics otherwise.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json");
        assert_eq!(self.body["type"], format!("https://pilothouse.dev/problems/{code}"));
        assert_eq!(self.body["status"], status);
        let detail = self.body["detail"].as_str().unwrap_or_default();
        assert!(detail.ends_with(['.', '!', '?']), "`{detail}` is not a sentence");
        self
    }

    /// The violated fields that a refusal names, sorted.
    #[track_caller]
    pub fn violated(&self) -> Vec<String> {
        let violations =
            self.body["violations"].as_array().unwrap_or_else(|| panic!("no violations: {}", self.text));
        let mut fields: Vec<_> = violations.iter().map(|v| v["field"].as_str().unwrap().to_owned()).collect();
        fields.sort();
        fields
    }

    /// Empty if the header is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
