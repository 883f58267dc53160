//! One command: which program it calls, and what that means here; the programs in front of it, which a program that a
//! stage starts as it was written keeps.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::Path;

use serde_json::{Value, json};

use super::script::{called_script, read_commands};
use crate::command_line::{
    ConfiguredLine, Env, LAUNCHER, ProblemKind, Program, Translation, TranslationBuilder, TranslationError,
    TranslationKind, TranslationResult, UntranslatedOption, base, idle, idle_command, on_the_host, prefix_reason,
    program,
};
use crate::nvidia_harness::run_args;
use crate::tensorrt_llm::{convert_checkpoint, prepare_dataset, trtllm_build};
use crate::tools::whole_table;
use crate::triton_backend::{benchmarks, fill_template, tritonserver};
use crate::{
    aiperf, chat_benchmarks, command_server, curl, docker, docker::on_host, downloads, genai_perf, guidellm,
    inference_perf, llmb_run, nvidia_smi, perf_analyzer, sglang, slurm, triton_cli, trtllm_bench, trtllm_serve, vllm,
};
use base::files::{open_text, read_text_up_to};

/// Why a variable in front of a client has no place.
pub(super) const NOT_RUN: &str = "the tool that reads it is not run; set it in the `env` of a stage";

/// What the text around a command states about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// The folder that the script changed to.
    pub folder: Option<String>,
    /// The words of the command that it is behind, where that starts several ranks of it: `srun -N 2 …`.
    before: Vec<String>,
    /// The file that the command's output is redirected to.
    pub written_to: Option<String>,
    /// Files that the text writes or that came with it, with their content.
    pub written: BTreeMap<String, String>,
    /// The folder of the script, in which its files may be, too.
    pub home: Option<String>,
    /// Names of the scripts that are being read.
    pub open_scripts: Vec<String>,
    /// The options of the job's script that its steps have, too.
    pub job: Vec<String>,
    /// How many commands it is inside: `docker run IMAGE COMMAND`.
    depth: usize,
    /// In a container: where its files are on the host, `(HOST, INSIDE)`.
    mounts: Option<Vec<(String, String)>>,
}

impl Surroundings {
    fn inside(&self) -> Self {
        Self { depth: self.depth + 1, before: Vec::new(), written_to: None, ..self.clone() }
    }

    /// The content of a file that the text writes, or that is there. In a container those are there that are mounted.
    fn content(&self, file: &str) -> Option<String> {
        let Some(mounts) = &self.mounts else { return self.content_on_host(file) };
        match mounts.iter().find_map(|(host, inside)| on_host(file, inside, host)) {
            Some(path) => self.content_on_host(&path),
            None => self.written.get(file).cloned(),
        }
    }

    fn content_on_host(&self, file: &str) -> Option<String> {
        let name = file.strip_prefix("./").unwrap_or(file);
        let written = || self.written.get(name).cloned();
        let beside = || small_file(&Path::new(self.home.as_ref()?).join(name));
        written().or_else(|| small_file(Path::new(&self.path(file)))).or_else(beside)
    }

    /// The text of a script that a command names, unless it is being read already.
    pub fn script(&self, file: &str) -> Option<String> {
        let is_open = self.open_scripts.iter().any(|name| name == base(file));
        let content = || self.content(file).or_else(|| self.written.get(base(file)).cloned());
        if is_open { None } else { content() }
    }

    /// Those of the commands in a script of this path.
    pub fn of_script(&self, path: &str) -> Self {
        let mut inner = self.clone();
        inner.open_scripts.push(base(path).to_owned());
        let folder = path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        inner.home = folder.or(inner.home);
        inner
    }

    /// The first line with text of a file that the text writes, or that is there.
    fn first_line(&self, file: &str) -> Option<String> {
        const MOST_BYTES: u64 = 1 << 20;
        let has_text = |line: &String| !line.trim().is_empty();
        let name = file.strip_prefix("./").unwrap_or(file);
        if let Some(written) = self.written.get(name) {
            return written.lines().map(str::to_owned).find(has_text);
        }
        let text = open_text(Path::new(&self.path(file))).ok()?;
        text.take(MOST_BYTES).lines().map_while(Result::ok).find(has_text)
    }

