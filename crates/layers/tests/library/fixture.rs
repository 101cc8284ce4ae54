//! Images in all their wrappings, built in temporary directories.

use layers::{Credentials, ImportError, ImportRequest, ImportedImage, Library, Progress};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

pub(crate) fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("has one")).expect("makes");
    File::create(path)
        .expect("makes")
        .write_all(bytes)
        .expect("writes");
}

/// A layer's tar: directories end in a slash, links say their target, files hold their text.
pub(crate) fn tar_of(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = Header::new_gnu();
        header.set_mtime(1_600_000_000);
        header.set_mode(0o751);
        header.set_uid(7);
        header.set_gid(8);
        header.set_size(0);
        if let Some(target) = content.strip_prefix("-> ") {
            header.set_entry_type(EntryType::Symlink);
            tar.append_link(&mut header, path, target)
                .expect("in memory");
            continue;
        }
        let is_directory = path.ends_with('/');
        header.set_entry_type(if is_directory {
            EntryType::Directory
        } else {
            EntryType::Regular
        });
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, content.as_bytes())
            .expect("in memory");
    }
    tar.into_inner().expect("in memory")
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Pack {
    Plain,
    Gzip,
    Zstd,
}

pub(crate) fn pack(pack: Pack, tar: &[u8]) -> Vec<u8> {
    match pack {
        Pack::Plain => tar.to_vec(),
        Pack::Zstd => zstd::encode_all(tar, 3).expect("in memory"),
        Pack::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(tar).expect("in memory");
            gzip.finish().expect("in memory")
        }
    }
}

pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn config(diff_ids: &[String]) -> Vec<u8> {
    let config = json!({
        "os": "linux", "architecture": architecture(),
        "config": {"Env": ["A=1"], "WorkingDir": "srv", "User": "7", "Cmd": ["run"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    serde_json::to_vec(&config).expect("in memory")
}

/// An OCI layout in a directory.
pub(crate) struct Layout {
    pub(crate) path: PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    pub(crate) fn new(path: &Path) -> Self {
        fs::create_dir_all(path.join("blobs/sha256")).expect("makes");
        put(
            &path.join("oci-layout"),
            br#"{"imageLayoutVersion":"1.0.0"}"#,
        );
        Self {
            path: path.to_owned(),
            manifests: Vec::new(),
        }
    }

    pub(crate) fn blob_path(&self, digest: &str) -> PathBuf {
        self.path
            .join("blobs/sha256")
            .join(digest.trim_start_matches("sha256:"))
    }

    pub(crate) fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        put(&self.blob_path(&digest), bytes);
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// The descriptor of an image of these layers. All claim gzip: the bytes decide.
    pub(crate) fn image(&self, layers: &[(Pack, Vec<u8>)]) -> Value {
        let diff_ids: Vec<String> = layers.iter().map(|(_, tar)| sha256(tar)).collect();
        let blobs = layers.iter().map(|(how, tar)| {
            let kind = match how {
                Pack::Plain => "application/vnd.oci.image.layer.v1.tar",
                Pack::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
                Pack::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
            };
            self.blob(kind, &pack(*how, tar))
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.blob("application/vnd.oci.image.config.v1+json", &config(&diff_ids)),
            "layers": blobs.collect::<Vec<_>>(),
        });
        self.document("application/vnd.oci.image.manifest.v1+json", &manifest)
    }

    pub(crate) fn document(&self, media_type: &str, document: &Value) -> Value {
        self.blob(
            media_type,
            &serde_json::to_vec(document).expect("in memory"),
        )
    }

    pub(crate) fn tagged(mut self, tag: &str, mut descriptor: Value) -> Self {
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
        self.manifests.push(descriptor);
        let index = json!({"schemaVersion": 2, "manifests": self.manifests});
        put(
            &self.path.join("index.json"),
            &serde_json::to_vec(&index).expect("in memory"),
        );
        self
    }

    pub(crate) fn source(&self) -> String {
        format!("oci:{}", self.path.display())
    }
}

/// A library in a temporary directory.
pub(crate) struct Room {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) library: Library,
}

impl Room {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let library = Library::open(&dir.path().join("data")).expect("opens");
        Self { dir, library }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn import_with(
        &self,
        source: &str,
        credentials: Credentials,
        observe: &(dyn Fn(Progress) + Sync),
    ) -> Result<ImportedImage, ImportError> {
        let request = ImportRequest {
            source: source.parse()?,
            credentials,
        };
        self.library.import(&request, observe)
    }

    pub(crate) fn import(&self, source: &str) -> Result<ImportedImage, ImportError> {
        self.import_with(source, Credentials::Anonymous, &|_| ())
    }

    /// Files in the store, temporary ones too.
    pub(crate) fn stored(&self) -> usize {
        fs::read_dir(self.path("data/cache"))
            .expect("lists")
            .count()
    }

    /// Paths in a stored layer, in order.
    pub(crate) fn paths(&self, layer: &model::Digest) -> Vec<String> {
        let mut image = self.library.store().open_layer(layer).expect("opens");
        let mut paths = Vec::new();
        let walked = image.walk(|path, _| paths.push(String::from_utf8_lossy(path).into_owned()));
        walked.expect("walks");
        paths.sort_unstable();
        paths
    }
}
