//! The only crate with `unsafe`: thin, safe, documented calls into Linux.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod btrfs;
pub mod cgroup;
pub mod confine;
pub mod durable;
pub mod exec;
pub mod host;
pub mod loopdev;
pub mod mount;
pub mod netns;
pub mod process;
pub mod socket;
pub mod userns;
