//! The GPUs of a server, told beside its measurement by nvidia-smi: here a stand-in on the PATH, which says what a real one
//! said once, with the time of now.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::openai::script::{Do, Scripted, good};
use crate::stages::Bench;
use crate::world::{Ended, World, alive_with, signal, until};

/// Two H200s: one works, one tells neither its power nor its clocks.
const TELLS: &str = r#"
now() { TZ=$TZ date '+%Y/%m/%d %H:%M:%S.%3N'; }
case "$*" in
  --version) echo "NVIDIA-SMI version  : 570.86.15"; echo "CUDA Version        : 12.8" ;;
  *-lms*)
    while :; do
      echo "$(now), 0, 400.00, 98, 70123, 61, 1980, 2619, 0x0000000000000004"
      echo "$(now), 1, [N/A], [Not Supported], 512, 30, [N/A], [N/A], [N/A]"
      sleep 0.05
    done ;;
  *)
    echo "0, GPU-aaaa, NVIDIA H200, 570.86.15, 143771, 700.00, 1980, 3201, $(now), 77.10, 0, 4, 30, 345, 2619, 0x0000000000000001"
    echo "1, GPU-bbbb, NVIDIA H200, 570.86.15, 143771, 700.00, 1980, 3201, $(now), [N/A], [Not Supported], 4, 30, [N/A], [N/A], [N/A]" ;;
esac
"#;

const SAMPLED: &str = "--query-gpu=timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu,clocks.sm,clocks.mem,clocks_event_reasons.active --format=csv,noheader,nounits";
const PROBED: &str = "--query-gpu=index,uuid,name,driver_version,memory.total,enforced.power.limit,clocks.max.sm,clocks.max.memory,timestamp,power.draw,utilization.gpu,memory.used,temperature.gpu,clocks.sm,clocks.mem,clocks_event_reasons.active --format=csv,noheader,nounits";

/// An `nvidia-smi` in `bin` that writes down how it was asked, and then does this. The PATH that has it.
fn stand_in(folder: &Path, does: &str) -> String {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("nvidia-smi");
    fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> '{}'\n{does}", folder.join("asked").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

fn world(does: &str) -> World {
    let mut world = World::new();
    let path = stand_in(&world.path(""), does);
    world.env("PATH", path);
    world
}

/// Six requests to a server on this host, which is no simulator.
fn bench(world: &World, server: &Scripted, more: &[&str]) -> Ended {
    let target = format!("openai://{}", server.address);
    let words = ["bench", &target, "-m", "m", "--rate", "50", "-n", "6", "--isl", "8", "--osl", "4"];
    let ended = world.regatta(&words.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>());
    // Beside other tests the client may be late, and says so.
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    ended
}

fn file(world: &World, name: &str) -> Option<String> {
    let files = walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten();
    let path = files.map(walkdir::DirEntry::into_path).find(|path| path.ends_with(name))?;
    fs::read_to_string(path).ok()
}

fn result(world: &World) -> Value {
    serde_json::from_str(&file(world, "result.json").expect("a result")).unwrap()
}

#[test]
fn power_and_utilization_stand_beside_the_measurement() {
    let world = world(TELLS);
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let ended = bench(&world, &server, &[]);

    // Asked once what there is, then again and again; no GPU was leased, so all of the host are told of.
    let calls = world.read("asked");
    assert_eq!(
        calls.lines().collect::<Vec<_>>(),
        [PROBED.to_owned(), "--version".to_owned(), format!("{SAMPLED} -lms 500")]
    );

    let result = result(&world);
    let gpu = &result["gpu"];
    assert_eq!((&gpu["source"], &gpu["malformed"]), (&"nvidia-smi".into(), &0.into()), "{gpu:#}");
    assert_eq!(gpu["population"], "all GPUs of this host, since none was leased to the servers");
    let window = result["rates"]["window_s"].as_f64().unwrap();
    let close = |value: &Value, to: f64| (value.as_f64().unwrap() - to).abs() <= 1e-6 * to.abs().max(1.0);
    assert!(close(&gpu["window_s"], window));

    let busy = &gpu["devices"][0];
    assert_eq!(
        (&busy["uuid"], &busy["name"], &busy["driver"]),
        (&"GPU-aaaa".into(), &"NVIDIA H200".into(), &"570.86.15".into())
    );
    // Two of one model are one entry of the identity; what is in force there is asked once.
    let identity = json!({
        "name": "NVIDIA H200", "count": 2, "driver": "570.86.15", "cuda": "12.8", "memory_total_mib": 143_771.0,
        "power_limit_w": 700.0, "max_sm_clock_mhz": 1980.0, "max_memory_clock_mhz": 3201.0,
        "population": gpu["population"], "source": "nvidia-smi",
    });
    assert_eq!(result["identity"]["gpus"], json!([identity]));
    // There is a reading before the start and one after the end.
    assert!(close(&busy["covered_s"], window), "{busy:#}");
    assert!(close(&busy["mean_power_w"], 400.0) && close(&busy["energy_j"], 400.0 * window), "{busy:#}");
    // What a GPU does not tell is absent, and then there is no sum either.
    let quiet = gpu["devices"][1].as_object().unwrap();
    for key in
        ["energy_j", "mean_power_w", "max_power_w", "mean_utilization_percent", "mean_sm_clock_mhz", "throttle_reasons"]
    {
        assert!(!quiet.contains_key(key), "{key}: {quiet:?}");
    }
    assert!(gpu.get("energy_j").is_none() && gpu.get("tokens_per_joule").is_none());
    assert!(gpu["tokens_per_joule_is"].as_str().unwrap().contains("not every GPU reported its power"));

    // Each reading, with times from the run's start.
    let lines: Vec<Value> =
        file(&world, "gpu.jsonl").unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len() as u64, gpu["readings"].as_u64().unwrap());
    assert!(lines[0]["at_s"].as_f64().unwrap() < 0.0 && lines.last().unwrap()["at_s"].as_f64().unwrap() >= window);
    let of_quiet = lines.iter().find(|line| line["index"] == 1).unwrap().as_object().unwrap();
    assert_eq!(of_quiet.keys().collect::<Vec<_>>(), ["uuid", "index", "at_s", "memory_used_mib", "temperature_c"]);

    ended.shows("tokens per joule n/a").shows("not every GPU reported its power");
    let page = world.read("latest/report.html");
    for text in ["<h4>GPUs</h4>", "0 NVIDIA H200", "Power in W, GPU 0", "Driver 570.86.15."] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(alive_with(world.path("")), [], "nothing outlives the run");
    assert_eq!(server.requests.lock().unwrap().len(), 7, "one to warm up, six to measure, and none of ours");
}

