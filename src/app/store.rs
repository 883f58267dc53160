//! The shared store: `regatta store …`, and the store of a run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::{CliExit, Global, Select, StoreGc, StoreRequest, StoreSelection, Subject};
use crate::console::{print, print_as, print_error};
use crate::doctor::nvidia_smi;
use crate::error::CommandError;
use crate::project::{Project, options};
use base::diag::ErrorText;
use base::event::{Event, RunId, Stop, TaskId};
use base::files::Digest;
use base::units::{counted, size};
use plan::Plan;
use report::{Cell, Styler, Table};
use runner::shared_store::{
    Inventory, Machine, MachineGpus, Presence, SharedStore, SignaturePolicy, StoreAddress, UnsentOutputs,
    UploadOutcome, why_not,
};
use runner::store::{
    Digests, FinishedOutput, Latest, LockAttempt, OutputCache, PathError, ProjectLock, TaskKey, TaskRecord, name_run,
};
use runner::{
    EventEmitter, KeyContext, PublicKey, RunOptions, SigningKey, TaskStatus, TrustedKeys, shared_store, task_statuses,
};
use stages::StageExecutor;

pub(super) fn store(global: &Global, request: &StoreRequest) -> Result<CliExit, CommandError> {
    let Some(address) = address(request.selection().address.as_deref())? else {
        return Err(CommandError::hinted(
            "no shared store was named",
            "`--store URL`, or REGATTA_STORE in the environment: a folder, s3://bucket/prefix, gs://…, az://…",
        ));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let signatures = signatures(request.selection())?;
    let job = StoreOperation { global, address, signatures, runtime: &runtime };
    match request {
        StoreRequest::Status { manifest: None, json, .. } => job.inventory(*json),
        StoreRequest::Status { manifest: Some(manifest), settings, verify, json, .. } => {
            job.status(&Subject::new(manifest, settings), *verify, *json)
        }
        StoreRequest::Push { subject, only, verify, .. } => job.push(subject, only, *verify),
        StoreRequest::Pull { subject, until, .. } => job.pull(subject, until),
        StoreRequest::Gc(keep) => job.gc(keep),
    }
}

struct StoreOperation<'e> {
    global: &'e Global,
    address: StoreAddress,
    signatures: SignaturePolicy,
    runtime: &'e tokio::runtime::Runtime,
}

/// A project and its plan: what can be known without the outputs.
struct PlannedProject {
    project: Project,
    plan: Plan,
    options: RunOptions,
    machine: shared_store::Machine,
}

/// A plan, the outputs here, and the store.
struct StoreContext {
    plan: Plan,
    options: RunOptions,
    cache: Arc<OutputCache>,
    digests: Digests,
    stages: StageExecutor,
    store: SharedStore,
}

impl StoreContext {
    fn statuses(
        &self,
        elsewhere: impl FnMut(&TaskStatus) -> (Option<Digest>, Option<Arc<TaskRecord>>),
    ) -> Result<Vec<TaskStatus>, PathError> {
        let Self { plan, stages, cache, digests, options, .. } = self;
        task_statuses(&KeyContext { plan, work: stages, output_cache: cache, digests }, options, elsewhere)
    }
}

