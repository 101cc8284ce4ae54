//! Layers and templates at rest: the store, imports from registries and archives, the catalog, resolution.
//!
//! Nothing here mounts. Calls block and may take long (downloads, disk): callers in async code use a
//! blocking thread. Everything lies under the data directory:
//!
//! ```text
//! cache/<digest hex>.erofs         complete layers, never changed once there
//! catalog/oci/<digest hex>.json    which layer an OCI blob or diff id became
//! catalog/templates/<id>.json      templates with their builds
//! ```

mod archive;
mod catalog;
mod credentials;
mod decode;
mod docker_archive;
mod error;
mod hashing;
mod host;
mod image_config;
mod import;
mod ingest;
mod layered;
mod library;
mod oci_layout;
mod oci_manifest;
mod patch;
mod progress;
mod record;
mod registry;
mod source;
mod store;

pub use catalog::{Catalog, Damaged, Listing, NewBuild, Use};
pub use credentials::{Credentials, find_credentials, parse_docker_config};
pub use error::{CatalogError, ErrorKind, HostError, ImportError, StoreError};
pub use host::{HostTemplate, layer_tar as host_layer_tar};
pub use image_config::ImageConfig;
pub use import::{ImportRequest, ImportedImage};
pub use library::{Library, ResolvedTemplate};
pub use progress::{Phase, Progress};
pub use record::{BuildRecord, TemplateRecord};
pub use source::ImageSource;
pub use store::{Pin, Store};
