//! From the arguments of a command line to an [`Invocation`]: the one place where what was typed gets its meaning.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use clap_complete::Shell;

use super::args::{
    ALL, CliArgs, CliCommand, ColorWord, EventsWord, GraphWord, RepositoryCommand, SchemaWord, SelectArgs, SimCommand,
};
use super::argument_error::{ArgumentError, each_once};
use super::bench;
use super::bulk;
use super::cache;
use super::common_args::Subject;
use super::exit::CliExit;
use super::gpu_selection::gpus;
use super::lock;
use super::mlperf;
use super::on_args::OnWord;
use super::request::{
    Check, CliJob, Color, Compare, Doctor, EventsAs, Explain, Export, Force, Gc, Global, Import, Init, Invocation,
    Logs, Loudness, On, PlanAs, PlanRequest, Report, RepositoryAction, RepositoryFill, RunList, RunRequest, SchemaOf,
    Select, Selftest, Show, Simulate, Status,
};
use super::setting::{GivenSetting, rehearsal};
use super::triton;

/// There is nothing to do: help was requested, or the arguments are wrong.
#[derive(Debug)]
pub struct Refused(Box<clap::Error>);

impl Refused {
    /// 0 for `--help` and `--version`, 2 for an error.
    pub fn exit(&self) -> CliExit {
        if self.0.use_stderr() { CliExit::Usage } else { CliExit::Done }
    }

