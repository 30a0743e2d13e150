//! A fake of the gateway (`pilothouse_wire::gateway`) that tests control.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_domain::value::{ContentHash, DraftKind, ImageType, MessageImage};
use pilothouse_domain::{AgentSessionId, CommandId, EnvelopeId, RunId, Timestamp};
use pilothouse_wire::command::IssuedCommand;
use pilothouse_wire::envelope::PROTOCOL_VERSION;
use pilothouse_wire::gateway::{
    DeleteCommands, DraftResult, ReceiveCommands, ReceivedCommand, ReceivedCommands, SendDraft, SendEntry,
    SendEvents, SendResult,
};
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::{Command, Envelope, EnvelopeKey, RawEvent, RootSecret, Signed};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::cloud::{self, CloudState};
use crate::verdicts::{self, Verdicts};

/// For the slowest machine. Only failing tests wait this long.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Two images, as far as anything looks at them.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";
pub(crate) const GIF: &[u8] = b"GIF89a and so on";

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    /// Responds with this status and accepts nothing.
    Refuse(u16),
    /// Accepts all events and responds with 500.
    LoseResponse,
    /// Accepts the first few.
    Part(usize),
    /// Responds after this time.
    Delay(Duration),
}

/// An event as the control plane received it.
#[derive(Debug, Clone)]
pub(crate) struct Delivered {
    pub(crate) deduplication_id: String,
    pub(crate) message_id: EnvelopeId,
    pub(crate) sequence: u64,
    pub(crate) body: Value,
    /// When the agent emitted it, by its own clock.
    pub(crate) occurred_at: Option<Timestamp>,
    /// The exact JSON of the signed envelope.
    pub(crate) sealed: String,
}

impl Delivered {
    pub(crate) fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap_or("?")
    }

    /// The type, and the details that distinguish events of that type.
    pub(crate) fn short(&self) -> String {
        let b = &self.body;
        let part = |v: &Value| v.as_str().map(|s| format!(" {s}")).unwrap_or_default();
        let content = match b["content"]["kind"].as_str() {
            Some("tool_use") => format!(" tool{}", part(&b["content"]["toolName"])),
            Some(kind) => format!(" {kind}{}", part(&b["content"]["text"])),
            None => String::new(),
        };
        let more =
            [&b["step"], &b["phase"], &b["code"], &b["turnId"], &b["name"], &b["reason"]].map(part).concat();
        let turn = if self.kind() == "assistant_message" { String::new() } else { more };
        format!("{}{content}{turn}", self.kind())
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    delivered: Vec<Delivered>,
    taken: HashSet<String>,
    heartbeats: usize,
    plans: VecDeque<Plan>,
    /// Responds to every request with this status.
    pub(crate) status: Option<u16>,
    /// Number of requests with the token.
    pub(crate) asked: usize,
    commands: VecDeque<(String, String)>,
    deleted: Vec<String>,
    lose_deletes: bool,
    refuse_events: bool,
    blobs: BTreeMap<String, Vec<u8>>,
    /// Somebody follows the session, and receives drafts.
    is_followed: bool,
    /// The draft, as its follower sees it.
    draft: Option<(DraftKind, String)>,
    /// The first parts of drafts.
    begun_drafts: Vec<String>,
    /// The images of messages, by their hash.
    images: BTreeMap<String, Vec<u8>>,
    /// Blobs and events in order of arrival.
    arrivals: Vec<String>,
    /// The sequences of the accepted events of each request.
    requests: Vec<Vec<u64>>,
    /// State of the fakes of SQS and S3.
    pub(crate) cloud: CloudState,
    pub(crate) verdicts: Verdicts,
}

