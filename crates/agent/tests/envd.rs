//! The agent's whole surface, spoken to over a real socket as the node does; no sandbox around it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "envd/client.rs"]
mod client;
#[path = "envd/files.rs"]
mod files;
#[path = "envd/filesystem.rs"]
mod filesystem;
#[path = "envd/process.rs"]
mod process;
#[path = "envd/routes.rs"]
mod routes;
#[path = "envd/streams.rs"]
mod streams;
