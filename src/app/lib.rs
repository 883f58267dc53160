//! The program's commands: each is a module that turns its request into printed text and an exit code.
//!
//! ```text
//!  arguments ─cli→ Invocation ─perform→ the module of the command ─→ other crates ─→ text to print, CliExit
//! ```
//!
//! The only crate that knows all others, and no other crate uses it.
//!
//! | commands, as `regatta --help` groups them | modules |
//! |---|---|
//! | measure: `run`, `serve` · `bulk` · `bench` · `what-if` · `mlperf` · `sim` | `run` · `bulk` · `bench` · … |
//! | look: `plan` · `status`, `logs`, `runs`, `report` · `history`, `tag` | `planning` · `past_runs` · `history` |
//! | look: `compare`, `report --as` · `explain` · `doctor` · `triton` | `compare` · `explain` · `doctor` · … |
//! | write: `init`, `list`, `show`, `check`, `schema` · `repository` | `manifest_commands` · `repository` |
//! | exchange: `import`, `export` | `export_import`; lines and configs: `translate`, run at once: `imported_run` |
//! | exchange: `lock` · `store` | `lockfile` · `store` |
//! | keep house: `gc`, `clean` · `selftest` · `manual` · `completions` | `clean` · `selftest` · `manual` · `cli` |
//!
//! What several of them use: `project` (one folder, its manifests, a plan compiled once), `before_run` (what earlier
//! runs decide), `result_name` and `found_result` (from `RUN/TASK` to a result), `out_folder`, `expression_guard`
//! (memory and time of what a manifest computes), `console` and `error`. `remote_work` has the hidden commands that
//! work for a run on another machine.

mod bench;
mod bulk;
pub mod cli;

mod before_run;
mod clean;
mod compare;
mod console;
mod doctor;
mod error;
mod explain;
mod export_import;
mod expression_guard;
mod found_result;
mod history;
mod imported_run;
mod lockfile;
mod manifest_commands;
mod manual;
mod mlperf;
mod out_folder;
mod past_runs;
mod planning;
mod project;
mod remote_work;
mod repository;
mod result_name;
mod run;
mod selftest;
mod simulate;
mod store;
mod translate;
mod triton;
mod what_if;

use std::io::stdin;
use std::path::Path;
use std::process::ExitCode;

/// The text of a `regatta.lock`, checked.
pub use self::lockfile::{LockFile, LockFileError, read as read_lock_file};

use self::console::{print, print_error};
use self::error::CommandError;
use crate::cli::{CliExit, CliRequest, Invocation, SimRequest};
use ::mlperf::loadgen;
use base::diag::error_chain;
use nix::sys::signal::{SigSet, Signal};

/// Reads the command line and runs it.
pub fn main() -> ExitCode {
    console::make_it_an_error();
    exec::process::protect_key_text();
    // Programs inherit it: one that asks at the terminal gets an error, where it would be stopped and wait for ever.
    let _ = [Signal::SIGTTIN, Signal::SIGTTOU].into_iter().collect::<SigSet>().thread_block();
    let words: Vec<_> = std::env::args_os().collect();
    // Help and errors are printed before there is a request.
    cli::color_of(&words).write_global();
    let invocation = match cli::parse(words) {
        Ok(invocation) => invocation,
        Err(refused) => {
            let show = if refused.exit() == CliExit::Done { print } else { print_error };
            show(&refused.text());
            return console::exit_code(refused.exit(), false);
        }
    };
    let color = invocation.global.color;
    let goes_on = outlives_its_reader(&invocation.request);
    let exit = console::guard(|| {
        perform(invocation).unwrap_or_else(|error| {
            match &error {
                CommandError::Manifest(found) => print_error(&found.render(project::colored(color))),
                CommandError::Differs(message) => print_error(message),
                CommandError::Usage(what) => print_error(&format!("error: {what}\n")),
                CommandError::Other(error) => print_error(&format!("error: {}\n", error_chain(error.as_ref()))),
            }
            error.exit()
        })
    });
    console::exit_code(exit, goes_on)
}

