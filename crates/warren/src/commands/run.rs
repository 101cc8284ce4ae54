//! `warren run` and `warren start`: make a sandbox, with or without a command.

use super::exec::{self, Interrupts};
use super::segment;
use crate::cli::{RunArgs, SandboxFlags, StartArgs};
use crate::client::{self, Client, Process};
use crate::output;
use anyhow::{Result, anyhow};
use api::e2b::{NewSandbox, Sandbox};
use http::Method;
use std::process::ExitCode;
use std::time::Duration;

pub(super) async fn run(client: &Client, args: RunArgs) -> Result<ExitCode> {
    // Before the sandbox exists: from here on Ctrl-C removes it instead of leaving it behind.
    let mut interrupts = Interrupts::listen()?;
    let sandbox = create(client, &args.template, args.sandbox, Some(args.timeout)).await?;
    let command = exec::start_command(args.command, Vec::new(), &args.how);
    let token = sandbox.envd_access_token.as_deref();
    let start = Process::start(client, &sandbox.sandbox_id, token, command);
    let started = tokio::select! {
        started = start => started,
        () = interrupts.next() => Err(anyhow!("interrupted")),
    };
    let result = match started {
        Ok(_) if args.detach => {
            output::line(&sandbox.sandbox_id)?;
            return Ok(ExitCode::SUCCESS);
        }
        Ok(process) => exec::attend(process, args.how.interactive, interrupts).await,
        Err(error) => exec::failed_start(&error),
    };
    if args.keep {
        output::remark(format_args!(
            "warren: sandbox {} is kept",
            sandbox.sandbox_id
        ));
    } else if let Err(error) = remove(client, &sandbox.sandbox_id).await {
        // The command's own code stays the answer; the sandbox ends at its timeout.
        output::complain(&error.context(format!("remove sandbox {}", sandbox.sandbox_id)));
    }
    result
}

pub(super) async fn start(client: &Client, args: StartArgs) -> Result<()> {
    let sandbox = create(client, &args.template, args.sandbox, args.timeout).await?;
    output::line(sandbox.sandbox_id)
}

async fn create(
    client: &Client,
    template: &str,
    flags: SandboxFlags,
    timeout: Option<Duration>,
) -> Result<Sandbox> {
    let body = NewSandbox {
        template_id: template.to_owned(),
        timeout: timeout.map(|t| t.as_secs().into()),
        metadata: Some(flags.metadata.into_iter().collect()),
        env_vars: Some(flags.env.into_iter().collect()),
        ..NewSandbox::default()
    };
    let made = client
        .call(Method::POST, "/v2/sandboxes", Some(&body))
        .await;
    made.map_err(|error| {
        if !client::is_not_found(&error) {
            return error;
        }
        anyhow!("{error:#}; make the template with `warren pull IMAGE --name {template}`")
    })
}

/// Ends a sandbox; one that is already gone is no error.
async fn remove(client: &Client, id: &str) -> Result<()> {
    let path = format!("/sandboxes/{}", segment(id));
    match client.control(Method::DELETE, &path, None::<&()>).await {
        Err(error) if !client::is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}
