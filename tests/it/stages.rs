//! What each kind of stage does with its lease.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use regatta::event::{Done, Endpoint, Event, Failure, FailureKind, RunId, Stop, TaskId};
use regatta::plan::{ActionKind, Task};
use regatta::runner::{Lease, ResolvedTask, TaskExecutor as _, UpstreamProvenance};
use regatta::stages::StageExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::world::World;

/// A project folder with one task in it.
pub struct Bench {
    pub dir: TempDir,
    pub stop: Stop,
    pub events: Arc<Mutex<Vec<Event>>>,
}

impl Bench {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        Self { dir, stop: Stop::new(), events: Arc::default() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn out(&self, name: &str) -> String {
        fs::read_to_string(self.path("out").join(name)).unwrap()
    }

    pub fn lease(&self, action: &Value) -> Lease {
        let task = Task::minimal(TaskId::new("it"), "it".to_owned(), ActionKind::Shell);
        let events = Arc::clone(&self.events);
        Lease {
            task: task.into(),
            attempt: 1,
            assignment: ResolvedTask { action: action.to_string(), ..ResolvedTask::default() },
            out: self.path("out"),
            log: self.path("log"),
            project: self.dir.path().to_owned(),
            gpus: Vec::new(),
            lowered: None,
            batch_slot: None,
            stop: self.stop.clone(),
            ready: None,
            emit: Arc::new(move |event| events.lock().unwrap().push(event)),
            origins: Arc::new(UpstreamProvenance::default),
        }
    }

    pub async fn perform(&self, action: &Value) -> Result<Done, Failure> {
        self.perform_lease(self.lease(action)).await
    }

    pub async fn perform_lease(&self, lease: Lease) -> Result<Done, Failure> {
        let mut stages = StageExecutor::new(self.path("state"), RunId::new("run-1"));
        stages.program = Some(env!("CARGO_BIN_EXE_regatta").into());
        stages.perform(lease).await
    }

