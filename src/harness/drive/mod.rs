//! Carries a plan out: workers, each with its connections, send requests when they are due and follow their answers.
//!
//! ```text
//!  driver ─→ worker (thread) ─→ dispatcher ─→ in_flight ─→ request_attempt ─→ transport
//! ```

pub(super) mod dispatcher;
pub(super) mod driver;
pub(super) mod external_driver;
pub(super) mod in_flight;
pub(super) mod pacer;
pub(super) mod request_attempt;
mod warm_up;
pub(super) mod worker;
