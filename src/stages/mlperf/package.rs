//! `mlperf: { package: … }` — the result directory of a submission: packed, examined by our submission check, and by
//! the official checker of mlcommons/inference where it is installed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::json;

use crate::bench::is_here;
use crate::task_context::TaskContext;
use base::event::{Done, Endpoint, Failure, FailureKind};
use base::files::{Digest, read_bytes, read_text, sha256_of_file};
use base::units::{counted, run_command};
use exec::process::PrivateValues;
use mlperf::{
    FindingWeight, FinishedTask, Official, PackageRequest, ProvenanceStage, REPORT_FOLDER, SubmissionFinding,
    SubmissionReport, Unpacked, WrittenPackage,
};
use plan::manifest::model::{self, MlperfPackage};
use plan::manifest::shipped;
use rules::MlperfScenario;
use runner::store::WithPath as _;
use runner::{UpstreamProvenance, UpstreamTask, usable_secret_values};

/// The kind of the stage that starts servers.
const SERVE: &str = "serve";

pub async fn perform(context: &TaskContext, step: &MlperfPackage) -> Result<Done, Failure> {
    let order = order(context, step)?;
    let machine = Box::pin(elsewhere(&order)).await;
    if let Some(hosts) = &machine {
        context.lease.notice(format!(
            "measured at {hosts}, whose facts cannot be detected from this machine: its fields come from \
             `system_json`; the Closed division requires LoadGen on the same host"
        ));
    }
    let order = PackageRequest { machine: order.machine.filter(|_| machine.is_none()), ..order };
    let out = &context.lease.out;
    context.lease.report_progress("packing", 0, None);
    let packed = mlperf::pack(&order, out).map_err(|error| unpacked(out, error))?;
    context.lease.report_progress("examining", 0, None);
    let examined = mlperf::examine(out, &order.round);
    let official = match &step.checker {
        Some(clone) => Some(run_official_checker(context, step, &context.path(clone), &order.round.name).await?),
        None => None,
    };
    write(out, &packed, &examined, official.as_ref())?;
    package_outcome(step, &packed, &examined, official.as_ref())
}

fn order(context: &TaskContext, step: &MlperfPackage) -> Result<PackageRequest, Failure> {
    let round = super::round(&step.round)?;
    let gpus = match &step.nvidia_smi {
        Some(path) => {
            let path = context.path(path);
            let text = read_text(&path)
                .map_err(|error| Failure::files(format!("`nvidia_smi`: {}: {error}", path.display())))?;
            rules::gpus_of_table(&text)
        }
        None => Vec::new(),
    };
    let origins = (context.lease.origins)();
    let private = private(context);
    let mut results: Vec<mlperf::PackageEntry> =
        step.entries().iter().map(|entry| result(context, entry)).collect::<Result<_, _>>()?;
    if step.also_99 {
        let packed = |low: &mlperf::PackageEntry| {
            results.iter().any(|result| result.benchmark == low.benchmark && result.scenario == low.scenario)
        };
        let copies: Vec<_> =
            results.iter().filter_map(|result| result.lowered(&round)).filter(|low| !packed(low)).collect();
        results.extend(copies);
    }
    Ok(PackageRequest {
        round,
        division: step.division,
        submitter: step.submitter.clone(),
        system: step.system.clone(),
        system_json: step.system_json.clone(),
        measurements: step.measurements.clone(),
        machine: Some(PathBuf::from("/")),
        gpus,
        results,
        source: step.source.as_ref().map(|path| context.path(path)),
        documentation: step.documentation.as_ref().map(|path| context.path(path)),
        rehearse: step.rehearse,
        version: program(),
        manifest_files: manifest_files(context, &origins)?,
        command: command(&origins, &private),
        upstream_tasks: origins.tasks.iter().map(|task| made(task, &private)).collect::<Result<_, _>>()?,
    })
}

