//! Phase two: one instance → one task. Renders its stage, remembers what it referred to, and checks the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::actions::{self, Action};
use crate::instance::{ExpandedStages, Instance, StageOf};
use crate::manifest::model::{Container, Host, Retry, RetryAfter, Serve, Stage};
use crate::manifest::{
    Expressions, FaultyParts, Manifest, Map, MapEntry, Node, NodeValue, Scope, TemplatePolicy, check, check_texts,
    coerce, is_template, stage_shape, traced, value_text,
};
use crate::references::{
    Directory, ReferenceAccess, SeveralTasksProblem, StageScope, TouchedReferences, coordinates_match, inputs,
};
use crate::{ActionKind, Lifetime, OomReductionRule, PlanReference, RetryRule, Task, TaskPart, UnwritableAction};
use base::diag::{Diagnostic, Diagnostics, MissingValue, Span, did_you_mean};
use base::event::TaskId;
use base::spec::TimeSpan;

/// A task with needs that are still indices of instances.
pub struct TaskDraft {
    pub task: Task,
    /// The rendered stage, where it is checked against others.
    pub node: Option<Node>,
    /// Sorted by index.
    pub needs: Vec<(usize, Edge)>,
    /// The manifest has `cache: true`.
    pub is_cached: bool,
}

/// Why one task needs another.
pub struct Edge {
    pub data: bool,
    /// The text of the message.
    pub place: Span,
}

pub struct PlanBuilder<'a> {
    pub manifest: &'a Manifest,
    pub expressions: &'a Expressions,
    pub expanded: &'a ExpandedStages<'a>,
    pub directory: Arc<Directory>,
    /// Whether computed values get the places where they are written.
    pub traces: bool,
}

/// Problems found while rendering one instance.
struct Rendering<'a> {
    expressions: &'a Expressions,
    faulty: &'a FaultyParts,
    /// The vars, if values get the places where they are written.
    traced_vars: Option<&'a IndexMap<String, Node>>,
    /// Whether a text uses a faulty part, and stays as it is written.
    uses_faulty: bool,
    scope: Arc<Scope>,
    seen: Arc<TouchedReferences>,
    /// In the order in which they were found; those with data before those without.
    needs: Vec<(usize, Edge)>,
    /// Places that refer to a skipped stage, and which.
    skipped: Vec<(Span, TaskId, String)>,
    /// Places that refer to several tasks of a stage, and what is wrong where one is needed.
    several: Vec<(Span, SeveralTasksProblem)>,
}

impl<'a> PlanBuilder<'a> {
    /// The task, or `None` with at least one error more in `found`, or where the stage has, or uses, a faulty part.
    pub fn build(&self, instance: &Instance, found: &mut Diagnostics) -> Option<TaskDraft> {
        // An instance is expanded with the index of its own stage.
        let stage = &self.expanded.stages[instance.stage];
        if instance.skipped.is_some() {
            return Some(TaskDraft {
                task: skipped_task(stage, instance),
                node: None,
                needs: Vec::new(),
                is_cached: false,
            });
        }
        let Some(map) = stage.entry.node.map() else {
            let place = stage.entry.node.span.first_line();
            found.push(Diagnostic::error(format!("`stages.{}` must be a map", stage.name)).at(place, "this is none"));
            return None;
        };
        let before = found.len();
        let mut rendering = self.rendering(instance, map);
        let mut node = rendering.stage(map, &stage.entry.node, found);
        let budget = self.expressions.budget();
        if budget.is_exceeded() {
            // Its texts are as they were written. It is reported once, where that was.
            return None;
        }
        // Texts that could not be rendered are still as they were written.
        let templates =
            if found.len() > before || rendering.uses_faulty { TemplatePolicy::Here } else { TemplatePolicy::Done };
        if map.iter().any(|(name, entry)| name != "foreach" && name != "when" && entry.node.has_template()) {
            coerce(&mut node, stage_shape());
            check_rendered(&node, stage, templates, &rendering, found);
        }
        self.needs(stage, instance, &node, &mut rendering.needs, found);
        let is_readable = found.len() == before && !rendering.uses_faulty;
        check_texts(&mut node, stage_shape(), &format!("stages.{}", stage.name), templates, found);
        if !is_readable || self.expanded.faulty.stages.contains(stage.name) {
            return None;
        }
        let json = node.json();
        // Only here and with its path: a second deserializer would compile the code of all stages again.
        let typed = serde_path_to_error::deserialize::<_, Stage>(&json);
        let mut typed = typed.map_err(|error| found.push(untyped(&error, stage, &node))).ok()?;
        if let Some(bench) = &mut typed.bench {
            bench.fill_in(&json["bench"]);
        }
        actions::check(&typed, &node, &stage.entry.node, stage.name, found);
        if found.len() > before {
            return None;
        }
        let is_cached = typed.cache == Some(true);
        let by_loadgen = typed.bench.as_ref().is_some_and(|bench| bench.loadgen.is_some());
        let refuse = |error: UnwritableAction| {
            let message = format!("`stages.{}` {error}", stage.name);
            found.push(Diagnostic::error(message).at(stage.entry.key.clone(), ""));
        };
        let container = container(&mut typed);
        // The schema has seen that there is one.
        let action = typed.take_action()?;
        let task = task(stage, instance, typed, container, action).map_err(refuse).ok()?;
        if let Err(error) = budget.take(text_of(&task)) {
            found.push(Diagnostic::error(error.to_string()).at(stage.entry.key.clone(), "this stage is too much"));
            return None;
        }
        let is_compared = by_loadgen || task.kind.facts().is_checked_across_stages;
        let mut needs = rendering.needs;
        // The first mention of each stays: the sort keeps their order.
        needs.sort_by_key(|(index, _)| *index);
        needs.dedup_by_key(|(index, _)| *index);
        needs.shrink_to_fit();
        Some(TaskDraft { task, node: is_compared.then_some(node), needs, is_cached })
    }

