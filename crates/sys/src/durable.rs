//! durable.