/// The hosts of the servers, where the run started none of them and none is on this machine.
async fn elsewhere(order: &PackageRequest) -> Option<String> {
    if order.upstream_tasks.iter().any(|made| made.stage.kind == SERVE) {
        return None;
    }
    let mut hosts: BTreeSet<String> = BTreeSet::new();
    for entry in &order.results {
        let Ok(result) = harness::read_result(&entry.performance.join(harness::RESULT)) else { continue };
        let endpoints = result.requested.endpoints.iter().filter_map(|text| text.parse::<Endpoint>().ok());
        hosts.extend(endpoints.map(|endpoint| endpoint.host));
    }
    for host in &hosts {
        if is_here(host).await {
            return None;
        }
    }
    (!hosts.is_empty()).then(|| hosts.into_iter().collect::<Vec<_>>().join(", "))
}

fn result(context: &TaskContext, entry: &model::MlperfEntry) -> Result<mlperf::PackageEntry, Failure> {
    let Some(scenario) = MlperfScenario::from_scenario(entry.scenario) else {
        let message = format!("{:?} is not a scenario of MLPerf (`results` of {})", entry.scenario, entry.benchmark);
        return Err(Failure::refused(message).hint("offline, server, interactive, single_stream"));
    };
    let modes = |folders: &indexmap::IndexMap<String, String>| {
        let folder = |(name, path): (&String, &String)| {
            let unknown =
                || Failure::refused(format!("`{name}` is not an audit test (`results` of {})", entry.benchmark));
            let mode = rules::audit_test(name).ok_or_else(|| unknown().hint("test06, test07, test09"))?;
            Ok::<_, Failure>((mode, context.path(path)))
        };
        folders.iter().map(folder).collect::<Result<_, _>>()
    };
    Ok(mlperf::PackageEntry {
        benchmark: entry.benchmark.clone(),
        copy_of: None,
        scenario,
        performance: context.path(&entry.performance),
        accuracy: context.path(&entry.accuracy),
        score: context.path(&entry.score),
        audits: modes(&entry.audits)?,
        verified: modes(&entry.verified)?,
    })
}

/// What must not be published: values of the stage's secrets, credentials in URLs, and this machine's folders.
fn private(context: &TaskContext) -> PrivateValues {
    let project = context.lease.project.display().to_string();
    let home = std::env::var("HOME").ok().map(|folder| (folder, "~"));
    let folders = std::iter::once((project, ".")).chain(home).collect();
    PrivateValues::new(usable_secret_values(&context.lease.task.secrets), folders)
}

/// The version of this program, and what identifies it: the commit and the address that its build names, if it does
/// (`REGATTA_COMMIT`, `REGATTA_REPOSITORY`), and its digest.
fn program() -> String {
    let build = [option_env!("REGATTA_REPOSITORY"), option_env!("REGATTA_COMMIT")].into_iter().flatten();
    let program = std::env::current_exe().and_then(|path| sha256_of_file(&path));
    let digest = program.ok().map(|digest| format!("SHA-256 of the program {digest}"));
    let origin: Vec<String> = build.map(str::to_owned).chain(digest).collect();
    format!("{} ({})", env!("CARGO_PKG_VERSION"), origin.join(", "))
}

