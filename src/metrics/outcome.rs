//! The outcomes of requests, and their labels.

/// What became of a request, as metrics and the access log show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was answered.
    Ok,
    /// The client's mistake.
    Invalid,
    /// Not allowed: key or quota.
    Denied,
    /// Not possible now: no permit was free, or no upstream has the state.
    Refused,
    /// It took too long.
    Timeout,
    /// A defect of this program.
    Internal,
}

impl Outcome {
    /// All of them, in the order of their declaration.
    pub(crate) const ALL: [Self; 6] = [
        Self::Ok,
        Self::Invalid,
        Self::Denied,
        Self::Refused,
        Self::Timeout,
        Self::Internal,
    ];

    /// Its name in metrics and logs.
    #[must_use]
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_listed_in_the_order_of_their_declaration() {
        for (position, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, position);
        }
    }
}
