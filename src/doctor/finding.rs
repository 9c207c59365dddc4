use std::fmt;

/// One line of the result, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub(super) subject: String,
    /// How it is.
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) found: String,
    /// What to change, unless it is good.
    pub(super) change: Option<&'static str>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// The service works, but less well than it could.
    Weak,
    /// The service does not work.
    Bad,
}

impl Finding {
    pub(super) fn good(subject: impl Into<String>, found: String) -> Self {
        Self {
            subject: subject.into(),
            verdict: Verdict::Good,
            found,
            change: None,
        }
    }

    pub(super) fn weak(subject: impl Into<String>, found: String, change: &'static str) -> Self {
        Self {
            subject: subject.into(),
            verdict: Verdict::Weak,
            found,
            change: Some(change),
        }
    }

    pub(super) fn bad(subject: impl Into<String>, found: String, change: &'static str) -> Self {
        Self {
            verdict: Verdict::Bad,
            ..Self::weak(subject, found, change)
        }
    }

    /// How it is.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Good => "good",
            Verdict::Weak => "weak",
            Verdict::Bad => "BAD ",
        };
        write!(f, "{verdict}  {}: {}", self.subject, self.found)?;
        match self.change {
            Some(change) => write!(f, "\n      {change}"),
            None => Ok(()),
        }
    }
}
