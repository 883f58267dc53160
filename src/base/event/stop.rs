//! The request to stop, in its two strengths.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Shared by everything that runs for one task. First `gently` (TERM, let it finish what it must), then `now` (KILL).
#[derive(Clone, Debug, Default)]
pub struct Stop {
    gently: CancellationToken,
    now: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl Stop {
    pub fn new() -> Self {
        Self::default()
    }

    /// A stop that follows this one, and can be pulled on its own.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { gently: self.gently.child_token(), now: self.now.child_token(), why: Arc::default() }
    }

    pub fn request(&self) {
        self.gently.cancel();
    }

    /// A gentle stop, with a reason for the stopped task. The first reason stays.
    pub fn request_with_reason(&self, why: impl Into<String>) {
        let _ = self.why.set(why.into());
        self.request();
    }

    /// The reason that was given to this one; a child has its own.
    pub fn reason(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    pub fn now(&self) {
        self.gently.cancel();
        self.now.cancel();
    }

    pub fn is_requested(&self) -> bool {
        self.gently.is_cancelled()
    }

    pub fn is_hard_requested(&self) -> bool {
        self.now.is_cancelled()
    }

    /// Resolves once either stop was requested.
    pub async fn requested(&self) {
        self.gently.cancelled().await;
    }

    /// Resolves once the hard stop was requested.
    pub async fn hard_requested(&self) {
        self.now.cancelled().await;
    }
}
