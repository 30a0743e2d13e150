//! Templates, without processes and with a manual clock: how they change, what starts from them, and that each scheduled time
//! starts one session.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changing;
mod events;
mod fixture;
mod schedules;
mod starting;
