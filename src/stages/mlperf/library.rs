//! `mlperf: { loadgen: … }` — LoadGen of a round, unaltered, as a shared library; and the process that runs it:
//! started with its orders, read line by line, ended with its task.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task_context::TaskContext;
use base::event::{Done, Failure, FailureKind, Stop};
use base::files::{Sha256Of, read_bytes, read_text, sha256_of_file};
use base::units::shell_word;
use exec::process::{FollowedLog, ProcessCommand};
use mlperf::POWER_PATHS;
use mlperf::loadgen::{self, ChildMessage, ChildOrders, LibraryFacts, LibraryProbe};
use plan::manifest::model::{LoadgenLibrary, PowerMeter};
use rules::Seeds;
use runner::store::WithPath as _;

/// What later stages load.
pub const LIBRARY: &str = "libloadgen.so";
pub const RECORD_FILE: &str = "loadgen.json";

/// LoadGen's own sources, as its setup.py has them without the Python binding; its generated version file as it came.
const SOURCES: &str = "\
    loadgen.cc results.cc test_settings_internal.cc version.cc logging.cc issue_query_controller.cc early_stopping.cc \
    utils.cc generated/version_generated.cc";

/// `loadgen.json`
#[derive(Debug, Serialize, Deserialize)]
struct LoadgenLibraryInfo {
    round: String,
    version: String,
    revision: String,
    /// As the library has them.
    seeds: Seeds,
    /// Of the source distribution, as it was fetched. Nothing in it was changed.
    sdist: String,
    sdist_sha256: String,
    compiler: String,
    /// The interface version of `libloadgen.so`.
    shim_sha256: String,
}

pub async fn perform(context: &TaskContext, step: &LoadgenLibrary) -> Result<Done, Failure> {
    let round = super::round(&step.round)?;
    context.lease.report_progress("getting LoadGen's sources", 0, None);
    let (sources, sdist, digest) = sources(context, step, &round.loadgen.version).await?;
    let missing: Vec<&str> = SOURCES.split(' ').filter(|name| !sources.join(name).is_file()).collect();
    if !missing.is_empty() {
        let message =
            format!("{sdist} is not a source distribution of mlcommons-loadgen: {} is missing", missing.join(", "));
        return Err(Failure::refused(message));
    }
    let compiler = compiler(context, &step.cxx).await?;
    context.lease.report_progress(format!("compiling with {compiler}"), 0, None);
    compile(context, &step.cxx, &sources).await?;
    context.lease.report_progress("asking the library for its version and seeds", 0, None);
    let probed = probe(context).await?;
    let mismatches = probed.mismatches(&round);
    if !mismatches.is_empty() {
        let failure = Failure::refused(format!("this is not the LoadGen of {}", round.name));
        let hint = format!("install mlcommons-loadgen {}: seeds are built into each version", round.loadgen.version);
        return Err(failure.cause(mismatches.join("\n")).hint(hint));
    }
    let mut shim = Sha256Of::default();
    for (_, text) in loadgen::SHIM {
        shim.update(text);
    }
    let loadgen_library_info = LoadgenLibraryInfo {
        round: round.name,
        version: probed.version.clone(),
        revision: probed.revision.clone(),
        seeds: probed.seeds,
        sdist,
        sdist_sha256: digest,
        compiler,
        shim_sha256: shim.finish(),
    };
    context.write_json(RECORD_FILE, &loadgen_library_info)?;
    Ok(Done { headline: Some(format!("LoadGen {}, revision {}", probed.version, probed.revision)), ..Done::default() })
}