    /// Help goes to stdout, errors to stderr, with colour if requested.
    pub fn print(&self) -> io::Result<()> {
        self.0.print()
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Reads a command line; the first argument is the program's name.
pub fn parse<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Invocation, Refused> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let command = CliArgs::command().color(color_of(&words));
    read(command, &words).map_err(|error| Refused(Box::new(error)))
}

/// A completion script.
pub fn completions(shell: Shell) -> String {
    // Into memory: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "regatta", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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
    let typed = CliArgs::from_arg_matches(&matches)?;
    meaning(typed).map_err(|(kind, text)| format.error(kind, text))
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

fn meaning(typed: CliArgs) -> Result<Invocation, ArgumentError> {
    let CliArgs { global, command } = typed;
    let global = Global {
        home: global.home,
        color: match global.color {
            ColorWord::Auto => Color::Auto,
            ColorWord::Always => Color::Always,
            ColorWord::Never => Color::Never,
        },
        loudness: match (global.quiet, global.verbose) {
            (true, _) => Loudness::Quiet,
            (false, 0) => Loudness::Normal,
            (false, times) => Loudness::Verbose(times),
        },
    };
    if global.home.as_os_str().is_empty() {
        return Err((ErrorKind::InvalidValue, "the state folder has an empty name\n  hint: unset REGATTA_HOME".into()));
    }
    Ok(Invocation { global, job: job(command)? })
}

fn job(command: CliCommand) -> Result<CliJob, ArgumentError> {
    Ok(match command {
        CliCommand::Run(args) => {
            let (manifest, mut settings) = subject(args.subject);
            settings.extend(rehearsal(args.rehearse));
            let select = select(args.select, &mut settings)?;
            each_once(&settings)?;
            CliJob::Run(RunRequest {
                manifest,
                settings,
                select,
                jobs: args.jobs,
                keep_going: args.keep_going,
                events: match args.events {
                    None => EventsAs::Terminal,
                    Some(EventsWord::Jsonl) => EventsAs::JsonLines,
                },
                gpus: args.gpus.as_deref().map(gpus).transpose()?,
                locking: lock::locking(args.locking),
                on: match args.on.on {
                    None => On::Here,
                    Some(OnWord::Slurm) => On::Slurm(args.on.slurm),
                },
                store: args.store.store,
                env: BTreeMap::new(),
            })
        }
        CliCommand::Bulk(args) => CliJob::Bulk(bulk::meaning(args)?),
        CliCommand::Bench(args) if args.selftest => CliJob::Selftest(Selftest::default()),
        CliCommand::Bench(args) => CliJob::Bench(Box::new(bench::meaning(*args)?)),
        CliCommand::Plan(args) => {
            let (manifest, mut settings) = subject(args.subject);
            settings.extend(rehearsal(args.rehearse));
            let select = select(args.select, &mut settings)?;
            each_once(&settings)?;
            let show = match (args.json, args.graph) {
                (json, _) if args.launch => PlanAs::Launch { json },
                (true, _) => PlanAs::Json,
                (false, None) => PlanAs::Text,
                (false, Some(GraphWord::Dot)) => PlanAs::Dot,
                (false, Some(GraphWord::Mermaid)) => PlanAs::Mermaid,
            };
            CliJob::Plan(PlanRequest { manifest, settings, select, show })
        }
        CliCommand::Doctor(args) => {
            each_once(&args.settings)?;
            CliJob::Doctor(Doctor { manifest: args.manifest, settings: args.settings, json: args.json })
        }
        CliCommand::Lock(args) => CliJob::Lock(lock::meaning(args)?),
        CliCommand::Check(args) => CliJob::Check(Check { manifests: args.manifests }),
        CliCommand::Show(args) => {
            let (manifest, settings) = subject(args.subject);
            each_once(&settings)?;
            CliJob::Show(Show { manifest, settings, json: args.json })
        }
        CliCommand::List(args) => CliJob::List(RunList { json: args.json }),
        CliCommand::Schema(args) => CliJob::Schema(match args.of {
            SchemaWord::Manifest => SchemaOf::Manifest,
            SchemaWord::Result => SchemaOf::Result,
            SchemaWord::Requests => SchemaOf::Requests,
        }),
        CliCommand::Init(args) => CliJob::Init(Init { folder: args.folder }),
        CliCommand::Status(args) => CliJob::Status(Status { json: args.json }),
        CliCommand::Logs(args) => CliJob::Logs(Logs { stage: args.stage, follow: args.follow }),
        CliCommand::Clean(args) => CliJob::Clean { yes: args.yes },
        CliCommand::Gc(args) => CliJob::Gc(Gc { keep: args.keep, yes: args.yes }),
        CliCommand::Cache(args) => CliJob::Cache(cache::meaning(args)?),
        CliCommand::Sim(args) => match args.command {
            SimCommand::Serve(serve) => CliJob::Simulate(Simulate {
                repository: serve.repository,
                grpc_port: serve.grpc_port,
                http_port: serve.http_port,
                metrics_port: serve.metrics_port,
                grpc_address: serve.grpc_address,
                speed: serve.speed,
                load_seconds: serve.load_seconds,
                faults: serve.fault.iter().map(|fault| fault_of(fault)).collect(),
            }),
        },
        CliCommand::Mlperf(args) => CliJob::Mlperf(mlperf::meaning(args)),
        CliCommand::Triton(args) => CliJob::Triton(triton::meaning(args)?),
        CliCommand::Repository(args) => CliJob::Repository(repository(args.command)?),
        CliCommand::Report(args) => CliJob::Report(Report { run: args.run, compat: args.compat, json: args.json }),
        CliCommand::Compare(args) => CliJob::Compare(Compare {
            results: args.results,
            as_tool: args.as_tool,
            force: args.force,
            fail_if: args.fail_if,
            smallest_effect: args.smallest_effect,
            html: args.html,
            json: args.json,
        }),
        CliCommand::Export(args) => CliJob::Export(Export { result: args.result, shapes: args.shapes, out: args.out }),
        CliCommand::Import(args) => {
            CliJob::Import(Import { paths: args.paths, line: args.line, out: args.out, pick: args.pick })
        }
        CliCommand::Explain(args) => CliJob::Explain(Explain { topic: args.topic, json: args.json }),
        CliCommand::Selftest(args) => {
            CliJob::Selftest(Selftest { rates: args.rates, seconds: args.seconds, json: args.json })
        }
        CliCommand::Completions(args) => CliJob::Completions(args.shell),
        CliCommand::Warden(args) => CliJob::Warden { run: args.run },
        CliCommand::NullServer(args) => CliJob::NullServer { first_ms: args.first_ms, gap_ms: args.gap_ms },
        CliCommand::OnNode(args) => CliJob::OnNode { folder: args.folder },
        CliCommand::OnHost(args) => CliJob::OnHost { awake: args.awake },
        CliCommand::LoadgenTest(args) => CliJob::LoadgenTest { job: args.job },
    })
}

fn repository(command: RepositoryCommand) -> Result<RepositoryAction, ArgumentError> {
    Ok(match command {
        RepositoryCommand::Check(args) => {
            RepositoryAction::Check { folder: args.folder, engine: args.engine, gpus: args.gpus, json: args.json }
        }
        RepositoryCommand::Fill(args) => {
            each_once(&args.settings)?;
            let mut of_models = Vec::new();
            for pair in args.model.chunks_exact(2) {
                let setting = pair[1].parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))?;
                of_models.push((pair[0].clone(), setting));
            }
            RepositoryAction::Fill(RepositoryFill {
                templates: args.templates,
                out: args.out,
                settings: args.settings,
                values: args.values,
                of_models,
                substitutions: args.substitutions,
                allow_unfilled: args.allow_unfilled,
            })
        }
        RepositoryCommand::Parameters(args) => RepositoryAction::Parameters { json: args.json },
    })
}