#[derive(Clone)]
pub(crate) struct Gateway {
    inner: Arc<Mutex<Inner>>,
    connections: Arc<AtomicUsize>,
    changed: Arc<Notify>,
    pub(crate) url: String,
    pub(crate) session: AgentSessionId,
    pub(crate) run: RunId,
    pub(crate) secret: RootSecret,
    key: EnvelopeKey,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::of(AgentSessionId::new(Uuid::now_v7())).await
    }

    /// A gateway for the next run of `other`'s session.
    pub(crate) async fn of_session(other: &Self) -> Self {
        Self::of(other.session).await
    }

    async fn of(session: AgentSessionId) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secret = RootSecret::new("k1", vec![9; 32]).unwrap();
        let run = RunId::new(Uuid::now_v7());
        let gateway = Self {
            inner: Arc::default(),
            connections: Arc::default(),
            changed: Arc::default(),
            url: format!("http://{}", listener.local_addr().unwrap()),
            session,
            run,
            key: secret.envelope_key(run),
            secret,
        };
        let router = Router::new()
            .route("/internal/gateway/events", post(events))
            .route("/internal/gateway/commands/receive", post(receive))
            .route("/internal/gateway/commands/delete", post(delete))
            .route("/internal/gateway/blobs/{sha256}", put(blob))
            .route("/internal/gateway/drafts", post(draft))
            .route("/internal/gateway/images/{sha256}", get(image))
            .merge(cloud::routes())
            .merge(verdicts::routes())
            .layer(DefaultBodyLimit::disable())
            .with_state(gateway.clone());
        let connections = Arc::clone(&gateway.connections);
        let listener = listener.tap_io(move |_| _ = connections.fetch_add(1, Ordering::SeqCst));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        gateway
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        let result = f(&mut self.inner.lock().unwrap());
        self.changed.notify_waiters();
        result
    }

    /// Reads the state without a change notification.
    pub(crate) fn look<T>(&self, f: impl FnOnce(&Inner) -> T) -> T {
        f(&self.inner.lock().unwrap())
    }

    pub(crate) fn plan(&self, plans: impl IntoIterator<Item = Plan>) {
        self.with(|inner| inner.plans.extend(plans));
    }

    pub(crate) fn status(&self, status: Option<u16>) {
        self.with(|inner| inner.status = status);
    }

    pub(crate) fn lose_deletes(&self, lose: bool) {
        self.with(|inner| inner.lose_deletes = lose);
    }

    /// Responds with 503 to events only.
    pub(crate) fn refuse_events(&self, refuse: bool) {
        self.with(|inner| inner.refuse_events = refuse);
    }

    pub(crate) fn delivered(&self) -> Vec<Delivered> {
        self.look(|inner| inner.delivered.clone())
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.look(|inner| inner.heartbeats)
    }

    pub(crate) fn blobs(&self) -> BTreeMap<String, Vec<u8>> {
        self.look(|inner| inner.blobs.clone())
    }

    /// Lets somebody follow the session.
    pub(crate) fn follow(&self) {
        self.with(|inner| inner.is_followed = true);
    }

    /// Waits until the follower sees this draft.
    pub(crate) async fn shows_draft(&self, kind: DraftKind, text: &str) {
        let shown = |gateway: &Self| {
            let draft = gateway.look(|inner| inner.draft.clone());
            draft.is_some_and(|(of, shown)| of == kind && shown == text).then_some(())
        };
        self.until(&format!("the draft {text}"), shown).await;
    }

    pub(crate) fn begun_drafts(&self) -> Vec<String> {
        self.look(|inner| inner.begun_drafts.clone())
    }

    /// Stores an image, as the control plane does before it sends a message with it.
    pub(crate) fn image(&self, bytes: &[u8]) -> MessageImage {
        let sha256 = sha256_hex(bytes);
        self.with(|inner| inner.images.insert(sha256.clone(), bytes.to_vec()));
        MessageImage {
            media_type: ImageType::of(bytes).unwrap(),
            sha256: ContentHash::parse(sha256).unwrap(),
            size_bytes: u64::try_from(bytes.len()).unwrap(),
            session_id: self.session,
        }
    }

    pub(crate) fn arrivals(&self) -> Vec<String> {
        self.look(|inner| inner.arrivals.clone())
    }

    /// The sequences of the accepted events of each request.
    pub(crate) fn requests(&self) -> Vec<Vec<u64>> {
        self.look(|inner| inner.requests.clone())
    }

    /// The short forms of all events, without the acknowledgement of `begin` and earlier ones.
    pub(crate) fn story(&self) -> Vec<String> {
        self.delivered().iter().map(Delivered::short).collect()
    }

    pub(crate) fn command_id() -> CommandId {
        CommandId::new(Uuid::now_v7())
    }

    pub(crate) fn send(&self, command: Command) -> CommandId {
        let id = Self::command_id();
        self.send_as(id, 1, command);
        id
    }

    pub(crate) fn send_as(&self, command_id: CommandId, attempt: u8, command: Command) {
        self.send_text(self.envelope(command_id, attempt, command));
    }

    /// A command in the form of a queue message, and its id.
    pub(crate) fn issued(&self, command: Command) -> (CommandId, String) {
        let id = Self::command_id();
        (id, self.envelope(id, 1, command))
    }

    fn envelope(&self, command_id: CommandId, attempt: u8, command: Command) -> String {
        let envelope = Envelope {
            protocol_version: PROTOCOL_VERSION,
            session_id: self.session,
            run_id: self.run,
            message_id: EnvelopeId::new(Uuid::now_v7()),
            sequence: None,
            time: Timestamp::from_millis(0),
            occurred_at: None,
            traceparent: None,
            body: IssuedCommand { command_id, attempt, command },
        };
        serde_json::to_string(&envelope).unwrap()
    }

    pub(crate) fn send_text(&self, body: String) {
        self.with(|inner| inner.commands.push_back((Uuid::now_v7().to_string(), body)));
    }

    pub(crate) fn undeleted(&self) -> usize {
        self.look(|inner| inner.commands.len())
    }

    pub(crate) async fn until<T>(&self, what: &str, done: impl FnMut(&Self) -> Option<T>) -> T {
        self.until_within(DEADLINE, what, done).await
    }

    /// Like [`Self::until`] with another deadline, for third-party programs that start slowly.
    pub(crate) async fn until_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut done: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let waited = tokio::time::timeout(limit, async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = done(self) {
                    return found;
                }
                // The state may be a file of the sidecar, which sends no notification.
                let _ = tokio::time::timeout(Duration::from_millis(200), changed).await;
            }
        })
        .await;
        waited.unwrap_or_else(|_| panic!("waited for {what} in vain; there was {:#?}", self.story()))
    }

    /// Returns the position of the first event whose short form begins with `short`.
    pub(crate) async fn sees(&self, short: &str) -> usize {
        self.sees_nth(short, 1).await
    }

    /// The nth such event, from 1. Inspects each event only once.
    pub(crate) async fn sees_nth(&self, short: &str, n: usize) -> usize {
        let (mut looked, mut found) = (0, 0);
        self.until(short, |g| {
            g.look(|inner| {
                let new = inner.delivered.iter().enumerate().skip(looked);
                for (at, event) in new {
                    looked = at + 1;
                    found += usize::from(event.short().starts_with(short));
                    if found == n {
                        return Some(at);
                    }
                }
                None
            })
        })
        .await
    }

    pub(crate) async fn acknowledged(&self, id: CommandId, step: &str) -> Delivered {
        let id = id.to_string();
        self.until(&format!("{step} of {id}"), |g| {
            let answers = |e: &&Delivered| {
                e.body["commandId"] == *id
                    && [&e.body["step"], &e.body["phase"], &e.body["code"]].iter().any(|s| **s == step)
            };
            g.look(|inner| inner.delivered.iter().find(answers).cloned())
        })
        .await
    }

    /// Sends a command and waits until it is done.
    pub(crate) async fn send_until_done(&self, command: Command) {
        let id = self.send(command);
        self.acknowledged(id, "done").await;
    }

    /// Whether an event has come whose short form begins with `short`.
    pub(crate) fn has_seen(&self, short: &str) -> bool {
        self.story().iter().any(|event| event.starts_with(short))
    }

    /// The position of the first such event. One has come.
    pub(crate) fn position_of(&self, short: &str) -> usize {
        let story = self.story();
        let found = story.iter().position(|event| event.starts_with(short));
        found.unwrap_or_else(|| panic!("{short}: {story:#?}"))
    }

    /// Waits while an agent that does not hold would begin its work.
    pub(crate) async fn time_passes(&self) {
        let beats = self.heartbeats();
        self.until("time passes", |gateway| (gateway.heartbeats() > beats + 2).then_some(())).await;
    }
}

