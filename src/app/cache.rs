//! `regatta cache …`: what machines share, seen from one project.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::project::{Project, gpus_here, options};
use super::sharing;
use crate::app::error::CommandError;
use crate::app::output::{say, say_error};
use crate::cli::{Cache, CacheAct, CacheGc, CliExit, GivenSetting, Global, Select};
use crate::event::{Event, RunId, TaskId};
use crate::plan::Plan;
use crate::runner::remote_cache::{self, Address, Inventory, Presence, Put, RemoteCache};
use crate::runner::store::{Digests, Latest, LockAttempt, OutputCache, ProjectLock, TaskKey, TaskRecord, name_run};
use crate::runner::{Emit, FetchedOutput, RunOptions, TaskStatus, standings};
use crate::stages::StageExecutor;
use crate::units::size;

pub(super) fn cache(global: &Global, request: &Cache) -> Result<CliExit, CommandError> {
    let Some(address) = sharing::address(request.store.as_deref())? else {
        let text = "no shared store was named\n  hint: `--store URL`, or REGATTA_STORE in the environment: a folder, s3://bucket/prefix, gs://…, az://…";
        return Err(CommandError::Usage(text.to_owned()));
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let _inside = runtime.enter();
    let job = CacheJob { global, address, runtime: &runtime };
    match &request.act {
        CacheAct::Status { of: None, json, .. } => job.inventory(*json),
        CacheAct::Status { of: Some((manifest, settings)), verify, json } => {
            job.status(manifest, settings, *verify, *json)
        }
        CacheAct::Push { manifest, settings, only, verify } => job.push(manifest, settings, only, *verify),
        CacheAct::Pull { manifest, settings, until } => job.pull(manifest, settings, until),
        CacheAct::Gc(keep) => job.gc(*keep),
    }
}

struct CacheJob<'e> {
    global: &'e Global,
    address: Address,
    runtime: &'e tokio::runtime::Runtime,
}

/// A project, its plan, and the store.
struct Scene {
    project: Project,
    plan: Plan,
    options: RunOptions,
    shelf: Arc<OutputCache>,
    digests: Digests,
    stages: StageExecutor,
    share: RemoteCache,
}

