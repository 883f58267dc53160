//! Entry point: a manifest → a plan, or every error that only shows once expressions are computed.
//!
//! Three phases: which tasks there are (`instance`), what each one does and refers to (`task_builder`), in which order
//! they could run (here). Nothing recurses over the graph.
//!
//! Servers that a task uses and that its run does not start: attached ones, and those that a target names.
//!
//! Such a server may be another one tomorrow at the same address, so that what was measured there is measured again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::actions::{across, packages, speculative_decoding};
use crate::instance::{ExpandedStages, Instance, instances};
use crate::manifest::model::Serve;
use crate::manifest::{
    EXPRESSION_STACK, Expressions, GivenValues, Manifest, ManifestLibrary, ResolvedParam, ValueOrigin,
    load_with_errors, on_expression_stack, targets, topological_order,
};
use crate::references::Directory;
use crate::task_builder::{PlanBuilder, TaskDraft};
use crate::{Lifetime, Need, Plan, PlanReference, Task, TaskPart, UnwritableAction};
use base::diag::{Diagnostic, Diagnostics};
use base::event::Endpoint;
use base::files::{cores, in_parts};
use base::units::unquoted;

/// How much of a long circle is shown at either end.
const SHOWN: usize = 6;

/// Loads a manifest that can be expanded.
///
/// # Errors
/// Everything that is wrong with it, with what [`expand`] reports of those parts that can be used all the same.
pub fn load(library: &ManifestLibrary, what: &str, given: &GivenValues) -> Result<Manifest, Diagnostics> {
    let (manifest, mut found, origins) = load_with_errors(library, what, given);
    match manifest {
        Some(manifest) if !found.has_errors() => return Ok(manifest),
        Some(manifest) => {
            if let Err(of_stages) = expand_unexplained(&manifest) {
                found.append(of_stages);
            }
        }
        None => {}
    }
    Err(origins.explain(found))
}

/// Expands a manifest into its task graph.
///
/// # Errors
/// Every error of every stage at once, each with its place in the YAML. A manifest with faulty parts has no graph; a
/// use of such a part is not reported as a further error.
pub fn expand(manifest: &Manifest) -> Result<Plan, Diagnostics> {
    expand_unexplained(manifest).map_err(|found| manifest.origins.explain(found))
}

/// Where it fails it is done again for the places of its errors: those where the values are written, which take longer
/// to find.
fn expand_unexplained(manifest: &Manifest) -> Result<Plan, Diagnostics> {
    let attempt = |traces: bool| on_expression_stack(|| expand_with(&Expressions::new(), manifest, traces));
    attempt(false).or_else(|found| attempt(true).and(Err(found)))
}

fn expand_with(expressions: &Expressions, manifest: &Manifest, traces: bool) -> Result<Plan, Diagnostics> {
    let mut faults = Diagnostics::new();
    let expanded = instances(manifest, expressions, &mut faults);
    let stages = expanded.stages.iter().map(|stage| (stage.name.to_owned(), (stage.kind, stage.instances.clone())));
    let directory = Arc::new(Directory { stages: stages.collect(), instances: Arc::clone(&expanded.all) });
    let builder = PlanBuilder { manifest, expressions, expanded: &expanded, directory, traces };
    let built = build_all(&builder, &expanded.all, &mut faults);
    let needs: Vec<Vec<usize>> = built
        .iter()
        .map(|built| built.as_ref().map_or_else(Vec::new, |built| built.needs.iter().map(|(need, _)| *need).collect()))
        .collect();
    let mut sorted = Vec::with_capacity(needs.len());
    for one in topological_order(&needs) {
        match one {
            Ok(index) => sorted.push(index),
            Err(circle) => faults.push(explain(&circle, &expanded, &built)),
        }
    }
    let rendered = || built.iter().flatten().filter_map(|one| Some((&one.task, one.node.as_ref()?)));
    across(rendered(), &mut faults);
    packages(rendered(), &mut faults);
    speculative_decoding(rendered(), &mut faults);
    let is_faulty = !expanded.faulty.is_empty();
    if !faults.has_errors() && !is_faulty {
        check_is_complete(&expanded, &built, &sorted, &mut faults);
    }
    if faults.has_errors() || is_faulty {
        return Err(faults.unique());
    }
    // Only error messages needed these; freeing them first lowers the peak memory.
    drop((expanded, needs));
    let tasks = match tasks(built, &sorted) {
        Ok(tasks) => tasks,
        Err(error) => {
            faults.push(Diagnostic::error(error.to_string()));
            return Err(faults.unique());
        }
    };
    let params = manifest.params.iter();
    let variable = |chosen: &ResolvedParam| match &chosen.origin {
        ValueOrigin::Environment(variable) => Some(variable.clone()),
        _ => None,
    };
    Ok(Plan {
        name: manifest.name.clone(),
        manifest: String::new(),
        sources: manifest.sources().to_vec(),
        params: params.clone().map(|(name, chosen)| (name.clone(), unquoted(&chosen.value))).collect(),
        of_environment: params.clone().filter_map(|(name, chosen)| Some((name.clone(), variable(chosen)?))).collect(),
        at_default: params.filter(|(_, chosen)| chosen.is_default).map(|(name, _)| name.clone()).collect(),
        given: given(manifest, &tasks),
        tasks,
    })
}