fn subject(subject: Subject) -> (String, Vec<GivenSetting>) {
    (subject.manifest, subject.settings)
}

/// In `run m --force system=h200` the last argument is a setting, not a stage: no stage has a `=` in its name.
fn select(args: SelectArgs, settings: &mut Vec<GivenSetting>) -> Result<Select, ArgumentError> {
    let mut stages = Vec::new();
    let mut all = false;
    for word in args.force {
        if word == ALL {
            all = true;
        } else if word.contains('=') {
            all = true;
            settings.push(word.parse().map_err(|error| (ErrorKind::InvalidValue, format!("{error}")))?);
        } else {
            stages.push(word);
        }
    }
    let force = match (all, stages.is_empty()) {
        (true, _) => Force::All,
        (false, true) => Force::Nothing,
        (false, false) => Force::Stages(stages),
    };
    let repeat_number = args.repeat_number.unwrap_or(1);
    Ok(Select { until: args.until, only: args.only, force, repeat: args.repeat, repeat_number })
}

fn fault_of(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::GpuSelection;

    fn typed(line: &str) -> Result<Invocation, Refused> {
        parse(std::iter::once("regatta").chain(line.split_whitespace()))
    }

    fn run(line: &str) -> RunRequest {
        match typed(line).expect("understood").job {
            CliJob::Run(run) => run,
            other => panic!("not a run: {other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        let refused = typed(line).expect_err("refused");
        assert_eq!(refused.exit(), CliExit::Usage, "{refused}");
        refused.to_string()
    }

    #[test]
    fn the_table_of_commands_has_no_contradiction() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn a_benchmark_of_the_load_generator_is_its_selftest_and_takes_nothing_else() {
        assert_eq!(typed("bench --selftest").expect("understood").job, typed("selftest").expect("understood").job);
        let text = refused("bench sim: --selftest");
        assert!(text.contains("--selftest"), "{text}");
    }

    #[test]
    fn a_run_is_read_with_everything_on_it() {
        let run = run("run m system=h200-x8 --until a --until b --only c --force d scenarios=offline,server -j 3 -k \
             --events jsonl --gpus 0,2 --on slurm --slurm nodes=2");
        insta::assert_snapshot!(format!("{run:?}"), @r#"RunRequest { manifest: "m", settings: [GivenSetting { key: "system", value: "h200-x8" }, GivenSetting { key: "scenarios", value: "offline,server" }], select: Select { until: ["a", "b"], only: ["c"], force: Stages(["d"]), repeat: None, repeat_number: 1 }, jobs: Some(3), keep_going: true, events: JsonLines, gpus: Some(These([0, 2])), on: Slurm([GivenSetting { key: "nodes", value: "2" }]), store: None, locking: Write("regatta.lock"), env: {} }"#);
    }

    #[test]
    fn options_for_everybody_stand_anywhere() {
        let global = typed("-q run m --home /x --color never").expect("understood").global;
        assert_eq!(global.home, Path::new("/x"));
        assert_eq!((global.color, global.loudness), (Color::Never, Loudness::Quiet));
        assert_eq!(typed("list -vv").expect("understood").global.loudness, Loudness::Verbose(2));
        assert!(refused("list -q -v").contains("cannot be used with"));
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
        assert!(refused("run --force quickstart").contains("put the manifest first"));
        assert!(refused("run m --force a..b=1").contains("not allowed"));
    }

    #[test]
    fn two_values_for_one_parameter_are_a_mistake() {
        assert!(refused("run m a=1 a=2").contains("given twice"));
        assert!(refused("plan m a=1 --force a=2").contains("given twice"));
        assert_eq!(run("run m a=1 a=1").settings.len(), 2);
    }

    #[test]
    fn a_word_without_an_equals_sign_gets_a_hint() {
        assert!(refused("run m system").contains("write `system=VALUE`"));
    }

    #[test]
    fn gpus_are_a_count_or_a_list() {
        assert_eq!(run("run m --gpus 4").gpus, Some(GpuSelection::Count(4)));
        assert_eq!(run("run m --gpus 2,0").gpus, Some(GpuSelection::These(vec![2, 0])));
        assert_eq!(run("run m --gpus 3,").gpus, Some(GpuSelection::These(vec![3])));
        for bad in ["x", "1,1", "1,,2", ",", "-1", "1,x"] {
            assert!(refused(&format!("run m --gpus={bad}")).contains("--gpus"), "{bad}");
        }
    }

    #[test]
    fn a_plan_is_shown_in_one_way() {
        let show = |line: &str| match typed(line).expect("understood").job {
            CliJob::Plan(plan) => plan.show,
            other => panic!("not a plan: {other:?}"),
        };
        assert_eq!(show("plan m"), PlanAs::Text);
        assert_eq!(show("plan m --json"), PlanAs::Json);
        assert_eq!(show("plan m --graph mermaid"), PlanAs::Mermaid);
        assert_eq!(show("plan m --launch"), PlanAs::Launch { json: false });
        assert_eq!(show("plan m --json --launch"), PlanAs::Launch { json: true });
        assert!(refused("plan m --json --graph dot").contains("cannot be used with"));
        assert!(refused("plan m --launch --graph dot").contains("cannot be used with"));
    }

    #[test]
    fn the_simulator_takes_faults_that_help_does_not_show() {
        let CliJob::Simulate(sim) =
            typed("sim serve --repository r --speed 2.5 --fault die=3 --fault mute").expect("understood").job
        else {
            panic!("not a simulation");
        };
        assert_eq!((sim.grpc_port, sim.speed), (8001, 2.5));
        assert_eq!(sim.faults, [("die".into(), "3".into()), ("mute".into(), String::new())]);
        for bad in ["--speed 0", "--speed nan", "--load-seconds -1", "--grpc-port 70000"] {
            refused(&format!("sim serve --repository r {}", bad.replace(' ', "=")));
        }
    }

    #[test]
    fn help_is_no_mistake_and_ends_with_the_exit_codes() {
        for command in CliArgs::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let refused = typed(&format!("{} --help", command.get_name())).expect_err("help");
            assert_eq!(refused.exit(), CliExit::Done);
            let help = refused.to_string();
            assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{}: {help}", command.get_name());
        }
        assert!(!typed("--help").expect_err("help").to_string().contains("__"));
    }

    #[test]
    fn colour_is_known_before_there_is_a_request() {
        let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(color_of(&words("regatta run --color=never")), clap::ColorChoice::Never);
        assert_eq!(color_of(&words("regatta --color always run")), clap::ColorChoice::Always);
        assert_eq!(color_of(&words("regatta run color=never")), clap::ColorChoice::Auto);
    }

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = completions(shell);
            assert!(script.contains("quiet") && script.contains("schema"), "{shell}");
        }
    }
}
