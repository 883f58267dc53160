//! `container:` — stages whose programs run in a real container; `image:` — images that are built; and what docker is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;

use crate::campaign::no_process_left;
use crate::server_containers::{IMAGE, Podman};
use crate::world::{World, signal};

/// A world whose podman is the tests' own.
fn world(stages: &str) -> World {
    let podman = Podman::here();
    let mut world = World::with(&format!("stages:\n{stages}"));
    world.env("CONTAINERS_CONF", &podman.config).env("CONTAINERS_STORAGE_CONF", &podman.storage);
    world
}

fn inside(image: &str) -> String {
    // Here nobody may raise a limit.
    format!("container: {{ engine: podman, image: \"{image}\", ulimits: {{}} }}")
}

/// An image of its own for one test: the common one with one more file.
fn image(name: &str, text: &str) -> String {
    let name = format!("localhost/regatta-{name}:1");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("mark"), text).expect("a file");
    fs::write(folder.path().join("Dockerfile"), format!("FROM {IMAGE}\nCOPY mark /mark\n")).expect("a file");
    let folder = folder.path().display().to_string();
    let built = Podman::here().command(&["build", "-q", "-t", &name, &folder]).output().expect("podman");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    name
}

fn untag(name: &str) {
    let _ = Podman::here().command(&["rmi", "-f", name]).output();
}

