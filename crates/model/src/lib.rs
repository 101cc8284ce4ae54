//! The nouns of Warren as pure values: ids, digests, names, sizes, specs, causes.
//!
//! No I/O, no async, no clock, no randomness: those enter as arguments.

pub mod attach;
mod cause;
mod digest;
mod id;
mod name;
mod resources;
mod root;
mod state;

pub use cause::Cause;
pub use digest::{Digest, ParseDigestError};
pub use id::{ParseSandboxIdError, SandboxId};
pub use name::{ParseTemplateRefError, TemplateRef};
pub use resources::{Resources, ResourcesError};
pub use root::{ProcessDefaults, RootPlan, RootSource};
pub use state::{Denied, Event, State};

/// First host id of the user namespace range that sandboxes share; id 0 inside a sandbox.
pub const USERNS_HOST_BASE: u32 = 1_000_000;
/// Number of ids in that range (0..=65535 inside).
pub const USERNS_SIZE: u32 = 65_536;
