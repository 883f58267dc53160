//! RUN_ARGS of NVIDIA's MLPerf code, the fields that its programs take: what each one sets here.
//!
//! `make TARGET… NAME=VALUE…` of NVIDIA's MLPerf code: each target becomes the stage that does the same.

use super::harness_table::{
    HarnessField, HarnessValue, MakeTarget, TuningField, benchmark, benchmark_hint, defaults, system_name,
};
use crate::command_line::{
    ProblemKind, RunLine, RunSetting, SystemNeed, TranslationBuilder, TranslationKind, TranslationResult,
};
use base::diag::{did_you_mean, nearest};
use base::spec::MIN_DURATION_MS;

pub(super) const TOOL: &str = "RUN_ARGS";

/// The meaning of the fields of a line.
#[derive(Debug, Default)]
pub(super) struct HarnessFields {
    pub run: RunLine,
    /// Regatta's names; empty where the line names none.
    scenarios: Vec<String>,
    tuning: Vec<TuningField>,
    /// The benchmark's name ends with `-interactive`, as in earlier rounds.
    is_interactive: bool,
    skips_server_spawn: bool,
    endpoints: Option<RunSetting>,
}

/// Whether words that begin with an option are of RUN_ARGS, and not the rest of another command.
pub(crate) fn begin(first: &str, rest: &[String]) -> bool {
    const FIELDS: [&str; 7] =
        ["benchmarks", "scenarios", "accuracy_target", "config_ver", "harness_type", "core_type", "test_mode"];
    let words = std::iter::once(first).chain(rest.iter().map(String::as_str)).flat_map(str::split_whitespace);
    let mut names = words.filter_map(|word| word.strip_prefix("--")?.split('=').next());
    names.any(|name| FIELDS.contains(&name) || nearest(name, ["benchmarks", "scenarios"]).is_some())
}

/// RUN_ARGS without `make`.
pub(crate) fn translate_run_args(words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let mut args = HarnessFields::default();
    for word in words {
        args.read(word, &mut builder);
    }
    if args.run.manifests.is_empty() && builder.problems.is_empty() {
        builder.push_error("no benchmark is given: --benchmarks=…");
    }
    args.run.system = SystemNeed::Measured;
    let run = args.finish(&mut builder);
    builder.finish(TOOL, TranslationKind::Run(run))
}

