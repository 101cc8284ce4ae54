//! E2B control-plane shapes, named and spelled as on the wire.

mod sandbox;
mod template;

pub use sandbox::{
    AutoResume, ConnectSandbox, ConnectSandboxV1, Lifecycle, ListedSandbox, ListedState,
    NetworkConfig, NewSandbox, Refresh, Sandbox, SandboxDetail, SetTimeout, VolumeMount,
};
pub use template::{Template, TemplateAlias, TemplateBuild, TemplateWithBuilds};

/// Version of the envd protocol that the agent speaks; SDKs gate features by it.
pub const ENVD_VERSION: &str = "0.6.13";
/// Constant `clientID` of every reply; a leftover of E2B's early interface.
pub const CLIENT_ID: &str = "6532622b";
/// Port of the agent's own interface.
pub const ENVD_PORT: u16 = 49983;
/// Names the sandbox of a data-plane request.
pub const HEADER_SANDBOX_ID: &str = "e2b-sandbox-id";
/// Names the port of a data-plane request.
pub const HEADER_SANDBOX_PORT: &str = "e2b-sandbox-port";
/// Timeout of a sandbox made by the first generation's create, seconds.
pub const TIMEOUT_V1_SECONDS: u64 = 15;
/// Timeout of a sandbox made or connected to by the second generation, seconds.
pub const TIMEOUT_V2_SECONDS: u64 = 300;
/// Largest page of a listing.
pub const PAGE_ITEMS_MAX: usize = 100;
