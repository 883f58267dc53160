//! The table of commands, and from the arguments of a command line to an [`Invocation`].

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use super::bench::BenchRequest;
use super::exit::CliExit;
use super::mlperf::MlperfRequest;
use super::project::{
    CheckRequest, CleanArgs, CompletionsArgs, DoctorRequest, GcRequest, InitRequest, ListRequest, LoadgenTestArgs,
    LogsRequest, ManualArgs, NullServerArgs, OnHostArgs, OnNodeArgs, RunsRequest, SchemaArgs, SelftestRequest,
    ShowRequest, StatusRequest, WatchdogArgs,
};
use super::results::{
    CompareRequest, ExplainRequest, ExportRequest, HistoryRequest, ImportRequest, ReportRequest, TagRequest,
};
use super::run::{BulkRequest, PlanRequest, RunRequest, SERVE_USAGE, ServeRequest};
use super::simulation::{SimRequest, WhatIfRequest};
use super::store::{LockRequest, StoreRequest};
use super::triton::{RepositoryRequest, TritonRequest};
use super::values::{ArgumentError, KeyValueArg, invalid_value, reject_duplicates};
use base::diag::ErrorText;
use report::{Styler, wrapped};

/// One invocation of `regatta`.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub global: Global,
    pub request: CliRequest,
}

/// What every command honors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The state folder, as given: a relative one is relative to the current folder.
    pub home: PathBuf,
    pub color: anstream::ColorChoice,
    pub loudness: OutputVerbosity,
}

impl Global {
    /// How text for stdout looks.
    pub fn styler(&self) -> Styler {
        Styler::chosen(self.color)
    }
}

/// The same for the terminal library, whose `Auto` honors `NO_COLOR`, `CLICOLOR` and dumb terminals.
const fn color_choice(color: clap::ColorChoice) -> anstream::ColorChoice {
    match color {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
}

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputVerbosity {
    Quiet,
    Normal,
    /// How many `-v`.
    Verbose(u8),
}

// Headings stand at each option: a heading for a whole group would also take in what follows the group.
const EVERYWHERE: &str = "Global options";

/// The state folder where neither `--home` nor `REGATTA_HOME` names one.
pub(super) const DEFAULT_HOME: &str = ".regatta";

/// Reproducible LLM-serving benchmarks from one YAML manifest: build, serve, benchmark, report.
#[derive(Debug, Parser)]
#[command(name = "regatta", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(super) struct CliArgs {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub request: CliRequest,
}

