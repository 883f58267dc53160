//! Command lines as they are read.

use std::path::Path;

use super::*;
use crate::cli::{Force, GpuSelection};
use base::event::GpuId;

fn parse_line(line: &str) -> Result<Invocation, CliParseError> {
    parse(std::iter::once("regatta").chain(line.split_whitespace()))
}

fn run(line: &str) -> RunRequest {
    match parse_line(line).expect("understood").request {
        CliRequest::Run(run) => run,
        other => panic!("not a run: {other:?}"),
    }
}

fn usage_error_text(line: &str) -> String {
    let refused = parse_line(line).expect_err("refused");
    assert_eq!(refused.exit(), CliExit::Usage, "{refused}");
    refused.to_string()
}

#[test]
fn commands_that_other_programs_have_are_understood() {
    assert!(parse_line("version").expect_err("the version").to_string().starts_with("regatta "));
    assert!(matches!(parse_line("results").expect("understood").request, CliRequest::Runs(_)));
}

#[test]
fn the_name_alone_prints_the_help() {
    let help = parse_line("").expect_err("help");
    assert_eq!(help.exit(), CliExit::Done);
    assert!(help.to_string().contains("\nMeasure:\n"), "{help}");
}

#[test]
fn a_parameter_can_be_given_to_check() {
    let CliRequest::Check(request) = parse_line("check a b.yaml system=h200").expect("understood").request else {
        panic!("not a check")
    };
    assert_eq!((request.manifests, request.settings.len()), (vec!["a".to_owned(), "b.yaml".to_owned()], 1));
    assert!(usage_error_text("check system=h200").contains("no manifest is named"));
}

#[test]
fn the_table_of_commands_has_no_contradiction() {
    CliArgs::command().debug_assert();
}

#[test]
fn a_run_is_read_with_everything_on_it() {
    let run = run("run m system=h200-x8 --until a --until b --only c --force d scenarios=offline,server -j 3 -k \
         --events jsonl --gpus 0,2 --on slurm --slurm nodes=2");
    insta::assert_snapshot!(format!("{run:?}"), @"RunRequest { subject: Subject { manifest: \"m\", \
        settings: [KeyValueArg { key: \"system\", value: \"h200-x8\" }, KeyValueArg { key: \"scenarios\", value: \
        \"offline,server\" }] }, select: Select { until: [\"a\", \"b\"], only: [\"c\"], force: Stages([\"d\"]), \
        repeat: None, repeat_number: 1 }, keep_going: true, mode: RunMode { rehearse: false, jobs: Some(3), events: \
        Some(JsonLines), junit: None, metrics_listen: None, gpus: Some(Ids([Index(0), Index(2)])), locking: \
        LockingArgs { locked: None, lock: None, no_lock: false }, on: Some(Slurm), slurm: [KeyValueArg { key: \
        \"nodes\", value: \"2\" }], store: StoreSelection { address: None, sign_key: None, trusted_keys: None } }, \
        in_place: false, env: {} }");
}

#[test]
fn global_options_are_accepted_anywhere() {
    let global = parse_line("-q run m --home /x --color never").expect("understood").global;
    assert_eq!(global.home, Path::new("/x"));
    assert_eq!((global.color, global.loudness), (anstream::ColorChoice::Never, OutputVerbosity::Quiet));
    assert_eq!(parse_line("list -vv").expect("understood").global.loudness, OutputVerbosity::Verbose(2));
    assert!(usage_error_text("list -q -v").contains("cannot be used with"));
}

#[test]
fn bare_force_means_all_wherever_it_stands() {
    assert_eq!(run("run m").select.force, Force::Nothing);
    assert_eq!(run("run m --force").select.force, Force::All);
    assert_eq!(run("run m --force -j 2").select.force, Force::All);
    assert_eq!(run("run m --force a --force b").select.force, Force::Stages(vec!["a".into(), "b".into()]));
    let after = run("run m a=1 --force system=h200");
    assert_eq!(after.select.force, Force::All);
    assert_eq!(after.subject.settings.len(), 2);
    assert!(usage_error_text("run --force quickstart").contains("put the manifest first"));
    assert!(usage_error_text("run m --force a..b=1").contains("not allowed"));
}

#[test]
fn two_values_for_one_parameter_are_a_mistake() {
    assert!(usage_error_text("run m a=1 a=2").contains("given twice"));
    assert!(usage_error_text("plan m a=1 --force a=2").contains("given twice"));
    assert_eq!(run("run m a=1 a=1").subject.settings.len(), 2);
}

#[test]
fn a_word_without_an_equals_sign_gets_a_hint() {
    assert!(usage_error_text("run m system").contains("write `system=VALUE`"));
}

