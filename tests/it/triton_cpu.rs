//! `regatta run triton-cpu`: the pipeline against a real Triton.

use serde_json::json;

use crate::campaign::no_process_left;
use crate::tritonserver::{self, RealTriton};
use crate::world::{Ended, World};

/// The shipped manifest, with the server that the other tests use too.
fn run(world: &World, settings: &[&str]) -> Ended {
    let program = format!("tritonserver={}", tritonserver::program().display());
    world.regatta(&[&["run", "triton-cpu", program.as_str()], settings].concat())
}

#[test]
#[ignore = "needs a real tritonserver"]
fn two_real_servers_are_brought_up_raced_and_stopped() {
    let world = World::new();
    world.copy("manifests");
    let ended = run(&world, &["step_ms=1", "requests=40", "rate=40", "duration=1s"]);
    // Beside other tests the harness may say that it was not given enough of the machine. The answers are right or not.
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    for scenario in ["offline", "server"] {
        ended.shows(&format!("▲ triton/{scenario}")).shows(&format!("▼ triton/{scenario}"));
        ended.shows(&format!("run_harness/{scenario}"));
    }
    if ended.code == 0 {
        let result: serde_json::Value =
            serde_json::from_str(&world.read("latest/run_harness/offline/result.json")).unwrap();
        let counts = &result["counts"];
        assert_eq!((&counts["ok"], &counts["failed"], &counts["not_sent"]), (&json!(40), &json!(0), &json!(0)));
        assert_eq!(result["tokens"]["output"], result["tokens"]["output_requested"]);
        let identity = &result["identity"];
        let server = &identity["servers"][0];
        assert_eq!((&identity["simulated"], &server["kind"]), (&json!(false), &json!("triton")), "{identity:#}");
        let version = server["version"].as_str().expect("a version");
        assert!(version.starts_with("2."), "{version}");
        assert_eq!((&server["backend"], &server["host"]), (&json!("python"), &identity["client"]["host"]));
        assert!(server["metadata_digest"].is_string() && server["model_versions"] == json!(["1"]), "{server:#}");
        assert_eq!(identity["manifest"]["name"], "triton-cpu");
        ended.shows(&format!("triton {version} (tensorrt_llm, backend python)"));
        let page = world.read("latest/report.html");
        assert!(
            page.contains(&format!("triton {version} (tensorrt_llm, backend python)")) && !page.contains("SIMULATED")
        );
    }
    no_process_left(&world);
}

#[tokio::test]
#[ignore = "needs a real tritonserver"]
async fn the_real_server_comes_up_and_goes() {
    let world = World::new();
    world.copy("manifests");
    assert_eq!(run(&world, &["--until", "generate_triton_config"]).code, 0);
    let repository = world.path("latest/generate_triton_config/offline/triton_model_repo_0");
    let server = RealTriton::ready(&repository, &[]).await;
    assert_eq!(server.stubs().len(), 4, "one for each Python model:\n{}", server.log_text());
}

#[test]
fn in_an_empty_folder_its_models_come_from_the_program() {
    let world = World::new();
    let words = ["run", "triton-cpu", "--until", "generate_triton_config"];
    world.good(&words);
    assert!(world.path("latest/generate_triton_config/offline/triton_model_repo_0/tensorrt_llm").is_dir());
    assert!(!world.path("manifests").exists(), "nothing is written beside the state");
    // A folder of the project hides the shipped one, as a whole.
    world.file("manifests/triton-cpu/models/tensorrt_llm/1/model.py", "# mine\n");
    let ended = world.regatta(&words);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("manifests/triton-cpu/models/preprocessing/1/model.py is not there");
}
