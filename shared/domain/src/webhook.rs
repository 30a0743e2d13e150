//! Webhooks (ruling 37): endpoints of an owner that are told of events, and what became of each telling.
//!
//! An address must not lead the control plane where its owner could not go: into its own machine, its network, or the
//! metadata of a cloud. [`Reach`] says how far it may lead; the same rule is applied to the address as it is written, and
//! again to what its name resolves to at the time of sending.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::announcement::ANNOUNCED;
use crate::text::WebhookDescription;
use crate::{Timestamp, UserId, WebhookId};

/// How far webhooks may lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// To public addresses alone, by https.
    #[default]
    Public,
    /// Also to the machine of the server itself, there by http too.
    Loopback,
    /// Also to private networks, by http too.
    Private,
}

/// A text that names no reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be public, loopback or private")]
pub struct NoReach;

impl std::str::FromStr for Reach {
    type Err = NoReach;

    fn from_str(text: &str) -> Result<Self, NoReach> {
        match text {
            "public" => Ok(Self::Public),
            "loopback" => Ok(Self::Loopback),
            "private" => Ok(Self::Private),
            _ => Err(NoReach),
        }
    }
}

impl Reach {
    /// Whether a webhook may lead to an address of the network. Link-local addresses, where clouds keep credentials, are
    /// never within reach.
    pub fn admits(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.admits_v4(address),
            IpAddr::V6(address) => self.admits_v6(address),
        }
    }

    fn admits_v4(self, address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        if address.is_loopback() {
            return self >= Self::Loopback;
        }
        if address.is_private() || (a == 100 && (64..128).contains(&b)) {
            return self >= Self::Private;
        }
        let never = a == 0
            || a >= 224
            || address.is_link_local()
            || address.is_documentation()
            || (a == 192 && b == 0 && c == 0)
            || (a == 198 && (18..20).contains(&b));
        !never
    }

    fn admits_v6(self, address: Ipv6Addr) -> bool {
        let segments = address.segments();
        if address.is_loopback() {
            return self >= Self::Loopback;
        }
        // Addresses that stand for one of IPv4: mapped, translated (NAT64), tunnelled (6to4).
        let within = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            self.admits_v4(Ipv4Addr::new(a, b, c, d))
        };
        match segments {
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                within(high, low)
            }
            [0x2002, high, low, ..] => within(high, low),
            [first, ..] if first & 0xfe00 == 0xfc00 => self >= Self::Private,
            [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
            // What is given out to the public Internet.
            [first, ..] => first & 0xe000 == 0x2000,
        }
    }
}

/// The address of a webhook: `https://` (or `http://`), a host, and perhaps a port, a path and a query. Nothing else, so that
/// all who read it read the same: no user, no fragment, no spelling of an IPv4 address but four decimal numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookUrl {
    text: String,
    secure: bool,
    host: Host,
}

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// To a name, which is resolved when something is sent.
    Name(String),
    /// To an address of the network.
    Address(IpAddr),
}

/// A text that is no address of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhookUrl {
    /// Too long.
    #[error("must have at most {} characters", WebhookUrl::MAX)]
    TooLong,
    /// It is something else.
    #[error("must be an address like https://example.com/hooks, without user and fragment")]
    Malformed,
    /// It is not encrypted.
    #[error("must begin with https://")]
    Insecure,
    /// It leads where webhooks must not.
    #[error("leads into a network that webhooks may not reach")]
    OutOfReach,
}

impl WebhookUrl {
    /// The most characters.
    pub const MAX: usize = 2000;

