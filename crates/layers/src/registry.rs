//! Images in a registry, through `oci-client`, read as plain blocking streams.

use crate::credentials::Credentials;
use crate::error::ImportError;
use crate::oci_manifest::{self, DOCUMENT_BYTES_MAX, Descriptor, Documents};
use crate::source::{FoundImage, LayerBlob, Origin};
use bytes::{Buf, Bytes};
use futures::StreamExt;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE, OciDescriptor,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use std::io::{self, Read};
use std::net::IpAddr;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Parts of an answer that wait for the converter.
const PARTS_MAX: usize = 16;
const ACCEPTED: [&str; 4] = [
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
];

/// One image in a registry. Its threads end with it.
pub(crate) struct Registry {
    runtime: Option<Runtime>,
    client: Client,
    reference: Reference,
    auth: RegistryAuth,
}

impl Registry {
    /// Plain http is spoken with loopback hosts only.
    pub(crate) fn new(
        reference: &Reference,
        credentials: &Credentials,
    ) -> Result<Self, ImportError> {
        let registry = reference.resolve_registry().to_owned();
        let protocol = match is_loopback(&registry) {
            true => ClientProtocol::HttpsExcept(vec![registry]),
            false => ClientProtocol::Https,
        };
        let client = Client::new(ClientConfig {
            protocol,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            ..ClientConfig::default()
        });
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(2)
            .thread_name("registry")
            .enable_all()
            .build();
        Ok(Self {
            runtime: Some(runtime.map_err(|source| ImportError::Runtime { source })?),
            client,
            reference: reference.clone(),
            auth: match credentials {
                Credentials::Anonymous => RegistryAuth::Anonymous,
                Credentials::Bearer(token) => RegistryAuth::Bearer(token.clone()),
                Credentials::Basic { username, password } => {
                    RegistryAuth::Basic(username.clone(), password.clone())
                }
            },
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("taken only by drop")
    }

    fn failed(&self, what: impl Into<String>) -> impl FnOnce(OciDistributionError) -> ImportError {
        let (reference, what) = (self.reference.to_string(), what.into());
        move |source| ImportError::Registry {
            reference,
            what,
            source: Box::new(source),
        }
    }

    fn manifest_of(&self, reference: &Reference) -> Result<Vec<u8>, ImportError> {
        let pulled = self
            .client
            .pull_manifest_raw(reference, &self.auth, &ACCEPTED);
        let (bytes, _) = self
            .runtime()
            .block_on(pulled)
            .map_err(self.failed("the manifest"))?;
        Ok(bytes.to_vec())
    }

    /// A blob's bytes, unverified.
    fn blob(&self, digest: String, size: Option<u64>) -> Result<BlobReader, ImportError> {
        let what = format!("blob {digest}");
        let descriptor = OciDescriptor {
            digest,
            ..OciDescriptor::default()
        };
        let opened = self.client.pull_blob_stream(&self.reference, &descriptor);
        let stream = self.runtime().block_on(opened).map_err(self.failed(what))?;
        let (sender, parts) = mpsc::channel(PARTS_MAX);
        let mut stream = stream.stream;
        // Ends with the stream, or when the reader is dropped.
        drop(self.runtime().spawn(async move {
            while let Some(part) = stream.next().await {
                if sender.send(part).await.is_err() {
                    return;
                }
            }
        }));
        Ok(BlobReader {
            parts,
            part: Bytes::new(),
            received: 0,
            size,
        })
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // Legal on any thread, also one of another runtime.
        }
    }
}

impl Documents for Registry {
    fn manifest(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
        self.manifest_of(
            &self
                .reference
                .clone_with_digest(descriptor.digest.to_string()),
        )
    }

    fn config(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImportError> {
        let blob = self.blob(descriptor.digest.to_string(), Some(descriptor.size))?;
        let bytes = crate::archive::read_document(blob, DOCUMENT_BYTES_MAX);
        bytes.map_err(|e| self.failed("the configuration")(OciDistributionError::IoError(e)))
    }
}

impl Origin for Registry {
    fn find(&self) -> Result<FoundImage, ImportError> {
        let bytes = self.manifest_of(&self.reference)?;
        oci_manifest::find(self, &self.reference.to_string(), bytes, None)
    }

    fn open(&self, layer: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        let digest = layer.digest.unwrap_or(layer.diff_id);
        Ok(Box::new(self.blob(digest.to_string(), layer.size)?))
    }
}

/// The receiving end of a download.
struct BlobReader {
    parts: mpsc::Receiver<io::Result<Bytes>>,
    part: Bytes,
    received: u64,
    size: Option<u64>,
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.parts.blocking_recv() {
                None => return Ok(0),
                Some(Ok(part)) => {
                    self.received += part.len() as u64;
                    self.part = part;
                }
                // Behind the last byte only the client's own digest check can fail; ours says more.
                Some(Err(_)) if self.size.is_some_and(|size| self.received >= size) => {
                    return Ok(0);
                }
                Some(Err(e)) => return Err(e),
            }
        }
        let n = self.part.len().min(buffer.len());
        self.part.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

/// Whether the registry's host, without port, can only be this machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => registry.split(':').next().unwrap_or(registry),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to_in_plain_http() {
        for yes in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:5000",
        ] {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in [
            "localhost.example",
            "10.0.0.1:5000",
            "128.0.0.1",
            "[::2]",
            "example:127",
        ] {
            assert!(!is_loopback(no), "{no}");
        }
    }
}
