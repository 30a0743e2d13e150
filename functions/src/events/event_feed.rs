//! Publishes journal entries to notifications, webhooks and the event bus (S0 8.10; decision 37).
//!
//! | step | deduplication |
//! |---|---|
//! | The relay sends a reference to a journal entry to the announcements queue, one group per owner. | the published range of the entry |
//! | This function appends announcements and notifications to the owner's feed. | by the published range in the same commit |
//! | It sends a message for the event bus, each endpoint and each browser to the webhooks queue. | by the queue |
//! | [`webhook_delivery`](crate::events::webhook_delivery) delivers to an endpoint, | by the delivery record |
//! | or publishes to the event bus and the topic. | none: at least once; consumers deduplicate by id |
//!
//! The queue is separate from the reactions queue, because external systems may fail for hours and must not delay commands,
//! launches or slots.

use futures_util::future::try_join_all;
use pilothouse_app::batch::{BatchOutcome, MessageOutcome, groups_of};
use pilothouse_app::function::requirements::{ANNOUNCEMENTS, EVENT_FEED};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_app::texts::NotificationText;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_app::{App, error_chain};
use pilothouse_broker::{MAX_BATCH, OutgoingMessage, QueueError, Received};
use pilothouse_domain::announcement::{
    FeedEntry, NotificationKind, Publishable, aggregate_publishes, publishes,
};
use pilothouse_domain::journal::{AggregateJournalEntry, AnyAggregateEntry, JournalEntry};
use pilothouse_domain::{AgentSessionId, DomainContext, EventId, UserId};
use pilothouse_store::aggregate::AggregateRef;
use pilothouse_store::{Commit, FeedHead, Loaded, PublishedRange};
use serde::{Deserialize, Serialize};

use crate::events::delivery_message::{self, Receiver};

pub const FUNCTION: EventFunction = EventFunction::new(
    "announce",
    &[Subscription::queue(ANNOUNCEMENTS, |ctx, batch| {
        Box::pin(async move { Ok(process(&ctx.app, batch).await) })
    })],
    EVENT_FEED,
)
.summary("Publish journal entries to feeds, webhooks and the event bus");

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    #[serde(flatten)]
    journal: Journal,
    sequence: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Journal {
    SessionId(AgentSessionId),
    Aggregate(AggregateRef),
}

struct Entry {
    id: EventId,
    owner: UserId,
    feed_entries: Vec<FeedEntry>,
}

/// The message for an entry of a session's journal, if the entry publishes anything.
pub fn message(entry: &JournalEntry) -> Option<OutgoingMessage> {
    let pointer = Pointer { journal: Journal::SessionId(entry.session_id), sequence: entry.sequence };
    if publishes(entry) { outgoing_message(&entry.owner_id, entry.id, &pointer) } else { None }
}

