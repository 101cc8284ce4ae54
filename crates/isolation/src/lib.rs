//! Isolation kinds behind one trait. Takes a prepared root; knows nothing of layers.

mod backend;
pub mod native;

pub use backend::{
    Attach, AttachError, Backend, Capabilities, ExtraMount, PrepareError, RemoveError, Shell,
    ShellRecord, ShellSpec, Usage,
};
