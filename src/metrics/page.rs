//! The page of all metrics, with what is counted elsewhere.

use std::time::{Duration, Instant};

use bytes::Bytes;
use nearhead_actors::{
    admission::{PermitUse, QueueUse},
    read::ReadResources,
    readiness::Readiness,
};
use prometheus::TextEncoder;

use super::{
    Metrics,
    exporter::{gauge, raise},
};

impl Metrics {
    /// As [`Self::render`], but the last page again if it is younger than `age_max`.
    ///
    /// # Errors
    /// A metric cannot be written: a defect.
    pub(crate) fn page(
        &self,
        readiness: &Readiness,
        reads: &ReadResources,
        age_max: Duration,
    ) -> Result<Bytes, prometheus::Error> {
        let mut page = self.newest.0.lock();
        if let Some((gathered, text)) = &*page
            && gathered.elapsed() < age_max
        {
            return Ok(text.clone());
        }
        self.gathered.inc();
        let text = Bytes::from(self.render(readiness, reads)?);
        *page = Some((Instant::now(), text.clone()));
        Ok(text)
    }

    /// All metrics in Prometheus' text format. Counts that are kept elsewhere are copied first.
    ///
    /// # Errors
    /// A metric cannot be written: a defect.
    pub fn render(
        &self,
        readiness: &Readiness,
        reads: &ReadResources,
    ) -> Result<String, prometheus::Error> {
        let _copying = self.copying.lock();
        let panics = reads.admission.panics().total();
        raise(&self.panics, panics);
        self.spans.copy();
        for PermitUse {
            kind,
            in_use,
            available,
        } in reads.admission.permits()
        {
            self.permits_in_use
                .with_label_values(&[kind])
                .set(gauge(in_use as u64));
            self.permits_available
                .with_label_values(&[kind])
                .set(gauge(available as u64));
        }
        for queue in reads.queues() {
            self.copy_queue(&queue);
        }
        self.memory.copy_replies(&reads.replies.usage());
        if let Some(source) = &reads.state {
            self.state.copy(source);
            self.saved.copy(source.saved());
        }
        if let Some(fleet) = &readiness.fleet {
            self.fleet.copy(fleet);
        }
        self.head.copy(readiness);
        self.gather()
    }

    /// Copies what a queue holds and has counted.
    fn copy_queue(&self, queue: &QueueUse) {
        let class = &[queue.class];
        let items = self.queue_items.with_label_values(class);
        items.set(gauge(queue.waiting as u64));
        let taken = self.queue_taken.with_label_values(class);
        raise(&taken, queue.taken);
        let waited = self.queue_wait_seconds.with_label_values(class);
        waited.inc_by((queue.waited.as_secs_f64() - waited.get()).max(0.0));
        for (reason, total) in queue.refused {
            let refused = self.queue_refused.with_label_values(&[queue.class, reason]);
            raise(&refused, total);
        }
        let drain_rate = self.queue_drain_rate.with_label_values(class);
        drain_rate.set(queue.drain_rate);
    }

    /// All metrics as they are.
    pub(crate) fn gather(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}