pub(crate) fn authorised(gateway: &Gateway, headers: &HeaderMap) -> Result<(), StatusCode> {
    let token = format!("Bearer {}", gateway.secret.gateway_token(gateway.session, gateway.run).as_str());
    assert_eq!(headers["authorization"], token.as_str(), "the token of the launch is used");
    let status = gateway.with(|inner| {
        inner.asked += 1;
        inner.status
    });
    match status {
        Some(status) => Err(StatusCode::from_u16(status).unwrap()),
        None => Ok(()),
    }
}

fn read(gateway: &Gateway, deduplication_id: String, sealed: String) -> (Option<u64>, Delivered) {
    let envelope: Envelope<Box<RawValue>> =
        Signed::parse(&sealed).unwrap().open(&gateway.key).expect("it is authentic");
    let body = serde_json::from_str(envelope.body.get()).unwrap();
    let sequence = envelope.sequence.unwrap_or(0);
    let (message_id, occurred_at) = (envelope.message_id, envelope.occurred_at);
    let delivered = Delivered { deduplication_id, message_id, sequence, body, occurred_at, sealed };
    (envelope.sequence, delivered)
}

pub(crate) enum Taken {
    /// These positions were accepted.
    Accepted(Vec<usize>),
    /// None was accepted, or the response must not say so.
    Refused(StatusCode),
}