/// The path that a file of the manifest has in the package: without the marks of shipped files and of other folders.
fn packed_path(source: &str) -> PathBuf {
    let path = Path::new(source.strip_prefix("shipped:").unwrap_or(source));
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The files of the manifest, with the bytes that the run was planned from.
fn manifest_files(context: &TaskContext, origins: &UpstreamProvenance) -> Result<Vec<(PathBuf, String)>, Failure> {
    let private = private(context);
    let file = |(source, digest): &(String, Digest)| {
        let text = match source.strip_prefix("shipped:") {
            Some(path) => shipped().find(|(name, _)| name == path).map(|(_, bytes)| bytes.to_vec()),
            None => read_bytes(context.path(source)).ok(),
        };
        let text = text.filter(|bytes| Digest::hash(bytes) == *digest).and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(|text| (packed_path(source), private.manifest_text(&text))).ok_or_else(|| {
            Failure::files(format!("{source} was changed or deleted after the run was planned"))
                .hint("the package holds the manifest that made the results: run the same command again")
        })
    };
    origins.sources.iter().map(file).collect()
}

/// What makes it all again. A manifest that has no name in the package is named by its path there.
fn command(origins: &UpstreamProvenance, private: &PrivateValues) -> String {
    let mut arguments: Vec<String> = origins.arguments.iter().map(|argument| private.text(argument)).collect();
    if let (Some(name), Some((source, _))) = (arguments.first_mut(), origins.sources.first()) {
        let path = packed_path(source);
        let named = [format!("manifests/{name}.yaml"), format!("manifests/{name}/pipeline.yaml")];
        if !named.iter().any(|named| path == Path::new(named)) {
            *name = path.display().to_string();
        }
    }
    run_command(arguments.iter().map(String::as_str))
}

fn made(origin: &UpstreamTask, private: &PrivateValues) -> Result<FinishedTask, Failure> {
    let text = |value: &dyn std::fmt::Display| value.to_string();
    // The git stage writes the commit beside the work tree.
    let commit = origin.folder.as_ref().and_then(|folder| read_text(folder.join(super::super::git::REVISION)).ok());
    let action: serde_json::Value = serde_json::from_str(&origin.action)
        .map_err(|error| Failure::refused(format!("the action of {} cannot be read: {error}", origin.task)))?;
    Ok(FinishedTask {
        folder: origin.folder.clone(),
        stage: ProvenanceStage {
            task: text(&origin.task),
            kind: serde_json::to_value(origin.kind)
                .ok()
                .and_then(|kind| Some(kind.as_str()?.to_owned()))
                .unwrap_or_default(),
            key: origin.key.as_ref().map(|key| text(key)),
            digest: origin.digest.as_ref().map(|digest| text(digest)),
            commit: commit.map(|commit| commit.trim().to_owned()),
            action: private.value(action),
            facts: origin.facts.clone(),
            inputs: origin.inputs.iter().map(|(name, digest)| (name.clone(), text(digest))).collect(),
            upstream: origin.upstream.iter().map(|(task, digest)| (text(task), text(digest))).collect(),
        },
    })
}

/// What is to be filled in, beside the output that a failed stage keeps.
const MISSING: &str = "missing.yaml";

fn unpacked(out: &Path, error: Unpacked) -> Failure {
    match error {
        Unpacked::Incomplete { problems, snippet } => {
            let (what, mut lines) = match problems.as_slice() {
                [one] => (one.clone(), Vec::new()),
                several => (format!("{} prevent packing", counted(several.len(), "finding")), problems.clone()),
            };
            let failure = Failure::refused(what);
            let Some(snippet) = snippet else { return failure.tail(lines) };
            let path = out.join(MISSING);
            let place = match fs::write(&path, &snippet) {
                Ok(()) => format!("{} has them", path.display()),
                Err(_) => "the lines above are they".to_owned(),
            };
            lines.extend(snippet.lines().map(str::to_owned));
            failure
                .tail(lines)
                .hint(format!("fill them in, in the manifest: {place}, each with its meaning and an example"))
        }
        Unpacked::Io(path, error) => Failure::system(format!("{}: {error}", path.display())),
    }
}

fn write(
    out: &Path,
    packed: &WrittenPackage,
    examined: &SubmissionReport,
    official: Option<&Official>,
) -> Result<(), Failure> {
    let package = json!({
        "submitter": packed.submitter,
        "submittable": !packed.lock.rehearsal && examined.refusal_count() == 0,
        "rehearsal": packed.lock.rehearsal,
        "examined": examined,
        "official": official,
    });
    let folder = out.join(REPORT_FOLDER);
    let path = folder.join("package.json");
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, format!("{package:#}\n")));
    Ok(written.at("write", &path)?)
}

