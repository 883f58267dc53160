//! From the arguments of a command line to an [`Invocation`]: the one place where what was typed gets its meaning.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

use super::args::{
    CheckArgs, CliArgs, CliCommand, ColorWord, DEFAULT_HOME, GraphWord, RepositoryCommand, SchemaWord, SelectArgs,
    SimCommand,
};
use super::argument_error::{ArgumentError, invalid_value, reject_duplicates};
use super::bench;
use super::bulk;
use super::common_args::Subject;
use super::exit::CliExit;
use super::force::force;
use super::key_value_arg::{KeyValueArg, rehearsal};
use super::lock;
use super::mlperf;
use super::request::{
    CheckRequest, CliRequest, Color, CompareRequest, DoctorRequest, ExplainRequest, ExportRequest, GcRequest, Global,
    ImportRequest, InitRequest, Invocation, ListRequest, LogsRequest, OutputVerbosity, PlanFormat, PlanRequest,
    ReportRequest, RepositoryFill, RepositoryRequest, RunRequest, RunsRequest, SchemaRequest,
    Select, SelftestRequest, ShowRequest, SimulateRequest, StatusRequest,
};
use super::serve;
use super::simulation;
use super::store;
use super::triton;

/// There is nothing to do: help was requested, or the arguments are wrong.
#[derive(Debug)]
pub struct CliParseError(Box<clap::Error>);

impl CliParseError {
    /// 0 for `--help` and `--version`, 2 for an error.
    pub fn exit(&self) -> CliExit {
        if self.0.use_stderr() { CliExit::Usage } else { CliExit::Done }
    }

    /// Help goes to stdout, errors to stderr, with color if requested.
    pub fn print(&self) -> io::Result<()> {
        self.0.print()
    }
}

impl std::fmt::Display for CliParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CliParseError {}

/// What the program's name alone means.
const WELCOME: &str = "__welcome";

/// The table of commands, for what is generated from it: man pages.
pub fn command() -> clap::Command {
    CliArgs::command()
}

/// Reads a command line; the first argument is the program's name.
pub fn parse<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Invocation, CliParseError> {
    let mut words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    if words.len() == 1 {
        words.push(WELCOME.into());
    }
    let command = CliArgs::command().color(color_of(&words));
    read(command, &words).map_err(|error| CliParseError(Box::new(error)))
}

/// Help and errors are printed before there is a request, so `--color` is read from the arguments directly.
fn color_of(words: &[OsString]) -> clap::ColorChoice {
    let mut choice = clap::ColorChoice::Auto;
    let mut named = false;
    for word in words.iter().filter_map(|word| word.to_str()) {
        let value = if named { Some(word) } else { word.strip_prefix("--color=") };
        named = word == "--color";
        choice = match value {
            Some("always") => clap::ColorChoice::Always,
            Some("never") => clap::ColorChoice::Never,
            _ => choice,
        };
    }
    choice
}

fn read(command: clap::Command, words: &[OsString]) -> Result<Invocation, clap::Error> {
    let mut format = command.clone();
    let matches = command.try_get_matches_from(words).map_err(|error| explain_force(error, words, &mut format))?;
    let mut typed = CliArgs::from_arg_matches(&matches)?;
    // Set and empty is how shells express "not set".
    let is_of_environment = matches.value_source("home") == Some(ValueSource::EnvVariable);
    if is_of_environment && typed.global.home.as_os_str().is_empty() {
        typed.global.home = DEFAULT_HOME.into();
    }
    into_invocation(typed).map_err(|(kind, text)| format.error(kind, text))
}

/// `run --force quickstart` reads `quickstart` as a stage; say so, where the missing MANIFEST alone would puzzle.
fn explain_force(error: clap::Error, words: &[OsString], format: &mut clap::Command) -> clap::Error {
    let after_force = words.iter().position(|word| word == "--force").and_then(|at| words.get(at + 1));
    match after_force {
        Some(word) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let word = word.to_string_lossy();
            format.error(
                ErrorKind::MissingRequiredArgument,
                format!(
                    "no MANIFEST was given: `--force {word}` reads `{word}` as the stage to force\n  \
                     hint: put the manifest first, for example `{word} --force`"
                ),
            )
        }
        _ => error,
    }
}

fn into_invocation(typed: CliArgs) -> Result<Invocation, ArgumentError> {
    let CliArgs { global, command } = typed;
    let global = Global {
        home: global.home,
        color: match global.color {
            ColorWord::Auto => Color::Auto,
            ColorWord::Always => Color::Always,
            ColorWord::Never => Color::Never,
        },
        loudness: match (global.quiet, global.verbose) {
            (true, _) => OutputVerbosity::Quiet,
            (false, 0) => OutputVerbosity::Normal,
            (false, times) => OutputVerbosity::Verbose(times),
        },
    };
    if global.home.as_os_str().is_empty() {
        return Err((
            ErrorKind::InvalidValue,
            "`--home` has an empty name\n  hint: leave it out, or name a folder".into(),
        ));
    }
    Ok(Invocation { global, request: request(command)? })
}

