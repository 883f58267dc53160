//! One system of each workload run to its end, with what it calls stood in for and written down.
//!
//! `standin.py` is git, python3, mpirun, Triton's build.py and tritonserver; the engines that it leaves are the simulator's, so that what
//! is served can be raced. What was called, with which environment, and which files were written is held against golden files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::golden;
use crate::campaign::no_process_left;
use crate::world::World;

/// Where the pinned commits come from, and what a clone of each holds here.
struct Origin {
    url: &'static str,
    /// The pinned commit; the one to pick on top.
    pinned: [&'static str; 2],
    files: &'static [(&'static str, &'static str)],
}

const TRT_LLM: &[(&str, &str)] = &[
    ("requirements.txt", "torch\n"),
    ("scripts/build_wheel.py", ""),
    ("examples/quantization/quantize.py", ""),
    ("cpp/build/tensorrt_llm/libtensorrt_llm.so", ""),
];
const SERVER: &[(&str, &str)] = &[("build.py", "#!/bin/sh\nexec \"$BUILD_PY\" \"$@\"\n")];
const BACKEND: &[(&str, &str)] = &[("inflight_batcher_llm/CMakeLists.txt", ""), ("tensorrt_llm/.keep", "")];

fn origins(trt_llm: &'static str, triton: [&'static str; 2], backend: &'static str) -> [Origin; 3] {
    [
        Origin { url: "https://github.com/NVIDIA/TensorRT-LLM.git", pinned: [trt_llm, ""], files: TRT_LLM },
        Origin { url: "https://github.com/triton-inference-server/server.git", pinned: triton, files: SERVER },
        Origin {
            url: "https://github.com/triton-inference-server/tensorrtllm_backend.git",
            pinned: [backend, ""],
            files: BACKEND,
        },
    ]
}

/// The git that is really here.
fn real_git() -> String {
    let found = Command::new("sh").args(["-c", "command -v git"]).output().expect("sh");
    String::from_utf8(found.stdout).expect("a path").trim().to_owned()
}

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(real_git());
    command.args(["-c", "user.name=T", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]).args(words);
    let output = command.current_dir(folder).stdin(Stdio::null()).output().expect("git");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Makes a repository in place of an origin: what stands in an argument → what is true here.
fn repository(world: &World, index: usize, origin: &Origin) -> Vec<(String, String)> {
    let name = format!("origins/{index}");
    for (file, text) in origin.files {
        world.file(&format!("{name}/{file}"), text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(world.path(format!("{name}/{file}")), mode).expect("a mode");
    }
    let folder = world.path(&name);
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "pinned"]);
    let mut known = vec![(origin.url.to_owned(), folder.display().to_string())];
    let [pinned, picked] = origin.pinned;
    if pinned.is_empty() {
        return known;
    }
    // A release is a branch there; what is no commit has the same name here.
    if pinned.starts_with('r') {
        git(&folder, &["branch", pinned]);
    } else {
        known.push((pinned.to_owned(), git(&folder, &["rev-parse", "HEAD"])));
    }
    if !picked.is_empty() {
        world.file(&format!("{name}/picked.txt"), "picked\n");
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "--quiet", "-m", "picked"]);
        known.push((picked.to_owned(), git(&folder, &["rev-parse", "HEAD"])));
    }
    known
}

/// A project with the stand-ins on its PATH.
fn project(origins: &[Origin], twin: &World) -> World {
    let mut world = World::new();
    let standin = world.path("bin/standin.py");
    world.file("bin/standin.py", include_str!("standin.py"));
    fs::set_permissions(&standin, fs::Permissions::from_mode(0o755)).expect("a mode");
    for name in ["git", "python3", "mpirun", "build.py"] {
        symlink(&standin, world.path(format!("bin/{name}"))).expect("a link");
    }
    world.file("model/config.json", "{}");
    for name in ["mlperf_triton_installation", "mlperf_triton_trtllm_backend_installation"] {
        let patch =
            "diff --git a/patched b/patched\nnew file mode 100644\n--- /dev/null\n+++ b/patched\n@@ -0,0 +1 @@\n+so\n";
        world.file(&format!("patches/{name}.patch"), patch);
    }
    let known: BTreeMap<String, String> =
        origins.iter().enumerate().flat_map(|(index, origin)| repository(&world, index, origin)).collect();
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").expect("PATH"));
    let build = world.path("bin/build.py");
    let calls = world.path("calls.jsonl");
    world.env("PATH", path).env("BUILD_PY", build).env("CALLS", calls);
    world.env("ORIGINS", json!(known).to_string()).env("REAL_GIT", real_git());
    world.env("REGATTA", env!("CARGO_BIN_EXE_regatta"));
    world.env("ENGINES", twin.path("latest/generate_engines"));
    world.env("SIMULATED", twin.path("latest/generate_triton_config/offline/triton_model_repo_0"));
    world
}