/// Boxed, because the drafts of a large plan are moved between lists, and each is freed once its task is made.
type BuiltTask = Option<Box<TaskDraft>>;

/// A draft of each instance, in their order.
fn build_all(builder: &PlanBuilder<'_>, all: &[Instance], found: &mut Diagnostics) -> Vec<BuiltTask> {
    /// Fewer are built sooner than threads are started.
    const MANY: usize = 500;
    let build = |part: &[Instance]| {
        let mut faults = Diagnostics::new();
        let drafts: Vec<_> = part.iter().map(|one| builder.build(one, &mut faults).map(Box::new)).collect();
        (drafts, faults)
    };
    let threads = if all.len() < MANY { 1 } else { cores().min(8) };
    let mut built = Vec::with_capacity(all.len());
    for (drafts, faults) in in_parts(all, all.len().div_ceil(threads), EXPRESSION_STACK, build) {
        built.extend(drafts);
        found.append(faults);
    }
    built
}

/// Every stage that was parsed is at least one task by now. One that is not would be missing from the plan without an
/// error, and a reference to it would lead nowhere.
fn check_is_complete(expanded: &ExpandedStages<'_>, built: &[BuiltTask], sorted: &[usize], found: &mut Diagnostics) {
    let in_order: BTreeSet<usize> = sorted.iter().copied().collect();
    for stage in &expanded.stages {
        let is_task = |index: usize| built.get(index).is_some_and(Option::is_some) && in_order.contains(&index);
        if stage.instances.is_empty() || !stage.instances.clone().all(is_task) {
            let lost = Diagnostic::error(format!("`stages.{}` became no task", stage.name));
            let lost = lost.at(stage.entry.key.clone(), "this is a defect of regatta");
            found.push(lost.hint("please report it with this manifest"));
        }
    }
}

/// Each argument with its stages; with none where it may be why one of them is skipped, which is something that it
/// changes.
fn given(manifest: &Manifest, tasks: &[Task]) -> BTreeMap<String, BTreeSet<String>> {
    let is_skipped = |stage: &String| tasks.iter().any(|task| task.skipped.is_some() && task.stage == *stage);
    let decides = |word: &String| manifest.deciding.get(word).is_some_and(|stages| stages.iter().any(is_skipped));
    let affected_stages = |(word, users): (&String, &BTreeSet<String>)| {
        (word.clone(), if decides(word) { BTreeSet::new() } else { users.clone() })
    };
    manifest.given.iter().map(affected_stages).collect()
}

/// The tasks in order, their needs pointing to places in that order.
fn tasks(mut built: Vec<BuiltTask>, sorted: &[usize]) -> Result<Vec<Task>, UnwritableAction> {
    let mut place = vec![0_u32; built.len()];
    for (at, index) in sorted.iter().enumerate() {
        place[*index] = at as u32;
    }
    let mut tasks = Vec::with_capacity(sorted.len());
    for index in sorted {
        // Each index is in the order once, and `check_is_complete` has seen its task.
        let Some(draft) = built.get_mut(*index).and_then(Option::take) else { continue };
        let TaskDraft { mut task, needs, is_cached, .. } = *draft;
        task.needs = needs.into_iter().map(|(need, edge)| Need { task: place[need], data: edge.data }).collect();
        task.needs.sort();
        mark(&mut task, &tasks, is_cached)?;
        tasks.push(task);
    }
    Ok(tasks)
}