    /// Takes an address that is well formed.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidWebhookUrl> {
        let text = text.into();
        if text.len() > Self::MAX {
            return Err(InvalidWebhookUrl::TooLong);
        }
        let parts = Self::split(&text).ok_or(InvalidWebhookUrl::Malformed);
        let (secure, host) = parts?;
        Ok(Self { text, secure, host })
    }

    fn split(text: &str) -> Option<(bool, Host)> {
        let plain = |c: char| {
            c.is_ascii_graphic() && !matches!(c, '\\' | '#' | '<' | '>' | '"' | '`' | '{' | '}' | '|' | '^')
        };
        if !text.chars().all(plain) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = rest.split(['/', '?']).next()?;
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                let address = Host::Address(IpAddr::V6(address.parse().ok()?));
                (address, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (Self::named(host)?, Some(port)),
                None => (Self::named(authority)?, None),
            },
        };
        let fits = |port: &str| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
        };
        port.is_none_or(fits).then_some((secure, host))
    }

    fn named(host: &str) -> Option<Host> {
        if let Ok(address) = host.parse::<Ipv4Addr>() {
            return Some(Host::Address(IpAddr::V4(address)));
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // A last label of digits would be read as an IPv4 address by some.
        let last = host.rsplit('.').next()?;
        let numeric = last.starts_with(|c: char| c.is_ascii_digit());
        let fits = host.len() <= 253 && host.split('.').all(label) && !numeric;
        fits.then(|| Host::Name(host.to_ascii_lowercase()))
    }

    /// Refuses an address that leads, as it is written, further than `reach`.
    pub fn check(&self, reach: Reach) -> Result<(), InvalidWebhookUrl> {
        let local = match &self.host {
            Host::Address(address) => {
                if !reach.admits(*address) {
                    return Err(InvalidWebhookUrl::OutOfReach);
                }
                address.is_loopback() || reach == Reach::Private
            }
            Host::Name(name) => {
                let own = name == "localhost" || name.ends_with(".localhost");
                if own && reach < Reach::Loopback {
                    return Err(InvalidWebhookUrl::OutOfReach);
                }
                own || reach == Reach::Private
            }
        };
        if self.secure || (local && reach >= Reach::Loopback) {
            Ok(())
        } else {
            Err(InvalidWebhookUrl::Insecure)
        }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where it leads.
    pub const fn host(&self) -> &Host {
        &self.host
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = InvalidWebhookUrl;
    fn try_from(text: String) -> Result<Self, InvalidWebhookUrl> {
        Self::parse(text)
    }
}

impl From<WebhookUrl> for String {
    fn from(url: WebhookUrl) -> Self {
        url.text
    }
}

impl JsonSchema for WebhookUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WebhookUrl".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "uri", "maxLength": Self::MAX })
    }
}

/// The events that an endpoint is told of; none named: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub struct EventFilter(BTreeSet<String>);

/// A name that is none of an event that is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is none of {}", ANNOUNCED.join(", "))]
pub struct UnknownEvent {
    /// What was given.
    pub name: String,
}

impl EventFilter {
    /// Whether it lets an event through.
    pub fn wants(&self, event: &str) -> bool {
        self.0.is_empty() || self.0.contains(event)
    }

    /// Whether it lets everything through.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<String>> for EventFilter {
    type Error = UnknownEvent;

    fn try_from(names: Vec<String>) -> Result<Self, UnknownEvent> {
        match names.iter().find(|name| !ANNOUNCED.contains(&name.as_str())) {
            Some(unknown) => Err(UnknownEvent { name: crate::text::cut(unknown, 80) }),
            None => Ok(Self(names.into_iter().collect())),
        }
    }
}

impl From<EventFilter> for Vec<String> {
    fn from(filter: EventFilter) -> Self {
        filter.0.into_iter().collect()
    }
}

/// An endpoint of an owner. Its secret is derived from its id (ruling 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Whose it is.
    pub owner_id: UserId,
    /// Where it is told.
    pub url: WebhookUrl,
    /// What it is told of; empty: everything.
    #[serde(default, skip_serializing_if = "EventFilter::is_all")]
    pub events: EventFilter,
    /// What its owner calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<WebhookDescription>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// Why it is told nothing more, until its owner enables it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
}

/// Why an endpoint is told nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disabled {
    /// Since when.
    pub at: Timestamp,
    /// A sentence.
    pub reason: String,
}

impl Webhook {
    /// The most endpoints of an owner.
    pub const MAX_PER_OWNER: usize = 20;

    /// Whether it is told of an event.
    pub fn wants(&self, event: &str) -> bool {
        self.disabled.is_none() && self.events.wants(event)
    }