fn request(command: CliCommand) -> Result<CliRequest, ArgumentError> {
    Ok(match command {
        CliCommand::Run(args) => {
            let (manifest, mut settings) = subject(args.subject);
            settings.extend(rehearsal(args.mode.rehearse));
            let select = select(args.select, &mut settings)?;
            let keep_going = args.keep_going;
            CliRequest::Run(RunRequest { keep_going, ..args.mode.into_request(manifest, settings, select)? })
        }
        CliCommand::Serve(args) => CliRequest::Serve(serve::into_request(args)?),
        CliCommand::Bulk(args) => CliRequest::Bulk(bulk::into_request(args)?),
        CliCommand::Bench(args) if args.selftest => CliRequest::Selftest(SelftestRequest::default()),
        CliCommand::Bench(args) => CliRequest::Bench(Box::new(bench::into_request(*args)?)),
        CliCommand::Plan(args) => {
            let (manifest, mut settings) = subject(args.subject);
            settings.extend(rehearsal(args.rehearse));
            let select = select(args.select, &mut settings)?;
            reject_duplicates(&settings)?;
            let show = match (args.json, args.graph) {
                (json, _) if args.launch => PlanFormat::Launch { json },
                (true, _) => PlanFormat::Json,
                (false, None) => PlanFormat::Text,
                (false, Some(GraphWord::Dot)) => PlanFormat::Dot,
                (false, Some(GraphWord::Mermaid)) => PlanFormat::Mermaid,
            };
            CliRequest::Plan(PlanRequest { manifest, settings, select, show })
        }
        CliCommand::WhatIf(args) => {
            reject_duplicates(&args.settings)?;
            CliRequest::WhatIf(simulation::what_if(args))
        }
        CliCommand::Doctor(args) => {
            reject_duplicates(&args.settings)?;
            CliRequest::Doctor(DoctorRequest { manifest: args.manifest, settings: args.settings, json: args.json })
        }
        CliCommand::Lock(args) => CliRequest::Lock(lock::into_request(args)?),
        CliCommand::Check(args) => CliRequest::Check(check(args)?),
        CliCommand::Show(args) => {
            let (manifest, settings) = subject(args.subject);
            reject_duplicates(&settings)?;
            CliRequest::Show(ShowRequest { manifest, settings, json: args.json })
        }
        CliCommand::List(args) => CliRequest::List(ListRequest { json: args.json }),
        CliCommand::Schema(args) => CliRequest::Schema(match args.of {
            SchemaWord::Manifest => SchemaRequest::Manifest,
            SchemaWord::Result => SchemaRequest::Result,
            SchemaWord::Sweep => SchemaRequest::Sweep,
            SchemaWord::Requests => SchemaRequest::Requests,
        }),
        CliCommand::Init(args) => {
            CliRequest::Init(InitRequest { folder: args.folder, example: (!args.all).then_some(args.example) })
        }
        CliCommand::Status(args) => CliRequest::Status(StatusRequest { follow: args.follow, json: args.json }),
        CliCommand::Top => CliRequest::Status(StatusRequest { follow: true, json: false }),
        CliCommand::Runs(args) => CliRequest::Runs(RunsRequest {
            manifest: args.manifest,
            failed: args.failed,
            most: args.most,
            json: args.json,
            store: args.store,
        }),
        CliCommand::History(args) => CliRequest::History(args.into()),
        CliCommand::Tag(args) => CliRequest::Tag(args.into()),
        CliCommand::Logs(args) => CliRequest::Logs(LogsRequest { stage: args.stage, follow: args.follow }),
        CliCommand::Clean(args) => CliRequest::Clean { yes: args.yes },
        CliCommand::Gc(args) => CliRequest::Gc(GcRequest { keep: args.keep.get(), yes: args.yes }),
        CliCommand::Store(args) => CliRequest::Store(store::into_request(args)?),
        CliCommand::Sim(args) => match args.command {
            SimCommand::Serve(serve) => CliRequest::Simulate(SimulateRequest {
                repository: serve.repository,
                grpc_port: serve.grpc_port,
                http_port: serve.http_port,
                metrics_port: serve.metrics_port,
                grpc_address: serve.grpc_address,
                speed: serve.speed,
                load_seconds: serve.load_seconds,
                faults: serve.fault.iter().map(|fault| fault_of(fault)).collect(),
            }),
            SimCommand::Calibrate(args) => CliRequest::Calibrate(simulation::calibrate(args)),
        },
        CliCommand::Mlperf(args) => CliRequest::Mlperf(mlperf::into_request(args)),
        CliCommand::Triton(args) => CliRequest::Triton(triton::into_request(args)?),
        CliCommand::Repository(args) => CliRequest::Repository(repository(args.command)?),
        CliCommand::Report(args) => {
            CliRequest::Report(ReportRequest { run: args.run, compat: args.compat, json: args.json })
        }
        CliCommand::Compare(args) => CliRequest::Compare(CompareRequest {
            results: args.results,
            as_tool: args.as_tool,
            force: args.force,
            fail_if: args.fail_if,
            smallest_effect: args.smallest_effect,
            html: args.html,
            json: args.json,
        }),
        CliCommand::Export(args) => {
            CliRequest::Export(ExportRequest { result: args.result, formats: args.shapes, out: args.out })
        }
        CliCommand::Import(args) => {
            CliRequest::Import(ImportRequest { paths: args.paths, line: args.line, out: args.out, pick: args.pick })
        }
        CliCommand::Explain(args) => CliRequest::Explain(ExplainRequest { topic: args.topic, json: args.json }),
        CliCommand::Selftest(args) => {
            CliRequest::Selftest(SelftestRequest { rates: args.rates, seconds: args.seconds, json: args.json })
        }
        CliCommand::Manual(args) => CliRequest::Manual { chapter: args.chapter },
        CliCommand::Completions(args) => CliRequest::Completions(args.shell),
        CliCommand::Welcome => CliRequest::Welcome,
        CliCommand::Watchdog(args) => CliRequest::Watchdog { run: args.run },
        CliCommand::NullServer(args) => CliRequest::NullServer { first_ms: args.first_ms, gap_ms: args.gap_ms },
        CliCommand::OnNode(args) => CliRequest::OnNode { folder: args.folder },
        CliCommand::OnHost(args) => CliRequest::OnHost { awake: args.awake },
        CliCommand::LoadgenTest(args) => CliRequest::LoadgenTest { orders: args.orders },
    })
}

