//! Progress of a source or an export, on stderr.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use nearhead_actors::source::Progress;

/// Shows progress: one line that is rewritten on a terminal, a line per second elsewhere.
#[derive(Debug)]
pub struct ProgressWriter<W: Write> {
    output: W,
    rewrites: bool,
    /// The last update: the step, and how much of it was done.
    last: Option<(&'static str, u64)>,
    step_began: Instant,
    shown: Option<Instant>,
    /// The last line may still be rewritten.
    open: bool,
}

impl ProgressWriter<io::Stderr> {
    /// Writes to stderr; `now` is when the work began.
    #[must_use]
    pub fn stderr(now: Instant) -> Self {
        let output = io::stderr();
        let rewrites = output.is_terminal();
        Self::new(output, rewrites, now)
    }
}

impl<W: Write> ProgressWriter<W> {
    /// Nothing is shown before this has passed: a small chain is ready sooner.
    const SILENT: Duration = Duration::from_secs(1);

    /// Writes to `output`, which can rewrite a line if `rewrites`; `now` is when the work began.
    pub(crate) const fn new(output: W, rewrites: bool, now: Instant) -> Self {
        Self {
            output,
            rewrites,
            last: None,
            step_began: now,
            shown: None,
            open: false,
        }
    }

    /// Records progress, and shows it unless a line was shown just before.
    pub fn update(&mut self, progress: Progress, now: Instant) {
        let line = ProgressLine::of(progress);
        let last = self.last.replace((line.step, line.done));
        // Progress that goes back means that the work began again: the window was reset.
        if last.is_some_and(|(step, done)| step != line.step || done > line.done) {
            self.step_began = now;
        }
        let elapsed = now.saturating_duration_since(self.step_began);
        let pause = Duration::from_millis(if self.rewrites { 100 } else { 1_000 });
        let due = match self.shown {
            Some(shown) => now.saturating_duration_since(shown) >= pause,
            None => elapsed >= Self::SILENT,
        };
        let finishes = line.total > 0 && line.done >= line.total && self.shown.is_some();
        if !due && !finishes {
            return;
        }
        self.shown = Some(now);
        let text = line.text(elapsed);
        let start = if self.rewrites { "\r\x1b[K" } else { "" };
        self.open = self.rewrites && !finishes;
        let end = if self.open { "" } else { "\n" };
        // A closed stderr is no reason to stop the work.
        let _ = write!(self.output, "{start}{text}{end}");
        let _ = self.output.flush();
    }
}

/// Ends an open line, so that the next output starts on a new one.
impl<W: Write> Drop for ProgressWriter<W> {
    fn drop(&mut self) {
        if self.open {
            let _ = self.output.write_all(b"\n");
        }
    }
}

/// One line of progress.
struct ProgressLine {
    step: &'static str,
    unit: &'static str,
    count: u64,
    done: u64,
    /// 0 if unknown.
    total: u64,
}

impl ProgressLine {
    const fn of(progress: Progress) -> Self {
        let (step, unit, count, done, total) = match progress {
            Progress::Accounts { done, total } => {
                ("making the genesis", "accounts", done, done, total)
            }
            Progress::Blocks { done, total } => ("making the window", "blocks", done, done, total),
            Progress::Backfill { done, total } => {
                ("filling the window", "blocks", done, done, total)
            }
            Progress::Export { done, total } => ("writing the chain", "blocks", done, done, total),
            Progress::Import {
                blocks,
                bytes,
                bytes_total,
            } => ("importing", "blocks", blocks, bytes, bytes_total),
        };
        Self {
            step,
            unit,
            count,
            done,
            total,
        }
    }

