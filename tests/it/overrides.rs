//! Values given by their place on the command line: ten of them, followed into the commands that build the engine, into
//! config.pbtxt and into the server. After a change `UPDATE=1 cargo test --test it overrides` writes what reaches them now.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::world::World;

/// Flags of the checkpoint, of the build, at run time, of the server: by the names that a person would write.
const TEN: [&str; 10] = [
    "checkpoint_flags.calib_size=64",
    "checkpoint_flags.calib_dataset=data/calibration",
    "build_flags.max_num_tokens=4096",
    "tuning.max_batch_size=512",
    "build_flags.use_fused_mlp=enable",
    "tuning.kv_fraction=0.7",
    "runtime_flags.batch_scheduler_policy=no_evict",
    "generate_triton_config.parameters.max_queue_size=100",
    "triton.options.grpc-infer-thread-count=4",
    "triton.log_verbose=1",
];

const MANIFEST: &str = r#"
vars:
  tuning: { max_batch_size: 2048, kv_fraction: 0.9 }
stages:
  simulated:
    about: What the stand-in for trtllm-build copies
    engine: &engine
      backend: simulator
      precision: fp8
      model: &model { name: tiny, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 2048 }
      system: &system { name: H200-SXM-141GBx1, gpus: 1, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }
      build_flags_of: 1
  generate_engines:
    env: { SIMULATED: "{{ stages.simulated.out }}" }
    engine:
      backend: tensorrt_llm
      checkpoint: weights
      trtllm: trtllm
      precision: fp8
      model: *model
      system: *system
      checkpoint_flags: { kv_cache_dtype: fp8, calib_size: 1024 }
      build_flags:
        max_batch_size: "{{ tuning.max_batch_size }}"
        max_num_tokens: 1536
        max_input_len: 256
        max_seq_len: 512
        tokens_per_block: 32
  generate_triton_config:
    repository:
      engine: "{{ stages.generate_engines.out }}"
      streaming: true
      models: [tensorrt_llm]
      runtime_flags:
        kvcache_free_gpu_mem_frac: "{{ tuning.kv_fraction }}"
        batch_scheduler_policy: max_util
        enable_chunked_context: true
  triton:
    serve:
      triton:
        repository: "{{ stages.generate_triton_config.out }}"
        program: tritonserver
        ready: { timeout: 1m }
  use: { shell: "echo {{ stages.triton }} > out" }
"#;

