//! The command line of nearhead: parse, start, wait for a signal.

mod allocator;
mod greeting;
mod open_browser;
mod reload;
mod service_manager;

use std::{
    env, fs::OpenOptions, io, os::unix::fs::OpenOptionsExt as _, process::ExitCode, thread,
    time::Instant,
};

use nearhead::{
    InheritedSockets, Service,
    commands::{self, AdminCommand},
    config::{Command, Config, Export, Health, Init, Resolved},
    doctor::{Verdict, examine},
    export::{self, ExportError},
    health::{self, HealthStatus},
    logging,
    progress::ProgressWriter,
    rpc::Forwarding,
    traces::{Traces, TracesError},
};
use nearhead_actors::source::ProgressReport;
use open_browser::{REDIRECT_KEPT, RedirectFile, open_browser};
use reload::Reload;
use sd_notify::NotifyState;
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
        Ok(Command::Doctor(resolved)) => doctor(&resolved.config),
        Ok(Command::Health(health)) => is_ready(&health),
        Ok(Command::Export(export)) => write_files(&export),
        Ok(Command::Init(file)) => write_new(&file),
        Ok(Command::Administer(command)) => administer(*command),
        Ok(Command::Print(text)) => print(&text),
        Err(error) => fail(MISUSED, &error),
    }
}

/// Says why the program ends. It is the last line on stderr and no line of the log: most reasons
/// are found before there is a log, some commands have none, and no filter may hide the reason.
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

/// Prints what the machine and the nodes lack.
fn doctor(config: &Config) -> ExitCode {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &error),
    };
    let mut is_bad = false;
    runtime.block_on(examine(config, |finding| {
        is_bad |= finding.verdict() == Verdict::Bad;
        print(&format!("{finding}\n"));
    }));
    // What still waits for a disk or a name server ends with the process.
    runtime.shutdown_background();
    match is_bad {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
    }
}

/// Prints whether a running service is ready.
fn is_ready(health: &Health) -> ExitCode {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &error),
    };
    let answered = runtime.block_on(health::ask(health));
    // A name server that does not answer ends with the process.
    runtime.shutdown_background();
    match answered {
        Ok(status) => {
            print(&format!("{status}\n"));
            match status {
                HealthStatus::Ready => ExitCode::SUCCESS,
                HealthStatus::NotReady(_) => ExitCode::from(FAILED),
            }
        }
        Err(error) => fail(FAILED, &error),
    }
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

/// Writes a configuration file, unless there is one.
fn write_new(file: &Init) -> ExitCode {
    let path = file.path.display();
    // It is for secrets too.
    let mut new = OpenOptions::new();
    let written = new
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file.path);
    match written.and_then(|mut to| io::Write::write_all(&mut to, file.text.as_bytes())) {
        Ok(()) => print(&format!(
            "wrote {path}: try nearhead check --config {path}\n"
        )),
        Err(error) => fail(FAILED, &format_args!("cannot write {path}: {error}")),
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
    let mut config = resolved.config.clone();
    let sockets = match InheritedSockets::of_process(&mut config) {
        Ok(sockets) => sockets,
        Err(error) => return fail(MISUSED, &error),
    };
    let traces = match traces(&config) {
        Ok(traces) => traces,
        Err(error) => return fail(FAILED, &error),
    };
    logging::start(&config, &traces);
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(FAILED, &error),
    };
    let code = runtime.block_on(async {
        match (Signals::new(), Reload::new(resolved)) {
            (Ok(signals), Ok(reload)) => run(sockets, &config, &traces, signals, reload).await,
            (Err(error), _) | (_, Err(error)) => fail(FAILED, &error),
        }
    });
    if code == ExitCode::SUCCESS {
        traces.stop();
    }
    code
}

/// Starts sending traces to a collector, if one is configured.
fn traces(config: &Config) -> Result<Traces, TracesError> {
    match &config.otlp_endpoint {
        Some(collector) => Traces::start(collector, config.otlp_sample_ratio),
        None => Ok(Traces::default()),
    }
}

/// Starts the service and waits for its end.
///
/// Signals are handled from the beginning: the first process of a container ignores those that it
/// does not handle, and could not be stopped during a long import.
async fn run(
    sockets: InheritedSockets,
    config: &Config,
    traces: &Traces,
    mut signals: Signals,
    mut reload: Reload<'_>,
) -> ExitCode {
    let (started, starting) = oneshot::channel();
    let (wanted, traces) = (config.clone(), traces.clone());
    // Blocks until the head is readable. If a signal comes earlier, the process ends, and this
    // thread with it.
    thread::spawn(move || {
        // Sending fails if a signal came first.
        let _ = started.send(Service::start_on(sockets, wanted, traces, progress()));
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
    service_manager::notify(&[NotifyState::Ready]);
    if config.open {
        open_dashboard(&service);
    }
    tokio::select! {
        () = signals.next() => {}
        () = reload.run(&service) => {}
        () = service_manager::report_liveness(&service) => {}
        reason = service.failed() => return fail(FAILED, &reason),
    }
    service_manager::notify(&service_manager::stopping(config));
    tokio::select! {
        () = service.stop() => ExitCode::SUCCESS,
        // A key that is revoked meanwhile lets nobody in.
        () = reload.run(&service) => ExitCode::SUCCESS,
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