fn explain(circle: &[usize], expanded: &ExpandedStages<'_>, built: &[BuiltTask]) -> Diagnostic {
    let name = |index: usize| expanded.all.get(index).map_or("", |one| one.id.as_str());
    let first = circle.first().copied().unwrap_or_default();
    let mut path: Vec<&str> = circle.iter().map(|index| name(*index)).collect();
    path.push(name(first));
    // A circle of thousands is not readable: its beginning and its end are enough to cut it.
    let long = circle.len() > 2 * SHOWN;
    if long {
        path.splice(SHOWN..path.len() - SHOWN, ["…"]);
    }
    let mut diagnostic = Diagnostic::error(format!("stages depend on each other in a cycle: {}", path.join(" → ")));
    for (at, index) in circle.iter().enumerate() {
        if long && (SHOWN..circle.len() - SHOWN).contains(&at) {
            continue;
        }
        let next = circle.get(at + 1).copied().unwrap_or(first);
        let needs = built.get(*index).and_then(Option::as_ref).map_or(&[][..], |built| &built.needs);
        let Some((_, edge)) = needs.iter().find(|(need, _)| *need == next) else { continue };
        let label = format!("`{}` needs `{}`", name(*index), name(next));
        diagnostic = if diagnostic.primary.is_none() {
            diagnostic.at(edge.place.first_line(), label)
        } else {
            diagnostic.related(edge.place.first_line(), label)
        };
    }
    diagnostic.hint("remove one of these references")
}

/// Fills in `external` of the task; its needs are among `before`. `is_cached`: the manifest has `cache: true`.
pub fn mark(task: &mut Task, before: &[Task], is_cached: bool) -> Result<(), UnwritableAction> {
    if task.lifetime == Lifetime::Service || task.skipped.is_some() {
        return Ok(());
    }
    let mut endpoints: Vec<Endpoint> = Vec::new();
    let needs = task.needs.iter().filter(|need| need.data).filter_map(|need| before.get(need.task as usize));
    for server in needs.filter(|need| need.lifetime == Lifetime::Service) {
        if let Some(attach) = server.serve().and_then(Serve::attached) {
            endpoints.extend(attach.endpoints.read().unwrap_or_default());
        }
    }
    if let Some(bench) = task.bench() {
        // Beside servers of the run a target may name others.
        let named: Vec<&str> = bench.target.split('|').filter(|part| PlanReference::all_in(part).is_empty()).collect();
        endpoints.extend(targets(&named.join("|")).map(|targets| targets.endpoints).unwrap_or_default());
    }
    if endpoints.is_empty() {
        return Ok(());
    }
    task.external = Some(TaskPart::new(endpoints)?);
    task.cache &= is_cached;
    Ok(())
}

#[cfg(test)]
mod expand_tests {
    use super::*;

    #[test]
    fn the_texts_of_all_tasks_have_a_limit_together() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(10_000);
        let stage = format!("a: {{ foreach: {{ n: [1, 2, 3] }}, shell: {long} }}");
        std::fs::write(folder.path().join("m.yaml"), format!("regatta: 1\nstages:\n  {stage}\n")).unwrap();
        let manifest = load(&ManifestLibrary::new(folder.path()), "m.yaml", &GivenValues::default()).unwrap();
        let left = |bytes: usize| {
            let expressions = Expressions::new();
            expressions.budget().take((1 << 30) - bytes).unwrap();
            expand_with(&expressions, &manifest, false)
        };
        assert_eq!(left(40_000).unwrap().tasks.len(), 3);
        let rendered = left(15_000).unwrap_err().render(false);
        assert!(rendered.contains("the values of this manifest take more than 1.1 GB"), "{rendered}");
        assert!(rendered.contains("m.yaml:3:3") && rendered.contains("\n1 error"), "{rendered}");
    }

    #[test]
    fn a_version_without_quotes_is_no_value_of_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let rendered = |text: &str| {
            std::fs::write(folder.path().join("m.yaml"), format!("regatta: 1\n{text}\n")).unwrap();
            match load(&ManifestLibrary::new(folder.path()), "m.yaml", &GivenValues::default()) {
                Ok(manifest) => {
                    expand_with(&Expressions::new(), &manifest, false).err().map(|found| found.render(false))
                }
                Err(found) => Some(found.render(false)),
            }
        };
        let stage = |values: &str| format!("stages:\n  a: {{ foreach: {{ v: {values} }}, shell: x }}");
        assert_eq!(rendered(&stage("[1.9, \"1.10\", 2.0, 0.5]")), None);
        let of_param = format!("params: {{ v: {{ list: any, default: [1.10] }} }}\n{}", stage("[1]"));
        for text in [stage("[1.9, 1.10]"), of_param] {
            let fault = rendered(&text).expect("an error");
            assert!(fault.contains("`1.10` is the number 1.1"), "{fault}");
        }
    }
}

#[cfg(test)]
mod external_servers_tests {
    use crate::{Plan, expand};

