//! The spans of a traced request.
//!
//! Whether a request is traced is decided once, by the server, which makes its first span. Every
//! other span is made by [`step!`](crate::step) below the span that the thread is in, so a request
//! that is not traced makes none. What another task or thread does for a request has its span by
//! [`current`].

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
};

use tracing::Span;

/// The target of these spans, by which a subscriber picks them. No module has a path that begins
/// like this: a directive of a filter is for all that do.
pub const TARGET: &str = "nearhead::request";

/// Open spans with [`TARGET`]. While there is none, which is most of the time, a step does not look
/// at the current span.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A span with [`TARGET`] was made. The subscriber reports it.
pub fn opened() {
    OPEN.fetch_add(1, Ordering::Relaxed);
}

/// A span with [`TARGET`] was closed. The subscriber reports it.
pub fn closed() {
    OPEN.fetch_sub(1, Ordering::Relaxed);
}

thread_local! {
    /// Whether the thread does work that is left out of the trace.
    static IS_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Leaves work out of the trace of its request, if it is not `wanted` there.
pub async fn only_if<F: Future>(wanted: bool, work: F) -> F::Output {
    /// Sets it back, also after a panic.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            IS_LEFT_OUT.set(self.0);
        }
    }

    let mut work = pin!(work);
    poll_fn(|cx| {
        let before = IS_LEFT_OUT.get();
        let _before = Before(before);
        IS_LEFT_OUT.set(before || !wanted);
        work.as_mut().poll(cx)
    })
    .await
}

/// The span of the traced request that this thread works for; a disabled one if it does not work
/// for any.
#[must_use]
pub fn current() -> Span {
    // Relaxed suffices: whatever hands work to this thread synchronizes with it.
    if OPEN.load(Ordering::Relaxed) == 0 || IS_LEFT_OUT.get() {
        return Span::none();
    }
    let span = Span::current();
    // The access log has spans of its own.
    match span.metadata() {
        Some(metadata) if metadata.target() == TARGET => span,
        _ => Span::none(),
    }
}

/// Makes a span below the current one, or below another one, with the fields of
/// [`tracing::info_span!`]; a disabled one if that is disabled.
#[macro_export]
macro_rules! step {
    (below $parent:expr, $name:literal $(, $($fields:tt)+)?) => {{
        let parent: &::tracing::Span = &$parent;
        if parent.is_disabled() {
            ::tracing::Span::none()
        } else {
            ::tracing::info_span!(
                target: $crate::trace::TARGET,
                parent: parent,
                $name
                $(, $($fields)+)?
            )
        }
    }};
    ($name:literal $(, $($fields:tt)+)?) => {
        $crate::step!(below $crate::trace::current(), $name $(, $($fields)+)?)
    };
}

/// The last part of a type's name, without its generic arguments.
pub(crate) fn name_of<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_by_its_last_part() {
        assert_eq!(name_of::<String>(), "String");
        assert_eq!(name_of::<Vec<std::time::Instant>>(), "Vec");
    }

    #[test]
    fn nothing_is_made_below_no_request() {
        opened();
        assert!(current().is_disabled());
        let step = step!("step", answer = 42);
        assert!(step.is_disabled());
        assert!(step!(below step, "below").is_disabled());
        closed();
    }
}
