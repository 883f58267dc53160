//! Pasted lines on a real `tritonserver`: it is started by the words of the pages, and answers their requests and benchmarks.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use crate::campaign::no_process_left;
use crate::pasted::{Place, is_manifest, lines, run};
use crate::ports::free_ports;
use crate::serving::serving;
use crate::tritonserver;
use crate::world::{Ended, World, signal};

/// The model repository of the shipped manifest, for the real server.
fn repository(world: &World) -> String {
    let program = format!("tritonserver={}", tritonserver::program().display());
    world.good(&["run", "triton-cpu", &program, "step_ms=1", "--until", "generate_triton_config"]);
    let filled = world.path("latest/generate_triton_config/offline/triton_model_repo_0");
    // Out of the outputs, which are nobody's to change.
    let own = world.path("models");
    assert!(Command::new("cp").arg("-rL").args([&filled, &own]).status().expect("cp").success());
    own.display().to_string()
}

/// As the pages' single requests need it: one answer for each.
fn without_streaming(repository: &str) {
    for model in ["tensorrt_llm", "tensorrt_llm_bls"] {
        let file = Path::new(repository).join(model).join("config.pbtxt");
        let text = fs::read_to_string(&file).expect("its configuration");
        assert!(text.contains("decoupled: true"), "{text}");
        fs::write(&file, text.replace("decoupled: true", "decoupled: false")).expect("written");
    }
}

/// Pastes a line that starts a server, and serves what is printed until the caller ends it.
fn started(world: &World, line: &str) -> Child {
    let printed = world.good(&["import", "--", line]).stdout;
    assert!(is_manifest(&printed), "{printed}");
    world.file("manifests/pasted-server.yaml", &printed);
    // `launch_triton_server.py` asks for a GPU; the server that is started does not look for one.
    let (child, ..) = serving(world, &["pasted-server", "triton", "--gpus", "1"]);
    child
}

/// The pages' requests and benchmarks of a Triton server; how many were answered.
fn answered(place: &Place, is_wanted: impl Fn(&str) -> bool) -> usize {
    let mut ran = 0;
    for page in ["backend.sh", "genai-perf.sh", "today.sh", "repositories.sh", "others.sh"] {
        for line in lines(page) {
            let world = World::new();
            let printed = world.regatta(&["import", "--", &line]).stdout;
            // This tritonserver has no OpenAI frontend, and the CPU's Triton has no counters of a KV cache.
            if printed.is_empty() || !is_wanted(&printed) || printed.contains("protocol: openai") {
                continue;
            }
            let outcome = run(&world, &printed, place);
            if outcome.starts_with("not here") || outcome.starts_with("planned only") {
                continue;
            }
            assert!(!outcome.starts_with("exit"), "{line}\n{printed}\n{outcome}");
            ran += 1;
        }
    }
    ran
}

fn with_real_triton() -> (World, Place, [u16; 3]) {
    let mut world = World::new();
    let folder = tritonserver::program().parent().expect("its folder");
    world.env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").expect("PATH")));
    let ports @ [grpc, http, metrics] = free_ports();
    let place = [grpc, http, metrics].map(|port| format!("127.0.0.1:{port}"));
    let [grpc, http, metrics] = place;
    (world, Place { grpc, http, metrics }, ports)
}

fn stopped(world: &World, child: Child) {
    signal(&child, "INT");
    let ended = Ended::of(child);
    assert_eq!(ended.code, 0, "{ended:?}");
    no_process_left(world);
}

#[test]
#[ignore = "needs a real tritonserver and mpirun"]
fn the_backends_launch_line_starts_it_and_the_benchmarks_of_the_pages_run() {
    let (world, place, [grpc, http, metrics]) = with_real_triton();
    let repository = repository(&world);
    // Other tests have servers of their own here; without `--force` the script refuses to start beside them.
    let server = started(
        &world,
        &format!(
            "python3 scripts/launch_triton_server.py --force --world_size=1 --model_repo={repository} --grpc_port {grpc} --http_port {http} --metrics_port {metrics}"
        ),
    );
    let ran = answered(&place, is_manifest);
    assert!(ran >= 8, "{ran} benchmarks");
    stopped(&world, server);
}

#[test]
#[ignore = "needs a real tritonserver"]
fn a_line_of_tritonserver_starts_it_and_the_single_requests_of_the_pages_are_answered() {
    let (world, place, [grpc, http, metrics]) = with_real_triton();
    let repository = repository(&world);
    without_streaming(&repository);
    let server = started(
        &world,
        &format!(
            "tritonserver --model-repository={repository} --grpc-port={grpc} --http-port={http} --metrics-port={metrics} --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=pasted{grpc}_"
        ),
    );
    let ran = answered(&place, |printed| !is_manifest(printed));
    assert!(ran >= 10, "{ran} requests");
    stopped(&world, server);
}
