//! From the manifest's `bench.request:` to the harness's own types.

use crate::harness;
use crate::manifest::model::{CancelBy, Interface, RandomSeed, Request, ResponseLimits, Words};
use crate::units::duration;

pub fn request(request: &Request) -> Result<harness::Request, String> {
    let words = |words: &Option<Words>| match words {
        None => None,
        Some(Words::Ids(ids)) => Some(harness::Words::Ids(ids.clone())),
        Some(Words::Texts(texts)) => Some(harness::Words::Texts(texts.clone())),
    };
    // Every key is named, so a new one cannot be forgotten.
    let Request {
        interface,
        streaming,
        temperature,
        top_k,
        top_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
        random_seed,
        min_length,
        beam_width,
        num_return_sequences,
        length_penalty,
        early_stopping,
        stop_words,
        bad_words,
        end_id,
        pad_id,
        lora_task_id,
        return_log_probs,
        return_context_logits,
        return_generation_logits,
        return_perf_metrics,
        exclude_input_in_output,
        batch,
        cancel,
        deadline,
        response_limits,
    } = request;
    let ResponseLimits { body, header, line, frame } = response_limits.unwrap_or_default();
    let usual = harness::ResponseLimits::default();
    Ok(harness::Request {
        interface: interface.map(|interface| match interface {
            Interface::TokenIds => harness::Interface::TokenIds,
            Interface::Text => harness::Interface::Text,
        }),
        streaming: *streaming,
        temperature: *temperature,
        top_k: *top_k,
        top_p: *top_p,
        repetition_penalty: *repetition_penalty,
        presence_penalty: *presence_penalty,
        frequency_penalty: *frequency_penalty,
        random_seed: random_seed.and_then(|seed| match seed {
            RandomSeed::Fixed(seed) => Some(harness::RandomSeed::Fixed(seed)),
            RandomSeed::PerRequest(is_drawn) => is_drawn.then_some(harness::RandomSeed::PerRequest),
        }),
        min_length: *min_length,
        beam_width: *beam_width,
        num_return_sequences: *num_return_sequences,
        length_penalty: *length_penalty,
        early_stopping: *early_stopping,
        stop_words: words(stop_words),
        bad_words: words(bad_words),
        end_id: *end_id,
        pad_id: *pad_id,
        lora_task_id: lora_task_id.clone(),
        return_log_probs: *return_log_probs,
        return_context_logits: *return_context_logits,
        return_generation_logits: *return_generation_logits,
        return_perf_metrics: *return_perf_metrics,
        exclude_input_in_output: *exclude_input_in_output,
        batch: *batch,
        cancel: cancel.as_ref().map(|cancel| harness::Cancel {
            after_tokens: cancel.after_tokens,
            share: cancel.share,
            by: match cancel.by {
                CancelBy::Rpc => harness::CancelBy::Rpc,
                CancelBy::Stop => harness::CancelBy::Stop,
            },
        }),
        deadline: deadline.as_deref().map(duration).transpose()?,
        response_limits: harness::ResponseLimits {
            body: body.unwrap_or(usual.body),
            header: header.unwrap_or(usual.header),
            line: line.unwrap_or(usual.line),
            frame: frame.unwrap_or(usual.frame),
        },
    })
}