fn check(args: CheckArgs) -> Result<CheckRequest, ArgumentError> {
    let (mut manifests, mut settings) = (Vec::new(), Vec::new());
    for word in args.manifests {
        match word.parse() {
            Ok(setting) if Path::new(&word).extension().is_none_or(|extension| extension != "yaml") => {
                settings.push(setting);
            }
            _ => manifests.push(word),
        }
    }
    reject_duplicates(&settings)?;
    if manifests.is_empty() {
        return invalid_value("no manifest is named\n  hint: regatta check MANIFEST KEY=VALUE");
    }
    Ok(CheckRequest { manifests, settings, format: args.format })
}

fn repository(command: RepositoryCommand) -> Result<RepositoryRequest, ArgumentError> {
    Ok(match command {
        RepositoryCommand::Check(args) => {
            RepositoryRequest::Check { folder: args.folder, engine: args.engine, gpus: args.gpus, json: args.json }
        }
        RepositoryCommand::Fill(args) => {
            reject_duplicates(&args.settings)?;
            let mut of_models = Vec::new();
            for pair in args.model.chunks_exact(2) {
                let setting = pair[1].parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))?;
                of_models.push((pair[0].clone(), setting));
            }
            RepositoryRequest::Fill(RepositoryFill {
                templates: args.templates,
                out: args.out,
                settings: args.settings,
                values: args.values,
                of_models,
                substitutions: args.substitutions,
                allow_unfilled: args.allow_unfilled,
            })
        }
        RepositoryCommand::Parameters(args) => RepositoryRequest::Parameters { json: args.json },
    })
}

fn subject(subject: Subject) -> (String, Vec<KeyValueArg>) {
    (subject.manifest, subject.settings)
}

fn select(args: SelectArgs, settings: &mut Vec<KeyValueArg>) -> Result<Select, ArgumentError> {
    let force = force(args.force, settings)?;
    let repeat_number = args.repeat_number.unwrap_or(1);
    Ok(Select { until: args.until, only: args.only, force, repeat: args.repeat, repeat_number })
}

