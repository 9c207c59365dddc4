//! Shows on stderr how far a source is.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use nearhead_actors::source::Progress;

/// Shows progress: on a terminal one line that is rewritten, elsewhere a line now and then.
#[derive(Debug)]
pub struct ProgressLine<W> {
    output: W,
    rewrites: bool,
    step: Option<&'static str>,
    step_began: Instant,
    shown: Option<Instant>,
}

impl ProgressLine<io::Stderr> {
    /// For stderr.
    #[must_use]
    pub fn stderr(now: Instant) -> Self {
        let output = io::stderr();
        let rewrites = output.is_terminal();
        Self::new(output, rewrites, now)
    }
}

impl<W: Write> ProgressLine<W> {
    /// Nothing is shown before this: a small chain is ready sooner.
    const SILENT: Duration = Duration::from_secs(1);

    /// For `output`, where a line can be rewritten if `rewrites`; `now` is when the work began.
    pub const fn new(output: W, rewrites: bool, now: Instant) -> Self {
        Self {
            output,
            rewrites,
            step: None,
            step_began: now,
            shown: None,
        }
    }

    /// Takes in how far the work is, and shows it if something was not shown just before.
    pub fn update(&mut self, progress: Progress, now: Instant) {
        let line = Line::of(progress);
        if self
            .step
            .replace(line.step)
            .is_some_and(|step| step != line.step)
        {
            self.step_began = now;
        }
        let elapsed = now.saturating_duration_since(self.step_began);
        let pause = Duration::from_millis(if self.rewrites { 100 } else { 1_000 });
        let due = match self.shown {
            Some(shown) => now.saturating_duration_since(shown) >= pause,
            None => elapsed >= Self::SILENT,
        };
        let finishes = line.done >= line.total && self.shown.is_some();
        if !due && !finishes {
            return;
        }
        self.shown = Some(now);
        let text = line.text(elapsed);
        let (start, end) = match (self.rewrites, finishes) {
            (true, false) => ("\r\x1b[K", ""),
            (true, true) => ("\r\x1b[K", "\n"),
            (false, _) => ("", "\n"),
        };
        // A closed stderr is no reason to stop the work.
        let _ = write!(self.output, "{start}{text}{end}");
        let _ = self.output.flush();
    }
}

/// What is shown.
struct Line {
    step: &'static str,
    unit: &'static str,
    count: u64,
    done: u64,
    total: u64,
}

impl Line {
    const fn of(progress: Progress) -> Self {
        let (step, unit, count, done, total) = match progress {
            Progress::Accounts { done, total } => {
                ("making the genesis", "accounts", done, done, total)
            }
            Progress::Blocks { done, total } => ("making the window", "blocks", done, done, total),
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
        let percent = u128::from(done) * 100 / u128::from(total.max(1));
        let rate = u128::from(count) * 1000 / elapsed.as_millis().max(1);
        format!(
            "{step}: {count} {unit}, {percent}%, {} s, {rate} {unit}/s",
            elapsed.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rewrites: bool, updates: &[(u64, Progress)]) -> String {
        let began = Instant::now();
        let mut line = ProgressLine::new(Vec::new(), rewrites, began);
        for (millis, progress) in updates {
            line.update(*progress, began + Duration::from_millis(*millis));
        }
        String::from_utf8(line.output).unwrap_or_default()
    }

    const fn import(blocks: u64, bytes: u64) -> Progress {
        Progress::Import {
            blocks,
            bytes,
            bytes_total: 1_000,
        }
    }

    #[test]
    fn a_quick_import_says_nothing() {
        assert_eq!(
            shown(false, &[(10, import(1, 500)), (20, import(2, 1_000))]),
            ""
        );
    }

    #[test]
    fn a_line_a_second_where_lines_stay() {
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
    fn one_line_that_is_rewritten_on_a_terminal() {
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
}
