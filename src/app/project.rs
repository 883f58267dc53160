//! One project folder: its state, its manifests, and a manifest's plan, compiled once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use anyhow::Context as _;

use crate::cli::{Force, Global, KeyValueArg, Select, Subject};
use crate::console::print_error;
use crate::doctor;
use crate::error::CommandError;
use crate::expression_guard::{expand, load};
use crate::past_runs::run_state;
use base::diag::Diagnostics;
use base::files::{Digest, read_bytes};
use interop::{SystemNeed, gpu_name};
use plan::Plan;
use plan::manifest::{GivenValues, Manifest, ManifestLibrary, is_shipped, shipped};
use report::RunState;
use runner::store::{CompilerId, PathError, PlanSources, StateFolder, WithPath as _, is_there, last_run, replace};
use runner::{RunOptions, TaskRole, task_roles};

/// # Errors
/// It was removed, or may not be looked at, or its path is not UTF-8.
pub(super) fn current_folder() -> Result<PathBuf, CommandError> {
    let folder = env::current_dir().context("the current folder cannot be used")?;
    check_is_text("the current folder", &folder)?;
    Ok(folder)
}

/// The state folder, as it was given.
///
/// # Errors
/// Its path is not UTF-8.
pub(super) fn given_state_folder(global: &Global) -> Result<&Path, CommandError> {
    check_is_text("the state folder", &global.home)?;
    Ok(&global.home)
}

/// Plans, records and commands have paths as text: a path that is not valid text would be another path there.
fn check_is_text(name: &str, path: &Path) -> Result<(), CommandError> {
    if path.to_str().is_some() {
        return Ok(());
    }
    Err(CommandError::hinted(
        format!("the path of {name} is not UTF-8: {}", path.display()),
        "rename the part of it that is not, or use another folder",
    ))
}

/// For a command that finds no runs: a folder above this one may have them.
pub(super) fn hint_of_runs_above(home: &StateFolder) -> Option<String> {
    let state = home.state().strip_prefix(home.project()).ok()?;
    let has_runs = |folder: &&Path| {
        last_run(&StateFolder::new((*folder).to_owned(), folder.join(state))).is_ok_and(|run| run.is_some())
    };
    let above = home.project().ancestors().skip(1).find(has_runs)?;
    Some(format!("{} has runs: start regatta in that folder", above.display()))
}

pub(super) struct Project {
    pub home: StateFolder,
    pub manifests: ManifestLibrary,
    /// Variables that take precedence over those of this process.
    pub env: BTreeMap<String, String>,
}

impl Project {
    /// The current folder. Touches nothing.
    pub(super) fn open_current(global: &Global) -> Result<Self, CommandError> {
        let folder = current_folder()?;
        let state = folder.join(given_state_folder(global)?);
        Ok(Self {
            manifests: ManifestLibrary::new(&folder),
            home: StateFolder::new(folder, state),
            env: BTreeMap::new(),
        })
    }

    /// The same with variables that take precedence over those of this process.
    pub(super) fn with_env(&self, env: &BTreeMap<String, String>) -> Self {
        Self { env: env.clone(), home: self.home.clone(), manifests: self.manifests.clone() }
    }

    /// A manifest with what was given on the command line and in the environment.
    pub(super) fn manifest(&self, subject: &Subject) -> Result<Manifest, CommandError> {
        Ok(load(&self.manifests, &subject.manifest, &self.given(&subject.settings))?)
    }

    /// Names one way to compile a manifest.
    pub(super) fn compiler(&self, Subject { manifest, settings }: &Subject) -> CompilerId {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let words: Vec<&str> = std::iter::once(manifest).chain(&settings).map(String::as_str).collect();
        CompilerId::new(&self.home, &words)
    }

