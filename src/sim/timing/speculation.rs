//! Speculative decoding: how many tokens a step makes that verifies drafts, and what it costs.

use serde::{Deserialize, Serialize};

use super::{Coefficients, DecoderModel, StepWork};
use crate::random::mix;
use base::spec::{AcceptanceRate, AcceptanceRateError};

/// What drafts the tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Drafter {
    /// A look-up in the text so far, on the host: no GPU time.
    NGram,
    /// One layer more of the model itself, with its output layer (Eagle, MTP). It is a part of the model's step: nothing is launched for it.
    Layer,
    /// A model of its own, whose passes are launched one by one.
    Model(Box<DecoderModel>),
}

/// Speculative decoding as it is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafting {
    pub drafter: Drafter,
    /// Tokens drafted for each request in each step.
    pub draft_len: u32,
    pub acceptance: AcceptanceRate,
}

/// Speculative decoding as the core runs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speculation {
    /// Tokens drafted for each request in each step, one after the other.
    pub draft_len: u64,
    /// For each of them: the probability that it is accepted where all before it are.
    pub acceptance: Vec<f64>,
    /// A pass of the drafter. `None`: it costs no GPU time.
    pub drafter: Option<Coefficients>,
}

/// So that the draws are not those of the lengths.
const SEED: u64 = 0x6472_6166_7473;

impl Drafting {
    /// With the cost of a drafter's pass.
    pub(crate) fn resolve(&self, drafter: Option<Coefficients>) -> Result<Speculation, AcceptanceRateError> {
        let acceptance = self.acceptance.given_those_before(self.draft_len)?;
        Ok(Speculation { draft_len: u64::from(self.draft_len), acceptance, drafter })
    }

    /// The drafter as a model. `None`: it has no weights.
    pub(crate) fn model(&self, target: &DecoderModel) -> Option<DecoderModel> {
        match &self.drafter {
            Drafter::NGram => None,
            Drafter::Layer => Some(one_layer(target)),
            Drafter::Model(model) => Some((**model).clone()),
        }
    }
}

/// A layer of a model, and its output layer. Its input layer is the model's own.
fn one_layer(model: &DecoderModel) -> DecoderModel {
    let vocabulary = u64::from(model.vocab_size) * u64::from(model.hidden_size);
    let layer = |parameters: u64| {
        parameters.saturating_sub(2 * vocabulary) / u64::from(model.num_hidden_layers.max(1)) + vocabulary
    };
    DecoderModel {
        name: format!("a layer of {}", model.name),
        parameters: layer(model.parameters),
        active_parameters: layer(model.active_parameters),
        num_hidden_layers: 1,
        ..model.clone()
    }
}

impl Speculation {
    /// Tokens that a request makes in a step, from 1 to `draft_len` + 1: the accepted drafts, and the one that the model itself
    /// adds. A function of the request and of how many tokens it has: the same on both clocks, and after a preemption.
    pub(crate) fn tokens(&self, request: u64, made: u64) -> u64 {
        let stream = mix(mix(SEED ^ request).wrapping_add(made));
        let drawn = |position: u64| (mix(stream.wrapping_add(position)) >> 11) as f64 / (1_u64 << 53) as f64;
        let accepted = self.acceptance.iter().zip(0..).take_while(|&(rate, position)| drawn(position) < *rate).count();
        accepted as u64 + 1
    }

    /// One step, nanoseconds: prompts pass the model and the drafter; each request that generates has its last token and its drafts
    /// verified at once, and new ones drafted in as many passes.
    pub(crate) fn step_ns(&self, model: &Coefficients, work: &StepWork) -> u64 {
        let verified = model.verify_ns(work, self.draft_len + 1);
        let Some(drafter) = &self.drafter else { return verified };
        let prompts = StepWork { generating: 0, kv_tokens: 0, ..*work };
        let drafts = StepWork { generating: work.generating, kv_tokens: work.kv_tokens, ..StepWork::default() };
        let prompt = if work.context_tokens > 0 { drafter.verify_ns(&prompts, 1) } else { 0 };
        let draft = if work.generating > 0 { drafter.verify_ns(&drafts, 1) } else { 0 };
        verified + prompt + self.draft_len * draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::tests::llama_8b;
    use proptest::prelude::*;

    fn drafts(acceptance: AcceptanceRate, draft_len: u32) -> Speculation {
        Drafting { drafter: Drafter::NGram, draft_len, acceptance }.resolve(None).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The formula of Leviathan, Kalman and Matias (2023), equation 1.
        #[test]
        fn a_step_makes_as_many_tokens_as_the_formula_says(rate in 0.0_f64..0.98, draft_len in 1_u32..12, request in 0_u64..1000) {
            let speculation = drafts(AcceptanceRate::Same(rate), draft_len);
            let formula = (1.0 - rate.powi(draft_len as i32 + 1)) / (1.0 - rate);
            let steps = 20_000_u64;
            let drawn: Vec<u64> = (0..steps).map(|made| speculation.tokens(request, made)).collect();
            prop_assert!(drawn.iter().all(|tokens| (1..=u64::from(draft_len) + 1).contains(tokens)));
            let mean = drawn.iter().sum::<u64>() as f64 / steps as f64;
            // No draw is further from the mean than draft_len + 1; five standard errors of it.
            let error = 5.0 * f64::from(draft_len + 1) / 2.0 / (steps as f64).sqrt();
            prop_assert!((mean - formula).abs() < error, "{} instead of {}", mean, formula);
        }
    }

    #[test]
    fn positions_are_accepted_as_often_as_is_said() {
        let rates = [0.9, 0.6, 0.1];
        let speculation = drafts(AcceptanceRate::PerPosition(rates.to_vec()), 3);
        let drawn: Vec<u64> = (0..50_000).map(|made| speculation.tokens(7, made)).collect();
        for (position, rate) in (1..).zip(rates) {
            let share = drawn.iter().filter(|tokens| **tokens > position).count() as f64 / 50_000.0;
            assert!((share - rate).abs() < 0.01, "{share} at {position}");
        }
    }

    #[test]
    fn a_layer_is_a_small_part_of_its_model() {
        let (model, layer) = (llama_8b(), one_layer(&llama_8b()));
        assert_eq!(layer.num_hidden_layers, 1);
        // 218 million of the layer and 525 million of the output.
        assert_eq!(layer.parameters / 1_000_000, 743);
        assert!(layer.parameters * 10 < model.parameters);
    }
}
