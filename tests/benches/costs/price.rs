//! On-demand prices in dollars per million, in the first AWS region.

pub(crate) const WRITE_UNITS: f64 = 0.625;
pub(crate) const READ_UNITS: f64 = 0.125;
/// Requests of SQS to FIFO queues.
pub(crate) const FIFO_REQUESTS: f64 = 0.50;
/// Requests to an HTTP API.
pub(crate) const HTTP_REQUESTS: f64 = 1.00;
pub(crate) const INVOCATIONS: f64 = 0.20;
/// A million GB-seconds on arm64.
pub(crate) const GB_SECONDS: f64 = 13.333_4;
/// A million kilobytes of logs.
pub(crate) const LOG_KB: f64 = 0.50;
