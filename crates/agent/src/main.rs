//! `warren-agent`: waits to be attached, then is PID 1 of a sandbox and serves it.
//!
//! Takes no arguments and no environment; everything comes as inherited descriptors (`model::attach`).

use agent::attach::{Inherited, attach};
use model::attach::{FD_DEV, FD_LISTEN, FD_PROC, FD_SYS};
use std::error::Error;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

/// File calls that may run at once; the runtime itself has one thread.
const BLOCKING_THREADS_MAX: usize = 8;

fn main() -> ExitCode {
    let served = run();
    let Err(error) = served else {
        return ExitCode::SUCCESS;
    };
    report(&*error);
    ExitCode::FAILURE
}

/// The only channel left is standard error, if whoever started us gave one.
#[expect(clippy::print_stderr, reason = "the process ends here and has no log")]
fn report(error: &dyn Error) {
    eprint!("warren-agent: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprint!(": {error}");
        cause = error.source();
    }
    eprintln!();
}

fn run() -> Result<(), Box<dyn Error>> {
    let [listener, proc, dev, sys] =
        sys::exec::take_inherited([FD_LISTEN, FD_PROC, FD_DEV, FD_SYS])?;
    let (listener, config) = attach(Inherited {
        listener,
        mounts: [proc, dev, sys],
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()?;
    runtime.block_on(agent::serve(UnixListener::from(listener), config))?;
    Ok(())
}
