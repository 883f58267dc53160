//! RUN_ARGS of NVIDIA's MLPerf code, the fields that its programs take: what each one sets here.
//!
//! The fields are those of round v5.1 with those that v6.0 added.

use super::benchmarks::{BENCHMARKS, benchmark};
pub(crate) use super::make_targets::make;
use super::placeholder::placeholder;
use super::system_name::system_name;
use super::{tuning_fields, untranslated_fields};
use crate::command_line::translation::{
    RunLine, RunSetting, SystemNeed, Translation, TranslationBuilder, TranslationKind,
};
use crate::command_line::translation_error::TranslationError;
use base::diag::{did_you_mean, nearest};

pub(super) const TOOL: &str = "RUN_ARGS";

/// Fields that are read here; those of the engine, the servers and the clients are in `tuning_fields`.
const FIELDS: [&str; 23] = [
    "benchmarks",
    "models",
    "scenarios",
    "accuracy_target",
    "config_ver",
    "system_name",
    "harness_type",
    "core_type",
    "test_mode",
    "test_run",
    "min_duration",
    "min_query_count",
    "server_target_qps",
    "offline_expected_qps",
    "engine_dir",
    "model_path",
    "calib_data_dir",
    "tensor_path",
    "gpu_indices",
    "log_dir",
    "triton_skip_server_spawn",
    "triton_grpc_ports",
    "triton_server_urls",
];

/// What the fields come to.
#[derive(Debug, Default)]
pub(super) struct HarnessFields {
    pub run: RunLine,
    /// Regatta's names; empty where the line names none.
    scenarios: Vec<String>,
    tuning: Vec<tuning_fields::TuningField>,
    /// Interactive was a benchmark of its own once.
    is_interactive: bool,
    skips_server_spawn: bool,
    endpoints: Option<RunSetting>,
}

/// Whether words that begin with an option are of RUN_ARGS, and not the rest of another command.
pub(crate) fn begin(first: &str, rest: &[String]) -> bool {
    const OWN: [&str; 7] =
        ["benchmarks", "scenarios", "accuracy_target", "config_ver", "harness_type", "core_type", "test_mode"];
    let words = std::iter::once(first).chain(rest.iter().map(String::as_str)).flat_map(str::split_whitespace);
    let mut names = words.filter_map(|word| word.strip_prefix("--")?.split('=').next());
    names.any(|name| OWN.contains(&name) || nearest(name, ["benchmarks", "scenarios"]).is_some())
}