/// Where a task that leaves no output works.
const FOLDER: &str = "<project>/.regatta/out/";
/// Each run's own folder, by its name.
const RUNS: &str = "<project>/.regatta/runs/";

/// Texts with paths of this machine and of this run → as they are in golden files.
struct Plain {
    known: Vec<(String, String)>,
}

impl Plain {
    /// Outputs are called as their stages are, commits as the pinned ones.
    fn of(world: &World) -> Self {
        let mut known = Vec::new();
        for index in 0..3 {
            let folder = world.path(format!("origins/{index}"));
            if folder.is_dir() {
                for (number, commit) in git(&folder, &["rev-list", "--all"]).lines().rev().enumerate() {
                    known.push((commit.to_owned(), format!("<commit {number} of {index}>")));
                }
            }
        }
        let latest = world.path("latest");
        for entry in walkdir::WalkDir::new(&latest).min_depth(1).max_depth(2).sort_by_file_name().into_iter().flatten()
        {
            if entry.path_is_symlink()
                && let Ok(target) = fs::canonicalize(entry.path())
            {
                let name = entry.path().strip_prefix(&latest).expect("below it").display().to_string();
                known.push((target.display().to_string(), format!("<{name}>")));
            }
        }
        let project = fs::canonicalize(world.path("")).expect("the project");
        known.push((project.display().to_string(), "<project>".to_owned()));
        Self { known }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.known {
            text = text.replace(path.as_str(), name);
        }
        if let Some(at) = text.find(RUNS).map(|at| at + RUNS.len()) {
            let end = text[at..].find('/').unwrap_or(text.len() - at);
            text.replace_range(at..at + end, "<run>");
        }
        while let Some(at) = text.find(FOLDER) {
            let rest = &text[at + FOLDER.len()..];
            let end = rest.find('/').unwrap_or(rest.len());
            text = format!("{}$OUT{}", &text[..at], &rest[end..]);
        }
        text
    }
}

/// A call, a line.
fn line(call: &Value, plain: &Plain) -> String {
    let env = call["env"].as_object().expect("a map").iter();
    let env: Vec<String> = env.map(|(name, value)| format!("{name}={} ", value.as_str().unwrap_or_default())).collect();
    let env = env.concat();
    let words = call["argv"].as_array().expect("words").iter().map(|word| {
        let word = plain.text(word.as_str().expect("a word"));
        match (word.split_once("-port="), word.split_once("-prefix-name=")) {
            (Some((option, _)), _) => format!("{option}-port=<port>"),
            // A mark of the run follows.
            (_, Some((option, name))) => format!("{option}-prefix-name={}", name.split('_').next().unwrap_or_default()),
            _ => word,
        }
    });
    let mut words: Vec<String> = words.collect();
    if let Some(at) = words.iter().position(|word| word == "--port") {
        "<port>".clone_into(&mut words[at + 1]);
    }
    let quoted = words.iter().map(|word| if word.contains([' ', ';']) { format!("'{word}'") } else { word.clone() });
    format!("{env}{}", quoted.collect::<Vec<_>>().join(" "))
}