/// The unpacked sources, the name of what they were in, and its SHA-256 (of a folder: that of its LoadGen sources).
async fn sources(
    context: &TaskContext,
    step: &LoadgenLibrary,
    version: &str,
) -> Result<(PathBuf, String, String), Failure> {
    let out = &context.lease.out;
    let archive = match &step.sdist {
        Some(given) => {
            let path = context.path(given);
            if path.is_dir() {
                let mut sum = Sha256Of::default();
                for name in SOURCES.split(' ') {
                    sum.update(read_bytes(path.join(name)).unwrap_or_default());
                }
                return Ok((path.clone(), name_of(&path), sum.finish()));
            }
            path
        }
        None => fetched(context, &step.python, version).await?,
    };
    let digest = sha256_of_file(&archive).at("read", &archive)?;
    let unpacked = out.join("src");
    fs::create_dir_all(&unpacked).at("create", &unpacked)?;
    let mut argv: Vec<OsString> = ["tar", "-xzf"].map(OsString::from).to_vec();
    argv.extend([archive.clone().into(), "-C".into(), unpacked.clone().into(), "--strip-components=1".into()]);
    context.run(context.command(argv)).await?;
    Ok((unpacked, name_of(&archive), digest))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// With pip, which knows where packages come from on this machine.
async fn fetched(context: &TaskContext, python: &str, version: &str) -> Result<PathBuf, Failure> {
    let folder = context.lease.out.join("sdist");
    fs::create_dir_all(&folder).at("create", &folder)?;
    let words = ["-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--disable-pip-version-check", "--dest"];
    let mut argv: Vec<OsString> = vec![python.into()];
    argv.extend(words.map(OsString::from));
    argv.extend([folder.clone().into(), format!("mlcommons-loadgen=={version}").into()]);
    context.run(context.command(argv)).await.map_err(|failure| explained(failure, python))?;
    let archives = fs::read_dir(&folder).at("list", &folder)?;
    let mut archives = archives.flatten().map(|entry| entry.path());
    archives.find(|path| path.to_string_lossy().ends_with(".tar.gz")).ok_or_else(|| {
        Failure::refused(format!("pip found no source distribution of mlcommons-loadgen {version}"))
            .hint("give one with `sdist:`")
    })
}

fn explained(failure: Failure, python: &str) -> Failure {
    let output_contains = |text: &str| failure.tail.iter().any(|line| line.contains(text));
    let cause = if failure.kind == FailureKind::Spawn {
        Some((format!("`{python}` is not on this machine"), "install Python 3 with pip, or give `sdist:`"))
    } else if output_contains("No module named pip") {
        Some((format!("`{python}` has no pip"), "install it (python3-pip), or give `sdist:`"))
    } else if output_contains("No matching distribution") || output_contains("Could not find a version") {
        Some(("the package index has no such version, or it cannot be reached".to_owned(), "give it with `sdist:`"))
    } else {
        None
    };
    match cause {
        Some((cause, hint)) => failure.cause(cause).hint(hint),
        None => failure.hint("a source distribution that is here already can be given with `sdist:`"),
    }
}

/// Its first line about itself.
async fn compiler(context: &TaskContext, cxx: &str) -> Result<String, Failure> {
    let argv: Vec<OsString> = vec![cxx.into(), "--version".into()];
    let text = context.run_for_stdout(context.command(argv)).await.map_err(|failure| {
        let is_missing = failure.kind == FailureKind::Spawn;
        let failure = failure.hint("install a C++ compiler (g++), or name another with `cxx:`");
        if is_missing { failure.cause(format!("there is no C++ compiler called `{cxx}`")) } else { failure }
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Compiles LoadGen and the shim in two halves at the same time, then links the library. Object files are deleted.
async fn compile(context: &TaskContext, cxx: &str, sources: &Path) -> Result<(), Failure> {
    const BY_LINK: &str = "loadgen";
    let objects = context.lease.out.join("objects");
    fs::create_dir_all(&objects).at("create", &objects)?;
    // `__FILE__` is what the compiler is given: by its path the library would differ from folder to folder, and could
    // not be shared.
    symlink(sources, objects.join(BY_LINK)).at("create", &objects.join(BY_LINK))?;
    for (name, text) in loadgen::SHIM {
        fs::write(objects.join(name), text).at("write", &objects.join(name))?;
    }
    let version = read_text(sources.join("VERSION.txt")).unwrap_or_default();
    let mut numbers = version.trim().split('.');
    let defined = [("MAJOR_VERSION", numbers.next()), ("MINOR_VERSION", numbers.next())];
    let half = |odd: usize| {
        let mut argv: Vec<OsString> = vec![cxx.into()];
        let flags = ["-std=c++14", "-O3", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread"];
        argv.extend(flags.map(OsString::from));
        argv.extend(defined.iter().map(|(name, value)| format!("-D{name}={}", value.unwrap_or("0")).into()));
        argv.extend(["-I", BY_LINK, "-I", ".", "-c"].map(OsString::from));
        let mine = SOURCES.split(' ').enumerate().filter(|(at, _)| at % 2 == odd);
        argv.extend(mine.map(|(_, name)| Path::new(BY_LINK).join(name).into()));
        if odd == 1 {
            argv.push("shim.cc".into());
        }
        let mut command = context.command(argv);
        command.dir.clone_from(&objects);
        command
    };
    tokio::try_join!(context.run(half(0)), context.run(half(1))).map_err(|failure| {
        failure.hint("LoadGen needs a compiler with C++14 and its standard library's headers (g++, libstdc++-dev)")
    })?;
    let mut argv: Vec<OsString> = vec![cxx.into(), "-shared".into(), "-o".into()];
    argv.push(context.lease.out.join(LIBRARY).into());
    let names = SOURCES.split(' ').chain(["shim.cc"]).map(|name| Path::new(name).with_extension("o"));
    argv.extend(names.filter_map(|name| Some(objects.join(name.file_name()?).into())));
    let map = format!("-Wl,--version-script={}", objects.join("shim.map").display());
    argv.extend([map.into(), "-pthread".into()]);
    context.run(context.command(argv)).await?;
    Ok(fs::remove_dir_all(&objects).at("remove", &objects)?)
}

/// The library is loaded in a process of its own: what it does at loading is C++'s.
async fn probe(context: &TaskContext) -> Result<LibraryFacts, Failure> {
    let conf = context.write("probe.conf", "")?;
    let orders =
        loadgen::ChildOrders::Probe(LibraryProbe { library: context.lease.out.join(LIBRARY), user_conf: conf.clone() });
    let mut probed = None;
    run(context, &orders, None, &context.lease.stop, |line| {
        if let ChildMessage::Probed(report) = line {
            probed = Some(report);
        }
    })
    .await?;
    let _ = fs::remove_file(conf);
    probed.ok_or_else(|| Failure::system("the library did not report its version"))
}

/// How often its lines are read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// On a stop request, it sums up and writes what it has seen, which may be hundreds of thousands of requests.
const TO_WRITE: Duration = Duration::from_mins(1);

/// A power meter around a LoadGen test: power-dev's client runs the test twice, and keeps both runs with what the meter
/// measured.
pub struct MeteredTest<'a> {
    pub meter: &'a PowerMeter,
    /// The output of the test.
    pub out: &'a Path,
    /// Where the client writes. It takes no folder within that of the logs.
    session: PathBuf,
}

impl<'a> MeteredTest<'a> {
    pub fn new(context: &TaskContext, meter: &'a PowerMeter, out: &'a Path) -> Result<Self, Failure> {
        let session = context.lease.log.with_extension("power");
        let _ = fs::remove_dir_all(&session);
        fs::create_dir_all(&session).at("create", &session)?;
        Ok(Self { meter, out, session })
    }

    /// The client's command line. The child inherits the client's standard output, to which the client writes nothing.
    fn command_line(&self, context: &TaskContext, child: &[OsString]) -> Vec<OsString> {
        let words = child.iter().map(|word| shell_word(&word.to_string_lossy()));
        let workload = format!("exec {}", words.collect::<Vec<_>>().join(" "));
        let client = &self.meter.client;
        let client = if client.contains('/') { context.path(client).into() } else { client.into() };
        [vec![client], self.meter.arguments(&workload, self.out, &self.session)].concat()
    }

    /// Copies what a submission has of the session into the test's output.
    pub fn collect(&self) -> Result<(), Failure> {
        let sessions = fs::read_dir(&self.session).at("list", &self.session)?;
        let folder = sessions.flatten().map(|item| item.path()).find(|path| path.is_dir()).unwrap_or_default();
        for name in POWER_PATHS.split(' ') {
            let (from, to) = (folder.join(name), self.out.join(name));
            if !from.is_file() {
                let failure = Failure::refused(format!("the power client wrote no {name}"));
                return Err(failure.hint("its messages are in the log of this stage, those of the server in its own"));
            }
            fs::create_dir_all(to.parent().unwrap_or(self.out)).at("create", &to)?;
            fs::copy(&from, &to).at("write", &to)?;
        }
        Ok(fs::remove_dir_all(&self.session).at("remove", &self.session)?)
    }
}

/// Runs the child to its end and forwards its events. On a stop request, the child writes its results so far. Dropping
/// this future kills the child immediately.
pub async fn run(
    context: &TaskContext,
    orders: &ChildOrders,
    metered: Option<&MeteredTest<'_>>,
    stop: &Stop,
    mut on_message: impl FnMut(ChildMessage),
) -> Result<(), Failure> {
    let orders_file = context.lease.log.with_extension("orders.json");
    let text = serde_json::to_vec(orders).map_err(|error| Failure::system(error.to_string()))?;
    fs::write(&orders_file, text).at("write", &orders_file)?;
    let child: Vec<OsString> = vec![context.program()?.into(), "__loadgen-test".into(), orders_file.clone().into()];
    let argv = metered.map_or_else(|| child.clone(), |metered| metered.command_line(context, &child));
    let answer = context.lease.log.with_extension("lines");
    let mut lines = FollowedLog::new(&answer, 0);
    let mut failed = None;
    let mut hand_on = || {
        // Not there yet is nothing new.
        let _ = lines.read_lines(b"\n", |line| {
            let Ok(message) = serde_json::from_str(line) else { return Ok(()) };
            if let ChildMessage::Failed { why, is_refused } = &message {
                failed = Some((why.clone(), *is_refused));
            }
            on_message(message);
            Ok(())
        });
    };
    let ended = {
        let command = ProcessCommand { answer: Some(answer.clone()), grace: TO_WRITE, ..context.command(argv) };
        let mut running = std::pin::pin!(context.run_until(command, stop));
        let mut tick = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                biased;
                ended = &mut running => break ended,
                _ = tick.tick() => hand_on(),
            }
        }
    };
    hand_on();
    for file in [&orders_file, &answer] {
        let _ = fs::remove_file(file);
    }
    match (ended, failed) {
        (Ok(_), _) => Ok(()),
        // The failure that the child reports is more precise than its exit status.
        (Err(failure), Some((why, is_refused))) => {
            let kind = if is_refused { FailureKind::Refused } else { failure.kind };
            Err(Failure { kind, what: why, ..failure })
        }
        (Err(failure), None) if metered.is_some() && failure.kind == FailureKind::Spawn => Err(failure.hint(
            "`pip install git+https://github.com/mlcommons/power-dev` installs it; `power: { client: PATH }` names \
             another",
        )),
        (Err(failure), None) => Err(failure),
    }
}