/// Handles events according to the plan for this request.
pub(crate) async fn take(gateway: &Gateway, entries: Vec<SendEntry>) -> Taken {
    assert!(entries.len() <= 10, "SQS takes at most 10");
    let mut most = usize::MAX;
    let mut answer_lost = false;
    let first = read(gateway, String::new(), entries[0].body.clone());
    if first.0.is_some() {
        if gateway.look(|inner| inner.refuse_events) {
            return Taken::Refused(StatusCode::SERVICE_UNAVAILABLE);
        }
        // Plans apply to events only, because the timing of heartbeats is not known.
        match gateway.with(|inner| inner.plans.pop_front()) {
            Some(Plan::Refuse(status)) => return Taken::Refused(StatusCode::from_u16(status).unwrap()),
            Some(Plan::LoseResponse) => answer_lost = true,
            Some(Plan::Part(part)) => most = part,
            Some(Plan::Delay(time)) => tokio::time::sleep(time).await,
            None => {}
        }
    }
    let (mut accepted, mut sequences) = (Vec::new(), Vec::new());
    for (at, entry) in entries.into_iter().enumerate().take(most) {
        let (sequence, delivered) = read(gateway, entry.deduplication_id, entry.body);
        sequences.extend(sequence);
        gateway.with(|inner| match sequence {
            None => inner.heartbeats += 1,
            // Like SQS: a repeated id is accepted and not delivered.
            Some(_) if !inner.taken.insert(delivered.deduplication_id.clone()) => {}
            Some(sequence) => {
                inner.arrivals.push(format!("event {sequence}"));
                inner.delivered.push(delivered);
            }
        });
        accepted.push(at);
    }
    gateway.with(|inner| inner.requests.push(sequences));
    if answer_lost { Taken::Refused(StatusCode::INTERNAL_SERVER_ERROR) } else { Taken::Accepted(accepted) }
}

async fn events(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
    Json(request): Json<SendEvents>,
) -> Result<Json<SendResult>, StatusCode> {
    authorised(&gateway, &headers)?;
    match take(&gateway, request.entries).await {
        Taken::Accepted(accepted) => Ok(Json(SendResult { accepted })),
        Taken::Refused(status) => Err(status),
    }
}

