//! Numbers of `engine:` that no model, machine or engine has: found here, and not after what comes before the build.

use serde_json::Value;

use super::StageChecker;
use crate::manifest::model::Engine;

/// Build flags that count something.
const COUNTS: [&str; 5] = ["max_batch_size", "max_num_tokens", "max_input_len", "max_seq_len", "max_beam_width"];

impl StageChecker<'_> {
    pub(super) fn engine_numbers(&mut self, engine: &Engine) {
        let (model, system) = (&engine.model, &engine.system);
        let counts = [
            ("model", "parameters", model.parameters == 0),
            ("model", "num_hidden_layers", model.num_hidden_layers == 0),
            ("model", "hidden_size", model.hidden_size == 0),
            ("model", "num_attention_heads", model.num_attention_heads == 0),
            ("model", "num_key_value_heads", model.num_key_value_heads == 0),
            ("model", "vocab_size", model.vocab_size == 0),
            ("model", "max_position_embeddings", model.max_position_embeddings == 0),
            ("system", "gpus", system.gpus == 0),
        ];
        for (part, key, _) in counts.into_iter().filter(|(.., is_none)| *is_none) {
            self.push_error(&["engine", part, key], "must be at least 1", "this is 0", None);
        }
        let sizes = [
            ("memory_gb", system.memory_gb),
            ("bandwidth_gbs", system.bandwidth_gbs),
            ("tflops_16bit", system.tflops_16bit),
        ];
        for (key, size) in sizes.into_iter().filter(|(_, size)| !(*size > 0.0 && size.is_finite())) {
            self.push_error(&["engine", "system", key], "must be above 0", &format!("this is {size}"), None);
        }
        for key in COUNTS {
            let Some(count) = engine.build_flags.get(key).and_then(Value::as_f64).filter(|count| *count < 1.0) else {
                continue;
            };
            let label = format!("this is {count}");
            self.push_error(&["engine", "build_flags", key], "must be at least 1", &label, None);
        }
    }
}