    /// Gives the endpoint up.
    pub fn disable(&mut self, reason: impl Into<String>, at: Timestamp) {
        self.disabled = Some(Disabled { at, reason: reason.into() });
    }
}

/// What became of telling one endpoint of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The announcement's number.
    pub sequence: u64,
    /// The announcement's id: `webhook-id`.
    pub id: String,
    /// The event.
    #[serde(rename = "type")]
    pub event: String,
    /// Where it stands.
    #[serde(flatten)]
    pub state: DeliveryState,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DeliveryState {
    /// It will be tried.
    Pending {
        /// Not before.
        next_at: Timestamp,
    },
    /// The endpoint has it.
    Delivered,
    /// It was given up.
    Failed,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// When.
    pub at: Timestamp,
    /// The HTTP status that the endpoint answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What follows from an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it is delivered.
    Delivered,
    /// It is tried again after this.
    Again(Duration),
    /// It is given up, and its endpoint with it.
    GiveUp,
}

impl Delivery {
    /// The pauses between attempts, in steps of [`crate::Deadlines::redelivered`] (5 s): 5 s, 30 s, 2 min, 10 min, 30 min, 2 h,
    /// 5 h. After the eighth attempt, some eight hours after the first, the endpoint is given up.
    pub const PAUSES: [u32; 7] = [1, 6, 24, 120, 360, 1440, 3600];
    /// The status by which an endpoint says that it wants nothing more (Standard Webhooks).
    const GONE: u16 = 410;

    /// One that was not tried yet.
    pub fn new(sequence: u64, id: String, event: String, now: Timestamp) -> Self {
        Self { sequence, id, event, state: DeliveryState::Pending { next_at: now }, attempts: Vec::new() }
    }

    /// Whether there is nothing more to do.
    pub const fn is_over(&self) -> bool {
        !matches!(self.state, DeliveryState::Pending { .. })
    }

