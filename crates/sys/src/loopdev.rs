//! loopdev.
