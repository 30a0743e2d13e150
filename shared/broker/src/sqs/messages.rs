//! Conversion of messages to and from SQS.

use aws_sdk_sqs::types::{
    Message, MessageAttributeValue, MessageSystemAttributeName, SendMessageBatchRequestEntry,
};
use sha2::{Digest as _, Sha256};

use super::errors;
use crate::queue::{
    DeadLetter, MAX_MESSAGE_BYTES, OutgoingMessage, QueueError, QueueName, Receipt, Received,
};

/// Marks a message as a former dead letter (decision 9).
pub const REDRIVEN: &str = "redriven";
pub const CAUSE: &str = "cause";
pub const RECEIVES: &str = "receives";

/// Most bytes of the messages of one request. SQS now allows four times as much, but not in all regions and accounts.
const MAX_REQUEST_BYTES: usize = MAX_MESSAGE_BYTES;
const MAX_CAUSE: usize = 2048;

/// Escapes characters that SQS does not accept, as in JSON. In JSON they occur only in strings, so the content stays the same.
/// Other texts with such characters are refused.
pub(super) fn sendable(mut message: OutgoingMessage) -> Result<OutgoingMessage, QueueError> {
    use std::fmt::Write as _;
    let Some(first) = message.body.chars().find(|c| !allowed(*c)) else { return Ok(message) };
    let mut body = String::with_capacity(message.body.len() + 64);
    for c in message.body.chars() {
        if allowed(c) {
            body.push(c);
        } else {
            // All of them are below U+10000, so one escape is enough. Writing to a string cannot fail.
            let _ = write!(body, "\\u{:04x}", u32::from(c));
        }
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(&body).is_err() {
        return Err(QueueError::Invalid(format!("SQS does not accept U+{:04X}", u32::from(first))));
    }
    message.body = body;
    Ok(message)
}

/// Characters of XML 1.0.
const fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Makes a cause valid as an attribute: shortens it and replaces characters that SQS does not accept.
pub(super) fn printable(cause: &str) -> String {
    let mut text = String::with_capacity(cause.len().min(MAX_CAUSE));
    for c in cause.chars().map(|c| if allowed(c) { c } else { '\u{fffd}' }) {
        if text.len() + c.len_utf8() > MAX_CAUSE {
            break;
        }
        text.push(c);
    }
    if text.is_empty() { "unknown".to_owned() } else { text }
}

pub(super) fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

pub(super) fn text(value: &str) -> Result<MessageAttributeValue, QueueError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().map_err(errors::built)
}

pub(super) fn number(value: u32) -> Result<MessageAttributeValue, QueueError> {
    let value = value.to_string();
    MessageAttributeValue::builder().data_type("Number").string_value(value).build().map_err(errors::built)
}

pub(super) fn entry(
    queue: &QueueName,
    position: usize,
    message: &OutgoingMessage,
) -> Result<SendMessageBatchRequestEntry, QueueError> {
    let entry = SendMessageBatchRequestEntry::builder().id(position.to_string()).message_body(&message.body);
    let entry = if queue.is_fifo() {
        entry.message_group_id(&message.group).message_deduplication_id(&message.deduplication_id)
    } else {
        entry.delay_seconds(super::seconds(message.delay))
    };
    let entry = if message.redriven { entry.message_attributes(REDRIVEN, text("true")?) } else { entry };
    entry.build().map_err(errors::built)
}

/// Splits messages into requests below the size limit, in order.
pub(super) fn requests(messages: Vec<(usize, OutgoingMessage)>) -> Vec<Vec<(usize, OutgoingMessage)>> {
    let mut requests: Vec<Vec<_>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = message.1.body.len() + if message.1.redriven { 32 } else { 0 };
        match requests.last_mut() {
            Some(request) if bytes + size <= MAX_REQUEST_BYTES => {
                bytes += size;
                request.push(message);
            }
            _ => {
                bytes = size;
                requests.push(vec![message]);
            }
        }
    }
    requests
}

