//! btrfs.
