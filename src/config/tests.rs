//! Placeholder until the messages are tabled.
