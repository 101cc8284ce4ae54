//! An image's configuration, read as `docker exec` would.

use crate::error::ImportError;
use model::{Digest, ProcessDefaults};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What processes get when an image does not say.
pub(crate) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The parts of an image's configuration that Warren uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// Environment, user and working directory.
    pub process: ProcessDefaults,
    /// The image's entrypoint.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// The image's command.
    #[serde(default)]
    pub cmd: Vec<String>,
    /// The image's labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A parsed configuration file.
#[derive(Debug)]
pub(crate) struct ParsedConfig {
    pub(crate) config: ImageConfig,
    pub(crate) diff_ids: Vec<Digest>,
    pub(crate) architecture: String,
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Config>,
    rootfs: RootFs,
}

/// Docker writes `null` for lists that are empty.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<Digest>,
}

/// Reads a configuration file; `origin` names the image in errors.
pub(crate) fn parse(bytes: &[u8], origin: &str) -> Result<ParsedConfig, ImportError> {
    let malformed = |why| ImportError::Malformed {
        origin: origin.to_owned(),
        what: "the configuration",
        why,
    };
    let file: ConfigFile = serde_json::from_slice(bytes).map_err(|e| malformed(e.to_string()))?;
    if !matches!(file.os.as_str(), "" | "linux") {
        return Err(malformed(format!("it is for {}, not for linux", file.os)));
    }
    let config = file.config.unwrap_or_default();
    let process = ProcessDefaults {
        env: environment(config.env.unwrap_or_default()),
        user: config.user.filter(|u| !u.is_empty()),
        workdir: config
            .working_dir
            .filter(|w| !w.is_empty())
            .map(|w| absolute(&w)),
    };
    Ok(ParsedConfig {
        config: ImageConfig {
            process,
            entrypoint: config.entrypoint.unwrap_or_default(),
            cmd: config.cmd.unwrap_or_default(),
            labels: config.labels.unwrap_or_default(),
        },
        diff_ids: file.rootfs.diff_ids,
        architecture: file.architecture,
    })
}

/// `NAME=value` pairs; a later one of the same name wins, a name alone sets nothing.
fn environment(lines: Vec<String>) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once('=').filter(|(n, _)| !n.is_empty()) else {
            continue;
        };
        match out.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => value.clone_into(old),
            None => out.push((name.to_owned(), value.to_owned())),
        }
    }
    if !out.iter().any(|(name, _)| name == "PATH") {
        out.insert(0, ("PATH".to_owned(), DEFAULT_PATH.to_owned()));
    }
    out
}

/// The path from the root, without `.` and `..`, as docker reads a relative WORKDIR.
fn absolute(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The name of this machine's architecture in image indexes.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(json: &str) -> ImageConfig {
        parse(json.as_bytes(), "test").expect("parses").config
    }

    #[test]
    fn p60_a_relative_workdir_is_joined_to_the_root() {
        for (given, wanted) in [
            ("a/b", "/a/b"),
            ("/a/../b/.", "/b"),
            ("../../etc", "/etc"),
            (".", "/"),
        ] {
            let json = format!(r#"{{"config":{{"WorkingDir":"{given}"}},"rootfs":{{}}}}"#);
            assert_eq!(parsed(&json).process.workdir.as_deref(), Some(wanted));
        }
        let none = parsed(r#"{"config":{"WorkingDir":""},"rootfs":{}}"#);
        assert_eq!(none.process.workdir, None);
    }

    #[test]
    fn null_and_missing_fields_are_empty_and_a_path_is_always_there() {
        let json = r#"{"config":{"Env":null,"User":"","Cmd":null,"ExposedPorts":{"80/tcp":{}}},"rootfs":{}}"#;
        for json in [json, r#"{"rootfs":{"type":"layers"}}"#] {
            let config = parsed(json);
            let path = ("PATH".to_owned(), DEFAULT_PATH.to_owned());
            assert_eq!(config.process.env, [path]);
            assert_eq!(config.process.user, None);
        }
    }

    #[test]
    fn env_user_command_and_labels_are_kept_in_order() {
        let json = r#"{"os":"linux","config":{"Env":["B=1=2","PATH=/x","A","B=3"],"User":"1:2",
            "Entrypoint":["/e"],"Cmd":["c"],"Labels":{"k":"v"}},"rootfs":{}}"#;
        let config = parsed(json);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(config.process.env, [pair("B", "3"), pair("PATH", "/x")]);
        assert_eq!(config.process.user.as_deref(), Some("1:2"));
        assert_eq!(
            (config.entrypoint, config.cmd),
            (vec!["/e".to_owned()], vec!["c".to_owned()])
        );
        assert_eq!(config.labels["k"], "v");
    }

    #[test]
    fn what_is_no_configuration_is_named() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"rootfs":{"diff_ids":["sha256:xx"]}}"#,
            r#"{"os":"windows","rootfs":{}}"#,
        ] {
            let error = parse(bad.as_bytes(), "oci:dir")
                .expect_err("malformed")
                .to_string();
            assert!(
                error.starts_with("the configuration of oci:dir is malformed"),
                "{error}"
            );
        }
    }
}
