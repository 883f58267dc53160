//! `regatta run …`, or `regatta serve …` where servers stay up, out of another tool's line: what the manifest declares
//! of what the line sets, checked by planning it.

use std::collections::BTreeMap;
use std::env;

use super::expression_guard::{expand, load_unexpanded};
use super::project::Project;
use crate::bulk::llmb;
use crate::cli::Global;
use crate::error::CommandError;
use crate::project::choose_system;
use base::diag::Diagnostics;
use base::units::shell_word;
use interop::{RunLine, RunSetting, Translation, UntranslatedOption};
use plan::manifest::{GivenValues, Manifest};
use plan::{Lifetime, Plan};

/// The stage that a line names for servers; manifests call it by what they start.
const SERVERS: &str = "run_llm_server";

/// Parameters with their values, as they are given to `regatta run`.
type GivenParams = Vec<(String, String)>;

/// The manifest that a line means.
struct NamedManifest<'a> {
    project: &'a Project,
    name: &'a str,
    line: &'a RunLine,
}

impl NamedManifest<'_> {
    /// Loads it with these parameters, and with the variables of the line and of this process.
    fn with(&self, params: GivenParams) -> Result<Manifest, Diagnostics> {
        let here =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let env: BTreeMap<String, String> = here.chain(self.line.env.iter().cloned()).collect();
        load_unexpanded(&self.project.manifests, self.name, &GivenValues { params, env })
    }

    /// Like `with`, with any value for those that the user must give: what it declares is known without them.
    fn declared_with(&self, params: GivenParams) -> Result<Manifest, Diagnostics> {
        self.with(params.clone()).or_else(|errors| {
            let Some(missing) = errors.missing_parameters() else { return Err(errors) };
            self.with(params.into_iter().chain(missing.into_iter().map(|name| (name, ".".to_owned()))).collect())
        })
    }

    fn has_system(&self, system: &str) -> bool {
        self.declared_with(vec![("system".to_owned(), system.to_owned())]).is_ok()
    }
}

/// The command line, with a newline at its end; `then` is a command to run while servers stay up. What it does not
/// carry over is added to the translation.
///
/// # Errors
/// The manifest does not exist, or it refuses what the line sets.
pub(super) fn command(
    global: &Global,
    line: &RunLine,
    then: Option<&str>,
    translation: &mut Translation,
) -> Result<String, CommandError> {
    let project = Project::open_current(global)?;
    let shipped = line.manifests.iter().find(|name| project.manifests.find(name).is_some());
    let Some(name) = shipped else {
        let names = line.manifests.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        let variables = line.env.iter().map(|(name, value)| format!("{name}={value}"));
        let settings = line.settings.iter().map(|setting| setting.argument.clone()).chain(variables);
        let settings: Vec<String> = settings.map(|setting| format!("`{setting}`")).collect();
        let lost = if settings.is_empty() { String::new() } else { format!(" to set {}", settings.join(", ")) };
        return Err(CommandError::hinted(
            format!("cannot translate the line: this recipe is not shipped, and there is no manifest {names}{lost}"),
            "`regatta list` lists the manifests; a different one for the same model would be a different benchmark",
        ));
    };
    let named = NamedManifest { project: &project, name, line };
    let manifest = named.declared_with(Vec::new())?;
    let mut params = declared_settings(&named, &manifest, translation);
    set_system(&named, &manifest, &mut params, translation)?;
    keep_defaults(&named, &mut params, translation);
    let front = variables(&named, &manifest, translation);
    let plan = check(&named, &mut params, translation)?;
    let subcommand = match (line.plans, line.serves) {
        (true, _) => "plan",
        (false, true) => "serve",
        (false, false) => "run",
    };
    let mut words = vec!["regatta".to_owned(), subcommand.to_owned(), name.clone()];
    words.extend(params.iter().map(|(key, value)| format!("{key}={value}")));
    if !line.serves {
        for stage in stages(line, &manifest, plan.as_ref(), translation) {
            words.extend(["--until".to_owned(), stage]);
        }
    }
    if !line.slurm.is_empty() && !line.plans {
        words.extend(["--on", "slurm"].map(str::to_owned));
        words.extend(line.slurm.iter().flat_map(|(key, value)| ["--slurm".to_owned(), format!("{key}={value}")]));
    }
    words.extend(line.options.iter().cloned());
    let words = words.iter().map(|word| shell_word(word));
    let mut command = front.into_iter().chain(words).collect::<Vec<_>>().join(" ");
    if let Some(then) = then {
        command.push_str(" -- ");
        command.push_str(then);
    }
    if let Some(folder) = &line.copy_results_to {
        let folder = shell_word(folder);
        let stages: Vec<String> = line.until.iter().map(|stage| format!("latest/{stage}")).collect();
        let results = if stages.is_empty() { "latest/.".to_owned() } else { stages.join(" ") };
        command = format!("{command} && mkdir -p {folder} && cp -rL {results} {folder}");
    }
    Ok(format!("{command}\n"))
}