    fn rendering(&self, instance: &Instance, map: &Map) -> Rendering<'a> {
        let seen = Arc::new(TouchedReferences::default());
        let mut local = instance.coordinates.clone();
        let stages = StageScope {
            directory: Arc::clone(&self.directory),
            coordinates: Arc::new(instance.coordinates.clone()),
            seen: Arc::clone(&seen),
        };
        local.push(("stages".to_owned(), minijinja::Value::from_object(stages)));
        let names = map.get("inputs").and_then(|entry| entry.node.map()).into_iter().flat_map(Map::keys);
        local.push(("inputs".to_owned(), inputs(names)));
        Rendering {
            expressions: self.expressions,
            faulty: &self.expanded.faulty,
            traced_vars: self.traces.then_some(&self.manifest.vars),
            uses_faulty: false,
            scope: Arc::new(Scope { globals: Arc::clone(&self.manifest.globals), local }),
            seen,
            needs: Vec::new(),
            skipped: Vec::new(),
            several: Vec::new(),
        }
    }

    /// Adds the edges of `needs:`, which carry no data.
    fn needs(
        &self,
        stage: &StageOf<'_>,
        instance: &Instance,
        node: &Node,
        needs: &mut Vec<(usize, Edge)>,
        found: &mut Diagnostics,
    ) {
        let Some(NodeValue::List(list)) = node.get("needs").map(|entry| &entry.node.tree) else { return };
        for item in list {
            let Some(name) = item.text() else { continue };
            let Some(target) = self.expanded.by_name.get(name).and_then(|index| self.expanded.stages.get(*index))
            else {
                let names = self.expanded.stages.iter().map(|stage| stage.name);
                let hint = did_you_mean(name, names);
                let message = format!("unknown stage `{name}` in `stages.{}.needs`", stage.name);
                let unknown = Diagnostic::error(message).at(item.span.first_line(), "no such stage");
                found.push(unknown.maybe_hint(hint));
                continue;
            };
            for index in target.instances.clone() {
                if let Some(other) = self.expanded.all.get(index)
                    && other.skipped.is_none()
                    && coordinates_match(&other.coordinates, &instance.coordinates)
                {
                    needs.push((index, Edge { data: false, place: item.span.clone() }));
                }
            }
        }
    }
}

