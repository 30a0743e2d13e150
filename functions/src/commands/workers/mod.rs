pub mod remove;