impl StoreOperation<'_> {
    fn plan(&self, subject: &Subject, select: &Select) -> Result<PlannedProject, CommandError> {
        let project = Project::open_current(self.global)?;
        let plan = project.plan(subject, select)?;
        let options = options(&plan, select)?;
        let machine = shared_store::Machine::new(gpus_for(&plan));
        Ok(PlannedProject { project, plan, options, machine })
    }

    fn open_context(&self, planned: PlannedProject) -> Result<StoreContext, CommandError> {
        let PlannedProject { project, plan, options, machine } = planned;
        let output_cache = Arc::new(OutputCache::open(&project.home)?);
        let digests = Digests::load(&project.home);
        let stages = StageExecutor::new(project.home.state(), RunId::new("store"));
        let emit: EventEmitter = Arc::new(|event| print_notice(&event));
        let store =
            SharedStore::new(&self.address, &plan, &machine, Arc::clone(&output_cache), emit, self.signatures.clone())
                .map_err(|e| self.unusable(&e))?;
        Ok(StoreContext { plan, options, cache: output_cache, digests, stages, store })
    }

    fn unusable(&self, error: &shared_store::SharedStoreError) -> CommandError {
        let text = ErrorText::new(format!("the shared store {} cannot be used: {error}", self.address));
        CommandError::Other(text.hint(error.hint()).into())
    }

    fn totals(&self) -> Result<Inventory, CommandError> {
        self.runtime.block_on(shared_store::inventory(&self.address)).map_err(|e| self.unusable(&e))
    }

    fn inventory(&self, json: bool) -> Result<CliExit, CommandError> {
        let totals = self.totals()?;
        print_as(self.global.styler(), json, || self.as_json(totals), |_| in_all(&self.address, totals));
        Ok(CliExit::Done)
    }

    fn status(&self, subject: &Subject, verify: bool, json: bool) -> Result<CliExit, CommandError> {
        let scene = self.open_context(self.plan(subject, &Select::default())?)?;
        let totals = self.totals()?;
        let mut rows = Vec::new();
        let mut broken = None;
        let mut look_up = |standing: &TaskStatus| {
            let (_, key) = standing.key.as_ref()?;
            match self.runtime.block_on(scene.store.presence(&standing.task, key, verify)) {
                Ok(presence) => Some(presence),
                Err(error) => {
                    broken.get_or_insert(error);
                    None
                }
            }
        };
        // Asks the store for outputs that are missing here on the way: a key downstream needs the digests of its
        // inputs.
        let mut presences = std::collections::BTreeMap::new();
        let standings = scene.statuses(|standing| {
            let presence = look_up(standing);
            let digest = match &presence {
                Some(Presence::Present { digest, .. }) => Some(*digest),
                _ => None,
            };
            presences.insert(standing.task.clone(), presence);
            (digest, None)
        })?;
        for standing in standings {
            let presence = presences.remove(&standing.task).unwrap_or_else(|| look_up(&standing));
            rows.push((standing, presence));
        }
        if let Some(error) = broken {
            return Err(self.unusable(&error));
        }
        let damaged =
            rows.iter().any(|(_, presence)| matches!(presence, Some(Presence::Damaged(_) | Presence::Untrusted(_))));
        let as_json = || {
            let mut object = self.as_json(totals);
            object["tasks"] = rows.iter().map(row_json).collect();
            object
        };
        print_as(self.global.styler(), json, as_json, |styler| self.as_text(totals, &rows, styler));
        Ok(if damaged { CliExit::Failed } else { CliExit::Done })
    }

    fn push(&self, subject: &Subject, only: &[String], verify: bool) -> Result<CliExit, CommandError> {
        let select = Select { only: only.to_vec(), ..Select::default() };
        let scene = self.open_context(self.plan(subject, &select)?)?;
        let here = scene.statuses(|_| (None, None))?;
        let chosen =
            |task: &TaskId| only.is_empty() || only.iter().any(|stage| task.as_str().split('/').next() == Some(stage));
        let (mut new, mut there, mut sent) = (0_u64, 0_u64, 0_u64);
        let (mut missing, mut unshared) = (Vec::new(), Vec::new());
        for standing in here.iter().filter(|standing| chosen(&standing.task)) {
            let reason = scene.plan.tasks.iter().find(|task| task.id == standing.task);
            if let Some(reason) = reason.and_then(|task| shared_store::why_not(&scene.plan, task)) {
                unshared.push(format!("{} is not shared: {reason}", standing.task));
                continue;
            }
            let Some(record) = &standing.record else {
                missing.push(standing.task.to_string());
                continue;
            };
            if scene.store.object(&record.task, &record.key).is_none() {
                unshared.push(format!("{} is not shared: the GPUs of this machine are not known", standing.task));
                continue;
            }
            match self.runtime.block_on(scene.store.put(record, verify)).map_err(|e| self.unusable(&e))? {
                UploadOutcome::New(bytes) => {
                    new += 1;
                    sent += bytes;
                    print(&format!("↑ {}  {} sent\n", record.task, size(bytes)));
                }
                UploadOutcome::AlreadyPresent => there += 1,
                UploadOutcome::NotShareable(reason) => print(&format!("- {}  not shared: {reason}\n", record.task)),
            }
        }
        print(&format!("{new} put into {}, {} sent; {there} there before\n", self.address, size(sent)));
        if new == 0 {
            // Nothing was sent: shows why.
            if !missing.is_empty() {
                print(&format!(
                    "not in the cache of this folder: {}; `regatta run {}` makes them\n",
                    missing.join(", "),
                    subject.manifest
                ));
            }
            for line in unshared {
                print(&format!("{line}\n"));
            }
        }
        Ok(CliExit::Done)
    }

    fn pull(&self, subject: &Subject, until: &[String]) -> Result<CliExit, CommandError> {
        let select = Select { until: until.to_vec(), ..Select::default() };
        let planned = self.plan(subject, &select)?;
        let home = planned.project.home.clone();
        let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || name_run(&home))? else {
            return Err(anyhow::Error::new(
                ErrorText::new("a run is working in this folder")
                    .hint("wait for it; with `--store` it also uses the shared store"),
            )
            .into());
        };
        // Only now: a run that ended meanwhile has added records.
        let scene = self.open_context(planned)?;
        scene.cache.begin()?;
        let (mut came, mut failed) = (0_u64, None);
        let statuses = scene.statuses(|standing| {
            let Some((key, digest)) = &standing.key else { return (None, None) };
            let Some(fetched) = self.runtime.block_on(scene.store.get(&standing.task, key, digest)) else {
                return (None, None);
            };
            match accept(&scene, &lock.run, &standing.task, key, fetched) {
                Ok(record) => {
                    came += 1;
                    print(&format!("↓ {}\n", record.task));
                    (Some(record.digest), Some(record))
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    (None, None)
                }
            }
        })?;
        scene.cache.sync()?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let missing = statuses.iter().filter(|standing| standing.record.is_none()).count();
        let here = statuses.len() - missing;
        print(&format!(
            "{came} fetched from {}; {here} of {} here, {missing} to be made\n",
            self.address,
            counted(statuses.len(), "output")
        ));
        Ok(CliExit::Done)
    }

    fn gc(&self, gc: &StoreGc) -> Result<CliExit, CommandError> {
        let StoreGc { older_than, keep, grace, yes, .. } = *gc;
        if yes && older_than.is_none() && keep.is_none() {
            let hint = "`--older-than 30d`, `--keep 500GiB`, or both";
            return Err(CommandError::hinted("no outputs are selected", hint));
        }
        let keep = shared_store::RetentionPolicy { younger_than: older_than, max_bytes: keep, grace };
        let gone =
            self.runtime.block_on(shared_store::collect(&self.address, keep, yes)).map_err(|e| self.unusable(&e))?;
        let mut text = format!(
            "{} and {} {}, {}; {} with {} kept\n",
            counted(gone.records, "output"),
            counted(gone.blobs, "file"),
            if yes { "removed" } else { "would be removed" },
            size(gone.bytes),
            counted(gone.records_left, "output"),
            size(gone.bytes_left),
        );
        if gone.damaged > 0 {
            let _ = writeln!(text, "{} of them are damaged and unreadable", gone.damaged);
        }
        if !yes && gone.records + gone.blobs > 0 {
            text.push_str("`--yes` removes them\n");
        }
        print(&text);
        Ok(CliExit::Done)
    }

    fn as_text(&self, all: Inventory, rows: &[(TaskStatus, Option<Presence>)], styler: Styler) -> String {
        let row = |(standing, presence): &(TaskStatus, Option<Presence>)| {
            let (state, about) = status_words(standing, presence.as_ref());
            [format!("{state:<7}").into(), Cell::name(standing.task.as_str()), about.into()]
        };
        let table = Table::list([], rows.iter().map(row)).terminal(styler, "");
        let signatures = signatures_text(&self.signatures).unwrap_or_default();
        format!("{}{signatures}{table}", in_all(&self.address, all))
    }

    fn as_json(&self, all: Inventory) -> Value {
        let store = self.address.to_string();
        json!({"store": store, "outputs": all.records, "files": all.blobs, "bytes": all.bytes})
    }
}