/// The message for an entry of another aggregate's journal, if the entry publishes anything.
pub fn message_for_aggregate(entry: &AnyAggregateEntry) -> Option<OutgoingMessage> {
    match entry {
        AnyAggregateEntry::Brake(_) => None,
        AnyAggregateEntry::Artifact(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Chain(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Coherence(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Skill(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Template(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::Project(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::ProjectAgent(entry) => message_for_entry_of(entry),
        AnyAggregateEntry::ProjectAccount(entry) => message_for_entry_of(entry),
    }
}

fn message_for_entry_of<E: Publishable>(entry: &AggregateJournalEntry<E>) -> Option<OutgoingMessage> {
    let aggregate = AggregateRef { kind: entry.kind.clone(), id: entry.aggregate_id.clone() };
    let pointer = Pointer { journal: Journal::Aggregate(aggregate), sequence: entry.sequence };
    if aggregate_publishes(entry) { outgoing_message(&entry.owner_id, entry.id, &pointer) } else { None }
}

fn outgoing_message(owner: &UserId, id: EventId, pointer: &Pointer) -> Option<OutgoingMessage> {
    let body = serde_json::to_string(pointer).ok()?;
    Some(OutgoingMessage::new(queues::owner_group(owner), id.to_string(), body))
}

pub async fn process_and_settle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let outcome = process(app, batch).await;
    pilothouse_app::batch::settle(app.broker.as_ref(), &queues::announcements(), outcome).await
}

/// Publishes the entries of each owner in one commit, or one by one if that fails. The caller settles the batch.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    let mut outcome = BatchOutcome::default();
    for messages in groups_of(batch) {
        match publish_all(app, &messages).await {
            Ok(()) => outcome.done.extend(messages.into_iter().map(|message| message.receipt)),
            Err(cause) => {
                tracing::warn!(cause = %error_chain(&cause), "entries could not be published together");
                outcome.merge(one_by_one(app, messages).await);
            }
        }
    }
    outcome
}

async fn one_by_one(app: &App, messages: Vec<Received>) -> BatchOutcome {
    pilothouse_app::batch::process_batch(app, &queues::announcements(), messages, |app, message| async move {
        publish_all(&app, &[message]).await.map(|()| MessageOutcome::Done)
    })
    .await
}

/// Publishes entries of one owner.
async fn publish_all(app: &App, messages: &[Received]) -> Result<(), Problem> {
    let entries = try_join_all(messages.iter().map(|message| entry_of(app, &message.body))).await?;
    let Some(owner) = entries.first().map(|entry| entry.owner.clone()) else { return Ok(()) };
    let ranges = append(app, &owner, &entries).await?;
    let published = entries.iter().zip(ranges);
    let published: Vec<_> =
        published.flat_map(|(entry, range)| range.numbers().zip(&entry.feed_entries)).collect();
    enqueue_deliveries(app, &owner, &published).await
}

async fn entry_of(app: &App, body: &str) -> Result<Entry, Problem> {
    let pointer: Pointer = serde_json::from_str(body).map_err(Problem::internal)?;
    let entry = find_entry(app, &pointer).await?;
    entry.ok_or_else(|| Problem::internal(format!("the entry of {pointer:?} is missing")))
}

async fn find_entry(app: &App, pointer: &Pointer) -> Result<Option<Entry>, Problem> {
    let sequence = pointer.sequence;
    Ok(match &pointer.journal {
        Journal::SessionId(session) => {
            let entries = app.store.journal(*session, sequence.saturating_sub(1), 1).await?;
            let entry = entries.into_iter().find(|entry| entry.sequence == sequence);
            entry.map(|entry| Entry {
                id: entry.id,
                feed_entries: FeedEntry::of(&entry, NotificationText::notification_text),
                owner: entry.owner_id,
            })
        }
        Journal::Aggregate(aggregate) => {
            let entry = app.store.aggregate_journal_entry(aggregate, sequence).await?;
            entry.map(|entry| match entry {
                AnyAggregateEntry::Brake(entry) => {
                    Entry { id: entry.id, owner: entry.owner_id, feed_entries: Vec::new() }
                }
                AnyAggregateEntry::Artifact(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::Chain(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::Coherence(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::Skill(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::Template(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::Project(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::ProjectAgent(entry) => entry_of_aggregate(entry),
                AnyAggregateEntry::ProjectAccount(entry) => entry_of_aggregate(entry),
            })
        }
    })
}

fn entry_of_aggregate<E: NotificationText>(entry: AggregateJournalEntry<E>) -> Entry {
    let feed_entries = FeedEntry::of_aggregate(&entry, NotificationText::notification_text);
    Entry { id: entry.id, feed_entries, owner: entry.owner_id }
}

/// Appends the feed entries to the feed of the owner, except those that an earlier attempt appended, and returns the numbers of each
/// entry. Conflicts are rare, because the queue keeps the entries of an owner in one group.
async fn append(app: &App, owner: &UserId, entries: &[Entry]) -> Result<Vec<PublishedRange>, Problem> {
    let load = async || {
        let published = entries.iter().map(|entry| app.store.published_range(owner, entry.id));
        Ok((try_join_all(published).await?, app.store.feed(owner).await?))
    };
    let decide = |state: (Vec<Option<PublishedRange>>, Loaded<FeedHead>), ctx: &mut DomainContext<'_>| {
        let (published, head) = state;
        if let Some(ranges) = published.iter().copied().collect() {
            return Ok(Decision::Unchanged(ranges));
        }
        let is_new = published.iter().map(Option::is_none);
        let new = entries.iter().zip(is_new).filter(|(_, is_new)| *is_new).map(|(entry, _)| entry);
        let mut commit = Commit::new();
        let mut last = commit.publish(owner, &head, new.flat_map(|entry| &entry.feed_entries))?.first - 1;
        let mut ranges = Vec::with_capacity(entries.len());
        for (entry, range) in entries.iter().zip(published) {
            if let Some(range) = range {
                ranges.push(range);
                continue;
            }
            let range = PublishedRange::after(last, entry.feed_entries.len());
            commit.published_range(owner, entry.id, range, ctx.now)?;
            ranges.push(range);
            last = range.last;
        }
        Ok(Decision::Commit(commit, ranges))
    };
    app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await
}

/// Sends a message for each webhook and announcement that it accepts, for each browser and notification that it receives, and one
/// per number for the event bus, if there is one.
async fn enqueue_deliveries(
    app: &App,
    owner: &UserId,
    published: &[(u64, &FeedEntry)],
) -> Result<(), Problem> {
    let webhooks = app.store.webhooks(owner).await?;
    let mut messages = Vec::new();
    for (sequence, _) in published {
        if app.integrations.has_bus {
            messages.push(delivery_message::message(owner, Receiver::Bus {}, *sequence)?);
        }
        if webhooks.is_empty() {
            continue;
        }
        let Some(announcement) = app.store.announcement(owner, *sequence).await? else { continue };
        for webhook in webhooks.iter().filter(|webhook| webhook.accepts(&announcement.event)) {
            let receiver = Receiver::Webhook { webhook_id: webhook.id };
            messages.push(delivery_message::message(owner, receiver, *sequence)?);
        }
    }
    let notices = published.iter();
    let notices: Vec<_> =
        notices.filter_map(|(number, entry)| Some((*number, entry.notice.as_ref()?.0))).collect();
    messages.extend(messages_to_browsers(app, owner, &notices).await?);
    send(app, &messages).await
}

/// Sends a message for each browser that receives a notification, and one for the event bus, if there is one. For a notification that
/// follows from no journal entry. The queue drops repetitions within five minutes.
pub(crate) async fn enqueue_notice(
    app: &App,
    owner: &UserId,
    sequence: u64,
    kind: NotificationKind,
) -> Result<(), Problem> {
    let mut messages = messages_to_browsers(app, owner, &[(sequence, kind)]).await?;
    if app.integrations.has_bus {
        messages.push(delivery_message::message(owner, Receiver::Bus {}, sequence)?);
    }
    send(app, &messages).await
}

/// The messages for the browsers that receive these notifications.
async fn messages_to_browsers(
    app: &App,
    owner: &UserId,
    notices: &[(u64, NotificationKind)],
) -> Result<Vec<OutgoingMessage>, Problem> {
    let mut messages = Vec::new();
    if notices.is_empty() {
        return Ok(messages);
    }
    let browsers = app.store.web_push_subscriptions(owner).await?.value;
    for &(sequence, kind) in notices {
        for web_push_subscription_id in browsers.receivers(kind) {
            let receiver = Receiver::Browser { web_push_subscription_id };
            messages.push(delivery_message::message(owner, receiver, sequence)?);
        }
    }
    Ok(messages)
}

async fn send(app: &App, messages: &[OutgoingMessage]) -> Result<(), Problem> {
    for batch in messages.chunks(MAX_BATCH) {
        let outcome =
            app.broker.send(&queues::webhooks(), batch.to_vec()).await.map_err(Problem::internal)?;
        if let Some((_, error)) = outcome.failed.into_iter().next() {
            return Err(Problem::internal(error));
        }
    }
    Ok(())
}
