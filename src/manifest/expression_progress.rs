//! The expression that is being computed, for a watcher that can name it.
//!
//! minijinja bounds steps, not memory: a text can double in every step of a loop, and `sort`, `list` or `==` may take long in one
//! step. Neither can be interrupted from within, so another thread looks.

use std::time::Instant;

use parking_lot::Mutex;

use crate::diag::Span;

static CURRENT: Mutex<Option<(Span, Instant)>> = Mutex::new(None);

/// An expression is being computed while this exists.
pub(super) struct ExpressionProgress;

impl ExpressionProgress {
    pub fn begin(span: &Span) -> Self {
        *CURRENT.lock() = Some((span.clone(), Instant::now()));
        Self
    }
}

impl Drop for ExpressionProgress {
    fn drop(&mut self) {
        *CURRENT.lock() = None;
    }
}

/// Where the expression is written that is being computed now, and when that began. With several threads, that of one of them.
pub fn expression_in_progress() -> Option<(Span, Instant)> {
    CURRENT.lock().clone()
}
