//! Every wire shape of Warren: E2B's control plane, envd's data plane, Warren's own. No handlers.

pub mod e2b;
pub mod envd;
mod error;
pub mod warren;

pub use error::{ErrorBody, ErrorKind, SandboxGone};
