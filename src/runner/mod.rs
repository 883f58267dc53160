//! Decides what may start and what must stop: a pure schedule and one async loop. Owns `trait Work`.
//!
//! The runner does not know what a shell, a clone or a server is; it knows steps, services, slots, GPUs, keys and
//! outcomes.

mod work;

pub use work::{Assignment, Lease, Work};