    /// Those of a command whose output goes to this file.
    pub fn with_output(&self, written_to: Option<String>) -> Self {
        Self { written_to, ..self.clone() }
    }

    /// A path as it is from where the script began.
    pub fn path(&self, path: &str) -> String {
        match &self.folder {
            Some(folder) if !path.starts_with(['/', '~', '{']) => {
                format!("{}/{}", folder.trim_end_matches('/'), path.strip_prefix("./").unwrap_or(path))
            }
            _ => path.to_owned(),
        }
    }
}

/// The text of a file; none of one that is too large for settings.
fn small_file(path: &Path) -> Option<String> {
    const MOST_BYTES: u64 = 1 << 20;
    read_text_up_to(path, MOST_BYTES).ok()
}

/// What a command line of another tool means here; on error everything that is wrong with it.
pub fn read_line(words: &[String]) -> TranslationResult {
    let mut translation = match words {
        // One argument is a line that was quoted.
        [line] => read_commands(line, &Surroundings::default())?,
        // The prompt of a terminal.
        [prompt, words @ ..] if prompt == "$" => translate(words, &Surroundings::default())?,
        words => translate(words, &Surroundings::default())?,
    };
    on_the_host(&mut translation);
    Ok(translation)
}

/// What a command means here; on error everything that is wrong with it.
pub(super) fn translate(words: &[String], surroundings: &Surroundings) -> TranslationResult {
    /// The limit of commands nested in commands; documentation pages stay far below it.
    const DEEPEST: usize = 8;
    if surroundings.depth > DEEPEST {
        return Err(TranslationError::new(ProblemKind::TooDeep { deepest: DEEPEST }));
    }
    let inner = |words: &[String]| translate(words, &surroundings.inside());
    let contained = |mounts: &[(String, String)], words: &[String]| {
        translate(words, &Surroundings { mounts: Some(mounts.to_vec()), ..surroundings.inside() })
    };
    let ranks = |before: &[String], words: &[String]| {
        translate(words, &Surroundings { before: before.to_vec(), ..surroundings.inside() })
    };
    let Program { env, path, name, arguments, mut around } = program(words)?;
    let (env, name) = (&env, &name);
    // Its commands have the words in front of it themselves.
    let nested = Surroundings { before: surroundings.before.clone(), ..surroundings.inside() };
    if let Some(called) = called_script(path, env, arguments, &nested) {
        let mut translation = called?;
        keep(&around, &mut translation);
        return Ok(translation);
    }
    if !surroundings.before.is_empty() {
        around.insert(0, surroundings.before.clone());
    }
    let reads_config = matches!(
        (*name, arguments.first().map(String::as_str)),
        ("vllm" | "sglang", Some("serve")) | ("vllm.entrypoints.openai.api_server" | "sglang.launch_server", _)
    );
    let configured = ConfiguredLine::read(arguments, &|file| surroundings.content(file)).filter(|_| reads_config);
    let arguments = configured.as_ref().map_or(arguments, |line| line.arguments.as_slice());
    let mut translation = match (*name, arguments.first().map(String::as_str)) {
        ("launch_triton_server.py", _) => tritonserver::translate_launch_script(env, arguments)?,
        ("prepare_dataset.py", _) => {
            prepare_dataset(&surroundings.path(path), arguments, surroundings.written_to.as_deref())?
        }
        ("tritonserver", _) => tritonserver::translate(path, env, &around, arguments)?,
        ("trtllm-serve", _) if need_own_line(&around) => trtllm_serve::as_written(env, arguments)?,
        ("trtllm-serve", _) => trtllm_serve::translate(env, arguments)?,
        ("vllm", Some("serve")) => vllm::translate(env, arguments, &inner)?,
        ("vllm", Some("bench")) if matches!(arguments.get(1).map(String::as_str), Some("throughput" | "latency")) => {
            vllm::translate(env, arguments, &inner)?
        }
        ("vllm.entrypoints.openai.api_server", _) => vllm::api_server(name, env, arguments)?,
        ("sglang", _) => sglang::sglang(env, arguments)?,
        ("sglang.launch_server", _) => sglang::module(name, env, arguments)?,
        ("llama-server", _) => command_server::LLAMA.translate(&[path], env, arguments)?,
        ("text-generation-launcher", _) => command_server::TGI.translate(&[*name], env, arguments)?,
        ("aiperf", command) if command.is_none_or(|word| word == "profile" || word.starts_with('-')) => {
            let first_line = |file: &str| surroundings.first_line(file);
            without_env(env, aiperf::translate(strip(arguments, "profile"), &first_line)?)
        }
        ("trtllm-bench", _) => trtllm_bench::translate(env, arguments, &|file| surroundings.content(file))?,
        ("convert_checkpoint.py" | "quantize.py", _) => {
            convert_checkpoint(env, &surroundings.path(path), arguments, &|path| surroundings.path(path))?
        }
        ("trtllm-build", _) => trtllm_build(env, arguments, &|path| surroundings.path(path))?,
        ("docker" | "podman" | "nerdctl", _) => docker::translate(name, arguments, &contained)?,
        ("srun", _) => slurm::srun(&surroundings.job, arguments, &ranks)?,
        ("sbatch" | "salloc", _) => slurm::sbatch(name, arguments, &inner)?,
        ("bash" | "sh", Some(script)) if script.contains(downloads::R2_DOWNLOADER) => {
            downloads::r2_download(&arguments[1..], &|path| surroundings.path(path))?
        }
        (downloads::R2_DOWNLOADER, _) => downloads::r2_download(arguments, &|path| surroundings.path(path))?,
        ("git", _) => downloads::git_clone(arguments, &|path| surroundings.path(path))?,
        ("llmb-run", _) => llmb_run::translate(env, arguments)?,
        ("inference-perf", _) => {
            without_env(env, inference_perf::translate(arguments, &|file| surroundings.content(file))?)
        }
        // Their container's command line is the line.
        ("make", _) if let Some(line) = arguments.iter().find_map(|word| word.strip_prefix("DOCKER_COMMAND=")) => {
            read_commands(run_args::unquoted(line), &nested)?
        }
        ("make", _) => {
            // Both places are good for make.
            let mut words: Vec<String> = env.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
            words.extend_from_slice(arguments);
            run_args::make(&words)?
        }
        ("vllm", _) => without_env(env, vllm::translate(env, arguments, &inner)?),
        _ => without_env(env, alone(path, name, env, arguments)?),
    };
    if let Some(ConfiguredLine { notes, file, .. }) = configured {
        translation.notes.extend(notes);
        translation.read_files.push(file);
    }
    keep(&around, &mut translation);
    Ok(translation)
}