/// An attached server may use one of them: tokens per second and GPU are not known.
#[test]
fn tokens_are_not_divided_by_the_gpus_of_the_whole_host() {
    let world = world(TELLS);
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let target = format!("openai://{}", server.address);
    let mut run =
        world.start(&["bench", &target, "-m", "m", "-c", "2", "--duration", "60s", "--isl", "8", "--osl", "4"]);
    let live = || -> Option<Value> {
        let status: Value = serde_json::from_str(&world.regatta(&["status", "--json"]).stdout).ok()?;
        Some(status["run_state"]["tasks"]["bench"]["progress"]["live"].clone())
    };
    until("tokens", || live().is_some_and(|live| live["tokens_per_s"].as_f64().is_some_and(|rate| rate > 0.0)));
    // nvidia-smi watches two.
    assert!(world.read("asked").contains("-lms"));
    assert_eq!(live().unwrap().get("gpus"), None);
    signal(&run, "INT");
    run.wait().unwrap();
}

#[test]
fn tokens_per_joule_are_reported_where_every_gpu_reports_its_power() {
    let one = TELLS.lines().filter(|line| !line.contains("echo \"1, ") && !line.contains("), 1, ")).collect::<Vec<_>>();
    let does = one.join("\n").replace("0x0000000000000001\"", "0x0000000000000001\" ;;");
    let world = world(&does);
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let ended = bench(&world, &server, &[]);
    let result = result(&world);
    let per_joule = result["gpu"]["tokens_per_joule"].as_f64().unwrap_or_else(|| panic!("{:#}", result["gpu"]));
    let expected = result["rates"]["output_tokens"].as_f64().unwrap() / 400.0;
    assert!((per_joule / expected - 1.0).abs() < 1e-6, "{per_joule} is not {expected}");
    let what = result["gpu"]["tokens_per_joule_is"].as_str().unwrap();
    assert!(what.starts_with("output tokens of successful requests (tokens from usage.completion_tokens) / (mean power of these 1 GPU × window)"), "{what}");
    ended.shows("1 GPU (all GPUs of this host, since none was leased to the servers): mean power 400.00 W");
    // What a server made of its energy is compared like every other number.
    world.good(&["compare", "bench", "bench"]).shows("output tokens        /J");
}