/// What each task called, by task: which of two that may run at once comes first means nothing.
fn calls(world: &World) -> String {
    let plain = Plain::of(world);
    let mut tasks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for call in world.read("calls.jsonl").lines() {
        let call: Value = serde_json::from_str(call).expect("a call");
        // Between the run and the attempt.
        let task = call["task"].as_str().expect("a task").split('/').collect::<Vec<_>>();
        let task = task[1..task.len() - 1].join("/");
        // Of two that would make the same, either may be the one that does.
        let task = match task.split_once('/') {
            Some((stage @ ("quantize" | "generate_engines"), _)) => stage.to_owned(),
            _ => task,
        };
        tasks.entry(task).or_default().push(line(&call, &plain));
    }
    let mut out = String::new();
    for (task, mut lines) in tasks {
        // Servers start side by side, and so may these.
        if ["triton/", "trtllm_serve/"].iter().any(|stage| task.starts_with(stage))
            || ["quantize", "generate_engines"].contains(&task.as_str())
        {
            lines.sort();
        }
        let _ = writeln!(out, "{task}");
        for line in lines {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// The files that a server reads.
fn files(world: &World) -> String {
    let plain = Plain::of(world);
    let mut out = String::new();
    // Those of `trtllm-serve` lie where it was started, in folders whose names say nothing of their order.
    let mut options: Vec<String> = walkdir::WalkDir::new(world.path(".regatta"))
        .into_iter()
        .flatten()
        .map(walkdir::DirEntry::into_path)
        .filter(|path| path.ends_with("extra_llm_api_options.yaml"))
        .map(|path| fs::read_to_string(path).expect("options"))
        .collect();
    options.sort();
    for text in options {
        let _ = writeln!(out, "\n== extra_llm_api_options.yaml\n\n{}", text.trim_end());
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in
        walkdir::WalkDir::new(world.path("latest/generate_triton_config")).follow_links(true).into_iter().flatten()
    {
        let path = entry.path();
        // Repositories of one scenario are alike.
        if path.ends_with("config.pbtxt") && path.to_string_lossy().contains("triton_model_repo_0") {
            found.push(path.to_owned());
        }
    }
    found.sort();
    for path in found {
        let shown = path.strip_prefix(world.path("latest")).expect("below it").display().to_string();
        let _ = writeln!(out, "\n== {shown}\n");
        // Tensors are the same everywhere: what is tuned comes after them.
        let text = fs::read_to_string(&path).expect("a config");
        let head = text.lines().filter(|line| {
            line.starts_with("name:")
                || line.contains("backend:")
                || line.contains("max_batch_size")
                || line.contains("decoupled")
        });
        let tail = text.lines().skip_while(|line| !line.starts_with("instance_group"));
        for line in head.chain(tail) {
            let _ = writeln!(out, "{}", plain.text(line));
        }
    }
    out
}

fn run(workload: &str, system: &str, gpus: &str, origins: &[Origin], more: &[&str]) {
    let twin = World::new();
    let name = format!("short-{workload}");
    let simulated = format!("system=sim-{system}");
    twin.good(&["run", workload, &simulated, "--until", "generate_triton_config"]);
    let world = project(origins, &twin);
    // The pipeline as it is, but for the lengths: those of the data set take minutes.
    let lengths = "{ lognormal: { mean: 40, stddev: 20, min: 8, max: 64 } }";
    world.manifest(
        &name,
        &format!("include: [{workload}/pipeline.yaml]\nvars:\n  workload: {{ input_tokens: {lengths}, output_tokens: {lengths} }}\n"),
    );
    let system_word = format!("system={system}");
    let mut words = vec![
        "run",
        &name,
        &system_word,
        "--gpus",
        gpus,
        "-j",
        "1",
        // A measurement that a busy machine has spoiled must not keep the other from its commands.
        "--keep-going",
        "container=none",
        "image=none",
        "model_path=model",
        "samples=6",
        "duration=1s",
        "target_qps=6",
    ];
    words.extend(more);
    let ended = world.regatta(&words);
    // This machine may be too busy for a measurement to be believed; nothing else may go wrong.
    let is_busy =
        ["INVALID(client)", "OVERLOADED", "LIMIT MISSED"].iter().any(|verdict| ended.stdout.contains(verdict));
    assert!(ended.code == 0 || is_busy, "{ended:?}");
    let mut text = calls(&world);
    text.push_str(&files(&world));
    golden(&format!("{workload}-{system}.txt"), &text);
    no_process_left(&world);
}

const V51: [&str; 3] =
    ["18c0333e96ea7a2c37caded8a310d05c5f095e88", "1efbd53", "f51ea9dca26778ff2945344b9b1e413d5a34ebed"];

#[test]
#[ignore = "needs Python"]
fn llama2_70b_on_eight_h200_has_one_server_offline_and_eight_for_a_rate() {
    run("llama2-70b", "h200-x8", "8", &origins(V51[0], [V51[1], ""], V51[2]), &["patches=patches"]);
}

#[test]
#[ignore = "needs Python"]
fn mixtral_on_an_h100_has_the_triton_of_its_round_with_its_cherry_pick() {
    let pinned = ["r24.06", "ea3f365c9784660dbe8f533671e977ded94a419c"];
    let backend = "97feb8fbca593c6b89eb9d4ed7f016bf37ceb848";
    run("mixtral-8x7b", "h100-x1", "1", &origins("2d234357c6e69fa514f6e9b4d4a5ad3bc431c4a6", pinned, backend), &[]);
}

#[test]
#[ignore = "needs Python"]
fn llama3_1_405b_on_four_gb200_has_four_ranks() {
    run("llama3.1-405b", "gb200-x4", "4", &origins(V51[0], [V51[1], ""], V51[2]), &[]);
}

#[test]
#[ignore = "needs Python"]
fn llama3_1_8b_on_a_b200_is_served_by_trtllm_serve() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let rev = format!("trt_llm_rev={commit}");
    run("llama3.1-8b", "b200-x1", "1", &origins(commit, ["", ""], ""), &[&rev]);
}
