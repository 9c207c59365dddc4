//! The right to compress a reply, and the memory that its encoder takes.

use std::sync::Arc;

use actix_web::http::header::ContentEncoding;
use bytes::Bytes;
use nearhead_actors::admission::{ExtraCharge, Permit};

use crate::limits::{BROTLI_BLOCK_BYTES_MAX, BROTLI_BYTES, GZIP_BYTES, ZSTD_BYTES};

/// The right to compress one reply, and the charge for it.
#[derive(Debug)]
pub(super) struct Compression {
    _permit: Permit,
    _charge: ExtraCharge,
}

/// A part of a reply on its way to the encoder. What compresses it on another thread has the
/// encoder as well, and ends after the client has left: so long it is charged.
struct Part {
    bytes: Bytes,
    _compression: Arc<Compression>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Compression {
    pub(super) const fn new(permit: Permit, charge: ExtraCharge) -> Self {
        Self {
            _permit: permit,
            _charge: charge,
        }
    }

    /// A part of the reply, while which is being compressed this is held.
    pub(super) fn part(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Part {
            bytes,
            _compression: Arc::clone(self),
        })
    }
}

/// Bytes that an encoder takes for a reply of this length, with what it gives at once.
pub(super) fn encoder_bytes(encoding: ContentEncoding, len: usize) -> usize {
    match encoding {
        ContentEncoding::Brotli => BROTLI_BYTES + 2 * len.min(BROTLI_BLOCK_BYTES_MAX),
        ContentEncoding::Zstd => ZSTD_BYTES,
        _ => GZIP_BYTES,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{sync::Arc, time::Instant};

    use nearhead_actors::{admission::ReplyBudget, share::Share};
    use tokio::sync::Semaphore;

    use super::*;

    /// Another thread has the encoder, and a part of the reply.
    #[test]
    fn an_encoder_is_charged_until_the_thread_that_has_it_ends() {
        let budget = ReplyBudget::new(100);
        let permits = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&permits).try_acquire_owned().unwrap();
        let now = Instant::now();
        let reply = budget.charge(Share::default(), 10, now).unwrap();
        let compression = Arc::new(Compression::new(permit, reply.extra(20, now).unwrap()));
        let part = compression.part(Bytes::from_static(b"part"));
        // The client leaves.
        drop((reply, compression));
        assert_eq!((budget.usage().used, permits.available_permits()), (20, 0));
        assert_eq!(part, "part");
        drop(part);
        assert_eq!((budget.usage().used, permits.available_permits()), (0, 1));
    }
}
