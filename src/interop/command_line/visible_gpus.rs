//! `CUDA_VISIBLE_DEVICES` before a command.

use super::program::Env;
use super::translation::TranslationBuilder;

/// The lease decides which GPUs are visible.
pub(crate) fn visible(env: &Env, builder: &mut TranslationBuilder) {
    if env.has("CUDA_VISIBLE_DEVICES") {
        builder.push_untranslated(
            "CUDA_VISIBLE_DEVICES=…",
            "as many as the model needs are leased; `regatta run … --gpus` selects them",
        );
    }
}
