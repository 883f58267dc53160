//! `make TARGET… NAME=VALUE…` of NVIDIA's MLPerf code: each target becomes the stage that does the same.

use super::harness_table::MakeTarget;
use super::run_args::{HarnessFields, TOOL, placeholder};
use crate::command_line::{RunSetting, SystemNeed, Translation, TranslationBuilder, TranslationError, TranslationKind};
use base::diag::nearest;

/// The benchmark of a line that does not name one.
const DEFAULT_BENCHMARK: &str = "llama2-70b";

/// `make`'s arguments.
pub(crate) fn make(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let mut args = HarnessFields::default();
    let mut elsewhere = Vec::new();
    let mut has_stage = false;
    args.run.system = SystemNeed::Measured;
    let has_run_args = words.iter().any(|word| unquoted(word).starts_with("RUN_ARGS="));
    for word in words {
        let word = unquoted(word);
        // Arguments whose quotes the shell has removed.
        if has_run_args && word.starts_with("--") {
            builder.note(format!("`{word}` is taken for a part of RUN_ARGS: make needs quotes around all of it"));
            args.read(word, &mut builder);
            continue;
        }
        let Some((name, value)) = word.split_once('=') else {
            match MakeTarget::named(word) {
                Some(MakeTarget { elsewhere: Some(reason), .. }) => elsewhere.push((word, reason)),
                Some(MakeTarget { builds, runs, .. }) => {
                    has_stage = true;
                    if !builds.is_empty() {
                        args.run.system = SystemNeed::Real;
                    }
                    args.run.until.extend(builds.iter().chain(runs).cloned());
                }
                None => {
                    let hint = MakeTarget::hint(word);
                    builder.push_error(format!("`make {word}` is not a known target; {hint}"));
                }
            }
            continue;
        };
        variable(name, unquoted(value), word, &mut args, &mut builder);
    }
    audits_of_benchmark(words, &mut args, &mut builder);
    for (word, reason) in elsewhere {
        // Such a target alone leaves nothing to run.
        if has_stage {
            builder.push_untranslated(word, reason);
        } else {
            builder.push_error(format!("`make {word}`: {reason}"));
        }
    }
    if !has_stage && builder.problems.is_empty() {
        builder
            .push_error("there is no target in the line: `make run_harness RUN_ARGS=\"--benchmarks=… --scenarios=…\"`");
    }
    if args.run.manifests.is_empty() && builder.problems.is_empty() {
        let measured = ["run_harness", "run_audit_harness"];
        if args.run.until.iter().any(|stage| measured.contains(&stage.as_str())) {
            builder.push_error("no benchmark is given: RUN_ARGS=\"--benchmarks=… --scenarios=…\"");
        }
        builder.note(format!(
            "the line names no benchmark: it is imported as the manifest `{DEFAULT_BENCHMARK}`. An output that is made \
            from the same settings is shared: all benchmarks of a round have one image, one TensorRT-LLM and one \
            Triton"
        ));
        args.run.manifests.push(DEFAULT_BENCHMARK.to_owned());
    }
    if args.run.until.iter().any(|stage| stage == "dataset") {
        builder.note(
            "without preprocessed_data=FOLDER, MLCommons' processed data set, a stand-in of its shape and \
            lengths is made",
        );
    }
    args.run.until.dedup();
    let run = args.finish(&mut builder);
    builder.finish(TOOL, TranslationKind::Run(run))
}

/// The audits of gpt-oss-120b are TEST07 and TEST09, those of all others TEST06; `run_audit_harness` runs what the
/// benchmark has.
fn audits_of_benchmark(words: &[String], args: &mut HarnessFields, builder: &mut TranslationBuilder) {
    const WITH_TEST07: &str = "gpt-oss-120b";
    let Some(target) = words.iter().map(|word| unquoted(word)).find(|word| word.starts_with("run_audit_")) else {
        return;
    };
    let is_of_one = matches!(target, "run_audit_test07" | "run_audit_test09");
    let has_test07 = args.run.manifests.first().map(|name| name == WITH_TEST07);
    match (target, has_test07) {
        ("run_audit_test07" | "run_audit_test09", None) if builder.problems.is_empty() => {
            builder.note(format!("the line names no benchmark: the one with this audit is {WITH_TEST07}"));
            args.run.manifests.push(WITH_TEST07.to_owned());
        }
        (_, Some(false)) if is_of_one => {
            builder.push_error(format!(
                "`make {target}`: it is an audit of {WITH_TEST07}; this benchmark has run_audit_test06"
            ));
        }
        ("run_audit_test06", Some(true)) => builder.push_error(format!(
            "`make {target}`: {WITH_TEST07} has other audits: `make run_audit_test07` and `make run_audit_test09`"
        )),
        ("run_audit_harness", Some(true)) => {
            args.run.until.retain(|stage| stage != "run_audit_harness");
            args.run.until.extend(["verify_test07", "verify_test09"].map(str::to_owned));
        }
        _ => {}
    }
}

/// Without quotes that were passed on as part of an argument.
fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Variables with flags of TensorRT-LLM, which the Makefile passes on.
pub const FLAG_VARIABLES: [&str; 3] = ["TRTLLM_CHECKPOINT_FLAGS", "TRTLLM_BUILD_FLAGS", "TRTLLM_RUNTIME_FLAGS"];

fn variable(name: &str, value: &str, word: &str, args: &mut HarnessFields, builder: &mut TranslationBuilder) {
    if let Some(placeholder) = placeholder(value).filter(|_| name != "RUN_ARGS") {
        return builder.push_error(format!(
            "`{word}`: {placeholder} is a placeholder of the page: write a value of yours in its place"
        ));
    }
    match name {
        "RUN_ARGS" => args.read(value, builder),
        "LOG_DIR" => args.run.copy_results_to = Some(value.to_owned()),
        "MLPERF_SCRATCH_PATH" | "DOCKER_TAG" | "ENV" | "NO_DISPLAY_RESULTS" => {
            builder.push_untranslated(
                word,
                format!("{name} is of their build tree; outputs and logs are kept with the run"),
            );
        }
        "SYSTEM_NAME" => args.system(value, word),
        "BENCHMARKS" | "BENCHMARK" => args.benchmarks(value, builder),
        // The field of the same name, in capitals.
        name if FLAG_VARIABLES.contains(&name) => args.field(&name.to_lowercase(), value, builder),
        "TRTLLM_HASH" => args.run.settings.push(RunSetting::new("trt_llm_rev", value, word)),
        _ => match nearest(
            name,
            ["RUN_ARGS", "BENCHMARKS", "SYSTEM_NAME", "LOG_DIR", "TRTLLM_BUILD_FLAGS", "TRTLLM_RUNTIME_FLAGS"],
        ) {
            Some(near) => {
                builder.push_error(format!("`{name}` is not a variable of the Makefile; did you mean `{near}`?"));
            }
            None => builder.push_untranslated(word, "language models do not use the variable"),
        },
    }
}