    /// Names one way to run what it compiles. `lock`: the lock file that the run writes.
    pub(super) fn compiler_of_run(&self, subject: &Subject, select: &Select, lock: Option<&Path>) -> CompilerId {
        let mut words: Vec<String> = select.until.iter().map(|s| format!("--until {s}")).collect();
        words.extend(select.only.iter().map(|s| format!("--only {s}")));
        words.extend(select.repeat.map(|times| format!("--repeat {times}")));
        if select.repeat_number > 1 {
            words.push(format!("--repeat-number {}", select.repeat_number));
        }
        words.extend(lock.map(|file| format!("--lock {}", file.display())));
        self.compiler(subject).for_run(&words)
    }

    /// The plan, with its benchmarks repeated as selected. Nothing is stored.
    pub(super) fn plan(&self, subject: &Subject, select: &Select) -> Result<Plan, CommandError> {
        self.plan_with_digest(subject, select, &self.compiler(subject), false).map(|(plan, _)| plan)
    }

    /// Like [`Self::plan`], with the digest of the stored plan that it was made from: `None` if none is stored. `keep`
    /// stores the compiled plan.
    pub(super) fn plan_with_digest(
        &self,
        subject: &Subject,
        select: &Select,
        compiler: &CompilerId,
        keep: bool,
    ) -> Result<(Plan, Option<Digest>), CommandError> {
        let (plan, digest) = self.compiled(subject, compiler, keep)?;
        Ok((repeated(plan, select)?, digest))
    }

    /// The plan of other settings, for what can be known from it: nothing is stored, and no data of the project is
    /// looked up.
    pub(super) fn expanded(&self, subject: &Subject, select: &Select) -> Result<Plan, CommandError> {
        let manifest = self.manifest(subject)?;
        repeated(Plan { manifest: subject.manifest.clone(), ..expand(&manifest)? }, select)
    }

    /// The plan as it is written, from the stored one if none of its inputs has changed.
    fn compiled(
        &self,
        subject: &Subject,
        compiler: &CompilerId,
        keep: bool,
    ) -> Result<(Plan, Option<Digest>), CommandError> {
        /// The stack size of the main thread.
        const STACK: usize = 8 << 20;
        if let Some(digest) = compiler.fresh_plan(|name| self.variable(name))
            && let Some(plan) = compiler.plan(&digest)
        {
            let file = self.home.project().join(format!("manifests/{}.yaml", subject.manifest));
            let source = read_bytes(&file).ok().map(|bytes| (file, Digest::hash(&bytes)));
            self.report_hidden(source.as_slice());
            return Ok((plan, Some(digest)));
        }
        if !keep {
            let (plan, origins) = self.compile(subject)?;
            self.report_hidden(&origins.sources);
            return Ok((plan, None));
        }
        let compile = || {
            let (plan, origins) = self.compile(subject)?;
            self.report_hidden(&origins.sources);
            // Only a cache: a run must not fail because it could not be written.
            let digest = compiler.keep_plan(origins, &plan).ok();
            Ok((plan, digest))
        };
        thread::scope(|scope| {
            // Compiling takes many times the memory of the plan. That of a thread of its own is given back as a whole,
            // and the plan is read back as it was written: what follows may take hours.
            let text = || compile().and_then(|(plan, digest)| Ok((plan.to_bytes()?, digest)));
            match thread::Builder::new().name("compile".to_owned()).stack_size(STACK).spawn_scoped(scope, text) {
                Ok(compiling) => {
                    let (bytes, digest) = compiling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    Ok((Plan::from_bytes(&bytes)?, digest))
                }
                // No more threads can be had.
                Err(_) => compile(),
            }
        })
    }

    /// Names files of the project that were read although other ones of the same name are shipped.
    fn report_hidden(&self, sources: &[(PathBuf, Digest)]) {
        for name in hiding_files(self.home.project(), sources) {
            print_error(&format!("note: {name} of this project is used in place of the one that is shipped\n"));
        }
    }

    /// Reads the manifest. The second value: what the plan was made from.
    fn compile(&self, subject: &Subject) -> Result<(Plan, PlanSources), CommandError> {
        let manifest = self.manifest(subject)?;
        let mut plan = Plan { manifest: subject.manifest.clone(), ..expand(&manifest)? };
        self.has_effect(subject, &manifest, &plan)?;
        let absent = provide(&mut plan, self.home.project(), self.home.state()).map_err(anyhow::Error::from)?;
        let mut origins = self.origins(&subject.manifest, &manifest);
        origins.absent.extend(absent);
        Ok((plan, origins))
    }