    fn plan(target: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "regatta: 1\nname: m\nstages:\n  ours:\n    serve: {{ command: {{ words: [server], port: 8001 }} }}\n  \
             measure:\n    bench: {{ target: '{target}', \
             scenario: offline, stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }} \
             }}\n"
        );
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let library = crate::manifest::ManifestLibrary::new(folder.path());
        let manifest = crate::manifest::load(&library, "m.yaml", &crate::manifest::GivenValues::default());
        expand(&manifest.unwrap_or_else(|wrong| panic!("{wrong:?}"))).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    #[test]
    fn a_server_named_beside_those_of_the_run_is_external() {
        let external = |target: &str| {
            let plan = plan(target);
            let task = plan.tasks.iter().find(|task| task.stage == "measure").unwrap();
            (task.cache, task.external_servers().iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(external("{{ stages.ours }}"), (true, vec![]));
        assert_eq!(external("{{ stages.ours }}|10.0.0.5:8001"), (false, vec!["10.0.0.5:8001".to_owned()]));
    }
}

#[cfg(test)]
mod filled_in_tests {
    use crate::manifest::model::{Action, Bench, Serve};
    use crate::{Plan, expand};
    use base::spec::Scenario;

    fn plan(command: &str, bench: &str) -> Result<Plan, Box<str>> {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "regatta: 1\nname: m\nstages:\n  ours:\n    serve:\n      command: {command}\n  measure:\n    bench: {{ \
             stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }}, {bench} }}\n"
        );
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let library = crate::manifest::ManifestLibrary::new(folder.path());
        let manifest = crate::manifest::load(&library, "m.yaml", &crate::manifest::GivenValues::default());
        manifest.and_then(|manifest| expand(&manifest)).map_err(|wrong| wrong.render(false).into())
    }

    fn bench(settings: &str) -> Bench {
        let plan = plan("server {port}", settings).unwrap();
        let task = plan.tasks.iter().find(|task| task.stage == "measure").unwrap();
        let Some(Action::Bench(bench)) = task.action() else { panic!("{settings}: no benchmark") };
        Bench::clone(bench)
    }

    #[test]
    fn the_scenario_is_that_of_the_level() {
        let scenario = |level: &str| bench(&format!("target: 'h:8001', {level}")).scenario;
        assert_eq!(scenario("rate: 5"), Scenario::Server);
        assert_eq!(scenario("concurrency: 5"), Scenario::Concurrency);
        assert_eq!(scenario("sweep: { concurrency: [1, 2] }"), Scenario::Concurrency);
        assert_eq!(scenario("sweep: { rate: [1, 2] }"), Scenario::Server);
        let refused = |level: &str| plan("server {port}", &format!("target: 'h:8001', {level}")).unwrap_err();
        assert!(refused("seed: 1").contains("needs a `rate`"), "{}", refused("seed: 1"));
        let both = refused("rate: 5, concurrency: 5");
        assert!(both.contains("`stages.measure.bench.concurrency` has no effect"), "{both}");
    }

    #[test]
    fn the_model_of_an_openai_server_is_its_only_one() {
        assert_eq!(bench("target: 'openai://h:8000', rate: 5").model, "");
        assert_eq!(bench("target: 'openai://h:8000', rate: 5, model: m").model, "m");
        assert_eq!(bench("target: 'http://h:8000', protocol: openai-completions, rate: 5").model, "");
        assert_eq!(bench("target: 'h:8001', rate: 5").model, Bench::USUAL_MODEL);
    }

    #[test]
    fn a_command_is_a_text_or_a_list() {
        let words = |command: &str| {
            let plan = plan(command, "target: '{{ stages.ours }}', rate: 5")?;
            let task = plan.tasks.iter().find(|task| task.stage == "ours").unwrap();
            let Some(Action::Serve(Serve::Command(server))) = task.action() else { panic!("{command}") };
            Ok::<_, String>(server.words.clone())
        };
        let expected = Ok(["server", "--name", "a b", "--port", "{port}"].map(str::to_owned).to_vec());
        assert_eq!(words("server --name 'a b' --port {port}"), expected);
        assert_eq!(words("[server, --name, a b, --port, '{port}']"), expected);
        assert_eq!(words("{ words: \"server --name 'a b' --port {port}\" }"), expected);
        assert_eq!(words("{ words: [server, --name, a b, --port, '{port}'] }"), expected);
        let open = words("server 'a {port}").unwrap_err();
        assert!(open.contains("a quotation mark is not closed"), "{open}");
        let portless = words("server").unwrap_err();
        assert!(portless.contains("`stages.ours.serve.command` needs `{port}`"), "{portless}");
    }
}
