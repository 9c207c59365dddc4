//! Every metric: name, unit, labels.

/// All metrics; handles are resolved once, cloning shares them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: prometheus::Registry,
}

impl Metrics {
    /// Metrics of one service, all at zero.
    ///
    /// # Errors
    /// Two metrics have one name: a defect of this file, found by its test.
    pub fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            registry: prometheus::Registry::new(),
        })
    }
}
