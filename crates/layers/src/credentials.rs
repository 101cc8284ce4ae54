//! What opens a registry, and where docker keeps it.

use crate::source::ImageSource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Credentials of one registry.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// None.
    #[default]
    Anonymous,
    /// Name and password; exchanged for a token where the registry wants that.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Basic { .. } => "Basic(..)",
            Self::Bearer(_) => "Bearer(..)",
        })
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    registrytoken: Option<String>,
}

/// Credentials by registry host, from the text of a docker `config.json`. Entries without any are left out.
pub fn parse_docker_config(json: &str) -> Result<BTreeMap<String, Credentials>, serde_json::Error> {
    let config: DockerConfig = serde_json::from_str(json)?;
    let auths = config.auths.into_iter();
    Ok(auths
        .filter_map(|(key, auth)| Some((host_of(&key).to_owned(), credentials(auth)?)))
        .collect())
}

/// What opens the source's registry, of credentials by host.
#[must_use]
pub fn find_credentials(
    known: &BTreeMap<String, Credentials>,
    source: &ImageSource,
) -> Credentials {
    let ImageSource::Registry(reference) = source else {
        return Credentials::Anonymous;
    };
    // The host as users write it and the one that is dialled may differ.
    let found = known.get(reference.registry());
    let found = found.or_else(|| known.get(reference.resolve_registry()));
    found.cloned().unwrap_or_default()
}

/// Keys are hosts, or the URLs that early docker wrote.
fn host_of(key: &str) -> &str {
    let host = key.split_once("://").map_or(key, |(_, rest)| rest);
    host.split('/').next().unwrap_or(host)
}

fn credentials(auth: Auth) -> Option<Credentials> {
    if let Some(token) = auth.registrytoken.filter(|t| !t.is_empty()) {
        return Some(Credentials::Bearer(token));
    }
    if let (Some(username), Some(password)) = (auth.username, auth.password) {
        return Some(Credentials::Basic { username, password });
    }
    let plain = String::from_utf8(STANDARD.decode(auth.auth?).ok()?).ok()?;
    let (username, password) = plain.split_once(':')?;
    // Docker pads with NULs.
    let password = password.trim_end_matches('\0').to_owned();
    Some(Credentials::Basic {
        username: username.to_owned(),
        password,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_docker_are_read_by_host() {
        let json = r#"{"auths":{"https://a.example/v1/":{"auth":"dTpwOnc="},"b.example:5000":{"registrytoken":"t"},
            "c.example":{"username":"n","password":"s"},"d.example":{}},"credsStore":"x"}"#;
        let found = parse_docker_config(json).expect("parses");
        let basic = |u: &str, p: &str| Credentials::Basic {
            username: u.into(),
            password: p.into(),
        };
        assert_eq!(found["a.example"], basic("u", "p:w"));
        assert_eq!(found["b.example:5000"], Credentials::Bearer("t".into()));
        assert_eq!(found["c.example"], basic("n", "s"));
        assert_eq!(found.len(), 3);
        assert!(!format!("{found:?}").contains("p:w"));
        let of = |text: &str| find_credentials(&found, &text.parse().expect("well formed"));
        assert_eq!(of("b.example:5000/x"), Credentials::Bearer("t".into()));
        assert_eq!(of("docker://c.example/x"), basic("n", "s"));
        assert_eq!(of("b.example/x"), Credentials::Anonymous);
        assert_eq!(of("oci:c.example"), Credentials::Anonymous);
    }
}