/// The line's settings by the manifest's names. Those that it does not declare are added to the translation.
fn declared_settings(named: &NamedManifest, manifest: &Manifest, translation: &mut Translation) -> GivenParams {
    let mut params = Vec::new();
    for setting in &named.line.settings {
        if let Some(key) = place(setting, manifest) {
            params.push((key.clone(), setting.value.clone()));
            continue;
        }
        let (name, names) = (&named.name, setting.names.join("` or `"));
        let reason = format!("the manifest `{name}` has no parameter `{names}`: change it in the file of the system");
        let option = UntranslatedOption::new(&setting.argument, reason);
        translation.untranslated.push(UntranslatedOption { is_workload: true, ..option });
    }
    params
}

/// Adds the system, by the line's need or its scale, and the tool's defaults.
///
/// # Errors
/// There are no settings of the system that the line names, or none fits its scale.
fn set_system(
    named: &NamedManifest,
    manifest: &Manifest,
    params: &mut GivenParams,
    translation: &mut Translation,
) -> Result<(), CommandError> {
    let NamedManifest { project, name, line } = *named;
    match params.iter().find(|(key, _)| key == "system") {
        Some((_, system)) if !named.has_system(system) => {
            return Err(CommandError::hinted(
                format!("cannot translate the line: no settings of the system `{system}` are on file for `{name}`"),
                format!(
                    "`regatta run {name} system={system}` lists those that are; a file \
                     manifests/{name}/{system}.yaml that includes a near one adds it"
                ),
            ));
        }
        Some(_) => {}
        None => {
            if let Some(choice) = choose_system(manifest, line.system, &|system| named.has_system(system)) {
                translation.notes.push(choice.note);
                params.insert(0, ("system".to_owned(), choice.system));
            }
        }
    }
    for (key, value) in &line.tool_defaults {
        if manifest.params.contains_key(*key) {
            params.push(((*key).to_owned(), value.clone()));
        }
    }
    let Some(scale) = &line.scale else { return Ok(()) };
    let fits = |system: &str| {
        let mut params = params.clone();
        params.push(("system".to_owned(), system.to_owned()));
        named.with(params).is_ok()
    };
    match llmb::system(project, name, manifest, scale, &fits) {
        Ok((system, reason)) => {
            translation.notes.push(format!("{} is `system={system}`: {reason}", scale.argument));
            params.push(("system".to_owned(), system));
        }
        // Without a system the line is that of the default, if that takes its settings.
        Err(reason) if named.with(params.clone()).is_ok() => {
            // A manifest without systems runs on whatever there is.
            let is_workload = !manifest.params.contains_key("system");
            let option = UntranslatedOption::new(&scale.argument, reason.to_string());
            translation.untranslated.push(UntranslatedOption { is_workload, ..option });
        }
        Err(reason) => return Err(CommandError::Usage(format!("{}: {reason}", scale.argument))),
    }
    Ok(())
}

/// Names the tool's defaults, or takes them away where the system does not have them: the line is of another release.
fn keep_defaults(named: &NamedManifest, params: &mut GivenParams, translation: &mut Translation) {
    let is_default = |(key, value): &(String, String)| {
        named.line.tool_defaults.iter().any(|(other, default)| other == key && default == value)
    };
    let (defaults, others): (GivenParams, GivenParams) = params.iter().cloned().partition(is_default);
    let list = defaults.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    if defaults.is_empty() {
    } else if named.declared_with(params.clone()).is_err() && named.declared_with(others.clone()).is_ok() {
        *params = others;
        translation.notes.push(format!("left to Regatta's default: there {list}, which this system does not have"));
    } else {
        translation.notes.push(format!("the tool's defaults: {list}"));
    }
}