impl CacheJob<'_> {
    fn scene(&self, manifest: &str, settings: &[GivenSetting], select: &Select) -> Result<Scene, CommandError> {
        let project = Project::here(self.global)?;
        let compiler = project.compiler(manifest, settings, select);
        let plan = project.plan(manifest, settings, select, &compiler, false)?;
        let options = options(&plan, select, 1, gpus_here(), false)?;
        let shelf = Arc::new(OutputCache::open(&project.home)?);
        let digests = Digests::load(&project.home);
        let stages = StageExecutor::new(project.home.state(), RunId::new("cache"));
        let emit: Emit = Arc::new(|event| tell(&event));
        let machine = remote_cache::Machine::new(sharing::gpus_for(&plan));
        let share = RemoteCache::new(&self.address, &plan, &machine, Arc::clone(&shelf), emit)
            .map_err(|e| self.unusable(&e))?;
        Ok(Scene { project, plan, options, shelf, digests, stages, share })
    }

    fn unusable(&self, trouble: &remote_cache::RemoteCacheError) -> CommandError {
        let hint = trouble.hint();
        let hint = if hint.is_empty() { String::new() } else { format!("\n  hint: {hint}") };
        CommandError::Other(anyhow::anyhow!("the shared store {} cannot be used: {trouble}{hint}", self.address))
    }

    fn totals(&self) -> Result<Inventory, CommandError> {
        // An empty plan: only the store is read.
        let project = Project::here(self.global)?;
        let plan = Plan::default();
        let machine = remote_cache::Machine::new(remote_cache::MachineGpus::Known([].into()));
        let shelf = Arc::new(OutputCache::open(&project.home)?);
        let share =
            RemoteCache::new(&self.address, &plan, &machine, shelf, Arc::new(|_| {})).map_err(|e| self.unusable(&e))?;
        self.runtime.block_on(share.inventory()).map_err(|e| self.unusable(&e))
    }

    fn inventory(&self, json: bool) -> Result<CliExit, CommandError> {
        let all = self.totals()?;
        if json {
            let told = json!({"store": self.address.to_string(), "outputs": all.records, "files": all.blobs, "bytes": all.bytes});
            say(&format!("{told:#}\n"));
        } else {
            say(&in_all(&self.address, all));
        }
        Ok(CliExit::Done)
    }

    fn status(
        &self,
        manifest: &str,
        settings: &[GivenSetting],
        verify: bool,
        json: bool,
    ) -> Result<CliExit, CommandError> {
        let scene = self.scene(manifest, settings, &Select::default())?;
        let all = self.totals()?;
        let mut rows = Vec::new();
        let mut broken = None;
        let mut ask = |standing: &TaskStatus| {
            let (_, key) = standing.key.as_ref()?;
            match self.runtime.block_on(scene.share.presence(&standing.task, key, verify)) {
                Ok(presence) => Some(presence),
                Err(trouble) => {
                    broken.get_or_insert(trouble);
                    None
                }
            }
        };
        // Requests what is not here on the way, because keys downstream depend on what is there.
        let mut asked = std::collections::BTreeMap::new();
        let standings =
            standings(&scene.plan, &scene.stages, &scene.shelf, &scene.digests, &scene.options, |standing| {
                let presence = ask(standing);
                let digest = match &presence {
                    Some(Presence::There { digest, .. }) => Some(*digest),
                    _ => None,
                };
                asked.insert(standing.task.clone(), presence);
                (digest, None)
            });
        for standing in standings {
            let presence = match asked.remove(&standing.task) {
                Some(presence) => presence,
                None => ask(&standing),
            };
            rows.push((standing, presence));
        }
        if let Some(trouble) = broken {
            return Err(self.unusable(&trouble));
        }
        let damaged = rows.iter().any(|(_, presence)| matches!(presence, Some(Presence::Damaged(_))));
        say(&if json { as_json(&self.address, all, &rows) } else { as_text(&self.address, all, &rows) });
        Ok(if damaged { CliExit::Failed } else { CliExit::Done })
    }

    fn push(
        &self,
        manifest: &str,
        settings: &[GivenSetting],
        only: &[String],
        verify: bool,
    ) -> Result<CliExit, CommandError> {
        let select = Select { only: only.to_vec(), ..Select::default() };
        let scene = self.scene(manifest, settings, &select)?;
        let here =
            standings(&scene.plan, &scene.stages, &scene.shelf, &scene.digests, &scene.options, |_| (None, None));
        let chosen =
            |task: &TaskId| only.is_empty() || only.iter().any(|stage| task.as_str().split('/').next() == Some(stage));
        let (mut new, mut there, mut sent) = (0_u64, 0_u64, 0_u64);
        let (mut missing, mut unshared) = (Vec::new(), Vec::new());
        for standing in here.iter().filter(|standing| chosen(&standing.task)) {
            let why = scene.plan.tasks.iter().find(|task| task.id == standing.task);
            if let Some(why) = why.and_then(|task| remote_cache::why_not(&scene.plan, task)) {
                unshared.push(format!("{} is not shared: {why}", standing.task));
                continue;
            }
            let Some(record) = &standing.record else {
                missing.push(standing.task.to_string());
                continue;
            };
            if scene.share.object(&record.task, &record.key).is_none() {
                unshared.push(format!("{} is not shared: the GPUs of this machine are not known", standing.task));
                continue;
            }
            match self.runtime.block_on(scene.share.put(record, verify)).map_err(|e| self.unusable(&e))? {
                Put::New(bytes) => {
                    new += 1;
                    sent += bytes;
                    say(&format!("↑ {}  {} sent\n", record.task, size(bytes)));
                }
                Put::There => there += 1,
                Put::Stays(why) => say(&format!("- {}  not shared: {why}\n", record.task)),
            }
        }
        say(&format!("{new} put into {}, {} sent; {there} there before\n", self.address, size(sent)));
        if new == 0 {
            // Shows for each output why it was not sent.
            if !missing.is_empty() {
                say(&format!(
                    "not in the cache of this folder: {}; `regatta run {manifest}` makes them\n",
                    missing.join(", ")
                ));
            }
            for line in unshared {
                say(&format!("{line}\n"));
            }
        }
        Ok(CliExit::Done)
    }

    fn pull(&self, manifest: &str, settings: &[GivenSetting], until: &[String]) -> Result<CliExit, CommandError> {
        let select = Select { until: until.to_vec(), ..Select::default() };
        let scene = self.scene(manifest, settings, &select)?;
        let home = scene.project.home.clone();
        let LockAttempt::Yes(lock) = ProjectLock::try_take(&home, || name_run(&home))? else {
            let text =
                "a run is working in this folder\n  hint: wait for it; with `--store` it uses the shared store, too";
            return Err(CommandError::Usage(text.to_owned()));
        };
        scene.shelf.begin()?;
        let (mut came, mut failed) = (0_u64, None);
        let all = standings(&scene.plan, &scene.stages, &scene.shelf, &scene.digests, &scene.options, |standing| {
            let Some((key, digest)) = &standing.key else { return (None, None) };
            let Some(fetched) = self.runtime.block_on(scene.share.get(&standing.task, key, digest)) else {
                return (None, None);
            };
            match accept(&scene, &lock.run, &standing.task, key, fetched) {
                Ok(record) => {
                    came += 1;
                    say(&format!("↓ {}\n", record.task));
                    (Some(record.digest), Some(record))
                }
                Err(error) => {
                    failed.get_or_insert(error);
                    (None, None)
                }
            }
        });
        scene.shelf.sync()?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let missing = all.iter().filter(|standing| standing.record.is_none()).count();
        let here = all.len() - missing;
        say(&format!(
            "{came} fetched from {}; {here} of {} outputs are here, {missing} to be made\n",
            self.address,
            all.len()
        ));
        Ok(CliExit::Done)
    }

    fn gc(&self, keep: CacheGc) -> Result<CliExit, CommandError> {
        let CacheGc { older_than, keep, grace, yes } = keep;
        let keep = remote_cache::Keep { younger_than: older_than, bytes: keep, grace };
        let gone =
            self.runtime.block_on(remote_cache::collect(&self.address, keep, yes)).map_err(|e| self.unusable(&e))?;
        let mut text = format!(
            "{} outputs and {} files {}, {}; {} outputs with {} stay\n",
            gone.records,
            gone.blobs,
            if yes { "removed" } else { "would be removed" },
            size(gone.bytes),
            gone.records_left,
            size(gone.bytes_left),
        );
        if gone.damaged > 0 {
            let _ = writeln!(text, "{} of them are damaged and unreadable", gone.damaged);
        }
        if !yes && gone.records + gone.blobs > 0 {
            text.push_str("`--yes` removes them\n");
        }
        say(&text);
        Ok(CliExit::Done)
    }
}

