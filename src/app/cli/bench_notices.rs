//! Options of `regatta bench` that mean nothing here, or nothing beside the others.

use super::bench::BenchLoad;
use super::bench_args::{BackendWord, BenchArgs};
use base::spec::{BenchSweep, Quantity};

/// `data`: what kind of data there are.
pub(super) fn notices(args: &BenchArgs, load: &BenchLoad, data: Option<&str>) -> Vec<String> {
    let mut notices = Vec::new();
    let mut note = |is_given: bool, text: &str| {
        if is_given {
            notices.push(text.to_owned());
        }
    };
    note(args.num_prompts.is_some(), "--num-prompts is not needed: every request has a prompt of its own");
    note(
        args.stability_percentage.is_some(),
        "--stability-percentage is not used: the run ends with its requests or its duration, and the result reports \
         whether it was steady",
    );
    note(
        args.backend == Some(BackendWord::Vllm),
        "--backend is not needed: the model's tensors are read from the server",
    );
    let is_genai_perfs = args.service_kind.is_some() || args.backend.is_some() || args.endpoint_type.is_some();
    note(
        is_genai_perfs && matches!(load, BenchLoad::Rate(_)) && args.arrivals.is_none(),
        "arrivals at a rate are Poisson here and equally spaced in GenAI-Perf: `--arrivals constant` is its law",
    );
    let is_spread = |stddev: &Quantity<f64>| *stddev != Quantity::Known(0.0);
    let (has_data, is_replay) = (data.is_some(), data == Some("plan"));
    let has_rate = match load {
        BenchLoad::Rate(_) => true,
        BenchLoad::Sweep(sweep) => !matches!(sweep, BenchSweep::Concurrency(_)),
        BenchLoad::Concurrency(_) | BenchLoad::Offline | BenchLoad::Trace(_) => false,
    };
    let has_duration = args.duration.is_some() || args.measurement_interval.is_some();
    note(
        has_data && (args.input_tokens.is_some() || is_spread(&args.input_tokens_stddev)),
        "--input-tokens and its deviation are not used: prompts come from --data, as long as they are there",
    );
    note(
        has_data && args.output_tokens.is_none() && is_spread(&args.output_tokens_stddev),
        "--output-tokens-stddev is not used: without --output-tokens answers are as long as the data have it",
    );
    note(has_data && args.prompt_source.is_some(), "--prompt-source is not used: prompts come from --data");
    note(
        is_replay && (args.output_tokens.is_some() || args.max_input_len.is_some() || args.repeat_data),
        "--output-tokens, --max-input-len and --repeat-data are not used: a plan's requests are sent as they are, once",
    );
    note(
        is_replay && (args.requests.is_some() || has_duration),
        "--requests and --duration are not used: all requests of the plan are sent",
    );
    note(
        args.repeat_data && !is_replay && args.requests.is_none() && !has_duration,
        "--repeat-data is not used: without --requests or --duration each record is sent once",
    );
    note(
        args.arrivals.is_some() && !has_rate,
        "--arrivals is not used: only a load at a --rate has a distribution of arrivals",
    );
    note(*load == BenchLoad::Offline && has_duration, "--duration is not used: all requests are sent at once");
    notices
}
