//! `engine.speculative_config`, `engine.lora_config` and `engine.max_cudagraph_capture_size`: which of their keys stand together, and where they have an effect.

use super::StageChecker;
use crate::manifest::model::{Engine, EngineBackend};
use base::spec::SimScheduler;

impl StageChecker<'_> {
    pub(super) fn lora_config(&mut self, engine: &Engine) {
        if engine.lora_config.is_some() && engine.backend == EngineBackend::TensorrtLlm {
            let hint = "set `build_flags.lora_plugin` and `build_flags.max_lora_rank`; for trtllm-serve and vLLM, `options` of the server";
            self.idle(&["engine", "lora_config"], "only a simulated engine reads it", hint);
        }
    }

    pub(super) fn max_cudagraph_capture_size(&mut self, engine: &Engine) {
        if engine.max_cudagraph_capture_size.is_none() {
            return;
        }
        let path = ["engine", "max_cudagraph_capture_size"];
        let calibration = engine.system.calibration.as_deref();
        if engine.backend == EngineBackend::TensorrtLlm {
            let hint = "for trtllm-serve and vLLM, set `options` of the server";
            self.idle(&path, "only a simulated engine reads it", hint);
        } else if calibration.is_none_or(|calibration| calibration.scheduler != SimScheduler::Vllm) {
            let hint = "set `scheduler: vllm` in the calibration of the system";
            self.idle(&path, "only a simulated engine with vLLM's scheduler reads it", hint);
        }
    }

    pub(super) fn speculative_config(&mut self, engine: &Engine) {
        let Some(config) = &engine.speculative_config else { return };
        let path = ["engine", "speculative_config"];
        if engine.backend == EngineBackend::TensorrtLlm {
            let hint = "set `build_flags.speculative_decoding_mode` and `build_flags.max_draft_len`; for trtllm-serve and vLLM, `options.speculative_config` of the server";
            self.idle(&path, "only a simulated engine reads it", hint);
            return;
        }
        match config.source() {
            Err(error) => self.push_error(&path, "does not say how to draft", &error.to_string(), None),
            Ok((_, drafts)) => {
                if let Err(error) = config.acceptance_rate.given_those_before(drafts) {
                    let path = ["engine", "speculative_config", "acceptance_rate"];
                    self.push_error(&path, "cannot be", &error.to_string(), None);
                }
            }
        }
    }
}