    /// Without those about the machine, on which other tests run meanwhile.
    pub fn notices(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter_map(|event| match event {
                Event::Notice { text, .. } if !text.starts_with("this machine was busy") => Some(text.clone()),
                _ => None,
            })
            .collect()
    }
}

#[tokio::test]
async fn a_shell_stage_runs_in_its_output_folder_with_its_names() {
    let bench = Bench::new();
    let mut lease = bench.lease(&json!({"shell": "echo \"$INPUT_TRAIN_DATA|$CUDA_VISIBLE_DEVICES|$MODE|$REGATTA_TASK\" > here; [ \"$PWD\" = \"$OUT\" ]"}));
    lease.assignment.inputs.insert("train-data".to_owned(), vec!["/a".into(), "/b".into()]);
    lease.assignment.env.insert("MODE".to_owned(), "fast".to_owned());
    lease.gpus = [0, 2].map(regatta::event::GpuId::Index).to_vec();
    bench.perform_lease(lease).await.unwrap();
    assert_eq!(bench.out("here"), "/a:/b|0,2|fast|run-1/it/1\n");
}

#[tokio::test]
async fn words_go_to_the_program_without_a_shell() {
    let bench = Bench::new();
    bench.perform(&json!({"shell": ["sh", "-c", "printf %s \"$1\" > word", "sh", "a $b"]})).await.unwrap();
    assert_eq!(bench.out("word"), "a $b");
}

#[tokio::test]
async fn a_failure_says_what_a_person_needs() {
    let bench = Bench::new();
    let failure = bench.perform(&json!({"shell": "cat data.txt"})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Exit(1));
    assert_eq!(failure.what, "exit code 1");
    assert!(failure.command.unwrap().ends_with("cat data.txt'"));
    assert_eq!(failure.tail, ["cat: data.txt: No such file or directory"]);
    assert!(failure.hint.unwrap().contains("inputs:"));
    assert_eq!(failure.log, Some(bench.path("log")));
}

#[tokio::test]
async fn a_background_process_is_reported_but_is_no_failure() {
    let bench = Bench::new();
    bench.perform(&json!({"shell": "sleep 1000 & :"})).await.unwrap();
    let notices = bench.notices();
    assert!(notices[0].starts_with("it left a background process running, which has been ended: "), "{notices:?}");
}

#[tokio::test]
async fn templates_are_rendered_strictly_and_keep_their_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    let from = bench.path("from/sub");
    fs::create_dir_all(&from).unwrap();
    fs::write(from.join("run.sh.j2"), "#!/bin/sh\necho {{ batch }} {{ names | join(',') }}\n").unwrap();
    fs::set_permissions(from.join("run.sh.j2"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(from.join("plain"), "{{ not touched }}").unwrap();
    let action = json!({"template": {"from": "from", "with": {"batch": 8, "names": ["a", "b"]}}});
    let done = bench.perform(&action).await.unwrap();
    assert_eq!(done.headline.unwrap(), "2 files");
    assert_eq!(bench.out("sub/run.sh"), "#!/bin/sh\necho 8 a,b\n");
    assert_eq!(bench.out("sub/plain"), "{{ not touched }}");
    assert_eq!(fs::metadata(bench.path("out/sub/run.sh")).unwrap().permissions().mode() & 0o777, 0o755);

    let failure = bench.perform(&json!({"template": {"from": "from", "with": {"names": ["a"]}}})).await.unwrap_err();
    assert_eq!(failure.what, "sub/run.sh.j2:2: `with` does not give `batch`");
    assert_eq!(failure.hint.unwrap(), "there is: `names`");
    let with = json!({"batches": 8, "names": ["a"]});
    let failure = bench.perform(&json!({"template": {"from": "from", "with": with}})).await.unwrap_err();
    assert_eq!(failure.hint.unwrap(), "did you mean `batches`?");

    let file = json!({"template": {"from": "from/sub/plain", "with": {}}});
    let failure = bench.perform(&file).await.unwrap_err();
    assert!(failure.what.ends_with("/from/sub/plain is a file, and `from` names a folder"), "{}", failure.what);

    fs::write(from.join("run.sh.j2"), "{{ server.port }} {{ server.adress }}\n").unwrap();
    let with = json!({"server": {"port": 1, "address": "x"}});
    let failure = bench.perform(&json!({"template": {"from": "from", "with": with}})).await.unwrap_err();
    assert_eq!(failure.what, "sub/run.sh.j2:1: `with` does not give `server.adress`");
    assert_eq!(failure.hint.unwrap(), "did you mean `address`?");
}

/// An engine and a repository in `out`, as earlier stages would leave them.
async fn repository(servers: u32) -> Bench {
    let engine = Bench::new();
    engine
        .perform(&json!({"engine": {
            "backend": "simulator", "precision": "fp8",
            "model": {"name": "tiny", "architecture": "LlamaForCausalLM", "parameters": 1_000_000, "num_hidden_layers": 2,
                "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
                "vocab_size": 1000, "max_position_embeddings": 2048},
            "system": {"name": "H200-SXM-141GBx1", "gpus": 1, "memory_gb": 141.0, "bandwidth_gbs": 4800.0, "tflops_16bit": 989.0},
            "build_flags": {"max_batch_size": 8, "max_num_tokens": 2048, "max_input_len": 256, "max_seq_len": 512, "tokens_per_block": 32},
        }}))
        .await
        .unwrap();
    let bench = Bench::new();
    // The engine outlives its own bench: it moves to where the repository points.
    let kept = bench.path("engine");
    fs::create_dir(&kept).unwrap();
    for entry in fs::read_dir(engine.path("out")).unwrap().flatten() {
        fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
    }
    let action = json!({"repository": {"engine": kept, "triton_num_servers": servers, "streaming": true, "models": ["tensorrt_llm"]}});
    bench.perform(&action).await.unwrap();
    bench
}

#[tokio::test]
async fn simulated_servers_come_up_are_measured_and_go_when_asked() {
    let bench = repository(2).await;
    let mut lease = bench.lease(&json!({"serve": {"simulator": {"repository": bench.path("out"), "speed": 100.0}}}));
    let (sender, ready) = oneshot::channel();
    lease.ready = Some(sender);
    let measure = async {
        let endpoints: Vec<Endpoint> = ready.await.unwrap();
        assert_eq!(endpoints.len(), 2);
        let target = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join("|");
        let other = Bench::new();
        let action = json!({"bench": {"target": target, "scenario": "offline", "stop": {"requests": 20},
            "input_tokens": {"fixed": 16}, "output_tokens": {"fixed": 8}, "vocab_size": 1000}});
        let measured = other.perform(&action).await;
        // Whatever the verdict on this machine: the result was written, and says what the ending says.
        let result: Value = serde_json::from_str(&other.out("result.json")).unwrap();
        assert_eq!(fs::read_to_string(other.path("out/requests.jsonl")).unwrap().lines().count(), 20);
        match measured {
            Ok(done) => assert!(done.headline.unwrap().starts_with("VALID")),
            Err(failure) => {
                assert!(matches!(failure.kind, FailureKind::Invalid(_)), "{failure:?}");
                assert_ne!(result["verdict"], "valid");
            }
        }
        bench.stop.request();
        endpoints
    };
    let (ended, endpoints) = tokio::join!(bench.perform_lease(lease), measure);
    ended.unwrap();
    for endpoint in endpoints {
        assert!(std::net::TcpStream::connect((endpoint.host.as_str(), endpoint.grpc)).is_err());
    }
}

#[tokio::test]
async fn a_server_that_dies_early_fails_with_its_last_lines() {
    let bench = Bench::new();
    let text = "echo loading engine; echo 'CUDA out of memory' >&2; exit 1";
    let failure = bench.perform(&json!({"serve": {"command": {"words": ["sh", "-c", text]}}})).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Service);
    assert!(failure.what.starts_with("the server ended with exit code 1 before it was ready"), "{}", failure.what);
    assert_eq!(failure.tail, ["loading engine", "CUDA out of memory"]);
    assert_eq!(failure.cause.unwrap(), "the GPU has too little memory for this");
}

#[tokio::test]
async fn a_server_that_is_never_ready_is_given_up_and_stopped() {
    let bench = Bench::new();
    let action = json!({"serve": {"command": {
        "words": ["sh", "-c", "echo $$ > pid; exec sleep 1000"], "ready": {"timeout": "3s", "by": "port"}}}});
    let failure = bench.perform(&action).await.unwrap_err();
    assert!(failure.what.contains("was not ready within 3s: waited for 127.0.0.1:"), "{}", failure.what);
    let pid = bench.out("pid");
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
}

#[tokio::test]
#[ignore = "needs Python"]
async fn a_server_that_dies_while_it_is_needed_fails() {
    let bench = Bench::new();
    let listen = "import socket,sys,os,time\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('bad luck')\nsys.exit(3)";
    let mut lease = bench.lease(&json!({"serve": {"command": {
        "words": ["python3", "-c", listen, "{port}"], "ready": {"timeout": "60s", "by": "port"}}}}));
    let (sender, ready) = oneshot::channel();
    lease.ready = Some(sender);
    let (ended, ()) = tokio::join!(bench.perform_lease(lease), async {
        ready.await.unwrap();
        fs::write(bench.path("out/go"), "").unwrap();
    });
    let failure = ended.unwrap_err();
    assert!(failure.what.starts_with("the server ended with exit code 3 while it was needed"), "{}", failure.what);
    assert_eq!(failure.tail, ["bad luck"]);
}

#[test]
fn a_name_that_no_template_uses_is_noted() {
    let world = World::with("stages:\n  a: { template: { from: t, with: { size: 1, seize: 2 } } }\n");
    world.file("t/config.txt.j2", "size {{ size }}\n");
    world.good(&["run", "m"]).shows("no template uses `seize` of `with`");
    assert_eq!(world.read("latest/a/config.txt"), "size 1\n");
}