/// Whether it stands.
fn package_outcome(
    step: &MlperfPackage,
    packed: &WrittenPackage,
    examined: &SubmissionReport,
    official: Option<&Official>,
) -> Result<Done, Failure> {
    let stops = |finding: &&SubmissionFinding| {
        let check = finding.check;
        !(step.rehearse && (check.is_of_a_rehearsal() || check.is_of_a_missing_part()))
    };
    let stopping: Vec<&SubmissionFinding> = examined.with_weight(FindingWeight::Refused).filter(stops).collect();
    let results = counted(examined.results.len(), "result");
    let for_review = match examined.with_weight(FindingWeight::Review).count() {
        0 => String::new(),
        some => format!(", {} for review", counted(some, "finding")),
    };
    let checker = match official {
        None => String::new(),
        Some(official) if official.passed => ", the official checker passes it".to_owned(),
        Some(official) => format!(", the official checker has {}", counted(official.errors().count(), "error")),
    };
    let lines = |findings: &[&SubmissionFinding]| -> Vec<String> {
        let ours = findings
            .iter()
            .map(|finding| format!("{}: {}: {} — {}", finding.check, finding.place, finding.what, finding.fix));
        let theirs = official.into_iter().flat_map(Official::errors).map(|error| format!("official checker: {error}"));
        ours.chain(theirs).collect()
    };
    if !stopping.is_empty() {
        let message =
            format!("{} of {} findings keep it from being submitted{checker}", stopping.len(), examined.findings.len());
        return Err(Failure::refused(message)
            .tail(lines(&stopping))
            .hint("`regatta mlperf check` on the kept folder lists each with its rule"));
    }
    if !step.rehearse && official.is_some_and(|official| !official.passed) {
        return Err(Failure::refused("the official checker refuses it").tail(lines(&[])));
    }
    let kept = packed.submitter.display();
    let headline = if step.rehearse {
        let parts: Vec<&str> = examined
            .with_weight(FindingWeight::Refused)
            .filter(|finding| finding.check.is_of_a_missing_part())
            .map(|finding| finding.check.into())
            .collect();
        let findings = counted(examined.refusal_count() - parts.len(), "finding");
        let kinds: Vec<&str> = parts.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let missing = format!(", {} that a submission would have, too: {}", parts.len(), kinds.join(", "));
        let missing = if parts.is_empty() { String::new() } else { missing };
        format!("REHEARSAL, not for submission: {results} in {kept}, {findings} because of it{missing}{checker}")
    } else {
        format!("{results} in {kept}, the submission check passes it{for_review}{checker}")
    };
    Ok(Done { headline: Some(headline), ..Done::default() })
}

/// Where the official checker is in a clone of mlcommons/inference: since v6.0, and before.
const CHECKERS: [&str; 2] = ["tools/submission/submission_checker/main.py", "tools/submission/submission_checker.py"];

