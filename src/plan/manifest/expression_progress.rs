//! The expression that is being computed, for a watcher that can name it.
//!
//! minijinja bounds steps, not memory: a text can double in every step of a loop, and `sort`, `list` or `==` may take long in one
//! step. Neither can be interrupted from within, so another thread looks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use base::diag::Span;

/// By number; with several threads there are several.
static CURRENT: Mutex<BTreeMap<u64, (Span, Instant)>> = Mutex::new(BTreeMap::new());
static BEGUN: Condvar = Condvar::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An expression is being computed while this exists.
#[derive(Debug)]
pub struct ExpressionProgress(u64);

impl ExpressionProgress {
    pub fn begin(span: &Span) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        CURRENT.lock().insert(number, (span.clone(), Instant::now()));
        BEGUN.notify_all();
        Self(number)
    }
}

impl Drop for ExpressionProgress {
    fn drop(&mut self) {
        CURRENT.lock().remove(&self.0);
    }
}

/// Where the expression is written that is being computed now, and when that began. Of several, the one that began first.
pub fn expression_in_progress() -> Option<(Span, Instant)> {
    CURRENT.lock().first_key_value().map(|(_, current)| current.clone())
}

/// Waits until one is being computed.
pub fn wait_for_expression() {
    BEGUN.wait_while(&mut CURRENT.lock(), |current| current.is_empty());
}