/// As if it had been made here; the record names its source.
fn accept(
    scene: &Scene,
    run: &RunId,
    task: &TaskId,
    key: &TaskKey,
    fetched: FetchedOutput,
) -> Result<Arc<TaskRecord>, crate::runner::store::PathError> {
    let FetchedOutput { folder, sealed, done, seconds, from } = fetched;
    let (record, _) =
        scene.shelf.accept(run, &scene.plan.name, task, key, &folder, sealed, done, seconds, Some(from))?;
    Latest::new(scene.shelf.home(), &scene.plan.name).point(task, &scene.shelf.folder(&record))?;
    Ok(record)
}

fn tell(event: &Event) {
    if let Event::Notice { task, text } = event {
        let about = task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        say_error(&format!("! {about}{text}\n"));
    }
}

fn in_all(address: &Address, all: Inventory) -> String {
    format!("{address}: {} outputs, {} files, {}\n", all.records, all.blobs, size(all.bytes))
}

fn words(standing: &TaskStatus, presence: Option<&Presence>) -> (&'static str, String) {
    let here = standing.record.is_some();
    match presence {
        Some(Presence::There { bytes, .. }) => (if here { "both" } else { "there" }, size(*bytes)),
        Some(Presence::Damaged(objects)) => ("damaged", objects.join(", ")),
        Some(Presence::NotShared(why)) => (
            if here { "here" } else { "missing" },
            format!("not shared{}", why.as_ref().map(|w| format!(": {w}")).unwrap_or_default()),
        ),
        Some(Presence::Missing) => (if here { "here" } else { "missing" }, String::new()),
        None if here => ("here", String::new()),
        None => ("missing", "what it is made from is missing".to_owned()),
    }
}

fn as_text(address: &Address, all: Inventory, rows: &[(TaskStatus, Option<Presence>)]) -> String {
    let mut text = in_all(address, all);
    let wide = rows.iter().map(|(standing, _)| standing.task.as_str().len()).max().unwrap_or(0);
    for (standing, presence) in rows {
        let (state, about) = words(standing, presence.as_ref());
        let line = format!("{state:<8} {:<wide$}  {about}", standing.task);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn as_json(address: &Address, all: Inventory, rows: &[(TaskStatus, Option<Presence>)]) -> String {
    let tasks: Vec<_> = rows
        .iter()
        .map(|(standing, presence)| {
            let (state, about) = words(standing, presence.as_ref());
            let from = standing.record.as_ref().and_then(|record| record.from.clone());
            json!({"task": standing.task, "state": state, "about": about, "from": from})
        })
        .collect();
    let told = json!({
        "store": address.to_string(), "outputs": all.records, "files": all.blobs, "bytes": all.bytes, "tasks": tasks,
    });
    format!("{told:#}\n")
}