#[derive(Debug, Args)]
pub(super) struct GlobalArgs {
    /// Where Regatta keeps its state: outputs, journal, logs, reports.
    #[arg(help_heading = EVERYWHERE, long, global = true, value_name = "DIR", env = "REGATTA_HOME")]
    #[arg(hide_env_values = true, hide_short_help = true)]
    #[arg(default_value = DEFAULT_HOME, value_hint = ValueHint::DirPath)]
    // clap's own parser refuses an empty variable without naming it.
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub home: PathBuf,
    /// When to use color; `auto` honors NO_COLOR.
    #[arg(help_heading = EVERYWHERE, long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_short_help = true)]
    pub color: clap::ColorChoice,
    /// Print failures, notices and warnings only.
    #[arg(help_heading = EVERYWHERE, hide_short_help = true, short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: every cached task, commands, log lines.
    #[arg(help_heading = EVERYWHERE, hide_short_help = true, short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// A command with its arguments: what they are together has been checked.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum CliRequest {
    /// Run a manifest; finished stages are cached.
    Run(RunRequest),
    /// Start the servers of a manifest, until Ctrl-C or for one command.
    #[command(override_usage = SERVE_USAGE)]
    Serve(ServeRequest),
    /// Run a list of runs one after the other, continuing after failures; print a table.
    Bulk(BulkRequest),
    /// Benchmark one server from the command line, without a manifest.
    #[command(after_help = include_str!("help_bench.txt"))]
    Bench(Box<BenchRequest>),
    /// Show what would run, and why; start nothing.
    Plan(PlanRequest),
    /// Simulate, in virtual time, what systems and settings would do: the highest rate within limits.
    WhatIf(WhatIfRequest),
    /// Show and compare lock files: what was run, down to commits, images, weights and versions.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Lock(LockRequest),
    /// Show what this machine has, what a manifest needs, and the command that fixes the difference.
    Doctor(DoctorRequest),
    /// Check manifests and report the errors of all their parts at once.
    Check(CheckRequest),
    /// Print a manifest with includes and parameters resolved, and the origin of each value.
    Show(ShowRequest),
    /// List the manifests that can be run by name.
    List(ListRequest),
    /// Print a JSON Schema, for editors and validators.
    Schema(SchemaArgs),
    /// Start a project folder with an example manifest.
    Init(InitRequest),
    /// Show the state of the last run.
    Status(StatusRequest),
    /// List the runs of this project with their results, newest first.
    #[command(alias = "results")]
    Runs(RunsRequest),
    /// Show metrics of this project's benchmarks over time, and where their level changes.
    History(HistoryRequest),
    /// Name a run, so that other commands find it and `gc` keeps what it measured.
    Tag(TagRequest),
    /// Print the log of a task.
    Logs(LogsRequest),
    /// Remove all state of this project (prints what would be removed; --yes removes it).
    Clean(CleanArgs),
    /// Remove old outputs and runs (prints what would be removed; --yes removes it).
    Gc(GcRequest),
    /// Outputs that machines share: show, push, pull and remove them.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    #[command(alias = "cache")]
    Store(StoreRequest),
    /// The built-in server: Triton's protocol, simulated time, no GPU.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Sim(SimRequest),
    /// Query a Triton server: readiness, models, metrics, single requests.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Triton(TritonRequest),
    /// MLPerf submissions: show the state of one, compare two, check one before submitting.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Mlperf(MlperfRequest),
    /// Triton model repositories: check them, fill their templates, list the templates' parameters.
    #[command(subcommand, subcommand_required = true, arg_required_else_help = true)]
    Repository(RepositoryRequest),
    /// Test the load generator on this machine against servers with known behavior: error bounds and maximum load.
    Selftest(SelftestRequest),
    /// Print the path of a run's HTML report, or its numbers next to another tool's.
    Report(ReportRequest),
    /// Compare results: values, differences with intervals, a judgement.
    Compare(CompareRequest),
    /// Write a result in another tool's file format, with that tool's definitions.
    Export(ExportRequest),
    /// Import another tool's results, command line or config.
    Import(ImportRequest),
    /// Explain a metric (definitions here and in other tools), or a key of a manifest.
    Explain(ExplainRequest),
    /// Print a page of the manual, search it, or list its pages. Needs no network.
    Manual(ManualArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Ends a run's processes if the run is killed.
    #[command(name = "__watchdog", hide = true)]
    Watchdog(WatchdogArgs),
    /// Answers requests without doing any work, for a preflight.
    #[command(name = "__null-server", hide = true)]
    NullServer(NullServerArgs),
    /// The work of a job on a node of a cluster.
    #[command(name = "__job", hide = true)]
    OnNode(OnNodeArgs),
    /// The servers of a run on one of its hosts.
    #[command(name = "__host", hide = true)]
    OnHost(OnHostArgs),
    /// One LoadGen test, in a process of its own.
    #[command(name = "__loadgen-test", hide = true)]
    LoadgenTest(LoadgenTestArgs),
}

/// The groups of commands in `regatta --help`: a title, and names of commands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["run", "serve", "bulk", "bench", "what-if", "mlperf", "sim"]),
    ("Look", &["plan", "status", "logs", "runs", "history", "report", "compare", "explain", "doctor", "triton"]),
    ("Write manifests", &["init", "list", "show", "check", "schema", "repository"]),
    ("Exchange", &["import", "export", "lock", "store"]),
    ("Keep house", &["tag", "gc", "clean", "selftest", "manual", "completions"]),
];

/// The options of `regatta bench -h`; `--help` has all of them, in groups.
const BENCH_FIRST: [&str; 9] =
    ["target", "concurrency", "rate", "sweep", "requests", "duration", "input_tokens", "output_tokens", "out"];

/// Columns of a help text: those of the terminal, up to this many.
const HELP_WIDTH: usize = 100;

/// The help of the program with its commands in groups, in place of one list.
fn grouped(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommand("bench", |bench| {
        bench.mut_args(|arg| {
            let is_first = BENCH_FIRST.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_first)
        })
    });
    let width = help_width();
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            text += &wrapped(&format!("  {:<13}{about}\n", subcommand.get_name()), width);
        }
    }
    command.help_template(text + "\nOptions:\n{options}{after-help}")
}

/// As clap has it.
fn help_width() -> usize {
    let of_terminal = Styler::chosen(anstream::ColorChoice::Never).width();
    let of_shell = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(of_shell).unwrap_or(HELP_WIDTH).min(HELP_WIDTH)
}

/// There is nothing to do: help was requested, or the arguments are wrong.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CliParseError(Box<clap::Error>);

impl CliParseError {
    /// 0 for `--help` and `--version`, 2 for an error.
    pub fn exit(&self) -> CliExit {
        if self.0.use_stderr() { CliExit::Usage } else { CliExit::Done }
    }