#[test]
fn a_driver_that_fails_is_a_notice_and_no_failure() {
    let world = world(
        "echo \"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\"\nexit 9\n",
    );
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    bench(&world, &server, &[])
        .shows("no GPU telemetry: nvidia-smi printed: NVIDIA-SMI has failed because it couldn't communicate");
    assert_eq!(world.count("asked"), 1);
    assert_eq!(result(&world).get("gpu"), None);
    assert_eq!(file(&world, "gpu.jsonl"), None);
}

#[test]
fn an_older_nvidia_smi_is_asked_in_its_own_words() {
    let does = TELLS.replace(
        "case \"$*\" in",
        "case \"$*\" in\n  *clocks_event_reasons.active*)\n    echo 'Field \"clocks_event_reasons.active\" is not a valid field to query.'; exit 2 ;;\nesac\ncase \"$*\" in",
    );
    let world = world(&does);
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    bench(&world, &server, &[]);
    let before = |question: &str| question.replace("clocks_event_reasons", "clocks_throttle_reasons");
    assert_eq!(
        world.read("asked").lines().collect::<Vec<_>>(),
        [PROBED.to_owned(), before(PROBED), "--version".to_owned(), format!("{} -lms 500", before(SAMPLED))]
    );
    let reasons = &result(&world)["gpu"]["devices"][0]["throttle_reasons"];
    // Readings within so short a window may be none; then nothing is said of them.
    assert!(reasons.is_null() || *reasons == json!({"sw_power_cap": 1.0}), "{reasons}");
}

#[test]
fn one_that_dies_in_the_middle_leaves_what_it_had_reported() {
    let world = world(&TELLS.replace("      sleep 0.05\n", "      echo 'Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.'\n      touch \"${0%/bin/*}/dead\"\n      exit 15\n"));
    let dead = world.path("dead");
    // The server answers only when nvidia-smi is gone.
    let server = Scripted::start(move |_| {
        until("nvidia-smi to end", || dead.exists());
        vec![Do::Send(good())]
    });
    bench(&world, &server, &[]).shows("GPU telemetry: nvidia-smi ended before the measurement did");
    let result = result(&world);
    let gpu = &result["gpu"];
    assert_eq!((&gpu["readings"], &gpu["malformed"]), (&2.into(), &1.into()), "{gpu:#}");
    assert!(gpu["first_malformed"].as_str().unwrap().starts_with("Unable to determine the device handle"));
    let note = gpu["notes"][0].as_str().unwrap();
    assert!(note.contains("with exit code 15: Unable to determine"), "{note}");
    assert!(gpu.get("tokens_per_joule").is_none());
    assert_eq!(result["counts"]["ok"], 6, "the measurement has nothing to do with it");
}

#[test]
fn it_ends_with_the_run_also_when_somebody_stops_it() {
    let world = world(TELLS);
    let server = Scripted::start(|_| vec![Do::Hang]);
    let target = format!("openai://{}", server.address);
    let child = world.start(&["bench", &target, "-m", "m", "--offline", "-n", "3", "--isl", "8", "--osl", "4"]);
    until("requests to be on their way", || !server.requests.lock().unwrap().is_empty());
    until("nvidia-smi to be asked once, for its versions, and again and again", || world.count("asked") == 3);
    signal(&child, "INT");
    assert_eq!(Ended::of(child).code, 130);
    assert_eq!(alive_with(world.path("")), []);
}

