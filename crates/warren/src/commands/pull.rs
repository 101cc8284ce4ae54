//! `warren pull`: an OCI image becomes a template on the server.

use crate::cli::{Global, PullArgs};
use crate::client::Client;
use crate::output::{self, Format};
use anyhow::{Context as _, Result, anyhow, bail};
use api::warren::{PullEvent, PullProgress, PullRequest, TemplateInfo};
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::io::Read as _;

/// Longest line of the progress stream; the template of a hundred layers is far below.
const LINE_BYTES_MAX: usize = 1 << 20;
/// A password is one short line.
const PASSWORD_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn pull(client: &Client, global: &Global, args: PullArgs) -> Result<()> {
    let password = args.password_stdin.then(read_password).transpose()?;
    let request = PullRequest {
        image: args.image,
        name: args.name,
        username: args.username,
        password,
        cpu_count: args.cpu,
        memory_mb: args.memory,
        disk_size_mb: args.disk,
    };
    let reply = client
        .control(Method::POST, "/warren/v1/templates", Some(&request))
        .await?;
    let template = follow(reply.into_body(), Bars::new()).await?;
    match global.output {
        _ if global.quiet => output::line(&template.template_id),
        Format::Json => output::json(&template),
        Format::Table => output::line(template.names.join("\n")),
    }
}

fn read_password() -> Result<String> {
    let mut text = String::new();
    let mut from = std::io::stdin().lock().take(PASSWORD_BYTES_MAX);
    from.read_to_string(&mut text)
        .context("read the password from standard input")?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!("standard input holds no password");
    }
    Ok(password.to_owned())
}

/// Reads the lines of the reply up to the one that decides.
async fn follow(mut body: Incoming, mut bars: Bars) -> Result<TemplateInfo> {
    let mut lines = Lines::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.context("read the progress of the pull")?;
        let Ok(bytes) = frame.into_data() else {
            continue;
        };
        for event in lines.push(&bytes)? {
            match event {
                PullEvent::Progress(progress) => bars.show(&progress),
                PullEvent::Result { template } => return Ok(template),
                PullEvent::Error(error) => return Err(anyhow!(error.message)),
            }
        }
    }
    bail!("the connection ended before the pull did; nothing was made")
}

/// Cuts bytes into lines of JSON.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<PullEvent>> {
        self.0.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.0.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if !line.trim_ascii().is_empty() {
                events.push(serde_json::from_slice(&line).context("read a line of the pull")?);
            }
        }
        if self.0.len() > LINE_BYTES_MAX {
            bail!("a line of the pull is longer than {LINE_BYTES_MAX} bytes");
        }
        Ok(events)
    }
}

/// One bar per layer on a terminal, nothing elsewhere.
struct Bars {
    all: Option<MultiProgress>,
    by_item: HashMap<String, ProgressBar>,
}

impl Bars {
    fn new() -> Self {
        Self {
            all: output::talks_to_a_terminal().then(MultiProgress::new),
            by_item: HashMap::new(),
        }
    }

    fn show(&mut self, progress: &PullProgress) {
        let Some(all) = &self.all else { return };
        let item = progress.item.clone().unwrap_or_default();
        let bar = self
            .by_item
            .entry(item)
            .or_insert_with(|| all.add(new_bar()));
        bar.set_message(label(progress));
        if let Some(total) = progress.total_bytes {
            bar.set_length(total);
        }
        if let Some(done) = progress.done_bytes {
            bar.set_position(done);
        }
        if matches!(progress.step.as_str(), "reuse" | "commit") {
            bar.finish();
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:28} {bar:30} {bytes}/{total_bytes}")
        .expect("a constant template that the test below parses");
    ProgressBar::new(0).with_style(style)
}

/// The step and the first characters of the digest.
fn label(progress: &PullProgress) -> String {
    let item = progress.item.as_deref().unwrap_or_default();
    let short: String = item
        .trim_start_matches("sha256:")
        .chars()
        .take(12)
        .collect();
    format!("{} {short}", progress.step).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_however_the_bytes_arrive() {
        let text = b"{\"type\":\"progress\",\"step\":\"fetch\",\"doneBytes\":5}\n\n{\"type\":\"error\",\"code\":400,\"message\":\"no\"}\n";
        for step in 1..text.len() {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for part in text.chunks(step) {
                events.append(&mut lines.push(part).expect("well formed"));
            }
            assert_eq!(events.len(), 2, "split every {step} bytes");
            assert!(matches!(&events[1], PullEvent::Error(e) if e.message == "no"));
        }
    }

    #[test]
    fn a_line_without_end_is_refused_and_so_is_one_that_is_not_json() {
        assert!(
            Lines::default()
                .push(&vec![b'x'; LINE_BYTES_MAX + 1])
                .is_err()
        );
        assert!(Lines::default().push(b"not json\n").is_err());
    }

    #[test]
    fn a_bar_names_the_step_and_the_layer() {
        new_bar();
        let progress = PullProgress {
            step: "fetch".to_owned(),
            item: Some("sha256:0123456789abcdef".to_owned()),
            ..PullProgress::default()
        };
        assert_eq!(label(&progress), "fetch 0123456789ab");
    }
}
