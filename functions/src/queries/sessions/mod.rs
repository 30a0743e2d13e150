pub mod get;
pub mod history;
pub mod list;
pub mod search;