/// Options of `main.py` of MLPerf's reference implementations, which no other `main.py` has.
const REFERENCE: [&str; 5] = ["--user-conf", "--user_conf", "--mlperf-conf", "--mlperf_conf", "--total-sample-count"];

/// Programs whose variables change nothing here, except for a key.
fn alone(path: &str, name: &str, env: &Env, arguments: &[String]) -> TranslationResult {
    if path.starts_with("--") && !run_args::begin(path, arguments) {
        return Err(TranslationError::new(format!(
            "`{path}` begins a line and is not a command: the line before it lacks a `\\` at its end"
        )));
    }
    if let Some(first) = path.strip_prefix("RUN_ARGS=").or(Some(path).filter(|path| path.starts_with("--"))) {
        return run_args::translate_run_args(&[&[first.to_owned()][..], arguments].concat());
    }
    match (name, arguments.first().map(String::as_str)) {
        ("code.main", _) => run_args::translate_run_args(arguments),
        ("genai-perf" | "genai_perf", Some("analyze")) => {
            genai_perf::translate("genai-perf analyze", genai_perf::Subcommand::Analyze, &arguments[1..])
        }
        ("genai-perf" | "genai_perf", Some(other)) if let Some(idle) = idle(&format!("genai-perf {other}"), "") => idle,
        ("genai-perf" | "genai_perf", _) => {
            genai_perf::translate("genai-perf profile", genai_perf::Subcommand::Profile, strip(arguments, "profile"))
        }
        (
            "benchmark_serving.py"
            | "tensorrt_llm.serve.scripts.benchmark_serving"
            | "atom.benchmarks.benchmark_serving",
            _,
        ) => vllm::benchmark_serving(path, env, arguments),
        // SGLang's file, by its path.
        ("bench_serving.py", _) => sglang::module("sglang.bench_serving", env, arguments),
        (module, _) if module.starts_with("sglang.") => sglang::module(module, env, arguments),
        ("guidellm", _) => guidellm::translate(arguments),
        ("genai-bench", Some("benchmark")) => chat_benchmarks::genai_bench(&arguments[1..]),
        ("evalscope", Some("perf")) => chat_benchmarks::evalscope(&arguments[1..]),
        ("llama-benchy", _) => chat_benchmarks::llama_benchy(arguments),
        ("perf_analyzer", _) => perf_analyzer::translate(arguments),
        ("benchmark_core_model.py", _) => benchmarks::benchmark_core_model(arguments),
        ("end_to_end_test.py", _) => benchmarks::end_to_end_test(arguments),
        ("fill_template.py", _) => fill_template::translate(arguments),
        ("inflight_batcher_llm_client.py", _) => benchmarks::inflight_batcher_llm_client(arguments),
        ("end_to_end_grpc_client.py", _) => benchmarks::end_to_end_grpc_client(arguments),
        ("triton", _) => triton_cli::translate(arguments),
        ("curl", _) => curl::translate(arguments),
        ("nvidia-smi", _) => nvidia_smi::translate(arguments),
        ("main.py", _) if arguments.iter().any(|word| REFERENCE.contains(&word.as_str())) => {
            // The number of its samples tells which workload it is of.
            let mut counts = arguments.iter().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
            let row = counts.find_map(|count| idle(&format!("main.py {count}"), ""));
            row.unwrap_or_else(|| idle_command("main.py --scenario", ""))
        }
        (name, _) if let Some(table) = whole_table(name) => table.translate(env, arguments),
        // A command of a program, or the program.
        (_, first) => idle(&format!("{name} {}", first.unwrap_or_default()), &format!("{name} *"))
            .unwrap_or_else(|| idle_command(name, "")),
    }
}

