//! How many drafted tokens a model accepts in speculative decoding.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of drafted tokens that the model accepts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AcceptanceRate {
    /// The probability that a draft is accepted where all before it are, the same at every position.
    Same(#[schemars(range(min = 0, max = 1))] f64),
    /// The share of all steps in which the draft at each position is accepted, as servers count it (`vllm:spec_decode_num_accepted_tokens_per_pos` ÷ `vllm:spec_decode_num_drafts`).
    PerPosition(Vec<f64>),
}

/// What is wrong with an acceptance rate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AcceptanceRateError {
    #[error("{0} is not between 0 and 1")]
    Range(f64),
    #[error("it has {rates} positions, and {drafts} tokens are drafted")]
    Positions { rates: usize, drafts: u32 },
    #[error(
        "position {position} has {rate}, more than the position before it: a draft is only accepted where all before it are"
    )]
    Rises { position: usize, rate: f64 },
}

impl AcceptanceRate {
    /// The probability at each of this many positions that the draft is accepted where all before it are.
    pub fn given_those_before(&self, drafts: u32) -> Result<Vec<f64>, AcceptanceRateError> {
        let within = |rate: f64| (0.0..=1.0).contains(&rate).then_some(rate).ok_or(AcceptanceRateError::Range(rate));
        match self {
            Self::Same(rate) => Ok(vec![within(*rate)?; drafts as usize]),
            Self::PerPosition(rates) => {
                if rates.len() != drafts as usize {
                    return Err(AcceptanceRateError::Positions { rates: rates.len(), drafts });
                }
                let mut before = 1.0;
                let mut conditional = Vec::with_capacity(rates.len());
                for (at, &rate) in rates.iter().enumerate() {
                    let rate = within(rate)?;
                    if rate > before {
                        return Err(AcceptanceRateError::Rises { position: at + 1, rate });
                    }
                    conditional.push(if before > 0.0 { rate / before } else { 0.0 });
                    before = rate;
                }
                Ok(conditional)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_by_position_become_those_after_an_accepted_draft() {
        let read: AcceptanceRate = serde_json::from_str("[0.8, 0.4, 0.4]").unwrap();
        assert_eq!(read.given_those_before(3), Ok(vec![0.8, 0.5, 1.0]));
        let same: AcceptanceRate = serde_json::from_str("0.7").unwrap();
        assert_eq!(same.given_those_before(2), Ok(vec![0.7, 0.7]));
        assert_eq!(read.given_those_before(2), Err(AcceptanceRateError::Positions { rates: 3, drafts: 2 }));
        let rising = AcceptanceRate::PerPosition(vec![0.5, 0.6]);
        assert_eq!(rising.given_those_before(2), Err(AcceptanceRateError::Rises { position: 2, rate: 0.6 }));
        assert_eq!(AcceptanceRate::Same(1.2).given_those_before(1), Err(AcceptanceRateError::Range(1.2)));
        assert_eq!(AcceptanceRate::PerPosition(vec![0.0, 0.0]).given_those_before(2), Ok(vec![0.0, 0.0]));
    }
}
