//! Commands on Web Push: which browsers of an owner receive notifications (decision 98).

pub mod subscribe;
pub mod unsubscribe;
