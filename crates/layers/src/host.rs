//! The built-in template `host`: this machine's `/usr` under a small layer that is made here.
//!
//! The layer holds what a root needs besides `/usr`, written by Warren. Of the machine's own files it takes
//! only names: which directories are links into `/usr`, which programs go through `/etc/alternatives`, and
//! the certificates under `/usr/share`. Nothing of its `/etc`, `/root`, `/home` or `/var` is copied.

mod files;
mod probe;
mod tarball;

use crate::catalog::{derived_build_id, derived_id};
use crate::error::{HostError, ImportError};
use crate::hashing::digest_of;
use crate::image_config::{DEFAULT_PATH, ImageConfig};
use crate::ingest::Ingest;
use crate::record::{BuildRecord, FORMAT, TemplateRecord};
use crate::source::{FoundImage, LayerBlob, Origin};
use crate::store::Pin;
use model::{Digest, ProcessDefaults, Resources};
use probe::Probe;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;
use tarball::Tarball;

/// The template's name.
pub(crate) const NAME: &str = "host";
/// Its second name until a user defines a template of that name.
pub(crate) const ALIAS: &str = "base";
/// Where the certificates lie; OpenSSL looks elsewhere unless told.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// The built-in template, ready to use.
#[derive(Debug)]
pub struct HostTemplate {
    pin: Pin,
    size_bytes: u64,
    has_certificates: bool,
}

/// Its id, the same on every machine.
pub(crate) fn template_id() -> String {
    derived_id("warren template host")
}

impl HostTemplate {
    /// The layer over `/usr`.
    #[must_use]
    pub fn layer(&self) -> Digest {
        self.pin.layer()
    }

    /// As a record among others.
    pub(crate) fn record(&self, has_alias: bool) -> TemplateRecord {
        let template_id = template_id();
        let build = self.build(&template_id);
        TemplateRecord {
            format: FORMAT,
            template_id,
            name: NAME.to_owned(),
            aliases: if has_alias {
                vec![ALIAS.to_owned()]
            } else {
                Vec::new()
            },
            tags: BTreeMap::from([(model_default_tag(), build)]),
            created_at_ms: 0,
            updated_at_ms: 0,
            spawn_count: 0,
            last_spawned_at_ms: None,
        }
    }

    fn build(&self, template_id: &str) -> BuildRecord {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut env = vec![pair("PATH", DEFAULT_PATH), pair("LANG", "C.UTF-8")];
        if self.has_certificates {
            env.push(pair("SSL_CERT_FILE", &format!("/{CERTIFICATES}")));
        }
        let process = ProcessDefaults {
            env,
            user: Some("user".to_owned()),
            workdir: None,
        };
        BuildRecord {
            build_id: derived_build_id(&format!("{template_id}\0{}", self.layer())),
            layers: vec![self.layer()],
            uses_host_usr: true,
            image: NAME.to_owned(),
            manifest_digest: None,
            config: ImageConfig {
                process,
                ..ImageConfig::default()
            },
            resources: Resources::default(),
            start_cmd: None,
            ready_cmd: None,
            created_at_ms: 0,
            size_bytes: self.size_bytes,
        }
    }
}

/// The tag that is meant when none is written.
fn model_default_tag() -> String {
    let name: model::TemplateRef = NAME.parse().expect("a plain name");
    name.tag().to_owned()
}

/// Makes the layer and brings it into the store; the same machine gives the same layer.
pub(crate) fn prepare(ingest: &Ingest<'_>, root: &Path) -> Result<HostTemplate, HostError> {
    let probe = Probe::of(root)?;
    let has_certificates = !probe.certificates.is_empty();
    let bytes = write(&probe);
    let blob = LayerBlob {
        diff_id: digest_of(&bytes),
        digest: None,
        size: Some(bytes.len() as u64),
        name: "of template host".to_owned(),
    };
    let ingested = ingest.layer(&InMemory(bytes), &blob);
    let ingested = ingested.map_err(|e| HostError::Import(Box::new(e)))?;
    Ok(HostTemplate {
        size_bytes: ingested.record.image_bytes,
        pin: ingested.pin,
        has_certificates,
    })
}

/// The layer of the template `host` for the root at `root`, as a tar.
pub fn layer_tar(root: &Path) -> Result<Vec<u8>, HostError> {
    Probe::of(root).map(|probe| write(&probe))
}

fn write(probe: &Probe) -> Vec<u8> {
    let mut tar = Tarball::new();
    files::directories(&mut tar);
    for (name, target) in &probe.merged {
        tar.symlink(name, target);
    }
    files::accounts(&mut tar);
    files::settings(&mut tar);
    files::permissions(&mut tar);
    if probe.has_os_release {
        tar.symlink("etc/os-release", "../usr/lib/os-release");
    }
    if !probe.certificates.is_empty() {
        tar.file(CERTIFICATES, 0o644, &probe.certificates);
    }
    for (name, target) in &probe.alternatives {
        tar.symlink(&format!("etc/alternatives/{name}"), target);
    }
    tar.finish()
}

struct InMemory(Vec<u8>);

impl Origin for InMemory {
    fn find(&self) -> Result<FoundImage, ImportError> {
        unreachable!("the layer of a template is no image")
    }

    fn open(&self, _: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        Ok(Box::new(Cursor::new(&self.0)))
    }
}

#[cfg(test)]
mod tests;