    /// How long it is still to wait.
    pub fn waits(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            DeliveryState::Pending { next_at } if next_at > now => Some(next_at.since(now)),
            _ => None,
        }
    }

    /// Takes the outcome of an attempt: the status that was answered, or why there is none.
    pub fn record(&mut self, outcome: Result<u16, String>, step: Duration, now: Timestamp) -> Verdict {
        let made = self.attempts.len();
        let (status, error) = match outcome {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(error)),
        };
        self.attempts.push(Attempt { at: now, status, error });
        if status.is_some_and(|status| (200..300).contains(&status)) {
            self.state = DeliveryState::Delivered;
            return Verdict::Delivered;
        }
        match Self::PAUSES.get(made) {
            Some(steps) if status != Some(Self::GONE) => {
                let pause = step * *steps;
                self.state = DeliveryState::Pending { next_at: now + pause };
                Verdict::Again(pause)
            }
            _ => {
                self.state = DeliveryState::Failed;
                Verdict::GiveUp
            }
        }
    }

    /// Gives it up without an attempt: its endpoint is not there, or told nothing more.
    pub const fn drop(&mut self) {
        self.state = DeliveryState::Failed;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_network_are_within_reach_or_not() {
        let admits = |reach: Reach, text: &str| reach.admits(text.parse().unwrap());
        for public in ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"] {
            assert!(admits(Reach::Public, public), "{public}");
        }
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!admits(Reach::Public, own) && admits(Reach::Loopback, own), "{own}");
        }
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd00::1",
            "2002:a00:1::",
            "64:ff9b::a00:1",
        ] {
            assert!(!admits(Reach::Loopback, private) && admits(Reach::Private, private), "{private}");
        }
        for never in [
            "169.254.169.254",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "192.0.2.1",
            "::",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::ffff:169.254.169.254",
            "fec0::1",
        ] {
            assert!(!admits(Reach::Private, never), "{never}");
        }
    }

    #[test]
    fn an_address_is_read_in_one_way_or_not_at_all() {
        for good in [
            "https://example.com",
            "https://example.com/hooks?a=b",
            "https://Example.com:8443/",
            "http://[::1]:80/x",
            "https://a_b.example",
            "https://1.2.3.4/x",
        ] {
            assert!(WebhookUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "ftp://example.com",
            "https://",
            "https:///x",
            "https://a@b.example",
            "https://b.example#x",
            "https://127.1/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com:8o/",
            "https://exa mple.com",
            "https://example.com\\x",
            "https://[::1",
            "https://[::1]x/",
            "https://-a.example/",
            "https://a..b/",
            "https://ex\u{e4}mple.com",
            "HTTPS://example.com",
            "https://1.2.3.4.5/",
        ] {
            assert_eq!(WebhookUrl::parse(bad), Err(InvalidWebhookUrl::Malformed), "{bad}");
        }
        let long = format!("https://example.com/{}", "x".repeat(2000));
        assert_eq!(WebhookUrl::parse(long), Err(InvalidWebhookUrl::TooLong));
    }

    #[test]
    fn only_its_own_machine_may_be_told_without_encryption() {
        use InvalidWebhookUrl::{Insecure, OutOfReach};
        let check = |text: &str, reach| WebhookUrl::parse(text).unwrap().check(reach);
        assert_eq!(check("https://example.com", Reach::Public), Ok(()));
        assert_eq!(check("http://example.com", Reach::Public), Err(Insecure));
        assert_eq!(check("http://example.com", Reach::Loopback), Err(Insecure));
        assert_eq!(check("http://127.0.0.1:80/", Reach::Public), Err(OutOfReach));
        assert_eq!(check("http://127.0.0.1:80/", Reach::Loopback), Ok(()));
        assert_eq!(check("http://localhost/", Reach::Loopback), Ok(()));
        assert_eq!(check("https://localhost/", Reach::Public), Err(OutOfReach));
        assert_eq!(check("https://10.0.0.1/", Reach::Loopback), Err(OutOfReach));
        assert_eq!(check("http://10.0.0.1/", Reach::Private), Ok(()));
        assert_eq!(check("http://169.254.169.254/latest", Reach::Private), Err(OutOfReach));
    }

    #[test]
    fn a_delivery_is_tried_with_growing_pauses_and_then_given_up() {
        let (step, now) = (Duration::from_secs(5), Timestamp::from_millis(1_000));
        let mut delivery = Delivery::new(1, "e.0".to_owned(), "X".to_owned(), now);
        let mut pauses = Vec::new();
        for at in 0..7 {
            let outcome = if at % 2 == 0 { Ok(500) } else { Err("nobody answers".to_owned()) };
            match delivery.record(outcome, step, now) {
                Verdict::Again(pause) => pauses.push(pause.as_secs()),
                other => panic!("{other:?}"),
            }
            assert_eq!(delivery.waits(now), Some(Duration::from_secs(*pauses.last().unwrap())));
        }
        assert_eq!(pauses, [5, 30, 120, 600, 1800, 7200, 18000]);
        assert!(!delivery.is_over());
        assert_eq!(delivery.record(Ok(503), step, now), Verdict::GiveUp);
        assert!(delivery.is_over() && delivery.attempts.len() == 8);
    }

    #[test]
    fn success_ends_it_and_gone_gives_up_at_once() {
        let (step, now) = (Duration::from_secs(5), Timestamp::from_millis(1_000));
        let new = || Delivery::new(1, "e.0".to_owned(), "X".to_owned(), now);
        let (mut good, mut gone, mut moved) = (new(), new(), new());
        assert_eq!(good.record(Ok(204), step, now), Verdict::Delivered);
        assert_eq!(gone.record(Ok(410), step, now), Verdict::GiveUp);
        assert!(matches!(moved.record(Ok(302), step, now), Verdict::Again(_)), "redirects are not followed");
        let json = serde_json::to_value(&good).unwrap();
        assert_eq!(json["state"], "delivered");
        assert_eq!(serde_json::from_value::<Delivery>(json).unwrap(), good);
    }

    #[test]
    fn a_filter_names_events_that_are_told() {
        let filter = EventFilter::try_from(vec!["AgentSessionFailedEvent".to_owned()]).unwrap();
        assert!(filter.wants("AgentSessionFailedEvent") && !filter.wants("AgentSessionApprovedEvent"));
        assert!(EventFilter::default().wants("anything"));
        assert!(EventFilter::try_from(vec!["Nonsense".to_owned()]).is_err());
    }
}
