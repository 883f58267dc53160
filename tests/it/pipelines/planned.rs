//! What is planned: nothing is started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use regatta::manifest::model::{Action, CherryPick, Git, ShellScript};
use regatta::plan::{Plan, Task, loadgen};
use regatta::stages::{engine_commands, previews};
use regatta::triton::launch::LaunchPreview;
use rustix::process::{getgid, getuid};
use serde_json::Value;

use crate::world::World;

use super::{WORKLOADS, golden, manifest, plan, real, systems};

/// NVIDIA's make targets, in the order in which its documentation runs them.
const TARGETS: [&str; 8] = [
    "prebuild",
    "clone_trt_llm",
    "build_trt_llm",
    "clone_triton",
    "build_triton",
    "generate_engines",
    "generate_triton_config",
    "run_harness",
];

/// `⟦out:x⟧` as a person reads it.
fn shown(text: &str) -> String {
    text.replace("⟦out:", "<").replace("⟦image:", "<image of ").replace("⟦service:", "<servers of ").replace('⟧', ">")
}

fn action(task: &Task) -> Action {
    task.action().cloned().unwrap_or_else(|| panic!("{} is skipped", task.id))
}

/// What a task will do, in the words of the commands it calls.
fn describe(task: &Task, out: &mut String) {
    let env: Vec<String> = task.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let gpus = if task.gpus > 0 { format!("  gpus {}", task.gpus) } else { String::new() };
    let _ = writeln!(out, "{}{gpus}", task.id);
    if !env.is_empty() {
        let _ = writeln!(out, "  with {}", env.concat().trim_end());
    }
    let mut line = |text: &str| {
        let _ = writeln!(out, "  {}", shown(text));
    };
    match action(task) {
        Action::Git(Git { url, rev, cherry_picks, submodules, .. }) => {
            let picks: Vec<String> = cherry_picks
                .iter()
                .map(|pick| match pick {
                    CherryPick::Commit(commit) | CherryPick::From { commit, .. } => format!(", {commit} on top"),
                })
                .collect();
            line(&format!("{url} at {rev}{}{}", picks.concat(), if submodules { ", with submodules" } else { "" }));
        }
        Action::Shell(ShellScript::Text(text)) => text.lines().for_each(line),
        Action::Engine(engine) => {
            for argv in engine_commands(&engine, Path::new("CHECKPOINT"), Path::new("OUT")).expect("commands") {
                line(&argv.join(" "));
            }
        }
        _ => line(task.action_text()),
    }
}

fn launched(plan: &Plan, out: &mut String) {
    for preview in previews(plan, &vec![true; plan.tasks.len()], Path::new("/")).unwrap() {
        let LaunchPreview::Start(launch) = preview.launch else { panic!("{}: {:?}", preview.task, preview.launch) };
        let _ = writeln!(out, "{}: {} servers", preview.task, launch.servers.len());
        for note in launch.notes.iter().filter(|note| note.contains("nodes")) {
            let _ = writeln!(out, "  {note}");
        }
        // They differ in number, GPUs and repository only.
        for server in launch.servers.iter().take(1) {
            let env: Vec<String> = server.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
            let _ = writeln!(out, "  {:?} by {:?}, world {}", server.mode, server.launcher, server.world_size);
            // Docker gets the user that runs the tests.
            let user = format!("--user={}:{}", getuid().as_raw(), getgid().as_raw());
            let command = shown(&server.argv().join(" ")).replace(&user, "--user=<user>");
            let _ = writeln!(out, "  {}{command}", env.concat());
        }
    }
}

fn text(workload: &str, system: &str) -> String {
    let planned = plan(workload, system, &[("scenarios", &scenarios(workload, system).join(","))]);
    let mut out = format!("== {system}\n\n");
    let software =
        ["prebuild", "clone_trt_llm", "build_trt_llm", "clone_triton", "clone_tensorrtllm_backend", "build_triton"];
    for task in planned.tasks.iter().filter(|task| task.skipped.is_none()) {
        // The software is that of the round, and stands with its first system; servers are told below.
        if !software.contains(&task.stage.as_str()) && !matches!(task.stage.as_str(), "triton" | "trtllm_serve") {
            describe(task, &mut out);
        }
    }
    launched(&planned, &mut out);
    out.push('\n');
    out
}

fn scenarios(workload: &str, system: &str) -> Vec<String> {
    let manifest = manifest(workload, system, &[]);
    let tuned = manifest.vars["tuning"].json();
    // Those that its file tunes: the others have what all have, and no batch size.
    let tuned = tuned.as_object().expect("a map").iter().filter(|(_, one)| one["gpu_batch_size"].is_u64());
    tuned.map(|(name, _)| name.clone()).collect()
}