/// Variables change what none of these do.
fn without_env(env: &Env, mut translation: Translation) -> Translation {
    if matches!(translation.kind, TranslationKind::Nothing(_)) {
        return translation;
    }
    // A client of OpenAI's interfaces has its key as `--api-key-env`.
    let table = whole_table(translation.tool);
    let is_address = |name: &String| table.is_some_and(|table| table.address_variable == Some(name));
    let is_read = |name: &String| match &translation.kind {
        TranslationKind::Bench(bench) => is_address(name) || bench.args.contains(name),
        _ => false,
    };
    let unread = env.0.iter().map(|(name, _)| name).filter(|name| !is_read(name));
    let unread: Vec<_> = unread.map(|name| UntranslatedOption::new(format!("{name}=…"), NOT_RUN)).collect();
    translation.untranslated.extend(unread);
    translation
}

fn strip<'a>(words: &'a [String], first: &str) -> &'a [String] {
    match words.split_first() {
        Some((word, rest)) if word == first => rest,
        _ => words,
    }
}

/// Prefixes that a server's own command line keeps.
const KEPT: [&str; 8] = ["nsys", "ncu", "numactl", "taskset", "srun", "mpirun", "mpiexec", LAUNCHER];

/// Those among them that may stand in front of the launcher of a server's ranks.
const BEFORE_LAUNCHERS: [&str; 4] = ["nsys", "ncu", "numactl", "taskset"];

/// What starts vLLM's server where the stage does not say.
const VLLM: [&str; 2] = ["vllm", "serve"];

fn is_kept(prefix: &[String]) -> bool {
    prefix.first().is_some_and(|name| KEPT.contains(&name.as_str()))
}

/// Whether a server has to be started by its own line, which begins with these.
pub(super) fn need_own_line(around: &[Vec<String>]) -> bool {
    around.iter().any(|prefix| is_kept(prefix) && *prefix != [LAUNCHER])
}

/// Those that are kept, as one beginning of a line.
pub(super) fn kept(around: &[Vec<String>]) -> Vec<String> {
    around.iter().filter(|prefix| is_kept(prefix)).flatten().cloned().collect()
}

