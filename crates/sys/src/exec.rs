//! exec.