/// The variables to set before the command: those that a parameter or `sbatch` reads.
fn variables(named: &NamedManifest, manifest: &Manifest, translation: &mut Translation) -> Vec<String> {
    let mut front = Vec::new();
    for (variable, value) in &named.line.env {
        // A parameter declares the variables that it is read from.
        let is_read = manifest.environment().contains_key(variable);
        if is_read || variable.starts_with("SBATCH_") {
            front.push(format!("{variable}={}", shell_word(value)));
        } else {
            let reason = format!("no parameter of the manifest `{}` is read from it", named.name);
            translation.untranslated.push(UntranslatedOption::new(format!("{variable}=…"), reason));
        }
        if !is_read && variable.starts_with("SBATCH_") {
            translation.notes.push(format!("{variable}: `sbatch` reads it, with `--on slurm`"));
        }
    }
    front
}

/// Plans it, so that what it refuses is reported in the same way as for a run, and removes parameters that change
/// nothing, which a run refuses. `None` where parameters are missing.
fn check(
    named: &NamedManifest,
    params: &mut GivenParams,
    translation: &mut Translation,
) -> Result<Option<Plan>, CommandError> {
    let plan = match named.with(params.clone()) {
        Ok(manifest) => expand(&manifest)?,
        Err(errors) => {
            let Some(names) = errors.missing_parameters() else { return Err(errors.into()) };
            let notes =
                names.iter().map(|name| format!("`{name}=…` must be given, too: no argument of the line sets it"));
            translation.notes.extend(notes);
            return Ok(None);
        }
    };
    let is_idle = |key: &str| {
        let others = params.iter().filter(|(other, _)| other != key).cloned().collect();
        named.with(others).is_ok_and(|other| expand(&other).is_ok_and(|same| same.tasks == plan.tasks))
    };
    let idle: Vec<String> =
        params.iter().map(|(key, _)| key).filter(|key| key.contains('.') && is_idle(key)).cloned().collect();
    for (key, value) in params.extract_if(.., |(key, _)| idle.contains(key)) {
        let reason = "it changes nothing here: it has this value already, or only a real system uses it";
        translation.untranslated.push(UntranslatedOption::new(format!("{key}={value}"), reason));
    }
    Ok(Some(plan))
}

/// What the manifest calls a setting: a parameter, or a variable's part by its place.
fn place<'a>(setting: &'a RunSetting, manifest: &Manifest) -> Option<&'a String> {
    setting.names.iter().find(|key| {
        let mut steps = key.split('.').skip_while(|step| *step == "vars");
        let first = steps.next().unwrap_or_default();
        if key.contains('.') { manifest.vars.contains_key(first) } else { manifest.params.contains_key(*key) }
    })
}

/// The stages to end with, by the names that the manifest has for them.
fn stages(line: &RunLine, manifest: &Manifest, plan: Option<&Plan>, translation: &mut Translation) -> Vec<String> {
    let mut ends = Vec::new();
    let tasks = || plan.into_iter().flat_map(|plan| &plan.tasks);
    for stage in &line.until {
        if stage == SERVERS && !manifest.stages.contains_key(stage) {
            let mut servers: Vec<String> = tasks()
                .filter(|task| task.lifetime == Lifetime::Service && task.skipped.is_none())
                .map(|task| task.stage.clone())
                .collect();
            servers.dedup();
            translation.notes.push(
                "servers start when a stage needs them, and end with it: this makes what they need, `regatta serve` \
                 in place of `regatta run` keeps them up, and `--until run_harness` measures them"
                    .to_owned(),
            );
            ends.extend(servers);
        } else if manifest.stages.contains_key(stage) {
            let mut instances = tasks().filter(|task| task.stage == *stage).peekable();
            if instances.peek().is_some() && instances.all(|task| task.skipped.is_some()) {
                translation.notes.push(format!("the stage `{stage}` is skipped with these settings"));
            }
            ends.push(stage.clone());
        } else {
            let name = &manifest.name;
            translation.notes.push(format!("the manifest `{name}` has no stage `{stage}`: all of it is run"));
        }
    }
    ends
}