/// Its stand-ins write down what they are called with and do the least that the next one needs.
fn world() -> World {
    let mut world = World::new();
    let manifest = MANIFEST.replace("    engine: &engine\n", "    engine:\n").replace("      build_flags_of: 1\n", "");
    world.manifest("m", &manifest);
    world.file("weights/config.json", "{}").file("trtllm/README.md", "").file("data/calibration", "");
    for (name, text) in [
        (
            "python3",
            "#!/bin/sh\necho \"python3 $*\" >> \"$W/commands\"\nwhile [ $# -gt 0 ]; do case $1 in --output_dir) mkdir -p \"$2\";; esac; shift; done\n",
        ),
        (
            "trtllm-build",
            r#"#!/bin/sh
echo "trtllm-build $*" >> "$W/commands"
while [ $# -gt 0 ]; do
  case $1 in --output_dir) out=$2;; --max_batch_size) batch=$2;; --max_num_tokens) tokens=$2;; esac
  shift
done
cp "$SIMULATED"/* "$out"
sed -i "s/\"max_batch_size\": [0-9]*/\"max_batch_size\": $batch/; s/\"max_num_tokens\": [0-9]*/\"max_num_tokens\": $tokens/" "$out/config.json"
"#,
        ),
        (
            "tritonserver",
            r#"#!/bin/sh
echo "tritonserver $*" >> "$W/commands"
for word in "$@"; do
  case $word in --model-repository=*) repository=${word#*=};; --grpc-port=*) grpc=${word#*=};; esac
done
exec "$S" sim serve --repository "$repository" --grpc-port "$grpc"
"#,
        ),
    ] {
        world.file(&format!("bin/{name}"), text);
        fs::set_permissions(world.path(format!("bin/{name}")), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    let folder = world.path("");
    world.env("W", folder).env("PATH", path).env("S", env!("CARGO_BIN_EXE_regatta"));
    world
}

/// Without what is another in each run: folders and ports.
fn plain(world: &World, text: &str) -> String {
    let project = fs::canonicalize(world.path("")).unwrap();
    let text = text.replace(&*project.to_string_lossy(), "").replace(&*world.path("").to_string_lossy(), "");
    let word = |word: &str| {
        let word = match word.split_once("/.regatta/out/") {
            Some((before, after)) => {
                let below = after.split_once('/').map_or(String::new(), |(_, below)| format!("/{below}"));
                format!("{before}<out>{below}")
            }
            None => word.to_owned(),
        };
        if let Some((before, _)) = word.split_once("shm-region-prefix-name=") {
            return format!("{before}shm-region-prefix-name=<mark>");
        }
        let is_port = word.split_once("-port=").is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        if is_port { format!("{}=<port>", word.split('=').next().unwrap_or_default()) } else { word }
    };
    text.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[test]
fn ten_overrides_reach_the_engine_the_config_and_the_server() {
    let world = world();
    let words: Vec<&str> = ["run", "m", "--no-lock"].into_iter().chain(TEN).collect();
    world.good(&words);
    let config = world.read("latest/generate_triton_config/triton_model_repo_0/tensorrt_llm/config.pbtxt");
    let telling = ["max_queue_size", "kv_cache_free_gpu_mem_fraction", "batch_scheduler_policy", "max_batch_size"];
    let lines: Vec<&str> = config.lines().filter(|line| telling.iter().any(|name| line.contains(name))).collect();
    let shown: Vec<&str> = ["show", "m"].into_iter().chain(TEN).collect();
    let shown = world.good(&shown).stdout;
    let given: Vec<&str> = shown.lines().filter(|line| line.contains("command line")).collect();
    assert_eq!(given.len(), 10, "{shown}");
    let all = format!(
        "# regatta show\n{}\n\n# What was started\n{}\n# config.pbtxt\n{}\n",
        given.join("\n"),
        world.read("commands").trim_end(),
        lines.join("\n")
    );
    let all = plain(&world, &all);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/overrides/ten.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&golden, &all).unwrap();
    }
    assert_eq!(all, fs::read_to_string(&golden).unwrap_or_default());
    // As they came in, so they are the keys: the same words again have nothing to do, others have.
    world.good(&words);
    assert_eq!(world.will_run(&TEN), Vec::<String>::new());
    assert!(world.will_run(&[]).contains(&"generate_engines".to_owned()));
}

#[test]
fn a_word_that_changes_nothing_is_a_mistake_and_one_that_changes_nothing_here_is_told() {
    let world = World::with(
        "params: { requests: { int: {}, default: 1 }, unused: { int: {}, default: 1 } }\nvars:\n  tuning: { kv_fraction: 0.9, batch: 1 }\nstages:\n  a: { shell: 'echo {{ tuning.kv_fraction }} > out' }\n  b: { shell: 'echo {{ requests }} > out' }\n",
    );
    let ended = world.regatta(&["run", "m", "tuning.kvfraction=0.8", "tuning.batch=2", "unused=3", "nowhere.x=1"]);
    assert_eq!(ended.code, 2);
    ended.shows("`nowhere.x` leads nowhere");
    let ended = world.regatta(&["run", "m", "tuning.kvfraction=0.8", "tuning.batch=2", "unused=3"]);
    assert_eq!(ended.code, 2);
    ended.shows("tuning.kvfraction=0.8 changes nothing: no stage uses `tuning.kvfraction`");
    ended.shows("did you mean `tuning.kv_fraction`?").shows("command line");
    ended.shows("tuning.batch=2 changes nothing").shows("unused=3 changes nothing: no stage uses `unused`");
    let ended = world.good(&["run", "m", "requests=5", "tuning.kv_fraction=0.5", "--only", "a"]);
    ended.shows("requests=5 has no effect: only b would use it, and is skipped or not selected");
    assert_eq!(world.read("latest/a/out"), "0.5\n");
    world.good(&["plan", "m", "requests=5", "--only", "a"]).shows("requests=5 has no effect");
    // What makes a stage skipped changes something.
    world.manifest("n", "params: { xs: { list: [a, b], default: [a] }, on: { switch: {}, default: true } }\nstages:\n  a: { foreach: { x: '{{ xs }}' }, shell: 'echo {{ x }}' }\n  b: { when: '{{ on }}', shell: 'echo b' }\n");
    let skipping = world.good(&["plan", "n", "xs=", "on=false"]);
    assert!(!format!("{}{}", skipping.stdout, skipping.stderr).contains("changes nothing"), "{skipping:?}");
    let shown = world.good(&["show", "m", "tuning.kv_fraction=0.5"]).stdout;
    let line = shown.lines().find(|line| line.starts_with("vars.tuning.kv_fraction")).expect("the value");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["vars.tuning.kv_fraction", "0.5", "command", "line"]);
}

