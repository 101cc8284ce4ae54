//! Every wire shape of Warren: E2B's control plane, envd's data plane. No handlers.

pub mod e2b;
pub mod envd;