    fn text(&self, elapsed: Duration) -> String {
        let Self {
            step,
            unit,
            count,
            done,
            total,
        } = *self;
        let percent = match total {
            0 => String::new(),
            total => format!(" {}%,", u128::from(done) * 100 / u128::from(total)),
        };
        let rate = u128::from(count) * 1000 / elapsed.as_millis().max(1);
        format!(
            "{step}: {count} {unit},{percent} {} s, {rate} {unit}/s",
            elapsed.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole output after these updates.
    fn shown(rewrites: bool, updates: &[(u64, Progress)]) -> String {
        let began = Instant::now();
        let mut output = Vec::new();
        let mut line = ProgressWriter::new(&mut output, rewrites, began);
        for (millis, progress) in updates {
            line.update(*progress, began + Duration::from_millis(*millis));
        }
        drop(line);
        String::from_utf8(output).unwrap_or_default()
    }

    const fn import(blocks: u64, bytes: u64) -> Progress {
        Progress::Import {
            blocks,
            bytes,
            bytes_total: 1_000,
        }
    }

    #[test]
    fn a_quick_import_shows_nothing() {
        assert_eq!(
            shown(false, &[(10, import(1, 500)), (20, import(2, 1_000))]),
            ""
        );
    }

    #[test]
    fn progress_that_goes_back_starts_the_time_again() {
        let fill = |done| Progress::Backfill { done, total: 127 };
        let updates = [(1_000, fill(100)), (60_000, fill(0)), (62_000, fill(50))];
        let text = shown(false, &updates);
        let last = text.lines().last().unwrap_or_default();
        assert_eq!(last, "filling the window: 50 blocks, 39%, 2 s, 25 blocks/s");
    }

    #[test]
    fn without_a_terminal_one_line_a_second_is_written() {
        let updates = [
            (1_000, import(100, 100)),
            (1_500, import(150, 150)),
            (2_000, import(200, 200)),
            (2_001, import(210, 1_000)),
        ];
        let expected = "importing: 100 blocks, 10%, 1 s, 100 blocks/s\n\
                        importing: 200 blocks, 20%, 2 s, 100 blocks/s\n\
                        importing: 210 blocks, 100%, 2 s, 104 blocks/s\n";
        assert_eq!(shown(false, &updates), expected);
    }

    #[test]
    fn a_terminal_shows_one_line_that_is_rewritten() {
        let accounts = Progress::Accounts { done: 5, total: 10 };
        let updates = [
            (1_000, accounts),
            (1_050, accounts),
            (1_060, import(0, 0)),
            (3_060, import(4, 1_000)),
        ];
        let expected = "\r\x1b[Kmaking the genesis: 5 accounts, 50%, 1 s, 5 accounts/s\
                        \r\x1b[Kimporting: 4 blocks, 100%, 2 s, 2 blocks/s\n";
        assert_eq!(shown(true, &updates), expected);
    }

    #[test]
    fn an_open_line_is_ended_at_the_end() {
        let updates = [(1_000, import(100, 100))];
        let expected = "\r\x1b[Kimporting: 100 blocks, 10%, 1 s, 100 blocks/s\n";
        assert_eq!(shown(true, &updates), expected);
    }

    #[test]
    fn an_unknown_total_has_no_percentage() {
        let piped = |blocks| Progress::Import {
            blocks,
            bytes: 500,
            bytes_total: 0,
        };
        let updates = [(1_000, piped(1)), (1_001, piped(2)), (2_000, piped(3))];
        let expected = "importing: 1 blocks, 1 s, 1 blocks/s\n\
                        importing: 3 blocks, 2 s, 1 blocks/s\n";
        assert_eq!(shown(false, &updates), expected);
    }

    #[test]
    fn each_step_has_its_own_words() {
        let (done, total) = (5, 10);
        for (progress, step) in [
            (
                Progress::Accounts { done, total },
                "making the genesis: 5 accounts",
            ),
            (
                Progress::Blocks { done, total },
                "making the window: 5 blocks",
            ),
            (
                Progress::Backfill { done, total },
                "filling the window: 5 blocks",
            ),
            (
                Progress::Export { done, total },
                "writing the chain: 5 blocks",
            ),
        ] {
            let expected = format!(
                "{step}, 50%, 1 s, 5 {}/s\n",
                ProgressLine::of(progress).unit
            );
            assert_eq!(shown(false, &[(1_000, progress)]), expected);
        }
    }
}
