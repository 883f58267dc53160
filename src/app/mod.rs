//! The only place that knows every room: what was asked for → who does it → the exit code.

mod allocation;
mod bench;
mod bulk;
mod cache;
mod cleaning;
mod comparing;
mod doctor;
mod exchange;
mod guarding;
mod history;
mod locking;
mod manifests;
mod mlperf;
mod node;
mod output;
mod planning;
mod project;
mod repository;
mod results;
mod run;
mod selftest;
mod sharing;
mod simulate;
mod translate;
mod triton;

use std::io::stdin;
use std::path::Path;
use std::process::ExitCode;

use self::output::{say, say_error};
use crate::cli::{self, Exit, Job, Request};
use crate::diag::Diagnostics;
use crate::loadgen;

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let request = match cli::parse(std::env::args_os()) {
        Ok(request) => request,
        Err(refused) => {
            let _ = refused.print().inspect_err(output::note);
            return output::exit_code(refused.exit(), false);
        }
    };
    let color = request.global.color.choice();
    color.write_global();
    let goes_on = outlives_its_reader(&request.job);
    let exit = perform(request).unwrap_or_else(|trouble| {
        match &trouble {
            Trouble::Manifest(found) => say_error(&found.render(project::colored(color))),
            Trouble::Differs(told) => say_error(told),
            Trouble::Usage(what) => say_error(&format!("error: {what}\n")),
            Trouble::Other(error) => say_error(&format!("error: {error:#}\n")),
        }
        trouble.exit()
    });
    output::exit_code(exit, goes_on)
}

/// Commands that do more than print: their work matters also when the reader of their output has left.
const fn outlives_its_reader(job: &Job) -> bool {
    matches!(
        job,
        Job::Run(_)
            | Job::Bulk(_)
            | Job::Bench(_)
            | Job::Simulate(_)
            | Job::NullServer { .. }
            | Job::Warden { .. }
            | Job::OnNode { .. }
            | Job::OnHost { .. }
            | Job::LoadgenTest { .. }
    )
}

fn perform(request: Request) -> Result<Exit, Trouble> {
    let Request { global, job } = request;
    match job {
        Job::Run(request) => run::run(&global, &request),
        Job::Bulk(request) => bulk::bulk(&global, &request),
        Job::Bench(request) => bench::bench(&global, &request),
        Job::Plan(request) => planning::plan(&global, &request),
        Job::Doctor(request) => doctor::doctor(&global, &request),
        Job::Lock(request) => locking::lock(&global, &request),
        Job::Check(request) => manifests::check(&global, &request),
        Job::Show(request) => manifests::show(&global, &request),
        Job::List(request) => manifests::list(&global, request),
        Job::Schema(which) => Ok(manifests::schema(which)),
        Job::Init(request) => manifests::init(&request),
        Job::Status(request) => history::status(&global, request),
        Job::Logs(request) => history::logs(&global, &request),
        Job::Report(request) if request.compat.is_empty() => history::report(&global, &request),
        Job::Report(request) => comparing::compat(&global, &request),
        Job::Compare(request) => comparing::compare(&global, &request),
        Job::Export(request) => exchange::export(&global, &request),
        Job::Import(request) => exchange::import(&global, &request),
        Job::Explain(request) => comparing::explain(&global, &request),
        Job::Clean { yes } => cleaning::clean(&global, yes),
        Job::Gc(request) => cleaning::gc(&global, request),
        Job::Cache(request) => cache::cache(&global, &request),
        Job::Repository(request) => repository::perform(&global, &request),
        Job::Simulate(request) => simulate::serve(&request),
        Job::Mlperf(request) => mlperf::perform(&global, request),
        Job::Triton(request) => triton::ask(&global, request),
        Job::Selftest(request) => selftest::selftest(&global, &request),
        Job::Completions(shell) => {
            say(&cli::completions(shell));
            Ok(Exit::Done)
        }
        Job::NullServer { first_ms, gap_ms } => simulate::null_server(first_ms, gap_ms),
        Job::Warden { run } => {
            crate::process::warden(&run.to_string_lossy(), stdin().lock()).map_err(anyhow::Error::from)?;
            Ok(Exit::Done)
        }
        Job::OnNode { folder } => node::work_in(folder),
        Job::OnHost { awake } => guarding::on_host(awake),
        Job::LoadgenTest { job } => Ok(loadgen_test(&job)),
    }
}

/// Its starter reads lines of JSON, so that is how it says everything.
fn loadgen_test(job: &Path) -> Exit {
    let tell = |line: &loadgen::Line| say(&format!("{}\n", serde_json::json!(line)));
    match loadgen::perform(job, &tell) {
        Ok(()) => Exit::Done,
        Err(trouble) => {
            tell(&loadgen::Line::Failed { why: trouble.to_string(), is_refused: trouble.is_refused() });
            Exit::Failed
        }
    }
}

/// What keeps a command from being done, by its exit code.
enum Trouble {
    /// Mistakes with places: 2.
    Manifest(Diagnostics),
    /// What was asked for makes no sense here: 2.
    Usage(String),
    /// It is not what the lock file says; everything that has to be said: 6.
    Differs(String),
    /// Regatta cannot go on: 1.
    Other(anyhow::Error),
}

impl Trouble {
    /// The code that it leaves with.
    const fn exit(&self) -> Exit {
        match self {
            Self::Manifest(_) | Self::Usage(_) => Exit::Usage,
            Self::Differs(_) => Exit::Differs,
            Self::Other(_) => Exit::Failed,
        }
    }
}

impl From<Diagnostics> for Trouble {
    fn from(found: Diagnostics) -> Self {
        Self::Manifest(found)
    }
}

/// Everything else that can go wrong is the machine's fault, and told with its whole chain of causes.
macro_rules! others {
    ($($error:ty),+) => {
        $(impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Self::Other(error.into())
            }
        })+
    };
}

others!(
    anyhow::Error,
    std::io::Error,
    crate::store::PathError,
    crate::sim::ServeError,
    minijinja::Error,
    tokio::task::JoinError
);
