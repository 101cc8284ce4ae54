//! `warren auth` and `warren version`: what a client must know of the server.

use crate::cli::Global;
use crate::client::{self, Client};
use crate::config;
use crate::output::{self, Format};
use anyhow::{Result, bail};
use api::warren::Version;
use serde_json::json;

pub(super) fn auth(global: &Global) -> Result<()> {
    let url = client::server_url(global.url.as_deref());
    let data_dir = config::data_dir_of_clients();
    let Some(key) = client::api_key(global.api_key.as_deref(), &data_dir) else {
        bail!(
            "no API key: `warren serve` makes one at its first start in {}, readable by its own user; \
             elsewhere set E2B_API_KEY",
            data_dir.join("api-key").display()
        );
    };
    if global.quiet {
        return output::line(key);
    }
    match global.output {
        Format::Json => output::json(&json!({ "url": url, "apiKey": key })),
        Format::Table => output::line(exports(&url, &key)),
    }
}

/// What the official SDKs read; one address serves the API and the sandboxes.
fn exports(url: &str, key: &str) -> String {
    format!("export E2B_API_URL={url}\nexport E2B_SANDBOX_URL={url}\nexport E2B_API_KEY={key}")
}

pub(super) async fn version(global: &Global) -> Result<()> {
    let own = env!("CARGO_PKG_VERSION");
    if global.quiet {
        return output::line(own);
    }
    let url = client::server_url(global.url.as_deref());
    let key = client::api_key(global.api_key.as_deref(), &config::data_dir_of_clients());
    let client = Client::new(&url, key.as_deref())?;
    let server = client.get::<Version>("/warren/v1/version").await;
    if global.output == Format::Json {
        return output::json(&json!({ "client": own, "server": server.ok() }));
    }
    let server = match server {
        Ok(v) => format!("{} ({}, envd {})", v.version, v.arch, v.envd_version),
        Err(error) => format!("unknown: {error:#}"),
    };
    let rows = [["client", own], ["server", &server]].map(|row| row.map(str::to_owned));
    output::line(output::pairs(rows.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exports_are_what_the_sdks_read() {
        let text = exports("http://127.0.0.1:9277", "e2b_00");
        let names: Vec<&str> = text
            .lines()
            .filter_map(|l| l.split(['=', ' ']).nth(1))
            .collect();
        assert_eq!(names, ["E2B_API_URL", "E2B_SANDBOX_URL", "E2B_API_KEY"]);
    }
}