    /// With color codes. Help is for stdout, an error for stderr.
    pub fn text(&self) -> String {
        self.0.render().ansi().to_string()
    }
}

/// The table of commands, for what is generated from it: man pages.
pub fn command() -> clap::Command {
    explained(grouped(CliArgs::command()))
}

/// The text that a shell reads at its start to complete commands, options and files. Hidden commands are left out.
pub fn completion_script(shell: Shell) -> String {
    let commands = command();
    let visible = commands.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let mut offered = clap::Command::new("regatta").args(commands.get_arguments()).subcommands(visible);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut offered, "regatta", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Reads a command line; the first argument is the program's name.
pub fn parse<W: Into<OsString>>(words: impl IntoIterator<Item = W>) -> Result<Invocation, CliParseError> {
    let mut words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    // The program's name alone.
    if words.len() == 1 {
        words.push("--help".into());
    }
    // `regatta help bench` is `regatta bench --help`, also after global options.
    let text = |at: usize| words[at].to_str().unwrap_or_default();
    let is_value = |at: usize| ["--home", "--color"].contains(&text(at - 1));
    let command = (1..words.len()).find(|at| !text(*at).starts_with('-') && !is_value(*at));
    if let Some(at) = command.filter(|at| ["help", "version"].contains(&text(*at))) {
        let option = format!("--{}", text(at));
        words.remove(at);
        words.push(option.into());
    }
    read(&words).map_err(|error| CliParseError(Box::new(error)))
}

/// `--color`, read from the arguments directly.
pub fn color_of(words: &[OsString]) -> anstream::ColorChoice {
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let after = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1]);
    match words.iter().filter_map(|word| word.strip_prefix("--color=")).chain(after).last() {
        Some("always") => anstream::ColorChoice::Always,
        Some("never") => anstream::ColorChoice::Never,
        _ => anstream::ColorChoice::Auto,
    }
}

fn read(words: &[OsString]) -> Result<Invocation, clap::Error> {
    let format = || typed_command(command(), words);
    let explain = |error| explain_slip(explain_force(error, words, format), format);
    let matches = command().try_get_matches_from(words).map_err(explain)?;
    reject_duplicate_settings(&matches).map_err(|(kind, text)| format().error(kind, text))?;
    let mut args = CliArgs::from_arg_matches(&matches).map_err(|error| error.format(&mut format()))?;
    // Set and empty is how shells express "not set".
    let is_of_environment = matches.value_source("home") == Some(ValueSource::EnvVariable);
    if is_of_environment && args.global.home.as_os_str().is_empty() {
        args.global.home = DEFAULT_HOME.into();
    }
    args.into_invocation().map_err(|(kind, text)| format().error(kind, text))
}

/// The command that was typed: an error shows its usage, and not that of the whole program. Costs more than to read a
/// correct line, since all commands are built.
fn typed_command(mut command: clap::Command, words: &[OsString]) -> clap::Command {
    // Its usage has the name of the program only then.
    command.build();
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    words.find_map(|word| command.find_subcommand(word)).unwrap_or(&command).clone()
}

/// `run --force quickstart` reads `quickstart` as a stage; say so, where the missing MANIFEST alone would puzzle.
fn explain_force(error: clap::Error, words: &[OsString], format: impl Fn() -> clap::Command) -> clap::Error {
    let after_force = words.iter().position(|word| word == "--force").and_then(|at| words.get(at + 1));
    match after_force {
        Some(word) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let word = word.to_string_lossy();
            format().error(
                ErrorKind::MissingRequiredArgument,
                ErrorText::new(format!("no MANIFEST was given: `--force {word}` reads `{word}` as the stage to force"))
                    .hint(format!("put the manifest first, for example `{word} --force`")),
            )
        }
        _ => error,
    }
}

/// One parameter has one value, whichever command takes it.
fn reject_duplicate_settings(matches: &ArgMatches) -> Result<(), ArgumentError> {
    if let Ok(Some(settings)) = matches.try_get_many::<KeyValueArg>("settings") {
        reject_duplicates(&settings.cloned().collect::<Vec<_>>())?;
    }
    matches.subcommand().map_or(Ok(()), |(_, matches)| reject_duplicate_settings(matches))
}

impl CliArgs {
    fn into_invocation(self) -> Result<Invocation, ArgumentError> {
        let Self { global: GlobalArgs { home, color, quiet, verbose }, request } = self;
        if home.as_os_str().is_empty() {
            let error = ErrorText::new("`--home` has an empty name");
            return invalid_value(error.hint("leave it out, or name a folder"));
        }
        let loudness = match (quiet, verbose) {
            (true, _) => OutputVerbosity::Quiet,
            (false, 0) => OutputVerbosity::Normal,
            (false, times) => OutputVerbosity::Verbose(times),
        };
        Ok(Invocation { global: Global { home, color: color_choice(color), loudness }, request })
    }
}