/// Commands that do more than print: their work matters also when the reader of their output is gone.
const fn outlives_its_reader(request: &CliRequest) -> bool {
    matches!(
        request,
        CliRequest::Run(_)
            | CliRequest::Serve(_)
            | CliRequest::Bulk(_)
            | CliRequest::Bench(_)
            | CliRequest::Sim(_)
            | CliRequest::NullServer(_)
            | CliRequest::Watchdog(_)
            | CliRequest::OnNode(_)
            | CliRequest::OnHost(_)
            | CliRequest::LoadgenTest(_)
    )
}

fn perform(invocation: Invocation) -> Result<CliExit, CommandError> {
    let Invocation { global, request } = invocation;
    match request {
        CliRequest::Run(request) => run::run(&global, &request),
        CliRequest::Serve(request) => run::serve(&global, &request),
        CliRequest::Bulk(request) => bulk::bulk(&global, &request),
        CliRequest::Bench(request) => bench::bench(&global, &request),
        CliRequest::Plan(request) => planning::plan(&global, &request),
        CliRequest::Doctor(request) => doctor::doctor(&global, &request),
        CliRequest::Lock(request) => lockfile::command::lock(&global, &request),
        CliRequest::Check(request) => manifest_commands::check(&global, &request),
        CliRequest::Show(request) => manifest_commands::show(&global, &request),
        CliRequest::List(request) => manifest_commands::list(&global, request),
        CliRequest::Schema(args) => Ok(manifest_commands::schema(args.schema)),
        CliRequest::Init(request) => manifest_commands::init(&request),
        CliRequest::Status(request) => past_runs::status(&global, request),
        CliRequest::Runs(request) => past_runs::list(&global, &request),
        CliRequest::History(request) => history::history(&global, &request),
        CliRequest::Tag(request) => history::tag(&global, &request),
        CliRequest::Logs(request) => past_runs::logs(&global, &request),
        CliRequest::Report(request) if request.as_tools.is_empty() => past_runs::report(&global, &request),
        CliRequest::Report(request) => compare::compat(&global, &request),
        CliRequest::Compare(request) => compare::compare(&global, &request),
        CliRequest::Export(request) => export_import::export(&global, &request),
        CliRequest::Import(request) => export_import::import(&global, &request),
        CliRequest::Explain(request) => explain::explain(&global, &request),
        CliRequest::Manual(args) => manual::manual(&global, &args),
        CliRequest::Clean(args) => clean::clean(&global, args.yes),
        CliRequest::Gc(request) => clean::gc(&global, request),
        CliRequest::Store(request) => store::store(&global, &request),
        CliRequest::Repository(request) => repository::perform(&global, &request),
        CliRequest::WhatIf(request) => what_if::what_if(&global, &request),
        CliRequest::Sim(SimRequest::Calibrate(request)) => simulate::calibrate(&global, &request),
        CliRequest::Sim(SimRequest::Serve(request)) => simulate::serve(&global, &request),
        CliRequest::Mlperf(request) => mlperf::perform(&global, request),
        CliRequest::Triton(request) => triton::run_command(&global, request),
        CliRequest::Selftest(request) => selftest::selftest(&global, &request),
        CliRequest::Completions(args) => {
            print(&cli::completion_script(args.shell));
            Ok(CliExit::Done)
        }
        CliRequest::NullServer(args) => simulate::null_server(args.first_ms, args.gap_ms),
        CliRequest::Watchdog(args) => {
            exec::process::run_watchdog(&args.run.to_string_lossy(), stdin().lock()).map_err(anyhow::Error::from)?;
            Ok(CliExit::Done)
        }
        CliRequest::OnNode(args) => remote_work::run(args.folder),
        CliRequest::OnHost(args) => remote_work::on_host(args.awake),
        CliRequest::LoadgenTest(args) => Ok(loadgen_test(&args.orders)),
    }
}

/// Its parent reads lines of JSON from it, errors included.
fn loadgen_test(orders: &Path) -> CliExit {
    let send = |line: &loadgen::ChildMessage| print(&format!("{}\n", serde_json::json!(line)));
    match loadgen::perform(orders, &send) {
        Ok(()) => CliExit::Done,
        Err(error) => {
            send(&loadgen::ChildMessage::Failed { why: error.to_string(), is_refused: error.is_refused });
            CliExit::Failed
        }
    }
}