/// The line alone.
pub(crate) fn translate_run_args(words: &[String]) -> Result<Translation, TranslationError> {
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
            if let Some(found) = placeholder(value) {
                let instead = match name {
                    "benchmarks" | "models" => "write one of llama2-70b, mixtral-8x7b, llama3.1-405b, llama3.1-8b",
                    "scenarios" => "write one of Offline, Server, Interactive",
                    "triton_grpc_ports" => "write the number of a port",
                    "engine_dir" => "write the folder of an engine",
                    _ => "write a value of yours",
                };
                builder.push_error(format!(
                    "`--{name}={value}`: {found} is a placeholder of the page: {instead} in its place"
                ));
                continue;
            }
            self.field(name, value, builder);
        }
    }

    fn field(&mut self, name: &str, value: &str, builder: &mut TranslationBuilder) {
        let word = format!("--{name}={value}");
        let mut set = |name: &str, value: String| self.run.settings.push(RunSetting::new(name, value, &word));
        match name {
            "benchmarks" | "models" => self.benchmarks(value, builder),
            "scenarios" => self.read_scenarios(value, builder),
            // Up to v5.0 it names the settings, whose accuracy is in their name.
            "config_ver" => match value {
                "default" => set("accuracy", "99".to_owned()),
                _ if value.starts_with("high_accuracy") => set("accuracy", "99.9".to_owned()),
                _ if value.contains("maxq") || value.contains("MaxQ") => {
                    builder.push_untranslated(word, "settings of MaxQ are not on file: those of MaxP run");
                }
                _ => builder.push_untranslated(word, "the settings of a system are in its file; `accuracy=99.9` is the other target"),
            },
            "accuracy_target" => match value {
                ".99" | "0.99" => set("accuracy", "99".to_owned()),
                ".999" | "0.999" => set("accuracy", "99.9".to_owned()),
                _ => builder.push_error(format!("`{word}`: the targets are .99 and .999")),
            },
            "system_name" => self.system(value, &word),
            "harness_type" => match value {
                "triton" => set("backend", "triton".to_owned()),
                "custom" => builder.push_untranslated(
                    word,
                    "the Custom harness runs the engine in its own process; here Triton serves the engine. \
                     `regatta import LOG_FOLDER` makes a result of a Custom run, and `regatta run ratio` compares the two",
                ),
                _ => builder.push_untranslated(word, "there are the harnesses custom and triton"),
            },
            "core_type" => match value {
                "triton_grpc" => set("backend", "triton".to_owned()),
                "trtllm_endpoint" => set("backend", "trtllm_serve".to_owned()),
                "trtllm_executor" | "trtllm_hlapi" => {
                    builder.push_untranslated(word, "it runs the engine in the harness's own process; here it is served");
                }
                _ => builder.push_untranslated(word, "there are triton_grpc and trtllm_endpoint"),
            },
            "test_mode" => match value {
                "PerformanceOnly" => self.run.until = vec!["run_harness".to_owned()],
                // The harness scores the answers when it ends.
                "AccuracyOnly" => self.run.until = vec!["score".to_owned()],
                _ => builder.push_untranslated(word, "performance and accuracy are stages of the manifest"),
            },
            "test_run" => {
                set("rehearse", "true".to_owned());
                set("duration", "60s".to_owned());
                builder.note("--test_run: there each scenario takes at least a minute, and all samples of the data set; here `rehearse=true` has fewer, `samples=N` sets how many");
            }
            "min_duration" => set("duration", format!("{value}ms")),
            "min_query_count" => set("samples", value.to_owned()),
            // A parameter of the shipped pipelines; others may have NVIDIA's name.
            "server_target_qps" => {
                let names = ["server_target_qps", "target_qps"].map(str::to_owned).to_vec();
                self.run.settings.push(RunSetting { names, value: value.to_owned(), argument: word });
            }
            "offline_expected_qps" | "engine_dir" | "model_path" | "calib_data_dir" => set(name, value.to_owned()),
            "tensor_path" => set("preprocessed_data", value.to_owned()),
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
                    set("backend", "trtllm_serve".to_owned());
                }
                self.endpoints = Some(RunSetting::new("endpoints", value.replace(',', "|"), word));
                self.skips_server_spawn = true;
            }
            _ => match tuning_fields::read(name, value, &word) {
                Some(Ok(fields)) => self.tuning.extend(fields),
                Some(Err(why)) => builder.push_error(format!("`{word}`: {why}")),
                None => unknown_or_left(name, word, builder),
            },
        }
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
            let hint = did_you_mean(first, BENCHMARKS.iter().map(|(theirs, _)| *theirs)).unwrap_or_default();
            builder.push_error(format!("`{first}` has no meaning here: it is no benchmark of language models; {hint}"));
        }
        for more in names {
            builder.push_untranslated(format!("--benchmarks={more}"), "one run is of one benchmark: a line for each");
        }
    }

    /// A comma separates scenarios; brackets are the page's notation for what may be left out, here all of it is taken.
    fn read_scenarios(&mut self, value: &str, builder: &mut TranslationBuilder) {
        if value.contains('[') {
            builder.note(format!(
                "`--scenarios={value}` is the page's notation for what may be left out: all of it is taken"
            ));
        }
        for one in value.split([',', '[', ']']).filter(|one| !one.is_empty()) {
            match one.to_lowercase().as_str() {
                known @ ("offline" | "server" | "interactive") => self.scenarios.push(known.to_owned()),
                "singlestream" => self.scenarios.push("single_stream".to_owned()),
                "multistream" => {
                    builder.push_untranslated("--scenarios=MultiStream", "language models have no MultiStream");
                }
                _ => {
                    let known = ["Offline", "Server", "Interactive", "SingleStream"];
                    let hint = did_you_mean(one, known).unwrap_or_default();
                    builder.push_error(format!("`{one}` is no scenario; {hint}"));
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
                "--triton_skip_server_spawn needs --triton_grpc_ports=HOST:PORT,PORT|HOST:PORT, the servers that are up",
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

    /// `TRTLLM_BUILD_FLAGS=…` and the like: the field of the same name, in capitals.
    pub fn flags_variable(&mut self, name: &str, value: &str, builder: &mut TranslationBuilder) {
        self.field(&name.to_lowercase(), value, builder);
    }
}

fn unknown_or_left(name: &str, word: String, builder: &mut TranslationBuilder) {
    if let Some(why) = untranslated_fields::reason(name) {
        return builder.push_untranslated(word, why);
    }
    let known = FIELDS.into_iter().chain(tuning_fields::names()).chain(untranslated_fields::names());
    let hint = did_you_mean(name, known.collect::<Vec<_>>()).unwrap_or_default();
    builder.push_error(format!("`--{name}` is not a known field of RUN_ARGS; {hint}"));
}

/// Their harness measures with LoadGen only. Where nothing is measured it would change nothing.
fn by_loadgen(run: &mut RunLine) {
    let ends = |stage: &str| run.until.iter().any(|one| one == stage);
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
        run.tool_defaults.push(("loadgen", "true".to_owned()));
    }
    // `performance` is the default.
    if !tests.is_empty() && tests != ["performance"] {
        run.tool_defaults.push(("tests", tests.join(",")));
    }
}