fn fault_of(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
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
    fn a_benchmark_of_the_load_generator_is_its_selftest_and_takes_nothing_else() {
        assert_eq!(
            parse_line("bench --selftest").expect("understood").request,
            parse_line("selftest").expect("understood").request
        );
        let text = usage_error_text("bench sim: --selftest");
        assert!(text.contains("--selftest"), "{text}");
    }

    #[test]
    fn a_run_is_read_with_everything_on_it() {
        let run = run("run m system=h200-x8 --until a --until b --only c --force d scenarios=offline,server -j 3 -k \
             --events jsonl --gpus 0,2 --on slurm --slurm nodes=2");
        insta::assert_snapshot!(format!("{run:?}"), @r#"RunRequest { manifest: "m", settings: [KeyValueArg { key: "system", value: "h200-x8" }, KeyValueArg { key: "scenarios", value: "offline,server" }], select: Select { until: ["a", "b"], only: ["c"], force: Stages(["d"]), repeat: None, repeat_number: 1 }, jobs: Some(3), keep_going: true, events: JsonLines, gpus: Some(Ids([Index(0), Index(2)])), on: Slurm([KeyValueArg { key: "nodes", value: "2" }]), store: StoreSelection { address: None, sign_key: None, trusted_keys: None }, locking: Write { file: "regatta.lock", is_named: false }, env: {}, junit: None, metrics_listen: None }"#);
    }

    #[test]
    fn global_options_are_accepted_anywhere() {
        let global = parse_line("-q run m --home /x --color never").expect("understood").global;
        assert_eq!(global.home, Path::new("/x"));
        assert_eq!((global.color, global.loudness), (Color::Never, OutputVerbosity::Quiet));
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
        assert_eq!(after.settings.len(), 2);
        assert!(usage_error_text("run --force quickstart").contains("put the manifest first"));
        assert!(usage_error_text("run m --force a..b=1").contains("not allowed"));
    }

    #[test]
    fn two_values_for_one_parameter_are_a_mistake() {
        assert!(usage_error_text("run m a=1 a=2").contains("given twice"));
        assert!(usage_error_text("plan m a=1 --force a=2").contains("given twice"));
        assert_eq!(run("run m a=1 a=1").settings.len(), 2);
    }

    #[test]
    fn a_word_without_an_equals_sign_gets_a_hint() {
        assert!(usage_error_text("run m system").contains("write `system=VALUE`"));
    }

    #[test]
    fn gpus_are_a_count_or_a_list() {
        assert_eq!(run("run m --gpus 4").gpus, Some(GpuSelection::Count(4)));
        assert_eq!(run("run m --gpus 2,0").gpus, Some(GpuSelection::Ids(vec![GpuId::Index(2), GpuId::Index(0)])));
        for uuid in ["MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f", "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f"] {
            let gpu: GpuId = uuid.parse().unwrap();
            assert_eq!(run(&format!("run m --gpus {uuid}")).gpus, Some(GpuSelection::Ids(vec![gpu])));
        }
        assert_eq!(run("run m --gpus 3,").gpus, Some(GpuSelection::Ids(vec![GpuId::Index(3)])));
        for bad in ["x", "1,1", "1,,2", ",", "-1", "1,x", "GPU-8f9b"] {
            assert!(usage_error_text(&format!("run m --gpus={bad}")).contains("--gpus"), "{bad}");
        }
    }

    #[test]
    fn a_plan_is_shown_in_one_way() {
        let show = |line: &str| match parse_line(line).expect("understood").request {
            CliRequest::Plan(plan) => plan.show,
            other => panic!("not a plan: {other:?}"),
        };
        assert_eq!(show("plan m"), PlanFormat::Text);
        assert_eq!(show("plan m --json"), PlanFormat::Json);
        assert_eq!(show("plan m --graph mermaid"), PlanFormat::Mermaid);
        assert_eq!(show("plan m --launch"), PlanFormat::Launch { json: false });
        assert_eq!(show("plan m --json --launch"), PlanFormat::Launch { json: true });
        assert!(usage_error_text("plan m --json --graph dot").contains("cannot be used with"));
        assert!(usage_error_text("plan m --launch --graph dot").contains("cannot be used with"));
    }

    #[test]
    fn the_simulator_takes_faults_that_help_does_not_show() {
        let CliRequest::Simulate(sim) =
            parse_line("sim serve --repository r --speed 2.5 --fault die=3 --fault mute").expect("understood").request
        else {
            panic!("not a simulation");
        };
        assert_eq!((sim.grpc_port, sim.speed), (8001, 2.5));
        assert_eq!(sim.faults, [("die".into(), "3".into()), ("mute".into(), String::new())]);
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
    fn color_is_known_before_there_is_a_request() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(color_of(&words("regatta run --color=never")), clap::ColorChoice::Never);
        assert_eq!(color_of(&words("regatta --color always run")), clap::ColorChoice::Always);
        assert_eq!(color_of(&words("regatta run color=never")), clap::ColorChoice::Auto);
    }
}