/// As if it had been made here; the record names its source.
fn accept(
    scene: &StoreContext,
    run: &RunId,
    task: &TaskId,
    key: &TaskKey,
    fetched: FinishedOutput,
) -> Result<Arc<TaskRecord>, PathError> {
    let (record, _) = scene.cache.accept(run, &scene.plan.name, task, key, fetched)?;
    Latest::new(scene.cache.home(), &scene.plan.name).point(task, &scene.cache.folder(&record))?;
    Ok(record)
}

fn print_notice(event: &Event) {
    if let Event::Notice { task, text } = event {
        let about = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        print_error(&format!("! {about}{text}\n"));
    }
}

fn in_all(address: &StoreAddress, all: Inventory) -> String {
    format!("{address}: {}, {}, {}\n", counted(all.records, "output"), counted(all.blobs, "file"), size(all.bytes))
}

fn status_words(standing: &TaskStatus, presence: Option<&Presence>) -> (&'static str, String) {
    let here = standing.record.is_some();
    match presence {
        Some(Presence::Present { bytes, .. }) => (if here { "both" } else { "there" }, size(*bytes)),
        Some(Presence::Untrusted(why)) => ("untrusted", format!("its record {why}")),
        Some(Presence::Newer) => ("newer", "a newer Regatta wrote its record".to_owned()),
        Some(Presence::Damaged(objects)) => ("damaged", objects.join(", ")),
        Some(Presence::NotShared(why)) => (
            if here { "here" } else { "missing" },
            format!("not shared{}", why.as_ref().map(|w| format!(": {w}")).unwrap_or_default()),
        ),
        Some(Presence::Missing) => (if here { "here" } else { "missing" }, String::new()),
        None if here => ("here", String::new()),
        None => ("missing", "its inputs are missing".to_owned()),
    }
}

