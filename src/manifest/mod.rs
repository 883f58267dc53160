//! Turns text into a `Manifest` that needs no further checking; owns the JSON Schema.

pub mod model;