/// Runs the official checker on what was packed. Its exit code shows whether it found errors; that is not a failure
/// here.
pub(super) async fn run_official_checker(
    context: &TaskContext,
    step: &MlperfPackage,
    clone: &Path,
    round: &str,
) -> Result<Official, Failure> {
    let Some(script) = CHECKERS.iter().map(|path| clone.join(path)).find(|path| path.is_file()) else {
        let message = format!("`checker`: {} has no {}", clone.display(), CHECKERS[0]);
        return Err(Failure::refused(message).hint("a clone of mlcommons/inference"));
    };
    context.lease.report_progress("asking the official checker", 0, None);
    let log = context.lease.out.join(REPORT_FOLDER).join("official.log");
    // Until v5.1 it refuses a submission with a file beside the divisions.
    let line = "mkdir -p \"$4\" && exec \"$1\" \"$2\" --input . --version \"$3\" --csv \"$4/official.csv\" \
     >\"$4/official.log\" 2>&1";
    let mut argv: Vec<OsString> = ["sh", "-c", line, "checker"].map(OsString::from).to_vec();
    argv.extend([step.python.clone().into(), script.into_os_string(), round.into(), REPORT_FOLDER.into()]);
    let ran = context.run(context.command(argv)).await;
    let text = read_text(&log).unwrap_or_default();
    match ran {
        Err(failure) if !matches!(failure.kind, FailureKind::Exit(_)) => Err(failure),
        _ if text.contains("SUMMARY: ") => Ok(Official::parse(&text)),
        _ => {
            let lines: Vec<String> = text.lines().rev().take(20).map(str::to_owned).collect();
            let problem = "the official checker did not finish";
            Err(Failure::refused(problem)
                .tail(lines.into_iter().rev().collect())
                .hint("it needs numpy, pandas and pyyaml: `python:` under `package` names the Python that has them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use base::event::TaskId;
    use plan::ActionKind;

    /// A package of one performance run of a server at this address.
    fn order_of(folder: &Path, server: &str) -> PackageRequest {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: serde_json::Value = serde_json::from_str(text).unwrap();
        result["asked"]["endpoints"] = json!([server]);
        fs::write(folder.join(harness::RESULT), result.to_string()).unwrap();
        let none = || folder.join("none");
        PackageRequest {
            round: rules::Round::named("v6.1").unwrap(),
            division: base::spec::Division::Closed,
            submitter: "Example".to_owned(),
            system: "box".to_owned(),
            system_json: serde_json::Map::new(),
            measurements: serde_json::Map::new(),
            machine: None,
            gpus: Vec::new(),
            results: vec![mlperf::PackageEntry {
                benchmark: "llama3.1-8b".to_owned(),
                copy_of: None,
                scenario: MlperfScenario::Offline,
                performance: folder.to_owned(),
                accuracy: none(),
                score: none(),
                audits: indexmap::IndexMap::new(),
                verified: indexmap::IndexMap::new(),
            }],
            source: None,
            documentation: None,
            rehearse: false,
            version: String::new(),
            manifest_files: Vec::new(),
            command: String::new(),
            upstream_tasks: Vec::new(),
        }
    }

    #[tokio::test]
    async fn servers_elsewhere_are_those_that_no_stage_started_and_no_address_here_has() {
        let folder = tempfile::tempdir().unwrap();
        // No host has a documentation address (RFC 5737).
        let there = order_of(folder.path(), "192.0.2.7:8001");
        assert_eq!(elsewhere(&there).await.as_deref(), Some("192.0.2.7"));
        let mut started = there;
        started.upstream_tasks.push(FinishedTask {
            stage: ProvenanceStage {
                task: "triton/offline".to_owned(),
                kind: SERVE.to_owned(),
                key: None,
                digest: None,
                commit: None,
                action: json!({}),
                facts: BTreeMap::new(),
                inputs: BTreeMap::new(),
                upstream: BTreeMap::new(),
            },
            folder: None,
        });
        assert_eq!(elsewhere(&started).await, None);
        assert_eq!(elsewhere(&order_of(folder.path(), "127.0.0.1:8001")).await, None);
    }

    #[test]
    fn what_is_published_has_no_credentials_and_no_folders_of_the_machine() {
        let folders = vec![("/home/me/bench".to_owned(), "."), ("/home/me".to_owned(), "~")];
        let private = PrivateValues::new(["open-sesame".to_owned()], folders);
        let arguments = ["llama", "model=/home/me/models/x", "url=https://me:hunter2@host/x", "token=open-sesame"];
        let origins =
            UpstreamProvenance { arguments: arguments.map(str::to_owned).to_vec(), ..UpstreamProvenance::default() };
        assert_eq!(command(&origins, &private), "regatta run llama 'model=~/models/x' url=https://host/x 'token=***'");
        let origin = UpstreamTask {
            task: TaskId::new("build"),
            kind: ActionKind::Shell,
            foreach: BTreeMap::new(),
            key: None,
            digest: None,
            folder: None,
            action: r#"{"shell": "make -C /home/me/bench/src URL=https://t@host"}"#.to_owned(),
            facts: BTreeMap::new(),
            inputs: BTreeMap::new(),
            upstream: BTreeMap::new(),
        };
        let published = made(&origin, &private).unwrap().stage.action;
        assert_eq!(published, json!({"shell": "make -C ./src URL=https://host"}));
    }
}