impl HarnessFields {
    /// Reads `--field=value --field value …`.
    pub fn read(&mut self, text: &str, builder: &mut TranslationBuilder) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let Some(name) = word.strip_prefix("--") else {
                builder.push_error(format!("`{word}` is not --field=value"));
                continue;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, value),
                // argparse takes the next argument, too.
                None => match words.get(at).filter(|next| !next.starts_with("--")) {
                    Some(next) => {
                        at += 1;
                        (name, *next)
                    }
                    None => (name, "true"),
                },
            };
            if let Some(placeholder) = placeholder(value) {
                let instead = match name {
                    "benchmarks" | "models" => "write one of llama2-70b, mixtral-8x7b, llama3.1-405b, llama3.1-8b",
                    "scenarios" => "write one of Offline, Server, Interactive",
                    "triton_grpc_ports" => "write the number of a port",
                    "engine_dir" => "write the folder of an engine",
                    _ => "write a value of yours",
                };
                builder.push_error(ProblemKind::Placeholder(format!(
                    "`--{name}={value}`: {placeholder} is a placeholder of the page: {instead} in its place"
                )));
                continue;
            }
            self.field(name, value, builder);
        }
    }

    pub fn field(&mut self, name: &str, value: &str, builder: &mut TranslationBuilder) {
        let word = format!("--{name}={value}");
        match name {
            "benchmarks" | "models" => self.benchmarks(value, builder),
            "scenarios" => self.read_scenarios(value, builder),
            "system_name" => self.system(value, &word),
            "test_run" => {
                self.set_once(RunSetting::new("rehearse", "true", &word));
                self.set_once(RunSetting::new("duration", "60s", &word));
                builder.note(
                    "NVIDIA's harness runs each scenario of a --test_run for at least a minute, with all samples \
                    of the data set; `rehearse=true` has fewer, and `samples=N` sets how many",
                );
            }
            "min_duration" => {
                if value.parse::<u64>().is_ok_and(|milliseconds| milliseconds < MIN_DURATION_MS) {
                    self.set_once(RunSetting::new("rehearse", "true", &word));
                    builder.note("a submitted run lasts at least ten minutes; a shorter --min_duration is a rehearsal");
                }
                self.row(name, value, word, builder);
            }
            "gpu_indices" => {
                // A number alone is how many, with a comma behind it which one.
                let list = if value.contains(',') { value.to_owned() } else { format!("{value},") };
                self.run.options.extend(["--gpus".to_owned(), list]);
            }
            "log_dir" => self.run.copy_results_to = Some(value.to_owned()),
            "triton_skip_server_spawn" => self.skips_server_spawn = value != "false",
            "triton_grpc_ports" => self.endpoints = Some(RunSetting::new("endpoints", value, word)),
            "triton_server_urls" | "trtllm_server_urls" => {
                if name.starts_with("trtllm") {
                    self.set_once(RunSetting::new("backend", "trtllm_serve", &word));
                }
                self.endpoints = Some(RunSetting::new("endpoints", value.replace(',', "|"), word));
                self.skips_server_spawn = true;
            }
            _ => match super::harness_table::read(name, value, &word) {
                Some(Ok(fields)) => self.tuning.extend(fields),
                Some(Err(problem)) => builder.push_error(format!("`{word}`: {problem}")),
                None => self.row(name, value, word, builder),
            },
        }
    }

    /// Sets what another field may have set to the same value.
    fn set_once(&mut self, setting: RunSetting) {
        if !self.run.settings.iter().any(|other| other.names == setting.names && other.value == setting.value) {
            self.run.settings.push(setting);
        }
    }

    /// A field that a row of the table describes: it sets a parameter, or has no place.
    fn row(&mut self, name: &str, value: &str, word: String, builder: &mut TranslationBuilder) {
        let Some(field) = HarnessField::named(name).filter(|field| field.is_of_line()) else {
            let hint = HarnessField::hint(name, super::harness_table::names());
            return builder.push_error(format!("`--{name}` is not a known field of RUN_ARGS; {hint}"));
        };
        let value = match field.values.iter().find(|row| row.fits(value)) {
            Some(HarnessValue { until: Some(stage), .. }) => return self.run.until = vec![stage.clone()],
            Some(HarnessValue { value: Some(value), .. }) => value.clone(),
            Some(HarnessValue { reason, .. }) => {
                return builder.push_untranslated(word, reason.as_deref().unwrap_or_default());
            }
            None if field.values.is_empty() && !field.sets.is_empty() => format!("{value}{}", field.unit),
            None => {
                return match &field.error {
                    Some(error) => builder.push_error(format!("`{word}`: {error}")),
                    None => builder.push_untranslated(word, field.reason_in_line().unwrap_or_default()),
                };
            }
        };
        self.set_once(RunSetting { names: field.sets.clone(), value, argument: word });
    }

    /// `SYSTEM_NAME` of make, or the field.
    pub fn system(&mut self, value: &str, word: &str) {
        self.run.settings.push(RunSetting::new("system", system_name(value), word));
    }

    /// `BENCHMARKS` of make, or the field.
    pub fn benchmarks(&mut self, value: &str, builder: &mut TranslationBuilder) {
        let mut names = value.split([',', ' ']).filter(|name| !name.is_empty());
        let Some(first) = names.next() else { return };
        if let Some(name) = benchmark(first) {
            self.run.manifests = vec![name.to_owned(), format!("mlperf/{name}")];
            self.is_interactive = first.ends_with("-interactive");
        } else {
            let hint = benchmark_hint(first);
            builder.push_error(format!("cannot translate `{first}`: it is not a benchmark of language models; {hint}"));
        }
        for more in names {
            builder.push_untranslated_load(
                format!("--benchmarks={more}"),
                "a run has one benchmark: write a line for each",
            );
        }
    }

    /// A comma separates scenarios; brackets are the page's notation for what may be left out, here all of it is taken.
    fn read_scenarios(&mut self, value: &str, builder: &mut TranslationBuilder) {
        if value.contains('[') {
            builder.note(format!(
                "`--scenarios={value}` is the page's notation for what may be left out: all of it is taken"
            ));
        }
        for scenario in value.split([',', '[', ']']).filter(|scenario| !scenario.is_empty()) {
            match scenario.to_lowercase().as_str() {
                name @ ("offline" | "server" | "interactive") => self.scenarios.push(name.to_owned()),
                "singlestream" => self.scenarios.push("single_stream".to_owned()),
                "multistream" => {
                    builder.push_untranslated_load("--scenarios=MultiStream", "language models have no MultiStream");
                }
                _ => {
                    let scenarios = ["Offline", "Server", "Interactive", "SingleStream"];
                    let hint = did_you_mean(scenario, scenarios).unwrap_or_default();
                    builder.push_error(format!("`{scenario}` is not a scenario; {hint}"));
                }
            }
        }
    }

    /// The line of `regatta run`.
    pub fn finish(mut self, builder: &mut TranslationBuilder) -> RunLine {
        if self.is_interactive {
            for scenario in &mut self.scenarios {
                if scenario == "server" {
                    "interactive".clone_into(scenario);
                }
            }
        }
        if !self.scenarios.is_empty() {
            let list = self.scenarios.join(",");
            self.run.settings.insert(0, RunSetting::new("scenarios", &list, format!("--scenarios={list}")));
        }
        match (self.endpoints.take(), self.skips_server_spawn) {
            (Some(endpoints), true) => {
                self.run.settings.push(endpoints);
                // The lengths and rates of a simulated system are not for servers that are up.
                self.run.system = SystemNeed::Real;
            }
            (Some(endpoints), false) => builder.push_untranslated(
                endpoints.argument,
                "ports are leased when servers start; with --triton_skip_server_spawn it names servers that are up",
            ),
            // A placeholder in its place was an error already.
            (None, true) if !builder.problems.is_empty() => {}
            (None, true) => builder.push_error(
                "--triton_skip_server_spawn needs --triton_grpc_ports=HOST:PORT,PORT|HOST:PORT, the servers that are \
                up",
            ),
            (None, false) => {}
        }
        let scenarios = if self.scenarios.is_empty() {
            ["offline", "server"].map(str::to_owned).to_vec()
        } else {
            self.scenarios.clone()
        };
        for field in &self.tuning {
            self.run.settings.extend(field.settings(&scenarios, builder));
        }
        by_loadgen(&mut self.run);
        self.run
    }
}