#[test]
#[ignore = "needs podman"]
fn a_stage_runs_in_its_container_and_leaves_its_output_here() {
    let mut world = world(&format!(
        "  make:
    {}
    inputs: {{ words: words.txt, far: $FAR }}
    env: {{ MODE: fast, PATH: \"/bin:/extra\" }}
    secrets: [SECRET]
    shell: |
      cp \"$INPUT_WORDS\" copied; cp \"$INPUT_FAR\" far
      echo \"$MODE $SECRET $PATH $PWD\" > said; echo \"is $SECRET\"
      touch \"$INPUT_WORDS\" 2>/dev/null || echo read-only > project
      ls /bin > programs
",
        inside(IMAGE)
    ));
    let far = tempfile::tempdir().expect("a folder");
    fs::write(far.path().join("f"), "from afar").expect("a file");
    let manifest = world.read("manifests/m.yaml").replace("$FAR", &far.path().join("f").display().to_string());
    world.file("manifests/m.yaml", &manifest).file("words.txt", "words\n");
    world.env("SECRET", "s3cret-value");
    world.good(&["run", "m"]);
    let out = fs::canonicalize(world.path("latest/make")).expect("an output");
    assert_eq!(world.read("latest/make/copied"), "words\n");
    assert_eq!(world.read("latest/make/far"), "from afar");
    assert_eq!(world.read("latest/make/said"), format!("fast s3cret-value /bin:/extra {}\n", out.display()));
    assert_eq!(world.read("latest/make/project"), "read-only\n");
    // The image has nothing else: this did not run on the machine.
    assert_eq!(world.read("latest/make/programs"), "busybox\ncat\ncp\necho\nenv\nid\nkill\nls\nsh\nsleep\ntouch\n");
    let logs = world.good(&["logs", "make"]);
    assert_eq!(logs.stdout.trim(), "is ***");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn the_id_of_the_image_is_part_of_the_key_and_its_name_is_not_enough() {
    let name = image("keyed", "one");
    let world = world(&format!("  make:\n    {}\n    shell: cat /mark > mark\n", inside(&name)));
    world.good(&["run", "m"]);
    assert_eq!(world.read("latest/make/mark"), "one");
    assert_eq!(world.good(&["run", "m"]).ran(), [""; 0]);
    // Another image under the same name.
    image("keyed", "two");
    let plan = world.good(&["plan", "m"]);
    plan.shows("image: sha256:");
    assert_eq!(world.good(&["run", "m"]).ran(), ["make"]);
    assert_eq!(world.read("latest/make/mark"), "two");
    // The first one again: its output is still there.
    image("keyed", "one");
    assert_eq!(world.good(&["run", "m"]).ran(), [""; 0]);
    assert_eq!(world.read("latest/make/mark"), "one");
    // The place is a part of the key as the command is, and told by its path.
    let manifest = world.read("manifests/m.yaml");
    world.file("manifests/m.yaml", &manifest.replace("ulimits: {}", "ulimits: {}, shm_size: 1g"));
    world.good(&["plan", "m"]).shows("container.shm_size: new, \"1g\"");
    world.file("manifests/m.yaml", &manifest);
    untag(&name);
    let gone = world.regatta(&["run", "m"]);
    assert_eq!(gone.code, 1);
    gone.shows("the image localhost/regatta-keyed:1 is not on this machine");
    gone.shows("`podman pull localhost/regatta-keyed:1` fetches it");
}

#[test]
#[ignore = "needs podman"]
fn an_image_that_a_stage_builds_is_the_place_of_the_next_one() {
    let world = world(&format!(
        "  prebuild:
    image:
      engine: podman
      build: {{ context: docker, target: done, args: {{ MARK: \"a b\" }}, tag: \"localhost/regatta-built:1\" }}
  use:
    {}
    shell: cat /mark > mark
",
        inside("{{ stages.prebuild.image }}")
    ));
    world.file(
        "docker/Dockerfile",
        &format!(
            "FROM {IMAGE} AS done\nARG MARK\nRUN echo \"$MARK\" > /mark\nFROM done AS more\nRUN echo more > /mark\n"
        ),
    );
    let built = world.good(&["run", "m"]);
    assert_eq!(built.ran(), ["prebuild", "use"]);
    assert_eq!(world.read("latest/use/mark"), "a b\n");
    let id = world.read("latest/prebuild/image");
    assert!(id.starts_with("sha256:") && id.len() == 72, "{id}");
    assert!(world.read("latest/prebuild/image.json").contains("\"localhost/regatta-built:1\""));
    assert_eq!(world.good(&["run", "m"]).ran(), [""; 0]);

    // The context is an input.
    let dockerfile = world.read("docker/Dockerfile").replace("/mark", "/mark && echo more >> /mark");
    world.file("docker/Dockerfile", &dockerfile);
    assert_eq!(world.good(&["run", "m"]).ran(), ["prebuild", "use"]);
    assert_eq!(world.read("latest/use/mark"), "a b\nmore\n");

    // What somebody removed is made again, and is the same: nothing else has to run.
    untag(world.read("latest/prebuild/image").trim());
    world.good(&["plan", "m"]).shows("has been removed from this machine");
    let again = world.good(&["run", "m"]).ran();
    assert!(again.contains(&"prebuild".to_owned()), "{again:?}");
    untag("localhost/regatta-built:1");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn ctrl_c_ends_the_container_of_a_stage() {
    let world = world(&format!(
        "  wait:\n    {}\n    shell: touch \"$MARKS/inside\"; sleep 1000\n    env: {{ MARKS: $MARKS }}\n",
        inside(IMAGE)
    ));
    let marks = tempfile::tempdir().expect("a folder");
    let text = world.read("manifests/m.yaml").replace("$MARKS }", &format!("{} }}", marks.path().display()));
    let mounted =
        text.replace("engine: podman", &format!("mounts: [\"{0}:{0}\"], engine: podman", marks.path().display()));
    world.file("manifests/m.yaml", &mounted);
    let run = world.start(&["run", "m"]);
    crate::world::until("the stage to be in its container", || marks.path().join("inside").exists());
    assert_eq!(Podman::here().containers(&world).len(), 1);
    signal(&run, "INT");
    let ended = crate::world::Ended::of(run);
    assert_eq!(ended.code, 130, "{ended:?}");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn kill9_of_the_run_leaves_no_container_of_a_stage() {
    let marks = tempfile::tempdir().expect("a folder");
    let world = world(&format!(
        "  wait:\n    container: {{ engine: podman, image: {IMAGE}, ulimits: {{}}, mounts: [\"{0}:{0}\"] }}\n    shell: touch {0}/inside; sleep 1000\n",
        marks.path().display()
    ));
    let mut run = world.start(&["run", "m"]);
    crate::world::until("the stage to be in its container", || marks.path().join("inside").exists());
    run.kill().expect("a kill");
    run.wait().expect("an end");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn what_goes_wrong_inside_is_distinguished_from_what_goes_wrong_around_it() {
    let world = world(&format!("  bad:\n    {}\n    shell: $WHAT\n", inside(IMAGE)));
    let manifest = world.read("manifests/m.yaml");
    let run_with = |what: &str| {
        world.file("manifests/m.yaml", &manifest.replace("$WHAT", what));
        let ended = world.regatta(&["run", "m"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended
    };
    run_with("exit 3").shows("exit code 3");
    run_with("[no-such-program]").shows("the program is not in the container (exit code 127)");
    // Process 1 of a container cannot be killed from inside.
    run_with("echo last words; sh -c 'kill -9 $$'; exit $?").shows("last words").shows("exit code 137");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn a_server_in_the_container_of_its_stage_comes_up_and_is_stopped_in_order() {
    use crate::services::{USER, world as served};
    let program = env!("CARGO_BIN_EXE_regatta");
    let podman = Podman::here();
    let server = format!(
        "  server:\n    container: {{ engine: podman, image: {IMAGE}, ulimits: {{}}, mounts: [\"{program}:/regatta:ro\"] }}\n    serve:\n      command:\n        words: [/regatta, sim, serve, --repository, \"{{{{ stages.models.out }}}}/triton_model_repo_0\", --grpc-port, \"{{port}}\"]\n"
    );
    let mut world = served(&[&server, USER]);
    world.env("CONTAINERS_CONF", &podman.config).env("CONTAINERS_STORAGE_CONF", &podman.storage);
    let ended = world.good(&["run", "m"]);
    ended.shows("▲ server").shows("▼ server");
    assert!(!ended.stdout.contains("was killed"), "{}", ended.stdout);
    podman.nothing_left(&world);
}

/// A docker that writes down how it was called and does what is asked without any container.
const DOCKER: &str = r#"#!/bin/sh
id=sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
case "$1 $2" in
"image inspect") echo "$id [\"example.org/x@sha256:1\"]"; exit 0 ;;
esac
{ printf 'docker'; for word in "$@"; do printf ' %s' "$word"; done; echo; } >> "$CALLS"
case "$1" in
build) for word in "$@"; do case $word in --iidfile=*) echo "$id" > "${word#*=}" ;; esac; done ;;
run) while [ "$1" != "$id" ]; do shift; done; shift; exec "$@" ;;
esac
"#;

fn executable(world: &World, name: &str, text: &str) {
    let path = format!("bin/{name}");
    world.file(&path, text);
    fs::set_permissions(world.path(path), fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// With that docker on its PATH; the file with its calls.
fn with_docker(world: &mut World) -> std::path::PathBuf {
    executable(world, "docker", DOCKER);
    let path = std::env::var("PATH").expect("PATH");
    world.env("PATH", format!("{}:{path}", world.path("bin").display()));
    let calls = world.path("calls");
    world.env("CALLS", &calls);
    calls
}

#[test]
fn what_docker_is_told() {
    let mut world = World::with(
        r#"stages:
  prebuild:
    secrets: [GITHUB_TOKEN]
    image:
      build:
        context: docker
        dockerfile: docker/Dockerfile.multi
        target: release
        args: { BUILD_TRITON: "1" }
        tag: mlperf-inference:user-x86_64
      platform: linux/amd64
      args: [--network=host]
  fetch:
    image: { pull: "registry.example/nvidia/tritonserver:24.12-trtllm-python-py3" }
  build:
    container:
      image: "{{ stages.prebuild.image }}"
      shm_size: 32g
      ulimits: { memlock: -1 }
      mounts: ["/etc:/host-etc:ro"]
      env: { CUDA_MODULE_LOADING: LAZY }
      args: [--cap-add=SYS_PTRACE]
    gpus: 2
    env: { TRTLLM_ENABLE_PDL: "1", HOME: /work }
    secrets: [HF_TOKEN]
    inputs: { source: source }
    shell: [sh, -c, "echo built > engine"]
  serve:
    gpus: 1
    container: { image: "{{ stages.fetch.image }}" }
    shell: echo "${CUDA_VISIBLE_DEVICES:-}" > seen
  generate_engines:
    gpus: 2
    container: { image: "{{ stages.prebuild.image }}" }
    inputs: { checkpoint: weights, trtllm: trtllm }
    engine:
      backend: tensorrt_llm
      precision: fp8
      tensor_parallelism: 2
      checkpoint: "{{ inputs.checkpoint }}"
      trtllm: "{{ inputs.trtllm }}"
      build_flags: { max_batch_size: 2048 }
      model: { name: m, architecture: LlamaForCausalLM, parameters: 1000, num_hidden_layers: 1, hidden_size: 8, intermediate_size: 8,
               num_attention_heads: 1, num_key_value_heads: 1, vocab_size: 10, max_position_embeddings: 64 }
      system: { name: x, gpus: 2, memory_gb: 141, bandwidth_gbs: 4800, tflops_16bit: 989 }
"#,
    );
    world.file("weights/config.json", "{}").file("trtllm/examples/quantization/quantize.py", "");
    // Recorded: each leaves what its output folder would hold.
    executable(&world, "python3", "#!/bin/sh\nmkdir -p .checkpoint && echo weights > .checkpoint/rank0\n");
    executable(
        &world,
        "trtllm-build",
        "#!/bin/sh\necho '{}' > config.json\ncp .checkpoint/rank0 rank0.engine\ncp .checkpoint/rank0 rank1.engine\n",
    );
    world.file("docker/Dockerfile.multi", "FROM scratch\n").file("source/a", "");
    world.env("HF_TOKEN", "hf_verysecret").env("GITHUB_TOKEN", "ghp_verysecret");
    let calls = with_docker(&mut world);
    world.good(&["run", "m", "-j", "1", "--gpus", "4,5", "--no-lock"]);
    let text = fs::read_to_string(&calls).expect("calls");
    assert!(!text.contains("verysecret"), "{text}");
    let project = fs::canonicalize(world.path(".")).expect("a folder").display().to_string();
    let text = text.replace(&project, "PROJECT");
    golden("docker.txt", &normal(&text));
    assert_eq!(world.read("latest/serve/seen"), "\n", "inside, GPUs are counted anew");
    assert_eq!(world.read("latest/generate_engines/rank0.engine"), "weights\n");
    no_process_left(&world);
}

fn golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/place").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("the golden file");
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "`UPDATE=1` writes it anew");
}

/// Names that differ from run to run, and the user.
fn normal(text: &str) -> String {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            // Given to who is not root.
            let line = line.replace(" --env=HOME=/tmp", "");
            let words = line.split(' ').map(|word| {
                if word.starts_with("--name=regatta-") {
                    // RUN.TASK.ATTEMPT, and a number for each further container of it.
                    let mut parts = word.rsplit('.');
                    let (attempt, task) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                    return format!("--name=regatta-RUN.{task}.{attempt}");
                }
                if word.starts_with("--user=") {
                    return "--user=UID:GID".to_owned();
                }
                match word.split_once("/.regatta/out/") {
                    Some(_) => {
                        let mut parts = word.split("/.regatta/out/");
                        let first = parts.next().unwrap_or_default().to_owned();
                        parts.fold(first, |whole, part| {
                            let end = part.find([':', '/']).unwrap_or(part.len());
                            format!("{whole}/.regatta/out/KEY{}", &part[end..])
                        })
                    }
                    None => word.to_owned(),
                }
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn a_container_where_nothing_is_started_is_a_mistake() {
    let world = World::with(
        "stages:
  clone: { git: { url: x, rev: main }, container: { image: i } }
  sim: { serve: { simulator: { repository: r } }, container: { image: i } }
  twice: { serve: { triton: { repository: r, container: { image: a } } }, container: { image: b, shm_size: big, ulimits: { memlok: 1 }, mounts: [here] } }
  image: { image: { build: { context: d }, pull: x } }
  shut: { shell: \"true\", container: { image: \"{{ stages.image }}\" } }
",
    );
    let ended = world.regatta(&["check", "m"]);
    assert_eq!(ended.code, 2);
    ended.shows("`stages.image.image` has more than one of the keys `build`, `pull`");
    let fixed = world.read("manifests/m.yaml").replace("build: { context: d }, ", "");
    world.file("manifests/m.yaml", &fixed);
    let ended = world.regatta(&["check", "m"]);
    ended.shows("the stage `image` is not a value").shows("its image is {{ stages.image.image }}");
    let fixed = fixed.replace("{{ stages.image }}", "{{ stages.image.image }}");
    world.file("manifests/m.yaml", &fixed);
    let ended = world.regatta(&["check", "m"]);
    for message in [
        "`stages.clone.container` would have no effect",
        "`stages.sim.container` would have no effect",
        "`stages.twice.container` is given twice",
        "`stages.twice.container.shm_size` must be a size",
        "`stages.twice.container.ulimits.memlok` is not a limit",
        "`stages.twice.container.mounts[0]` must be `/from:/to`",
    ] {
        ended.shows(message);
    }
}

#[test]
fn that_a_machine_has_no_docker_is_reported() {
    let mut world =
        World::with("stages:\n  make: { shell: \"true\", container: { image: x, program: no-such-docker } }\n");
    world.env("NOTHING", "1");
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1);
    ended.shows("the container program `no-such-docker` was not found in PATH").shows("regatta doctor");
}