/// Puts the prefixes in front of the servers that are started by their own line; the others are left, each with the
/// reason.
pub(super) fn keep(around: &[Vec<String>], translation: &mut Translation) {
    let beginning = kept(around);
    let mut has_kept = false;
    let stages = translation.kind.stages_mut().filter(|_| !beginning.is_empty());
    for stage in stages {
        if let Some(Value::Object(keys)) = stage.get_mut("serve").and_then(|serve| serve.get_mut("vllm")) {
            keys.entry("program").or_insert_with(|| json!(VLLM));
        }
        for (action, path) in [("serve", "/command/words"), ("serve", "/vllm/program"), ("trtllm_bench", "/launcher")] {
            if let Some(Value::Array(words)) = stage.get_mut(action).and_then(|keys| keys.pointer_mut(path)) {
                words.splice(..0, beginning.iter().cloned().map(Value::String));
                has_kept = true;
            }
        }
        // Its ranks have launchers of their own.
        if let Some(Value::Object(keys)) = stage.get_mut("serve").and_then(|serve| serve.get_mut("triton")) {
            let kept = around
                .iter()
                .filter(|prefix| prefix.first().is_some_and(|name| BEFORE_LAUNCHERS.contains(&name.as_str())));
            let prefix: Vec<Value> = kept.flatten().cloned().map(Value::String).collect();
            has_kept |= !prefix.is_empty();
            match keys.get_mut("words") {
                Some(Value::Array(words)) => drop(words.splice(..0, prefix)),
                _ if prefix.is_empty() => {}
                _ => drop(keys.insert("prefix".to_owned(), Value::Array(prefix))),
            }
        }
    }
    let mut builder = TranslationBuilder::default();
    for prefix in around.iter().filter(|prefix| !(has_kept && is_kept(prefix))) {
        // `srun` has a note of its own.
        if let Some(name) = prefix.first().filter(|name| *name != "srun") {
            builder.push_untranslated(prefix.join(" "), prefix_reason(name));
        }
    }
    translation.untranslated.extend(builder.untranslated);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_table_are_known_and_others_are_not() {
        for name in ["cd", "scancel", "["] {
            assert!(idle(name, "").is_some_and(|translation| translation.is_ok()), "{name}");
        }
        assert!(idle("vllm", "").is_none());
    }

    #[test]
    fn an_option_of_the_load_without_a_place_is_told_from_others() {
        for (line, lost) in [
            ("aiperf profile -m m --image-width-mean 512", &["--image-width-mean 512"][..]),
            ("aiperf profile -m m --batch-size 1 --ui simple --slice-duration 5 --export-level raw", &[]),
            ("aiperf profile -m a b", &[]),
            ("trtllm-bench --model m throughput --dataset d --config absent.yml", &[]),
            ("guidellm benchmark --target http://h:1 --data f.jsonl --data-args {\"prompt_column\":\"text\"}", &[]),
            (
                "guidellm benchmark --target http://h:1 --data f.jsonl --data-args {\"prompt_column\":\"q\"}",
                &["--data-args {\"prompt_column\":\"q\"}"],
            ),
            ("genai-perf profile -m m a --service-kind triton --backend tensorrtllm", &["-m m a"]),
            ("genai-perf profile -m m --prompt-source synthetic --profile-export-file x.json", &[]),
            ("genai-perf profile -m m --prompt-source dataset", &["--prompt-source dataset"]),
            ("vllm bench serve --model m --random-ids --save-result", &[]),
            ("vllm bench serve --model m --lora-modules a b", &[]),
            (
                "vllm bench serve --model m --lora-modules a b --lora-assignment round-robin",
                &["--lora-assignment round-robin"],
            ),
            ("vllm bench serve --model m --sharegpt-output-len 5", &[]),
            ("perf_analyzer -m m --collect-metrics --sequence-length 4", &["--sequence-length 4"]),
            (
                "guidellm run --data kind=synthetic_text,prompt_tokens=8,output_tokens=4 --profile \
                    kind=sweep,rampup_duration=4",
                &["rampup_duration=4"],
            ),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let translation = read_line(&words).unwrap_or_else(|error| panic!("{line}: {error}"));
            let options = translation.untranslated.iter().filter(|option| option.is_workload);
            let actual: Vec<&str> = options.map(|option| option.argument.as_str()).collect();
            assert_eq!(actual, lost, "{line}");
        }
    }

    #[test]
    fn entries_of_a_public_data_set_are_its_first_records_and_several_models_are_drawn() {
        let bench =
            |line: &str| match read_line(&[line.to_owned()]).unwrap_or_else(|error| panic!("{line}: {error}")).kind {
                TranslationKind::Bench(bench) => bench,
                other => panic!("{line}: {other:?}"),
            };
        let public =
            bench("aiperf profile -m m --endpoint-type completions --public-dataset sharegpt --num-prompts 100");
        assert_eq!((&public.keys["data"]["first"], public.keys.get("distinct_prompts")), (&json!(100), None));
        assert!(public.args.join(" ").contains("--requests 10"), "{public:?}");
        let several = bench("genai-perf profile -m a b --endpoint-type chat --model-selection-strategy random");
        assert_eq!(several.keys["request"]["adapters"], json!({"a": 1, "b": 1}));
    }

    #[test]
    fn commands_without_a_row_of_their_own_have_that_of_the_others() {
        for (line, sentence) in [
            ("docker build .", "cannot translate `docker build`: an `image` stage"),
            ("podman ps", "cannot translate `podman ps`: a stage starts its container"),
            ("vllm bench startup", "cannot translate `vllm bench startup`: it measures a part of vLLM"),
            ("python3 -m sglang.bench_one_batch", "cannot translate `sglang.bench_one_batch`: it drives the engine"),
            ("llmb-run list", "cannot translate `llmb-run list`: it starts no single benchmark; `regatta list`"),
            ("nvidia-smi -q", "cannot translate `nvidia-smi`: GPUs are read"),
            ("kubectl get pods", "cannot translate `kubectl`: servers are reached"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match read_line(&words).unwrap_or_else(|error| panic!("{line}: {error}")).kind {
                TranslationKind::Nothing(text) => assert!(text.starts_with(sentence), "{line}: {text}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    fn server(line: &str) -> Value {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match read_line(&words).unwrap_or_else(|error| panic!("{line}: {error}")).kind {
            TranslationKind::Manifest(manifest) => manifest["stages"]["triton"].clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_line_of_tritonserver_has_its_ranks_in_its_own_words() {
        let line = "tritonserver --model-repository=/models";
        let of_one = server(&format!("srun -N 1 --mpi=pmix {line}"));
        assert_eq!(of_one["serve"]["triton"]["words"], json!(["tritonserver", "--model-repository=/models"]));
        assert_eq!(of_one["serve"]["triton"].get("launcher"), None);
        let of_four = server(&format!("srun -n 4 --mpi=pmix {line}"));
        let words = ["srun", "-n", "4", "--mpi", "pmix", "tritonserver", "--model-repository=/models"];
        assert_eq!((&of_four["serve"]["triton"]["words"], &of_four["gpus"]), (&json!(words), &json!(4)));
        assert_eq!(of_four["serve"]["triton"].get("mode"), None);
        let by_mpi = server(&format!("mpirun -n 4 {line}"));
        assert_eq!((&by_mpi["serve"]["triton"]["world_size"], &by_mpi["gpus"]), (&json!(4), &json!(4)));
    }

    #[test]
    fn a_wrapped_command_is_that_of_the_job_and_a_step_in_a_shell_has_its_ranks_once() {
        let line = |words: &[&str]| read_line(&words.iter().map(|word| (*word).into()).collect::<Vec<String>>());
        let wrapped = line(&["sbatch", "-p", "gpu", "--wrap", "vllm serve m -tp 2"]).expect("a job");
        assert!(wrapped.notes.iter().any(|note| note.contains("--slurm partition=gpu")), "{wrapped:?}");
        let step =
            line(&["srun", "-n", "2", "--mpi=pmix", "bash", "-c", "trtllm-serve m --tp_size 2"]).expect("a step");
        let TranslationKind::Manifest(manifest) = step.kind else { panic!("a server") };
        let words = &manifest["stages"]["server"]["serve"]["command"]["words"];
        let words: Vec<&str> = words.as_array().expect("words").iter().filter_map(Value::as_str).take(6).collect();
        assert_eq!(words, ["srun", "-n", "2", "--mpi", "pmix", "trtllm-serve"]);
    }

    #[test]
    fn workers_of_a_disaggregated_server_are_no_server_of_one_model() {
        for line in
            ["trtllm-serve disaggregated_mpi_worker -c x", "mpirun -n 3 trtllm-serve disaggregated_mpi_worker -c x"]
        {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = read_line(&words).expect_err(line).to_string();
            assert!(error.contains("one model, served over OpenAI's interface"), "{line}: {error}");
        }
    }
}