/// NVIDIA's harness always measures with LoadGen. A line that measures nothing does not need it.
fn by_loadgen(run: &mut RunLine) {
    let ends = |stage: &str| run.until.iter().any(|other| other == stage);
    let tests = [
        ("run_harness", "performance"),
        ("score", "accuracy"),
        ("run_audit_harness", "test06"),
        ("verify_test07", "test07"),
        ("verify_test09", "test09"),
    ];
    let tests: Vec<&str> = tests.into_iter().filter(|(stage, _)| ends(stage)).map(|(_, test)| test).collect();
    let of_loadgen = ["dataset", "build_loadgen"].into_iter().any(ends);
    if run.until.is_empty() || !tests.is_empty() || of_loadgen {
        let is_set = |name: &str| run.settings.iter().any(|setting| setting.names.iter().any(|other| other == name));
        run.tool_defaults = defaults().filter(|(name, _)| !is_set(name)).collect();
    }
    // `performance` is the default.
    if !tests.is_empty() && tests != ["performance"] {
        run.tool_defaults.push(("tests", tests.join(",")));
    }
}

/// The first placeholder in a value, in backquotes.
pub(super) fn placeholder(value: &str) -> Option<String> {
    if let (Some(from), Some(to)) = (value.find('<'), value.rfind('>'))
        && from < to
    {
        return Some(format!("`{}`", &value[from..=to]));
    }
    if value.starts_with("path/to/") || value.starts_with("/path/to/") {
        return Some(format!("`{value}`"));
    }
    let part = value.split(['|', ',', ':']).find(|part| {
        part.strip_prefix("port_").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    });
    part.map(|part| format!("`{part}`"))
}

