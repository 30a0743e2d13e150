//! A real agent, where one is installed.