/// Whose signatures count; `None`: none are asked for.
fn signatures_text(signatures: &SignaturePolicy) -> Option<String> {
    let trusted = signatures.trusted()?;
    let ids: Vec<String> = trusted.keys().iter().map(PublicKey::short_id).collect();
    let signs = match signatures.signer() {
        Some(key) => format!("what is sent is signed by {}", key.public.short_id()),
        None => "nothing is sent".to_owned(),
    };
    Some(format!("signatures: of {} are taken; {signs}\n", ids.join(", ")))
}

fn row_json((standing, presence): &(TaskStatus, Option<Presence>)) -> Value {
    let (state, about) = status_words(standing, presence.as_ref());
    let from = standing.record.as_ref().and_then(|record| record.from.clone());
    json!({"task": standing.task, "state": state, "about": about, "from": from})
}

/// The variable with the key that signs: a path, or the text of the file. Stages do not get the text.
pub(super) const SIGN_KEY: &str = exec::process::SIGN_KEY_VARIABLE;

/// The variable with the path of the public keys.
pub(super) const TRUSTED_KEYS: &str = "REGATTA_TRUSTED_KEYS";

/// The option, else the environment variable. `off` and an empty variable mean no store.
pub(super) fn address(typed: Option<&str>) -> Result<Option<StoreAddress>, CommandError> {
    let Some(text) = typed.map(ToOwned::to_owned).or_else(|| variable("REGATTA_STORE")) else { return Ok(None) };
    if text.trim() == "off" {
        return Ok(None);
    }
    StoreAddress::parse(&text).map(Some).map_err(|why| {
        let source = if typed.is_some() { "--store" } else { "REGATTA_STORE" };
        CommandError::Usage(format!("{source}: {why}"))
    })
}