/// Converts a received message. Messages of standard queues have no group.
pub(super) fn received(message: Message) -> Option<Received> {
    let receive_count = receives(&message).unwrap_or(1);
    let group = group(&message);
    let redriven = attribute(&message, REDRIVEN).is_some();
    let receipt = Receipt(message.receipt_handle?);
    Some(Received { receipt, group, body: message.body?, receive_count, redriven })
}

/// Converts a dead letter, whether Pilothouse or SQS moved it.
pub(super) fn dead_letter(message: Message) -> Option<DeadLetter> {
    let group = group(&message);
    let dead_lettered = attribute(&message, RECEIVES).and_then(|n| n.parse().ok());
    // SQS continues the count of the original queue.
    let receive_count =
        dead_lettered.or_else(|| receives(&message).map(|n| n.saturating_sub(1))).unwrap_or(0);
    let cause = attribute(&message, CAUSE)
        .map_or_else(|| "received too often and never deleted".to_owned(), ToOwned::to_owned);
    let id = message.message_id?;
    let receipt = Receipt(message.receipt_handle?);
    Some(DeadLetter { id, receipt, group, body: message.body?, cause, receive_count })
}

fn attribute<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.message_attributes.as_ref()?.get(name)?.string_value()
}

fn system(message: &Message, name: &MessageSystemAttributeName) -> Option<String> {
    message.attributes.as_ref()?.get(name).cloned()
}

fn group(message: &Message) -> String {
    system(message, &MessageSystemAttributeName::MessageGroupId).unwrap_or_default()
}

fn receives(message: &Message) -> Option<u32> {
    system(message, &MessageSystemAttributeName::ApproximateReceiveCount)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> OutgoingMessage {
        OutgoingMessage::new("g", "d", "x".repeat(bytes))
    }

    fn sizes(messages: &[usize]) -> Vec<Vec<usize>> {
        let messages = messages.iter().map(|bytes| message(*bytes)).enumerate().collect();
        requests(messages).iter().map(|r| r.iter().map(|(position, _)| *position).collect()).collect()
    }

    #[test]
    fn oversized_batch_is_split_in_order() {
        let half = MAX_REQUEST_BYTES / 2;
        assert_eq!(sizes(&[1, 1, 1]), [vec![0, 1, 2]]);
        assert_eq!(sizes(&[half, half]), [vec![0, 1]]);
        assert_eq!(sizes(&[half, half, 1, half]), [vec![0, 1], vec![2, 3]]);
        assert_eq!(sizes(&[1, MAX_REQUEST_BYTES, 1]), [vec![0], vec![1], vec![2]]);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn invalid_sqs_characters_are_escaped_or_replaced() {
        let of = |body: String| OutgoingMessage { body, ..message(0) };
        let unknown = (0..0x20).filter(|c| ![0x9, 0xa, 0xd].contains(c)).chain([0xfffe, 0xffff]);
        for bad in unknown.map(|c| char::from_u32(c).unwrap()) {
            let sent = sendable(of(format!(r#"{{"said":"a{bad}b"}}"#))).unwrap().body;
            assert!(sent.chars().all(allowed), "{sent:?}");
            let read: serde_json::Value = serde_json::from_str(&sent).unwrap();
            assert_eq!(read["said"], format!("a{bad}b"));
            assert!(sendable(of(format!("a{bad}"))).is_err(), "cannot be escaped outside JSON: {bad:?}");
            assert_eq!(printable(&format!("a{bad}")), "a\u{fffd}");
        }
        let every = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| allowed(*c)).step_by(97);
        let kept: String = every.chain("a\t\n\r \u{7f}é\u{fffd}\u{10ffff}".chars()).collect();
        assert_eq!(sendable(of(kept.clone())).unwrap().body, kept, "as it is, JSON or not");
        assert_eq!(printable(""), "unknown");
        assert!(printable(&"é".repeat(MAX_CAUSE)).len() <= MAX_CAUSE);
    }
}