impl Rendering<'_> {
    /// The stage with everything rendered, without what phase one dealt with.
    fn stage(&mut self, map: &Map, node: &Node, found: &mut Diagnostics) -> Node {
        let mut out = Map::with_capacity(map.len());
        for (name, entry) in map {
            if name == "foreach" || name == "when" {
                continue;
            }
            if let Some(node) = self.given(&entry.node, found) {
                out.insert(name.clone(), keyed(entry, node));
            }
        }
        Node::new(node.span.clone(), NodeValue::Map(out))
    }

    /// The value of a key. A key with the expression `none` is not given. An explicit empty value is, and so is one
    /// that is empty because a stage is skipped: that is reported where a value is required.
    fn given(&mut self, node: &Node, found: &mut Diagnostics) -> Option<Node> {
        let before = self.skipped.len();
        let rendered = self.node(node, found);
        let is_none = matches!(rendered.tree, NodeValue::Null) && !matches!(node.tree, NodeValue::Null);
        (!is_none || self.skipped.len() > before).then_some(rendered)
    }

    fn node(&mut self, node: &Node, found: &mut Diagnostics) -> Node {
        let tree = match &node.tree {
            NodeValue::Text(text) if is_template(text) => return self.text(text, node, found),
            NodeValue::List(items) => NodeValue::List(items.iter().map(|item| self.node(item, found)).collect()),
            NodeValue::Map(map) => NodeValue::Map(
                map.iter()
                    .filter_map(|(name, entry)| {
                        let node = self.given(&entry.node, found)?;
                        Some((name.clone(), keyed(entry, node)))
                    })
                    .collect(),
            ),
            other => other.clone(),
        };
        Node::new(node.span.clone(), tree)
    }

    fn text(&mut self, text: &str, node: &Node, found: &mut Diagnostics) -> Node {
        if self.faulty.affect(node) {
            self.uses_faulty = true;
            return node.clone();
        }
        let result = self.expressions.text(text, &self.scope, &node.span);
        let (mut skipped, mut several, mut printed) = (None, None, None);
        for touched in self.seen.take() {
            match touched {
                ReferenceAccess::Edge(index) => {
                    self.needs.push((index, Edge { data: true, place: node.span.clone() }));
                }
                ReferenceAccess::Skipped(id, why) => {
                    self.skipped.push((node.span.clone(), id.clone(), why.clone()));
                    skipped = Some((id, why));
                }
                ReferenceAccess::Several(problem) => {
                    self.several.push((node.span.clone(), problem.clone()));
                    several = Some(problem);
                }
                ReferenceAccess::PrintedSeveral(problem) => printed = Some(problem),
            }
        }
        match result {
            Ok(rendered) => {
                let is_nothing = matches!(&rendered.tree, NodeValue::List(items) if items.is_empty());
                let problem = printed.or_else(|| several.filter(|problem| problem.is_empty && is_nothing));
                match problem {
                    Some(problem) => {
                        found.push(not_one_task(node.span.first_line(), &problem));
                        node.clone()
                    }
                    None => match self.traced_vars {
                        Some(vars) => traced(rendered, vars),
                        None => rendered,
                    },
                }
            }
            Err(faults) => {
                for mut fault in faults {
                    if let (Some((id, why)), true) = (&skipped, fault.missing == Some(MissingValue::InText)) {
                        fault = requires_skipped_task(node.span.first_line(), id, why);
                    }
                    found.push(fault);
                }
                node.clone()
            }
        }
    }
}

/// What a map lacks is reported at its key, or where the map is written if that is traced.
fn keyed(written: &MapEntry, node: Node) -> MapEntry {
    let is_elsewhere = node.map().is_some() && !node.span.is_within(&written.node.span);
    MapEntry { key: if is_elsewhere { node.span.first_line() } else { written.key.clone() }, node }
}

fn requires_skipped_task(place: Span, id: &TaskId, why: &str) -> Diagnostic {
    not_one_task(place, &SeveralTasksProblem::skipped(id, why))
}

fn not_one_task(place: Span, problem: &SeveralTasksProblem) -> Diagnostic {
    Diagnostic::error(&problem.message).at(place, &problem.label).hint(&problem.hint)
}

fn check_rendered(
    node: &Node,
    stage: &StageOf<'_>,
    templates: TemplatePolicy,
    rendering: &Rendering<'_>,
    found: &mut Diagnostics,
) {
    let path = format!("stages.{}", stage.name);
    let mut wrong = Diagnostics::new();
    check(node, stage_shape(), &path, &stage.entry.key, templates, &mut wrong);
    for one in wrong.into_list() {
        let place = one.primary.as_ref().map(|label| label.span.range());
        let is_there = |span: &Span| {
            place.as_ref().is_some_and(|place| span.range().start <= place.start && place.end <= span.range().end)
        };
        // `none` where a value must be, because the expression refers to a skipped stage: report that instead. The same
        // with a list because it refers to several tasks.
        let skipped = rendering.skipped.iter().find(|(span, ..)| is_there(span));
        let several = rendering.several.iter().find(|(span, _)| is_there(span));
        found.push(match (skipped, several) {
            (Some((span, id, why)), _) => requires_skipped_task(span.first_line(), id, why),
            (None, Some((span, problem))) => not_one_task(span.first_line(), problem),
            (None, None) => one,
        });
    }
}

/// serde's own error, for what the walk over the schema cannot see.
fn untyped(error: &serde_path_to_error::Error<serde_json::Error>, stage: &StageOf<'_>, node: &Node) -> Diagnostic {
    let (path, message) = (error.path().to_string(), error.inner());
    let steps: Vec<&str> = path.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect();
    let place = if steps.is_empty() { stage.entry.key.clone() } else { node.place(&steps) };
    Diagnostic::error(format!("`stages.{}.{path}`: {message}", stage.name)).at(place, "")
}