/// The keys that options name, else those of the environment. A key that is named and cannot be used is an error:
/// without it, what the user wants to be signed or checked would not be.
pub(super) fn signatures(named: &StoreSelection) -> Result<SignaturePolicy, CommandError> {
    let signer = sign_key(named.sign_key.as_deref())?;
    let trusted = match &named.trusted_keys {
        Some(path) => Some(("--trusted-keys", path.clone())),
        None => key_variable(TRUSTED_KEYS)?.map(|path| (TRUSTED_KEYS, path.into())),
    };
    let trusted = trusted.map(|(source, path)| TrustedKeys::read(&path).map_err(|error| unusable_key(source, error)));
    Ok(SignaturePolicy::new(signer, trusted.transpose()?))
}

/// The key that the option names, else the one of the environment.
pub(super) fn sign_key(named: Option<&Path>) -> Result<Option<SigningKey>, CommandError> {
    let (source, key) = match named {
        Some(path) => ("--sign-key", SigningKey::read(path)),
        None => match key_variable(SIGN_KEY)? {
            Some(value) => (SIGN_KEY, sign_key_of(&value)),
            None => return Ok(None),
        },
    };
    key.map(Some).map_err(|error| unusable_key(source, error))
}

/// A variable that is set and names nothing is an error: a secret that a CI system did not provide must not turn
/// signatures off.
fn key_variable(name: &str) -> Result<Option<String>, CommandError> {
    match std::env::var(name) {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(value) if !value.trim().is_empty() => Ok(Some(value)),
        _ => Err(CommandError::hinted(
            format!("{name} is set, and names no key"),
            format!("name a PEM file, or `unset {name}` to go without signatures"),
        )),
    }
}

fn unusable_key(source: &str, error: ErrorText) -> CommandError {
    CommandError::usage(ErrorText { message: format!("{source}: {}", error.message), ..error })
}

/// A path, or the text of a PEM file.
pub(super) fn sign_key_of(value: &str) -> Result<SigningKey, ErrorText> {
    if value.contains("-----BEGIN") {
        SigningKey::from_pem(value, "its value")
    } else {
        SigningKey::read(Path::new(value))
    }
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.trim().is_empty())
}

/// `None`: it cannot be used, which has been reported. On a runtime.
pub(super) fn open(
    address: &StoreAddress,
    signatures: &SignaturePolicy,
    plan: &Plan,
    output_cache: &Arc<OutputCache>,
    emit: &EventEmitter,
) -> Option<SharedStore> {
    let machine = Machine::new(gpus_for(plan));
    match SharedStore::new(address, plan, &machine, Arc::clone(output_cache), Arc::clone(emit), signatures.clone()) {
        Ok(store) => Some(store),
        Err(error) => {
            let hint = error.hint();
            let text =
                format!("the shared store {address} cannot be used; the run continues without it: {error}; {hint}");
            emit(Event::Notice { task: None, text });
            None
        }
    }
}

/// Waits until new outputs are there, too.
pub(super) async fn finish(store: &SharedStore, stop: &Stop, manifest: &str, emit: &EventEmitter) {
    let UnsentOutputs(left) = store.finish(stop).await;
    if left > 0 {
        let outputs =
            if left == 1 { "1 output of this run is".to_owned() } else { format!("{left} outputs of this run are") };
        let text = format!("{outputs} not in {}; `regatta store push {manifest}` puts them there", store.address());
        emit(Event::Notice { task: None, text });
    }
}

/// The GPUs of this machine, queried only if an output that may be shared is made with some.
pub(super) fn gpus_for(plan: &Plan) -> MachineGpus {
    if !plan.tasks.iter().any(|task| task.gpus > 0 && why_not(plan, task).is_none()) {
        return MachineGpus::Known(BTreeSet::new());
    }
    match nvidia_smi("--query-gpu=name,compute_cap", "--format=csv,noheader") {
        Ok(None) => MachineGpus::Known(BTreeSet::new()),
        Ok(Some(text)) => {
            let lines = text.lines().map(|line| line.replace(',', "")).filter(|line| !line.trim().is_empty());
            MachineGpus::Known(lines.map(|line| line.trim().to_owned()).collect())
        }
        Err(problem) => MachineGpus::Unknown(problem.to_string()),
    }
}