    /// An argument for a value that was not there before must change the plan: otherwise a typing error would go
    /// unnoticed.
    fn has_effect(&self, subject: &Subject, manifest: &Manifest, plan: &Plan) -> Result<(), CommandError> {
        let mut diagnostics = Diagnostics::default();
        for (word, wrong) in &manifest.new_var_arguments {
            let mut others = subject.clone();
            others.settings.retain(|one| one.to_string() != *word);
            if self.manifest(&others).is_ok_and(|other| expand(&other).is_ok_and(|same| same.tasks == plan.tasks)) {
                diagnostics.push(wrong.clone());
            }
        }
        if diagnostics.has_errors() { Err(CommandError::Manifest(diagnostics)) } else { Ok(()) }
    }

    /// An environment variable as parameters see it.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| env::var(name).ok())
    }

    pub(super) fn given(&self, settings: &[KeyValueArg]) -> GivenValues {
        let variables =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        GivenValues {
            params: settings.iter().map(|s| (s.key.clone(), s.value.clone())).collect(),
            env: variables.chain(self.env.clone()).collect(),
        }
    }

    fn origins(&self, name: &str, manifest: &Manifest) -> PlanSources {
        let root = self.home.project();
        let mut sources = Vec::new();
        let mut absent = Vec::new();
        for (source, digest) in manifest.sources() {
            match source.strip_prefix("shipped:") {
                // A file of the project with that name would hide the shipped one.
                Some(shipped) => absent.push(root.join(shipped)),
                None => sources.push((root.join(source), *digest)),
            }
        }
        // What would have been found first; `ManifestLibrary::find` looks in this order.
        let names = [name.to_owned(), format!("manifests/{name}.yaml"), format!("manifests/{name}/pipeline.yaml")];
        absent.extend(names.iter().map(|name| root.join(name)).filter(|path| !path.exists()));
        PlanSources { sources, absent, env: manifest.environment().clone().into_iter().collect() }
    }
}

/// The plan with its benchmarks repeated by `--repeat`, or under the number of `--repeat-number`.
///
/// # Errors
/// `--repeat` where nothing in the plan can be repeated by it.
fn repeated(plan: Plan, select: &Select) -> Result<Plan, CommandError> {
    let mut plan = plan::repeated(plan, select.repeat).map_err(CommandError::usage)?;
    if select.repeat_number > 1 {
        for task in plan.tasks.iter_mut().filter(|task| task.kind.facts().measures) {
            // A key of its own: its result is kept beside that of the first.
            task.env.insert("REGATTA_REPEAT".to_owned(), select.repeat_number.to_string());
        }
    }
    Ok(plan)
}

/// Which tasks are part of the run, and which run even if they are cached: one at a time and without GPUs, as suits a
/// command that runs nothing.
pub(super) fn options(plan: &Plan, select: &Select) -> Result<RunOptions, CommandError> {
    let chosen = plan.select(&select.until, &select.only)?;
    let roles = task_roles(plan, &chosen, !select.only.is_empty());
    let forced = match &select.force {
        Force::Nothing => vec![false; plan.tasks.len()],
        Force::All => roles.iter().map(|role| *role == TaskRole::Run).collect(),
        Force::Stages(names) | Force::Uncached(names) => {
            for name in names.iter().filter(|_| !select.only.is_empty()) {
                let named = plan.select(&[], std::slice::from_ref(name))?;
                if !named.iter().zip(&roles).any(|(named, role)| *named && *role == TaskRole::Run) {
                    let only = select.only.join(", ");
                    return Err(CommandError::hinted(
                        format!("`--force {name}` forces what `--only {only}` leaves out"),
                        format!("add `--only {name}`, or leave out one of the two"),
                    ));
                }
            }
            let named = plan.select(&[], names)?;
            named.into_iter().zip(&roles).map(|(named, role)| named && *role == TaskRole::Run).collect()
        }
    };
    Ok(RunOptions {
        jobs: 1,
        roles,
        forced,
        resumes_forced: matches!(select.force, Force::Uncached(_)),
        ..RunOptions::default()
    })
}

