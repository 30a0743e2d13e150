//! End-to-end tests, contract suites and benches of Pilothouse.