#[test]
fn every_workload_is_planned_for_every_system_that_was_submitted() {
    for workload in WORKLOADS {
        let text: String = real(workload).iter().map(|system| text(workload, system)).collect();
        golden(&format!("{workload}.txt"), &text);
    }
}

#[test]
fn the_software_is_that_of_the_round() {
    let mut text = String::new();
    for (workload, system, title) in
        [("mixtral-8x7b", "h100-x1", "v4.1"), ("llama2-70b", "h200-x8", "v5.1"), ("llama3.1-8b", "b200-x1", "v6.0")]
    {
        let _ = writeln!(text, "== {title}\n");
        let planned = plan(workload, system, &[("patches", "/usr/share")]);
        let software = planned.tasks.iter().filter(|task| task.skipped.is_none());
        for task in
            software.filter(|task| TARGETS[..5].contains(&task.stage.as_str()) || task.stage.starts_with("clone"))
        {
            describe(task, &mut text);
        }
        text.push('\n');
    }
    golden("software.txt", &text);
}

#[test]
fn stages_are_called_as_nvidias_make_targets() {
    for workload in WORKLOADS {
        let manifest = manifest(workload, &systems(workload)[0], &[]);
        let names: Vec<&str> = manifest.stages.keys().map(String::as_str).collect();
        let targets: Vec<&str> = names.iter().copied().filter(|name| TARGETS.contains(name)).collect();
        assert_eq!(targets, TARGETS, "{workload}");
    }
}

/// Requests per second and GPU of each system, by family, round and scenario.
fn rates(workload: &str) -> BTreeMap<String, Vec<(String, f64)>> {
    let mut all: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for system in real(workload) {
        let manifest = manifest(workload, &system, &[("accuracy", "99.9")]);
        let var = |name: &str| manifest.vars[name].json();
        let gpus = var("gpus").as_f64().expect("a number");
        let tuning = var("tuning");
        for scenario in scenarios(workload, &system) {
            let one: &Value = &tuning[&scenario];
            let each =
                one["tensor_parallelism"].as_u64().expect("tp") * one["pipeline_parallelism"].as_u64().expect("pp");
            let family = system.rsplit_once("-x").map_or(system.as_str(), |(family, _)| family);
            // With less power it does less.
            let power = if system.ends_with("-maxq") { " MaxQ" } else { "" };
            let name =
                format!("{family}{power} {} {scenario} {each}", var("software_round").as_str().expect("a round"));
            let qps = one["target_qps"].as_f64().unwrap_or_else(|| panic!("{system} {scenario}: {one}"));
            all.entry(name).or_default().push((system.clone(), qps / gpus));
        }
    }
    all
}

#[test]
fn target_rates_grow_with_the_number_of_gpus() {
    // The published slips are factors of two and more: 376 for 188, 14.2 for 114.24, 1.17 for 21.06.
    const APART: f64 = 1.35;
    let mut compared = 0;
    for workload in WORKLOADS {
        for (family, rates) in rates(workload) {
            // Placeholders and one SXM's share, and said to be that in their files.
            if family.contains("nvl") && (workload == "llama3.1-8b" || family.contains("server")) {
                continue;
            }
            // Two B300 have the target of two GB300 there, and eight less than four times as much: said in the file.
            if workload == "llama3.1-405b" && family.starts_with("b300 v6.0 server") {
                continue;
            }
            let least = rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
            let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
            assert!(most / least < APART, "{workload} {family}: requests per second and GPU {rates:?}");
            compared += usize::from(rates.len() > 1);
        }
    }
    assert!(compared >= 15, "{compared} families with more than one size");
}

#[test]
fn every_system_of_the_catalogue_is_whole() {
    let mut sources = BTreeSet::new();
    for workload in WORKLOADS {
        let all = systems(workload);
        for system in &all {
            let planned = plan(workload, system, &[]);
            let is_simulated = system.starts_with("sim-");
            let skipped = |stage: &str| {
                planned.tasks.iter().find(|task| task.stage == stage).is_none_or(|task| task.skipped.is_some())
            };
            for stage in ["prebuild", "clone_trt_llm", "build_trt_llm"] {
                assert_eq!(skipped(stage), is_simulated, "{workload} {system} {stage}");
            }
            assert_eq!(skipped("simulator"), !is_simulated, "{workload} {system}");
            let needs_gpus = planned.tasks.iter().any(|task| task.gpus > 0);
            assert_eq!(needs_gpus, !is_simulated, "{workload} {system}");
            if let Some(real) = system.strip_prefix("sim-") {
                assert!(all.iter().any(|one| one == real), "{workload} {system} simulates nobody");
            }
            for (file, _) in manifest(workload, system, &[]).sources() {
                sources.insert(file.clone());
            }
        }
    }
    // Nothing lies about that no system is made of, and no imported one either.
    let imported = include_str!("../../../src/interop/nvidia_harness/harness_table.rs");
    for (file, _) in regatta::manifest::shipped() {
        let is_part = ["mlperf-flow/", "gpus/"].iter().any(|part| file.starts_with(&format!("manifests/{part}")));
        let name = file.rsplit('/').next().unwrap();
        assert!(!is_part || sources.contains(&file) || imported.contains(name), "{file} belongs to no system");
    }
}