// Options that people type because another tool has them, and what they are here: an argument that clap does not know
// gets its cure instead of the option that happens to be spelled alike.

/// Commands that take parameters of a manifest.
const OF_MANIFESTS: [&str; 7] = ["run", "serve", "plan", "show", "lock", "what-if", "doctor"];

/// What to write in place of `argument` at a command.
fn cure(command: &str, argument: &str) -> Option<String> {
    if command == "bench" {
        // Each line has arguments that `regatta bench` does not have, and what to write.
        let mut rows = include_str!("bench-cures.txt").lines().filter_map(|line| line.split_once(": "));
        let (_, cure) = rows.find(|(arguments, _)| arguments.split(' ').any(|known| known == argument))?;
        return Some(cure.to_owned());
    }
    let name = argument.strip_prefix("--").filter(|_| OF_MANIFESTS.contains(&command))?;
    if self::command().find_subcommand("run")?.get_arguments().any(|arg| arg.get_long() == Some(name)) {
        return Some(format!("`{argument}` is an option of `regatta run`"));
    }
    let name = name.replace('-', "_");
    Some(format!(
        "if it is a parameter of the manifest, write `{name}=VALUE` after the manifest's name; `regatta show \
         MANIFEST` lists them"
    ))
}

/// An unknown argument with its cure; and never the advice to pass it on as a value.
fn explain_slip(mut error: clap::Error, format: impl Fn() -> clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let argument = argument.split('=').next().unwrap_or_default();
    let mut format = format();
    match cure(format.get_name(), argument) {
        Some(cure) => {
            let text = ErrorText::new(format!("`regatta {}` has no `{argument}`", format.get_name())).hint(cure);
            format.error(ErrorKind::UnknownArgument, text)
        }
        None => error,
    }
}

#[cfg(test)]
mod tests;

// What `--help` shows below the options: the examples of `help.txt`, and what the exit codes mean.

/// The exit codes of a command that runs stages.
const OF_RUN: &str = "
Exit codes:
  0    success
  1    a stage failed
  2    the manifest or the command line is wrong; nothing was started
  3    a benchmark is INVALID(client): the client was the bottleneck
  4    a benchmark is OVERLOADED: the server did not keep up; or LIMIT MISSED: a limit was exceeded
  5    a benchmark is INVALID(server): requests failed, or answers were inconsistent
  6    with --locked: something differs from the lock file
";
const OF_COMPARE: &str = "  7    `compare --fail-if`: its condition is true, or a result is not VALID\n";
/// Those of other commands.
const USUAL: &str = "
Exit codes:
  0    success
  1    the command failed
  2    the manifest or the command line is wrong
";
const OF_ALL: &str = "  70   a fault in Regatta itself\n  130  interrupted\n";
const CLOSED: &str = "  141  the reader of the output closed it (`| head`)\n";

/// The program with what is below the options of each command.
fn explained(program: Command) -> Command {
    let sections: HashMap<&str, &str> =
        include_str!("help.txt").split("\n[").filter_map(|section| section.split_once("]\n")).collect();
    let text = below_options("regatta", sections["regatta"]);
    program.mut_subcommands(|command| explained_command(command, "", &sections, "")).after_long_help(text)
}

/// `above`: the names of the commands that it is below; `usual`: what it has without a section of its own.
fn explained_command(command: Command, above: &str, sections: &HashMap<&str, &str>, usual: &str) -> Command {
    let name = format!("{above}{}", command.get_name());
    let section = sections.get(name.as_str()).map(|section| below_options(&name, section));
    let text = section.unwrap_or_else(|| usual.to_owned());
    let command = command.mut_subcommands(|command| explained_command(command, &format!("{name} "), sections, &text));
    if text.is_empty() { command } else { command.after_long_help(text) }
}

fn below_options(command: &str, section: &str) -> String {
    let has_codes = section.contains("Exit codes:");
    let codes: &[&str] = match command {
        "status" => &[],
        "regatta" => &[OF_RUN, OF_COMPARE, OF_ALL, CLOSED],
        "run" | "serve" | "bulk" | "bench" => &[OF_RUN, OF_ALL],
        _ if has_codes => &[OF_ALL, CLOSED],
        _ => &[USUAL, OF_ALL, CLOSED],
    };
    format!("Examples:\n{}\n{}", section.trim_end().replace("Exit codes:", "\nExit codes:"), codes.concat())
}