/// The benchmark of a line that does not name one.
const DEFAULT_BENCHMARK: &str = "llama2-70b";

/// `make`'s arguments.
pub(crate) fn make(words: &[String]) -> TranslationResult {
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
            builder.note(format!("`{word}` is treated as a part of RUN_ARGS: make needs quotes around all of it"));
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
pub(crate) fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

/// Variables with flags of TensorRT-LLM, which the Makefile passes on.
pub const FLAG_VARIABLES: [&str; 3] = ["TRTLLM_CHECKPOINT_FLAGS", "TRTLLM_BUILD_FLAGS", "TRTLLM_RUNTIME_FLAGS"];

fn variable(name: &str, value: &str, word: &str, args: &mut HarnessFields, builder: &mut TranslationBuilder) {
    if let Some(placeholder) = placeholder(value).filter(|_| name != "RUN_ARGS") {
        return builder.push_error(ProblemKind::Placeholder(format!(
            "`{word}`: {placeholder} is a placeholder of the page: write a value of yours in its place"
        )));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_target_has_nvidias_defaults() {
        let defaults = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let TranslationKind::Run(run) = make(&words).expect("a run").kind else { panic!("{line}") };
            run.tool_defaults.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(defaults("run_harness RUN_ARGS=--benchmarks=llama2"), "accuracy=99 loadgen=true round=v6.0");
        assert_eq!(
            defaults("run_harness RUN_ARGS=--benchmarks=llama2 --accuracy_target=.999"),
            "loadgen=true round=v6.0"
        );
        assert_eq!(defaults("generate_engines RUN_ARGS=--benchmarks=llama2"), "");
    }

    #[test]
    fn a_run_that_is_too_short_to_be_submitted_is_a_rehearsal() {
        for (milliseconds, is_rehearsal) in [("180000", true), ("600000", false)] {
            let line = format!("--benchmarks=llama2 --scenarios=Server --min_duration={milliseconds} --test_run");
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let without = translate_run_args(&words[..3]).expect("a run").kind;
            let (TranslationKind::Run(run), TranslationKind::Run(with)) =
                (without, translate_run_args(&words).expect("a run").kind)
            else {
                panic!("{line}")
            };
            let count = |run: &RunLine| run.settings.iter().filter(|setting| setting.names == ["rehearse"]).count();
            assert_eq!((count(&run), count(&with)), (usize::from(is_rehearsal), 1), "{run:?}");
        }
    }

    #[test]
    fn what_two_fields_set_alike_is_set_once() {
        let line = "run_harness RUN_ARGS=--benchmarks=llama2 --core_type=trtllm_endpoint --trtllm_server_urls=h:1";
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let TranslationKind::Run(run) = make(&words).expect("a run").kind else { panic!("{line}") };
        assert_eq!(run.settings.iter().filter(|setting| setting.names == ["backend"]).count(), 1, "{run:?}");
    }

    #[test]
    fn placeholders_of_the_pages_are_known() {
        for (value, expected) in [
            ("<model_name>", Some("`<model_name>`")),
            ("<server/offline>", Some("`<server/offline>`")),
            ("path/to/trtllm/engine", Some("`path/to/trtllm/engine`")),
            ("host_0:port_0,port_1|host_1:port_0", Some("`port_0`")),
            ("host_0:8001,8003", None),
            ("llama2-70b", None),
            (">a<", None),
        ] {
            assert_eq!(placeholder(value).as_deref(), expected, "{value}");
        }
    }
}