#[test]
fn a_slip_is_seen_behind_a_computed_name_too() {
    let world = World::with(
        "vars:\n  tuning: { offline: { batch: 1, flags: {} }, server: { batch: 2, flags: {} } }\nstages:\n  a:\n    foreach: { s: [offline, server] }\n    shell: \"echo '{{ tuning[s].batch }} {{ tuning[s].flags }}' > out\"\n",
    );
    for slip in ["tuning.offline.bach=7", "tuning.batch=7"] {
        let ended = world.regatta(&["plan", "m", slip, "tuning.server.batch=3"]);
        assert_eq!(ended.code, 2);
        ended.shows(&format!("{slip} changes nothing"));
        assert!(!ended.stderr.contains("tuning.server.batch=3 changes"), "{}", ended.stderr);
    }
    // A flag that was not there, in a map that is written out.
    world.good(&["run", "m", "tuning.offline.flags.new=1"]);
    assert!(world.read("latest/a/offline/out").contains("new"));
}

#[test]
fn what_is_wrong_with_a_value_points_at_the_word() {
    let world = World::with("stages:\n  a: { gpus: 0, shell: 'true' }\n");
    let ended = world.regatta(&["run", "m", "a.gpus=many", "a.gpu=1"]);
    assert_eq!(ended.code, 2);
    ended.shows("a.gpus=many").shows("`stages.a.gpus` must be a whole number");
    // The shell takes the outer quotes.
    let ended = world.regatta(&["run", "m", "a.env.B=9"]);
    ended.shows(r#"quote it so that the shell keeps the quotes: 'a.env.B="9"'"#);
    world.good(&["plan", "m", r#"a.env.B="9""#]);
}

#[test]
fn a_value_of_the_system_that_is_replaced_where_it_is_used_is_no_unknown_key() {
    let world = World::new();
    for key in ["build_flags", "generate_engines.build_flags", "stages.generate_engines.engine.build_flags"] {
        let given = format!("{key}.max_num_tokens=4096");
        world.good(&["plan", "quickstart", &given, "build_flags.max_batch_size=16"]);
    }
    // What replaces a value may read another.
    world.good(&["plan", "quickstart", "build_flags.max_batch_size={{ tuning.max_num_tokens }}"]);
    world.file("manifests/systems/one.yaml", "regatta: 1\nvars: { size: 1, sise: 2, spare: 3 }\n");
    world.manifest("m", "params: { system: { catalog: systems, default: one } }\nstages:\n  a: { env: { A: '{{ size }}' }, shell: 'true' }\n");
    let ended = world.regatta(&["plan", "m", "a.env.A={{ spare }}"]);
    assert_eq!(ended.code, 2);
    ended.shows("unknown key `sise` in `vars`");
    assert!(!ended.stderr.contains("`spare`"), "{}", ended.stderr);
}
