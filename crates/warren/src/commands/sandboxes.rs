//! `warren ls`, `inspect`, `rm`, `timeout`.

use super::segment;
use crate::cli::{Global, LsArgs, TimeoutArgs};
use crate::client::{self, Client};
use crate::exit;
use crate::output::{self, Format};
use anyhow::{Context as _, Result};
use api::e2b::{ListedSandbox, ListedState, SandboxDetail, SetTimeout};
use api::warren::SandboxInspect;
use http::Method;
use jiff::Timestamp;
use std::process::ExitCode;

pub(super) async fn ls(client: &Client, global: &Global, args: &LsArgs) -> Result<()> {
    let sandboxes = all(client, &args.metadata).await?;
    if global.quiet {
        return sandboxes
            .iter()
            .try_for_each(|s| output::line(&s.sandbox_id));
    }
    match global.output {
        Format::Json => output::json(&sandboxes),
        Format::Table => {
            let now = Timestamp::now();
            let rows = sandboxes.iter().map(|s| row(s, now)).collect();
            let heading = [
                "ID", "TEMPLATE", "STATE", "CPU", "MEMORY", "AGE", "ENDS IN", "METADATA",
            ];
            output::line(output::table(heading, rows))
        }
    }
}

/// All pages of the listing.
async fn all(client: &Client, metadata: &[(String, String)]) -> Result<Vec<ListedSandbox>> {
    let mut query = "/v2/sandboxes?limit=100".to_owned();
    if !metadata.is_empty() {
        query.push_str(&format!("&metadata={}", metadata_query(metadata)));
    }
    let mut found = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let path = match &next {
            Some(token) => format!("{query}&nextToken={}", segment(token)),
            None => query.clone(),
        };
        let (mut page, token): (Vec<ListedSandbox>, _) = client.get_page(&path).await?;
        found.append(&mut page);
        match token {
            Some(token) => next = Some(token),
            None => return Ok(found),
        }
    }
}

/// The interface wants keys and values encoded, joined as a form, and that encoded once more.
fn metadata_query(metadata: &[(String, String)]) -> String {
    let pairs = metadata.iter().map(|(k, v)| {
        let (key, value) = (segment(k), segment(v));
        format!("{}={}", segment(&key), segment(&value))
    });
    segment(&pairs.collect::<Vec<_>>().join("&"))
}

fn row(sandbox: &ListedSandbox, now: Timestamp) -> [String; 8] {
    let template = sandbox.alias.as_ref().unwrap_or(&sandbox.template_id);
    [
        sandbox.sandbox_id.clone(),
        template.clone(),
        state(sandbox.state).to_owned(),
        sandbox.cpu_count.to_string(),
        format!("{} MiB", sandbox.memory_mb),
        span(now.duration_since(sandbox.started_at).as_secs()),
        span(sandbox.end_at.duration_since(now).as_secs()),
        output::labels(&sandbox.metadata),
    ]
}

fn state(state: ListedState) -> &'static str {
    match state {
        ListedState::Running => "running",
        ListedState::Paused => "paused",
    }
}

/// The two largest units: `3s`, `2m5s`, `1h0m`, `4d2h`.
fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{}s", seconds % 60),
        3600..86_400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

pub(super) async fn inspect(client: &Client, global: &Global, id: &str) -> Result<()> {
    let own = client
        .get(&format!("/warren/v1/sandboxes/{}", segment(id)))
        .await;
    match own {
        Ok(sandbox) => print_inspected(global, &sandbox),
        // Any E2B server answers the second, the first is Warren's own.
        Err(error) if client::is_not_found(&error) => {
            let path = format!("/sandboxes/{}", segment(id));
            let mut sandbox: SandboxDetail = client.get(&path).await?;
            sandbox.envd_access_token = None; // a secret is not for the terminal
            output::json(&sandbox)
        }
        Err(error) => Err(error),
    }
}

fn print_inspected(global: &Global, sandbox: &SandboxInspect) -> Result<()> {
    if global.quiet {
        return output::line(&sandbox.sandbox_id);
    }
    if global.output == Format::Json {
        return output::json(sandbox);
    }
    let optional = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut rows = vec![
        ["id".to_owned(), sandbox.sandbox_id.clone()],
        ["state".to_owned(), sandbox.state.clone()],
        ["cause".to_owned(), optional(&sandbox.cause)],
        ["isolation".to_owned(), sandbox.isolation.clone()],
        ["template".to_owned(), sandbox.template_id.clone()],
        ["alias".to_owned(), optional(&sandbox.alias)],
        ["job".to_owned(), optional(&sandbox.job)],
        ["metadata".to_owned(), output::labels(&sandbox.metadata)],
        ["started".to_owned(), sandbox.started_at.to_string()],
        ["ends".to_owned(), sandbox.end_at.to_string()],
        [
            "ended".to_owned(),
            sandbox.ended_at.map(|t| t.to_string()).unwrap_or_default(),
        ],
        ["cpu".to_owned(), sandbox.cpu_count.to_string()],
        ["memory".to_owned(), format!("{} MiB", sandbox.memory_mb)],
        ["disk".to_owned(), format!("{} MiB", sandbox.disk_size_mb)],
    ];
    if let Some(usage) = sandbox.usage {
        rows.extend([
            [
                "cpu used".to_owned(),
                format!("{} ms", usage.cpu_usec / 1000),
            ],
            [
                "memory used".to_owned(),
                format!("{} MiB", usage.memory_bytes >> 20),
            ],
            [
                "out of memory".to_owned(),
                format!("{} killed", usage.oom_kills),
            ],
        ]);
    }
    rows.retain(|[_, value]| !value.is_empty());
    output::line(output::pairs(rows))
}

/// Removes all that can be removed; fails if one could not.
pub(super) async fn rm(client: &Client, global: &Global, ids: &[String]) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for id in ids {
        let path = format!("/sandboxes/{}", segment(id));
        match client.control(Method::DELETE, &path, None::<&()>).await {
            Ok(_) if global.quiet => {}
            Ok(_) => output::line(id)?,
            Err(error) => {
                output::complain(&error);
                code = ExitCode::from(exit::PLATFORM);
            }
        }
    }
    Ok(code)
}

pub(super) async fn timeout(client: &Client, args: &TimeoutArgs) -> Result<()> {
    let path = format!("/sandboxes/{}/timeout", segment(&args.id));
    let timeout = args.duration.as_secs().into();
    let set = client
        .control(Method::POST, &path, Some(&SetTimeout { timeout }))
        .await;
    set.map(drop)
        .with_context(|| format!("set the timeout of {}", args.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_show_their_two_largest_units() {
        for (seconds, want) in [
            (-5, "0s"),
            (59, "59s"),
            (125, "2m5s"),
            (3600, "1h0m"),
            (90_000, "1d1h"),
        ] {
            assert_eq!(span(seconds), want);
        }
    }

    #[test]
    fn a_metadata_filter_is_encoded_as_the_sdk_encodes_it() {
        let filter = [("a b".to_owned(), "c&d".to_owned())];
        assert_eq!(metadata_query(&filter), "a%252520b%3Dc%252526d");
    }
}
