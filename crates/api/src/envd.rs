//! envd's data plane: what the agent speaks and every E2B client expects.
//!
//! Shapes only, for both sides: [`process`] and [`filesystem`] are the Connect RPC messages in their JSON
//! form, [`connect`] is the protocol around them (codes, frames), [`http`] the plain routes.

pub mod connect;
pub mod filesystem;
pub mod http;
pub mod process;
mod proto_json;

pub use connect::{Code, ConnectError, Frame, FrameDecoder};
pub use proto_json::{ProtoBytes, ProtoInt64};

/// Port under which E2B clients address the agent.
pub const PORT: u16 = 49983;
/// Version of the envd interface that is spoken; clients switch features on it.
pub const VERSION: &str = "0.6.13";
/// Header with the data-plane token.
pub const ACCESS_TOKEN: &str = "x-access-token";
/// Header with the interval of keepalive events, seconds.
pub const KEEPALIVE_INTERVAL: &str = "keepalive-ping-interval";
/// Header with the deadline of a call, milliseconds.
pub const CONNECT_TIMEOUT: &str = "connect-timeout-ms";