pub(super) fn colored(color: anstream::ColorChoice) -> bool {
    use std::io::IsTerminal as _;
    match color {
        anstream::ColorChoice::Never => false,
        anstream::ColorChoice::Auto => std::io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none(),
        _ => true,
    }
}

/// With its parameters, as they were given. `hint`: the command that names a manifest.
pub(super) fn last_manifest(project: &Project, hint: &str) -> Result<Subject, CommandError> {
    let run = last_run(&project.home)?.map(|run| run_state(&project.home, &run)).transpose()?;
    let Some(RunState { manifest, settings, .. }) = run.filter(|state| state.run.is_some()) else {
        let hint = hint_of_runs_above(&project.home).unwrap_or_else(|| format!("name a manifest: {hint}"));
        return Err(CommandError::hinted("nothing has run in this folder yet", hint));
    };
    let settings = settings.iter().map(|argument| argument.parse()).collect::<Result<_, _>>();
    Ok(Subject { manifest, settings: settings.map_err(CommandError::usage)? })
}

/// Writes the shipped files that the plan's inputs name and the project does not have into the state folder, and lets
/// the inputs lead there. Returns the paths in the project that would have been read: a file there would change the
/// plan.
///
/// # Errors
///
/// A copy cannot be written, or it cannot be known whether the project has a file.
pub(super) fn provide(plan: &mut Plan, project: &Path, state: &Path) -> Result<Vec<PathBuf>, PathError> {
    let mut absent = Vec::new();
    for task in &mut plan.tasks {
        for path in task.inputs.values_mut().flatten() {
            let hiding = project.join(path.as_str());
            if !is_shipped(path) || is_there(&hiding)? {
                continue;
            }
            let copy = state.join("shipped").join(path.as_str());
            if !absent.contains(&hiding) {
                write(path, &copy)?;
                absent.push(hiding);
            }
            let written = std::mem::replace(path, copy.to_string_lossy().into_owned());
            task.shipped.insert(written, copy);
        }
    }
    Ok(absent)
}

/// Files of the project that were read although other ones of the same name are shipped.
fn hiding_files(project: &Path, sources: &[(PathBuf, Digest)]) -> Vec<String> {
    let is_hidden = |(name, bytes): &(String, &[u8])| {
        let path = project.join(name);
        sources.iter().any(|(source, digest)| *source == path && *digest != Digest::hash(bytes))
    };
    shipped().filter(is_hidden).map(|(name, _)| name).collect()
}

/// A file, or all files of a folder.
fn write(path: &str, copy: &Path) -> Result<(), PathError> {
    let path = path.trim_end_matches('/');
    for (file, bytes) in shipped() {
        let Some(rest) = file.strip_prefix(path).filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            continue;
        };
        let target = if rest.is_empty() { copy.to_owned() } else { copy.join(&rest[1..]) };
        if read_bytes(&target).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        replace(&target, bytes)?;
    }
    Ok(())
}

/// A system's name, and why it is this one.
pub(super) struct SystemChoice {
    pub system: String,
    pub note: String,
}

/// What stands before the name of a simulated system.
const SIMULATED: &str = "sim-";

/// The system for a manifest with a parameter `system`. `exists` checks whether the manifest has a system of a name.
pub(super) fn choose_system(
    manifest: &Manifest,
    need: SystemNeed,
    exists: &dyn Fn(&str) -> bool,
) -> Option<SystemChoice> {
    if need == SystemNeed::Default {
        return None;
    }
    let default = manifest.params.get("system")?.value.as_str()?.to_owned();
    Some(choose(&doctor::gpu_names(), &default, need, exists))
}

