//! E2B control-plane shapes.