#[test]
fn gpus_are_a_count_or_a_list() {
    assert_eq!(run("run m --gpus 4").mode.gpus, Some(GpuSelection::Count(4)));
    assert_eq!(run("run m --gpus 2,0").mode.gpus, Some(GpuSelection::Ids(vec![GpuId::Index(2), GpuId::Index(0)])));
    for uuid in ["MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f", "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f"] {
        let gpu: GpuId = uuid.parse().unwrap();
        assert_eq!(run(&format!("run m --gpus {uuid}")).mode.gpus, Some(GpuSelection::Ids(vec![gpu])));
    }
    assert_eq!(run("run m --gpus 3,").mode.gpus, Some(GpuSelection::Ids(vec![GpuId::Index(3)])));
    for bad in ["x", "1,1", "1,,2", ",", "-1", "1,x", "GPU-8f9b"] {
        assert!(usage_error_text(&format!("run m --gpus={bad}")).contains("--gpus"), "{bad}");
    }
}

#[test]
fn the_simulator_takes_faults_that_help_does_not_show() {
    let CliRequest::Sim(SimRequest::Serve(sim)) =
        parse_line("sim serve --repository r --speed 2.5 --fault die=3 --fault mute").expect("understood").request
    else {
        panic!("not a simulation");
    };
    assert_eq!((sim.grpc_port, sim.speed), (8001, 2.5));
    assert_eq!(sim.faults, ["die=3", "mute"]);
    for bad in ["--speed 0", "--speed nan", "--load-seconds -1", "--grpc-port 70000"] {
        usage_error_text(&format!("sim serve --repository r {}", bad.replace(' ', "=")));
    }
}

#[test]
fn help_is_no_mistake_and_ends_with_the_exit_codes() {
    for command in CliArgs::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let refused = parse_line(&format!("{} --help", command.get_name())).expect_err("help");
        assert_eq!(refused.exit(), CliExit::Done);
        let help = refused.to_string();
        assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{}: {help}", command.get_name());
    }
    assert!(!parse_line("--help").expect_err("help").to_string().contains("__"));
}

#[test]
fn help_is_a_command_too() {
    let help = |line: &str| parse_line(line).expect_err("help").to_string();
    assert_eq!(help("help bench"), help("bench --help"));
    assert_eq!(help("help"), help("--help"));
}

#[test]
fn the_first_screen_of_bench_has_eight_options() {
    let help = parse_line("bench -h").expect_err("help").to_string();
    // Further in are the aliases of a line that goes on.
    let is_option = |line: &&str| ["  -", "      --"].iter().any(|start| line.starts_with(start));
    // And `--help` itself.
    assert_eq!(help.lines().filter(is_option).count(), 9, "{help}");
}

#[test]
fn what_other_tools_call_an_option_is_understood_or_has_its_cure() {
    let request = |line: &str| parse_line(line).expect("understood").request;
    for (typed, own) in [
        ("--rps 5", "--rate 5"),
        ("--qps 5", "--rate 5"),
        ("--max-concurrency 5", "-c 5"),
        ("--max-requests 5", "-n 5"),
        ("--max-tokens 5", "--output-tokens 5"),
        ("--random-input-len 5", "--input-tokens 5"),
    ] {
        assert_eq!(request(&format!("bench sim: {typed}")), request(&format!("bench sim: {own}")), "{typed}");
    }
    for (typed, cure) in [
        ("--host h --port 1", "`http://HOST:PORT`"),
        ("--api-key x", "`--api-key-env VARIABLE`"),
        ("-d 5s", "`--duration 30s`"),
        ("--output x.json", "`--json`"),
        ("--streaming true", "switches take no value"),
        ("--concurrency 8users", "write `8`"),
        ("--requests 10req", "write `10`"),
        ("--rate 5/s", "write `5`"),
    ] {
        let text = usage_error_text(&format!("bench sim: {typed}"));
        assert!(text.contains(cure) && !text.contains("as a value"), "{typed}: {text}");
    }
    assert!(usage_error_text("run m --system h200").contains("write `system=VALUE`"));
    assert!(usage_error_text("plan m --on slurm").contains("`--on` is an option of `regatta run`"));
}

#[test]
fn color_is_known_before_there_is_a_request() {
    let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    assert_eq!(color_of(&words("regatta run --color=never")), anstream::ColorChoice::Never);
    assert_eq!(color_of(&words("regatta --color always run")), anstream::ColorChoice::Always);
    assert_eq!(color_of(&words("regatta run color=never")), anstream::ColorChoice::Auto);
}

#[test]
fn every_section_of_the_help_is_that_of_a_command() {
    let names = include_str!("../help.txt").lines().filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
    for name in names.filter(|name| *name != "regatta") {
        let command = name.split(' ').try_fold(command(), |above, part| above.find_subcommand(part).cloned());
        assert!(command.is_some(), "{name}");
    }
}