fn choose(gpus: &[String], default: &str, need: SystemNeed, exists: &dyn Fn(&str) -> bool) -> SystemChoice {
    let machine = match gpus {
        [] => "no GPU was found here (nvidia-smi)".to_owned(),
        [one, ..] => format!("this machine has {} × {one}", gpus.len()),
    };
    if let Some(gpu) = gpus.first().and_then(|name| gpu_name(name)) {
        // The largest of the machine's systems.
        let largest = (1..=gpus.len()).rev().map(|count| (count, format!("{gpu}-x{count}"))).find(|(_, it)| exists(it));
        if let Some((count, system)) = largest {
            let fewer =
                if count < gpus.len() { format!("; no system of {} is on file", gpus.len()) } else { String::new() };
            return SystemChoice { note: format!("system={system}: {machine}{fewer}"), system };
        }
    }
    let real = default.strip_prefix(SIMULATED).filter(|real| exists(real));
    let lacks = if gpus.is_empty() { "" } else { ", for which no system file exists" };
    match (need, real) {
        (SystemNeed::Real, Some(real)) => SystemChoice {
            note: format!("system={real}: {machine}{lacks}; of this system are the round, the software and the tuning"),
            system: real.to_owned(),
        },
        (_, Some(real)) => SystemChoice {
            note: format!(
                "system={default} is simulated: {machine}{lacks}, and no argument names a system; write system={real} \
                 for the real one"
            ),
            system: default.to_owned(),
        },
        _ => SystemChoice {
            note: format!(
                "system={default} is the manifest's default: {machine}{lacks}, and no argument names a system"
            ),
            system: default.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_hides_a_shipped_one_is_named_unless_it_is_the_same() {
        let (name, bytes) = shipped().next().unwrap();
        let project = Path::new("/project");
        let hiding = |path: PathBuf, bytes: &[u8]| hiding_files(project, &[(path, Digest::hash(bytes))]);
        assert_eq!(hiding(project.join(&name), b"stages: {}"), std::slice::from_ref(&name));
        assert_eq!(hiding(project.join(&name), bytes), [""; 0]);
        assert_eq!(hiding(project.join("manifests/mine.yaml"), b"stages: {}"), [""; 0]);
    }

    fn chosen(gpus: &[&str], need: SystemNeed) -> String {
        let gpus: Vec<String> = gpus.iter().map(|&name| name.to_owned()).collect();
        let exists = |name: &str| ["h200-x8", "h200-x2", "h100-nvl-x2"].contains(&name);
        let choice = choose(&gpus, "sim-h200-x8", need, &exists);
        format!("{} | {}", choice.system, choice.note)
    }

    #[test]
    fn the_machine_decides_and_a_simulated_system_is_never_silent() {
        insta::assert_snapshot!(chosen(&["NVIDIA H200"; 8], SystemNeed::Measured), @"h200-x8 | system=h200-x8: this \
            machine has 8 × NVIDIA H200");
        insta::assert_snapshot!(chosen(&["NVIDIA H200"; 4], SystemNeed::Measured), @"h200-x2 | system=h200-x2: this \
            machine has 4 × NVIDIA H200; no system of 4 is on file");
        insta::assert_snapshot!(chosen(&["NVIDIA H100 NVL"; 2], SystemNeed::Real), @"h100-nvl-x2 | system=h100-nvl-x2: \
            this machine has 2 × NVIDIA H100 NVL");
        insta::assert_snapshot!(chosen(&["NVIDIA RTX 4090"], SystemNeed::Measured), @"sim-h200-x8 | system=sim-h200-x8 \
            is simulated: this machine has 1 × NVIDIA RTX 4090, for which no system file exists, and no argument \
            names a system; write system=h200-x8 for the real one");
        insta::assert_snapshot!(chosen(&[], SystemNeed::Measured), @"sim-h200-x8 | system=sim-h200-x8 is simulated: no \
            GPU was found here (nvidia-smi), and no argument names a system; write system=h200-x8 for the real one");
        insta::assert_snapshot!(chosen(&[], SystemNeed::Real), @"h200-x8 | system=h200-x8: no GPU was found here \
            (nvidia-smi); of this system are the round, the software and the tuning");
    }
}
