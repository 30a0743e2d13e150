//! The agent loop from outside: what S1 promises, clause by clause.

mod compaction;
mod extensions;
mod killed;
mod loops;
mod models;
mod money;
mod resume;
mod storm;
mod support;
mod tools;
