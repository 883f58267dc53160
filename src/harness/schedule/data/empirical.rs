//! Observed lengths: values with weights.

use std::sync::Arc;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length and how often it comes, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weighted {
    pub tokens: u32,
    pub weight: f64,
}

pub(in crate::harness) fn draw(values: &Arc<[Weighted]>, rng: &mut impl RngExt) -> u32 {
    let total: f64 = values.iter().map(|value| value.weight).sum();
    let mut left = rng.random::<f64>() * total;
    for value in values.iter() {
        left -= value.weight;
        if left < 0.0 {
            return value.tokens;
        }
    }
    values.iter().rev().find(|value| value.weight > 0.0).map_or(1, |value| value.tokens)
}

pub(in crate::harness) fn fault(values: &[Weighted]) -> Option<&'static str> {
    let wrong = |value: &Weighted| value.tokens == 0 || !value.weight.is_finite() || value.weight < 0.0;
    if values.iter().any(wrong) {
        return Some("every value must be at least 1 and its weight not negative");
    }
    (values.iter().map(|value| value.weight).sum::<f64>() <= 0.0).then_some("no value has a weight")
}