fn skipped_task(stage: &StageOf<'_>, instance: &Instance) -> Task {
    let about = stage.entry.node.get("about").and_then(|entry| entry.node.text()).map(str::to_owned);
    Task {
        foreach: foreach(instance),
        about: about.filter(|about| !is_template(about)),
        lifetime: lifetime(stage.kind),
        skipped: instance.skipped.clone(),
        cpus: Some(0),
        ..Task::minimal(instance.id.clone(), stage.name.to_owned(), stage.kind)
    }
}

fn foreach(instance: &Instance) -> Vec<(String, String)> {
    instance.coordinates.iter().map(|(variable, value)| (variable.clone(), value_text(value).into_owned())).collect()
}

const fn lifetime(kind: ActionKind) -> Lifetime {
    if kind.facts().is_service { Lifetime::Service } else { Lifetime::Step }
}

/// The task of a stage that was checked; its container and its action were taken out of it.
fn task(
    stage: &StageOf<'_>,
    instance: &Instance,
    typed: Stage,
    container: Option<Container>,
    action: Action,
) -> Result<Task, UnwritableAction> {
    let mut inputs: BTreeMap<String, Vec<String>> =
        typed.inputs.into_iter().map(|(name, paths)| (name, paths.all().to_vec())).collect();
    let image = container.as_ref().and_then(Container::file).map(|path| ("container.image", path));
    for (name, path) in action.input_paths().into_iter().chain(image) {
        if PlanReference::all_in(path).is_empty() {
            let paths = inputs.entry(name.to_owned()).or_default();
            if !paths.iter().any(|known| known == path) {
                paths.push(path.to_owned());
            }
        }
    }
    let host = typed.host.as_deref().and_then(Host::remote);
    let cpus = typed.cpus.or(if stage.kind.facts().measures { None } else { Some(1) });
    // A search or a repeated measurement that is cut off goes on with what it has, a download with the bytes. Elsewhere
    // an attempt that was cut off may still write, so that each has a folder of its own.
    let continues = match &action {
        Action::Bench(bench) => bench.search.is_some() || bench.sweep.is_some() || bench.repeat > 1,
        Action::Weights(weights) => weights.hf.is_some(),
        _ => false,
    };
    let resume = host.is_none() && (typed.resume || continues);
    Ok(Task {
        foreach: foreach(instance),
        about: typed.about,
        lifetime: lifetime(stage.kind),
        container: container.map(TaskPart::new).transpose()?,
        inputs,
        outputs: typed.outputs,
        env: typed.env.into_iter().collect(),
        secrets: typed.secrets,
        host: host.map(TaskPart::new).transpose()?,
        gpus: typed.gpus,
        gpu_clocks: typed.gpu_clocks,
        cpus,
        timeout: typed.timeout.as_ref().map(TimeSpan::time),
        retry: typed.retry.map(retry).map(Box::new),
        cache: typed.cache.unwrap_or(true),
        share: typed.share,
        strict: typed.strict,
        confine: typed.confine,
        resume,
        ..Task::new(instance.id.clone(), stage.name.to_owned(), TaskPart::new(action)?)
    })
}

/// Bytes of its texts.
fn text_of(task: &Task) -> usize {
    let paths = task.inputs.values().flatten().chain(&task.outputs);
    let env = task.env.iter().map(|(name, value)| name.len() + value.len());
    let container = task.container.as_ref().map_or(0, |container| container.json().len());
    let about = task.about.as_ref().map_or(0, String::len);
    task.action_text().len() + container + about + paths.map(String::len).sum::<usize>() + env.sum::<usize>()
}

fn retry(given: Retry) -> RetryRule {
    /// Lowering a number ends by itself; otherwise the manifest sets the count.
    const ENOUGH: u32 = 100;
    RetryRule {
        times: given.times.unwrap_or(if given.lower.is_some() { ENOUGH } else { 0 }),
        delay: given.delay.as_ref().map(TimeSpan::time).unwrap_or_default(),
        on_oom: given.on == RetryAfter::Oom,
        lower: given.lower.zip(given.by).map(|(setting, by)| OomReductionRule { setting, by, to: given.to }),
    }
}

/// Where its programs run. `serve: triton` has the key, too: it is given what stands beside `serve`.
fn container(typed: &mut Stage) -> Option<Container> {
    let container = typed.container.take().map(|container| *container);
    if let Some(Serve::Triton(server)) = typed.serve.as_deref_mut() {
        server.container = server.container.take().or(container);
        return server.container.clone();
    }
    container
}