/// NVIDIA's entries of Interactive on B200 have no FP8 cache, and pass on the flag of attention over one all the same.
#[test]
fn a_simulated_system_without_an_fp8_cache_does_interactive() {
    for system in ["sim-b200-x1", "sim-b200-x8"] {
        let planned = plan("llama2-70b", system, &[("scenarios", "offline,server,interactive")]);
        let flag = |scenario: &str| {
            let id = format!("generate_engines/{scenario}");
            let task = planned.tasks.iter().find(|task| task.id.to_string() == id).expect("an engine");
            task.action_text().contains("\"use_fp8_context_fmha\":\"enable\"")
        };
        assert_eq!(["offline", "server", "interactive"].map(flag), [true, true, false], "{system}");
    }
}

#[test]
fn every_program_for_containers_can_start_the_servers() {
    for program in ["docker", "podman", "enroot", "apptainer", "none"] {
        let planned = plan("llama2-70b", "h200-x8", &[("container", program)]);
        for preview in previews(&planned, &vec![true; planned.tasks.len()], Path::new("/")).unwrap() {
            let LaunchPreview::Start(launch) = preview.launch else { panic!("{program}: {:?}", preview.launch) };
            let argv = launch.servers[0].argv();
            assert!(argv[0] == program || program == "none", "{argv:?}");
        }
    }
}

#[test]
fn every_system_can_be_measured_by_loadgens_rules() {
    for workload in WORKLOADS {
        let tests = match workload {
            "gpt-oss-120b" => "performance,accuracy,test07,test09",
            _ => "performance,accuracy,test06",
        };
        for system in real(workload) {
            let scenarios = scenarios(workload, &system).join(",");
            let words = [("loadgen", "true"), ("tests", tests), ("scenarios", &scenarios)];
            let planned = plan(workload, &system, &words);
            let measured = planned.tasks.iter().filter(|task| task.bench().is_some());
            assert_eq!(
                measured.count(),
                tests.split(',').count() * scenarios.split(',').count(),
                "{workload} {system}"
            );
            let notes = loadgen::notes(&planned, Path::new("/"));
            assert!(notes.iter().any(|note| note.starts_with("run_harness/")), "{workload} {system}: {notes:?}");
        }
    }
}

#[test]
fn what_is_not_known_must_be_said() {
    use regatta::manifest::{GivenValues, ManifestLibrary, load};
    let params =
        [("system", "b200-x1"), ("model_path", "/usr")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let given = GivenValues { params: params.to_vec(), ..GivenValues::default() };
    let found = load(&ManifestLibrary::new(super::root()), "llama2-70b", &given)
        .expect_err("v6.0 names no commit")
        .render(false);
    assert!(found.contains("the parameter `trt_llm_rev` has no value"), "{found}");
    assert!(found.contains("the parameter `image` has no value"), "{found}");
}

/// Of the real system's file a twin has no rate; one on the command line it has.
#[test]
fn a_rate_on_the_command_line_is_that_of_a_twin_too() {
    let world = World::new();
    let words = ["plan", "llama3.1-8b", "loadgen=true", "system=sim-b200-x8", "scenarios=server"];
    let usual = world.good(&words);
    usual.shows("run_harness/server: 22.06 qps");
    let chosen = world.good(&[&words[..], &["tuning.server.target_qps=50"]].concat());
    chosen.shows("run_harness/server: 50 qps");
}

#[test]
fn a_package_of_servers_elsewhere_detects_nothing_of_this_host() {
    let world = World::new();
    world.file("cnn_eval.json", "[]");
    let notes = |endpoints: &str| {
        let words = ["plan", "llama3.1-8b", "package=true", "system=b200-x8", "dataset_path=cnn_eval.json"];
        world.good(&[&words[..], &["scenarios=offline", endpoints]].concat()).stdout
    };
    let elsewhere = notes("endpoints=gpu-node:8001");
    assert!(elsewhere.contains("package: gpu-node:8001: these servers run on another machine"), "{elsewhere}");
    assert!(elsewhere.contains("host_processor_model_name") && elsewhere.contains("operating_system"), "{elsewhere}");
    for own in ["endpoints=127.0.0.1:8001", "endpoints=0.0.0.0:8001"] {
        let here = notes(own);
        assert!(!here.contains("another machine") && !here.contains("host_processor_model_name"), "{here}");
    }
}
