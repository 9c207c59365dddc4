//! The command line of nearhead: parse, start, wait for a signal.

mod allocator;
mod greeting;
mod open_browser;
mod reload;

use std::{env, io, process::ExitCode, thread, time::Instant};

use nearhead::{
    Service,
    commands::{self, AdminCommand},
    config::{Command, Config, Export, Resolved},
    export::{self, ExportError},
    logging,
    progress::ProgressWriter,
    rpc::Forwarding,
};
use nearhead_actors::source::ProgressReport;
use open_browser::{REDIRECT_KEPT, RedirectFile, open_browser};
use reload::Reload;
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

/// Exit code of a failure while serving or exporting; the arguments were valid.
const FAILED: u8 = 1;
/// Exit code of invalid arguments; nothing was started.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    // An idle connection never touches half of its buffers, but with huge pages it would occupy
    // memory for all of them (docs/performance.md). If the call fails, the process only uses more
    // memory.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    allocator::keep_freed_memory();
    match Command::of_process() {
        Ok(Command::Serve(resolved)) => serve(&resolved),
        Ok(Command::Check(resolved)) => match Forwarding::new(&resolved.config.forward) {
            Ok(_) => print(&resolved.to_string()),
            Err(error) => fail(MISUSED, &error),
        },
        Ok(Command::Export(export)) => write_files(&export),
        Ok(Command::Administer(command)) => administer(*command),
        Ok(Command::Print(text)) => print(&text),
        Err(error) => fail(MISUSED, &error),
    }
}

fn fail(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("nearhead: {error}");
    ExitCode::from(code)
}

/// Prints to stdout. A closed reader, such as a pager, is not a failure.
fn print(text: &str) -> ExitCode {
    let _ = io::Write::write_all(&mut io::stdout().lock(), text.as_bytes());
    ExitCode::SUCCESS
}

fn progress() -> ProgressReport {
    let mut line = ProgressWriter::stderr(Instant::now());
    Box::new(move |progress| line.update(progress, Instant::now()))
}

fn write_files(chosen: &Export) -> ExitCode {
    // The report is dropped with this statement, which ends an open line of progress.
    let outcome = export::export(chosen, &mut progress());
    match outcome {
        Ok(head) => print(&format!("head {} {}\n", head.number(), head.hash)),
        Err(error @ ExportError::OneFile { .. }) => fail(MISUSED, &error),
        Err(error) => fail(FAILED, &error),
    }
}

fn administer(command: AdminCommand) -> ExitCode {
    match commands::run(command, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_misuse() => fail(MISUSED, &error),
        Err(error) => fail(FAILED, &error),
    }
}

fn serve(resolved: &Resolved) -> ExitCode {
    logging::start(&resolved.config);
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &error),
    };
    runtime.block_on(async {
        match (Signals::new(), Reload::new(resolved)) {
            (Ok(signals), Ok(reload)) => run(&resolved.config, signals, reload).await,
            (Err(error), _) | (_, Err(error)) => fail(FAILED, &error),
        }
    })
}

/// Starts the service and waits for its end.
///
/// Signals are handled from the beginning: the first process of a container ignores those that it
/// does not handle, and could not be stopped during a long import.
async fn run(config: &Config, mut signals: Signals, mut reload: Reload<'_>) -> ExitCode {
    let (started, starting) = oneshot::channel();
    let wanted = config.clone();
    // Blocks until the head is readable. If a signal comes earlier, the process ends, and this
    // thread with it.
    thread::spawn(move || {
        // Sending fails if a signal came first.
        let _ = started.send(Service::start(wanted, progress()));
    });
    let service = tokio::select! {
        service = starting => service,
        () = signals.next() => return ExitCode::SUCCESS,
    };
    let service = match service {
        Ok(Ok(service)) => service,
        Ok(Err(error)) if error.is_misuse() => return fail(MISUSED, &error),
        Ok(Err(error)) => return fail(FAILED, &error),
        Err(_) => return fail(FAILED, &"the service panicked while it started"),
    };
    print(&greeting::greeting(&service, config));
    if config.open {
        open_dashboard(&service);
    }
    tokio::select! {
        () = signals.next() => {}
        () = reload.run(&service) => {}
        reason = service.failed() => return fail(FAILED, &reason),
    }
    tracing::info!("stopping: no new requests are accepted, and those in progress may finish");
    tokio::select! {
        () = service.stop() => ExitCode::SUCCESS,
        // A person at a terminal does not want to wait. A second SIGTERM does not count:
        // supervisors may send it to the process and to its group.
        _ = signals.interrupt.recv() => fail(FAILED, &"stopped at once"),
    }
}

/// Opens the page of the first account if there is none, else the overview.
fn open_dashboard(service: &Service) {
    if let Some(url) = service.first_account_url() {
        match RedirectFile::write(&env::temp_dir(), &url) {
            Ok(file) => {
                open_browser(file.path());
                // It is removed at the end of the program, if that comes first.
                tokio::spawn(async move {
                    tokio::time::sleep(REDIRECT_KEPT).await;
                    drop(file);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no browser is opened: open the printed link yourself");
            }
        }
    } else if let Some(url) = service.admin_url() {
        open_browser(url);
    } else {
        tracing::warn!("there is no dashboard to open: --admin-listen is off");
    }
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
