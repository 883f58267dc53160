//! What is sent and when: arrivals, prompts and their lengths, before anything runs. Pure: the same spec and files give
//! the same plan.
//!
//! ```text
//!  arrivals + draws (lengths, tokens) + data (prompts of files) ─→ plan: RequestSchedule
//! ```

pub(super) mod arrivals;
pub(super) mod data;
pub(super) mod plan;
