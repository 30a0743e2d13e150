//! Webhooks (decision 37): endpoints of an owner that receive events, and the state of their deliveries.
//!
//! An owner must not be able to make the control plane send requests to its own machine, its network or a cloud's metadata service.
//! [`EgressPolicy`] configures which addresses are allowed. It is applied to the URL when the webhook is registered, and to the resolved
//! addresses at each delivery.
//!
//! | module | contents |
//! |---|---|
//! | `endpoint` | an endpoint, its failures and pauses |
//! | `filter` | which events it receives |
//! | `url`, `egress` | its URL, and which addresses are allowed |
//! | `delivery` | the attempts to deliver one event |
//! | `attempt` | whether an attempt is due, and its effect on delivery and endpoint |

mod attempt;
mod delivery;
mod egress;
mod endpoint;
mod filter;
mod url;

pub use attempt::{AttemptEffect, DeliveryStep};
pub use delivery::{Attempt, AttemptOutcome, Delivery, DeliveryState};
pub use egress::{EgressPolicy, InvalidEgressPolicy};
pub use endpoint::{Disabled, Failing, Webhook};
pub use filter::{EventFilter, UnknownEvent};
pub use url::{Host, InvalidWebhookUrl, WebhookUrl};