/// One benchmark of a server by its stage alone.
async fn stage(server: &str, does: &str, more: Value, gpus: Vec<u32>) -> (Bench, Option<String>) {
    let bench = Bench::new();
    let path = stand_in(bench.dir.path(), does);
    let mut action = json!({"bench": {"target": server, "model": "m", "scenario": "offline", "stop": {"requests": 2},
        "input_tokens": {"fixed": 8}, "output_tokens": {"fixed": 4}}});
    action["bench"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut lease = bench.lease(&action);
    lease.assignment.env.insert("PATH".to_owned(), path);
    lease.assignment.gpus = gpus.into_iter().map(regatta::event::GpuId::Index).collect();
    let _ = bench.perform_lease(lease).await;
    assert!(bench.path("out/result.json").exists(), "{:?}", bench.notices());
    let calls = fs::read_to_string(bench.path("asked")).ok();
    (bench, calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_gpus_that_were_leased_to_the_servers_are_reported() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let does = TELLS
        .replace(", 0, 4", ", 2, 4")
        .replace(", 1, [", ", 3, [")
        .replace("\"0, GPU", "\"2, GPU")
        .replace("\"1, GPU", "\"3, GPU");
    let (bench, calls) = stage(&format!("openai://{}", server.address), &does, json!({}), vec![2, 3]).await;
    let calls = calls.unwrap();
    assert_eq!(
        calls.lines().collect::<Vec<_>>(),
        [format!("{PROBED} --id=2,3"), "--version".to_owned(), format!("{SAMPLED} --id=2,3 -lms 500")]
    );
    let result: Value = serde_json::from_str(&bench.out("result.json")).unwrap();
    assert_eq!(result["gpu"]["population"], "the GPUs leased to the servers under test");
    let indices: Vec<u64> =
        result["gpu"]["devices"].as_array().unwrap().iter().map(|gpu| gpu["index"].as_u64().unwrap()).collect();
    assert_eq!(indices, [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_asked_says_nothing() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let target = format!("openai://{}", server.address);
    let (bench, calls) = stage(&target, TELLS, json!({"telemetry": "off"}), vec![]).await;
    assert_eq!((calls, bench.notices()), (None, Vec::new()));
    let (bench, calls) = stage(&target, TELLS, json!({"telemetry": "metrics"}), vec![]).await;
    assert_eq!((calls, bench.notices()), (None, Vec::new()));

    // A simulated server uses no GPU, whatever this machine has.
    let files = crate::simulator::ground::Files::new(true, &json!({}));
    let simulator = crate::simulator::ground::Running::start(files.options());
    let of_simulator = json!({"model": "tensorrt_llm", "vocab_size": 1000});
    let (bench, calls) = stage(&simulator.address.to_string(), TELLS, of_simulator.clone(), vec![]).await;
    assert_eq!((calls, bench.notices().iter().filter(|notice| notice.contains("GPU")).count()), (None, 0));
    let mut explicit = of_simulator;
    explicit["telemetry"] = json!("nvidia-smi");
    let (bench, calls) = stage(&simulator.address.to_string(), TELLS, explicit, vec![]).await;
    assert_eq!(calls, None);
    assert!(
        bench.notices().contains(&"no GPU telemetry: the server is the simulator, which uses no GPU".to_owned()),
        "{:?}",
        bench.notices()
    );
}

/// A metrics port that says the same at every question.
fn metrics(text: &'static str) -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while socket.read(&mut buffer).is_ok_and(|length| length > 0) {
                    if socket.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn without_another_source_a_tritons_own_metrics_are_used() {
    const SAYS: &str = "# TYPE nv_gpu_power_usage gauge\nnv_gpu_power_usage{gpu_uuid=\"GPU-far\"} 300\n\
        # TYPE nv_gpu_utilization gauge\nnv_gpu_utilization{gpu_uuid=\"GPU-far\"} 0.5\n";
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let bench = Bench::new();
    let mut lease = bench.lease(&json!({"bench": {"target": format!("openai://{}", server.address), "model": "m",
        "scenario": "offline", "stop": {"requests": 2}, "input_tokens": {"fixed": 8}, "output_tokens": {"fixed": 4}}}));
    // Of a service of ours all ports are known.
    let mut endpoint: regatta::event::Endpoint = server.address.to_string().parse().unwrap();
    (endpoint.http, endpoint.metrics) = (Some(endpoint.grpc), Some(metrics(SAYS)));
    lease.assignment.endpoints = vec![endpoint];
    lease.assignment.env.insert("PATH".to_owned(), "/nowhere".to_owned());
    let _ = bench.perform_lease(lease).await;
    let result: Value = serde_json::from_str(&bench.out("result.json")).unwrap();
    let gpu = &result["gpu"];
    assert!(gpu["source"].as_str().unwrap().contains("nv_gpu_*, which Triton has from DCGM"), "{gpu:#}");
    // It is asked when all begins and when all is over; how much of the window lies between is told.
    let device = &gpu["devices"][0];
    assert_eq!(device["uuid"], "GPU-far");
    assert!((device["mean_power_w"].as_f64().unwrap() - 300.0).abs() < 1e-6, "{device:#}");
    let covered = device["covered_s"].as_f64().unwrap();
    assert!(covered > 0.0 && covered <= result["rates"]["window_s"].as_f64().unwrap() + 1e-9, "{device:#}");
    assert!((device["energy_j"].as_f64().unwrap() - 300.0 * covered).abs() < 1e-6, "{device:#}");
    assert!(bench.out("gpu.jsonl").lines().all(|line| line.contains("\"utilization_percent\":50.0")));
}