/// Returns none if `stop` is true.
pub(crate) async fn commands(
    gateway: &Gateway,
    max: usize,
    wait: Duration,
    stop: impl Fn() -> Result<(), StatusCode>,
) -> Result<Vec<ReceivedCommand>, StatusCode> {
    let until = tokio::time::Instant::now() + wait;
    loop {
        let changed = gateway.changed.notified();
        let messages: Vec<_> = {
            let inner = gateway.inner.lock().unwrap();
            let entries = inner.commands.iter().take(max).cloned();
            entries.map(|(receipt, body)| ReceivedCommand { receipt, body }).collect()
        };
        if !messages.is_empty() || tokio::time::timeout_at(until, changed).await.is_err() {
            return Ok(messages);
        }
        stop()?;
    }
}

async fn receive(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
    Json(request): Json<ReceiveCommands>,
) -> Result<Json<ReceivedCommands>, StatusCode> {
    authorised(&gateway, &headers)?;
    let wait = Duration::from_secs_f64(request.wait_seconds);
    let messages = commands(&gateway, request.max, wait, || authorised(&gateway, &headers)).await?;
    Ok(Json(ReceivedCommands { messages }))
}

/// Returns false if the deletion must fail.
pub(crate) fn remove(gateway: &Gateway, receipts: Vec<String>) -> bool {
    gateway.with(|inner| {
        if inner.lose_deletes {
            return false;
        }
        inner.commands.retain(|(receipt, _)| !receipts.contains(receipt));
        inner.deleted.extend(receipts);
        true
    })
}

async fn delete(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
    Json(request): Json<DeleteCommands>,
) -> Result<StatusCode, StatusCode> {
    authorised(&gateway, &headers)?;
    if remove(&gateway, request.receipts) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(StatusCode::SERVICE_UNAVAILABLE)
    }
}

pub(crate) fn keep(gateway: &Gateway, sha256: String, bytes: &[u8]) {
    assert_eq!(sha256_hex(bytes), sha256);
    gateway.with(|inner| {
        inner.arrivals.push("blob".into());
        inner.blobs.insert(sha256, bytes.to_vec());
    });
}

async fn blob(
    State(gateway): State<Gateway>,
    Path(sha256): Path<String>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<StatusCode, StatusCode> {
    authorised(&gateway, &headers)?;
    keep(&gateway, sha256, &bytes);
    Ok(StatusCode::NO_CONTENT)
}

/// As on a server, part 0 replaces the draft, and the others follow it. A part is early until the gateway has the events before its text.
async fn draft(State(gateway): State<Gateway>, Json(sent): Json<SendDraft>) -> Json<DraftResult> {
    gateway.with(|inner| {
        let last = inner.delivered.iter().map(|event| event.sequence).max().unwrap_or(0);
        let is_shown = inner.is_followed && !sent.text.is_empty();
        let is_early = is_shown && sent.after > last;
        if is_shown && !is_early {
            match &mut inner.draft {
                Some((kind, text)) if sent.part > 0 && *kind == sent.kind => text.push_str(&sent.text),
                draft => {
                    inner.begun_drafts.push(sent.text.clone());
                    *draft = Some((sent.kind, sent.text));
                }
            }
        }
        let followers = inner.is_followed.then_some(1);
        Json(DraftResult { followers, is_early })
    })
}

async fn image(
    State(gateway): State<Gateway>,
    Path(sha256): Path<String>,
    headers: HeaderMap,
) -> Result<Bytes, StatusCode> {
    authorised(&gateway, &headers)?;
    let found = gateway.look(|inner| inner.images.get(&sha256).cloned());
    found.map(Bytes::from).ok_or(StatusCode::NOT_FOUND)
}

pub(crate) fn event(delivered: &Delivered) -> RawEvent {
    serde_json::from_value(delivered.body.clone()).unwrap()
}
