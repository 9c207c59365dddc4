//! Panics as log lines: one line for each, in the format of the log.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    cell::Cell,
    panic::{self, PanicHookInfo},
    thread,
};

/// The target of these lines. They pass every filter that does not name it.
pub(super) const TARGET: &str = "nearhead::panic";

thread_local! {
    /// How many lines this thread has logged.
    static LOGGED: Cell<u64> = const { Cell::new(0) };
}

/// The same writer, which counts the lines of each thread.
pub(super) fn counted<W>(writer: impl Fn() -> W) -> impl Fn() -> W {
    move || {
        LOGGED.set(LOGGED.get().wrapping_add(1));
        writer()
    }
}

/// Logs each panic from now on. One that is not logged goes to the hook that was there before, as
/// text: where a filter drops it, and where the thread is within the subscriber, which then takes
/// no line of a subscriber that is not the global one.
///
/// The line has the panic's message, its place, the name of its thread and, if `RUST_BACKTRACE`
/// asks for it, the backtrace.
pub(super) fn log_all() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if !is_logged(panic) {
            show(panic);
        }
    }));
}

/// Logs a panic; returns whether a line was written.
///
/// The subscriber may be at work below, on this thread. It takes another line then, because no lock
/// is held while a value of a line is formatted. It holds one while a span records a value: no such
/// value can panic.
fn is_logged(panic: &PanicHookInfo<'_>) -> bool {
    let before = LOGGED.get();
    let thread = thread::current();
    let backtrace = Backtrace::capture();
    let is_wanted = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = is_wanted.then(|| backtrace.to_string());
    // Text that is a value of a field takes one line in both formats, whatever is in it.
    tracing::error!(
        target: TARGET,
        reason = panic.payload_as_str().unwrap_or("a value that is no text"),
        thread = thread.name(),
        backtrace,
        "panicked at {}",
        panic.location().map(ToString::to_string).unwrap_or_default()
    );
    LOGGED.get() != before
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use std::{
        fmt,
        io::{self, Write},
        panic::catch_unwind,
        sync::Arc,
    };

    use parking_lot::Mutex;
    use tracing_subscriber::{EnvFilter, fmt::layer, layer::SubscriberExt as _, registry};

    use super::*;

    /// What was written by one thread.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Written {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap()
        }
    }

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Panicking;

    impl fmt::Display for Panicking {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in a value")
        }
    }

    #[test]
    fn each_panic_is_seen_once() {
        let (log, shown) = (Written::default(), Written::default());
        let this = thread::current().id();
        let others = panic::take_hook();
        let to = shown.clone();
        panic::set_hook(Box::new(move |panic| {
            match thread::current().id() == this {
                true => writeln!(to.clone(), "{}", panic.payload_as_str().unwrap()).unwrap(),
                // Those of other tests.
                false => others(panic),
            }
        }));
        log_all();
        let subscriber = |filter: &str| {
            let to = log.clone();
            let lines = layer()
                .with_ansi(false)
                .without_time()
                .with_writer(counted(move || to.clone()));
            registry().with(EnvFilter::new(filter)).with(lines)
        };
        let check = |filter: &str, fails: fn(), [logged, is_shown]: [&str; 2]| {
            tracing::subscriber::with_default(subscriber(filter), || {
                assert!(catch_unwind(fails).is_err());
            });
            let (line, text) = (log.take(), shown.take());
            // The place, and the backtrace if the environment asks for it, are not compared.
            let (begin, end) = logged.split_once(" … ").unwrap_or((logged, ""));
            assert!(line.starts_with(begin) && line.contains(end), "{line}");
            let lines = usize::from(!logged.is_empty());
            assert_eq!(line.lines().count(), lines, "{line}");
            assert_eq!(text.trim_end(), is_shown);
        };
        let logged = r#"ERROR nearhead::panic: panicked at src/logging/panics.rs … reason="two\nlines" thread="logging::"#;
        check("info", || panic!("two\nlines"), [logged, ""]);
        let logged = "ERROR nearhead::panic: panicked at … reason=\"a value that is no text\"";
        check("info", || panic::panic_any(7), [logged, ""]);
        check("off", || panic!("unheard"), ["", "unheard"]);
        let within = || tracing::info!(value = %Panicking);
        check("info", within, ["", "in a value"]);
        assert!(catch_unwind(|| panic!("before the log")).is_err());
        assert_eq!(shown.take(), "before the log\n");
    }
}
