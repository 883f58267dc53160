//! Ensembles: whether their members are there, and whether the tensors between them match.

use std::collections::{BTreeMap, BTreeSet};

use super::model::as_input;
use super::{Model, ModelChecker, files};
use crate::pbtxt::PbtxtStep::{self, Key, Name, Nth};
use crate::proto::inference::model_config::SchedulingChoice;
use crate::proto::inference::{DataType, ModelEnsembling, ModelInput, model_ensembling};
use base::diag::{Diagnostics, did_you_mean};

const SCHEDULING: PbtxtStep<'static> = Name("ensemble_scheduling");

/// A tensor as one model sees it.
#[derive(Clone)]
struct Seen {
    model: String,
    data_type: i32,
    dims: Vec<i64>,
    has_batches: bool,
}

pub(super) fn check(look: &mut ModelChecker<'_>, models: &[Model], names: &[&str]) {
    let model = look.model;
    let ensembling = match &model.config.scheduling_choice {
        Some(SchedulingChoice::EnsembleScheduling(ensembling)) => Some(ensembling),
        _ => None,
    };
    match (look.is_ensemble(), ensembling) {
        (false, None) => {}
        (false, Some(_)) => {
            look.error(
                &[SCHEDULING],
                "ensemble_scheduling needs the platform `ensemble`",
                "write `platform: \"ensemble\"` and no backend",
            );
        }
        (true, None) if !model.is_whole => {}
        (true, None) => look.error(&[Name("platform")], "an ensemble needs ensemble_scheduling", ""),
        (true, Some(ensembling)) => {
            frame(look);
            if ensembling.step.is_empty() && model.is_whole {
                look.error(&[SCHEDULING], "an ensemble needs a step", "");
            }
            steps(look, ensembling, models, names);
            if model.is_whole {
                flow(look, ensembling);
            }
            fit(look, ensembling, models);
        }
    }
}

/// Fields that an ensemble cannot have, because it runs no model code itself.
fn frame(look: &mut ModelChecker<'_>) {
    let config = &look.model.config;
    let set = [
        ("backend", !config.backend.is_empty()),
        ("instance_group", !config.instance_group.is_empty()),
        ("optimization", config.optimization.is_some()),
        ("model_warmup", !config.model_warmup.is_empty()),
    ];
    let is_decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    for (name, _) in set.into_iter().filter(|(_, set)| *set) {
        look.error(&[Name(name)], format!("an ensemble has no `{name}`"), "remove it");
    }
    if is_decoupled {
        look.warn(
            &[Name("model_transaction_policy")],
            "`decoupled` has no effect on an ensemble",
            "an ensemble streams when one of its members is decoupled; remove it",
        );
    }
}

fn steps(look: &mut ModelChecker<'_>, ensembling: &ModelEnsembling, models: &[Model], names: &[&str]) {
    let ensemble = look.model;
    for (index, step) in ensembling.step.iter().enumerate() {
        let at = [SCHEDULING, Name("step"), Nth(index)];
        let field = |name: &'static str| [at[0], at[1], at[2], Name(name)];
        for (name, map) in [("input_map", &step.input_map), ("output_map", &step.output_map)] {
            if map.is_empty() && ensemble.is_whole {
                look.error(&at, format!("step {index} needs an `{name}`"), "");
            }
        }
        if step.model_name.is_empty() {
            if ensemble.is_whole {
                look.error(&at, format!("step {index} needs a model_name"), "");
            }
        } else if step.model_name == ensemble.name {
            look.error(&field("model_name"), "the ensemble is a step of itself; the server hangs at it", "");
        } else if !names.contains(&step.model_name.as_str()) {
            let others = names.iter().copied().filter(|name| *name != ensemble.name);
            let hint = did_you_mean(&step.model_name, others.collect::<Vec<_>>()).unwrap_or_default();
            look.error(&field("model_name"), format!("the repository has no model `{}`", step.model_name), hint);
        }
        let Some(member) = models.iter().find(|model| model.name == step.model_name) else { continue };
        circle(look, &field("model_name"), member, models);
        version(look, step, member, &field("model_version"));
        if member.is_whole {
            mapped(look, step, member, index);
        }
        let (ours, theirs) = (ensemble.config.max_batch_size, member.config.max_batch_size);
        if ours > theirs {
            let message =
                format!("the ensemble's max_batch_size {ours} is above {theirs}, which `{}` allows", member.name);
            look.error(&[Name("max_batch_size")], message, format!("{theirs} at most"));
        }
    }
}

/// Whether a member leads back to this ensemble.
fn circle(look: &mut ModelChecker<'_>, way: &[PbtxtStep<'_>], member: &Model, models: &[Model]) {
    let ensemble = look.model.name.as_str();
    let mut seen = BTreeSet::new();
    let mut next = vec![member];
    while let Some(model) = next.pop() {
        let Some(SchedulingChoice::EnsembleScheduling(inner)) = &model.config.scheduling_choice else { continue };
        for step in &inner.step {
            if step.model_name == ensemble && model.name != ensemble {
                let message = format!("`{}` leads back to this ensemble; the server hangs at it", member.name);
                look.error(way, message, "");
                return;
            }
            if seen.insert(step.model_name.as_str()) {
                next.extend(models.iter().find(|model| model.name == step.model_name));
            }
        }
    }
}

fn version(look: &mut ModelChecker<'_>, step: &model_ensembling::Step, member: &Model, way: &[PbtxtStep<'_>]) {
    let available = files::available(&ModelChecker { model: member, found: &mut Diagnostics::new() });
    let is_there = u64::try_from(step.model_version).is_ok_and(|version| available.contains(&version));
    if step.model_version != -1 && !is_there {
        look.error(way, format!("`{}` has no version {}", member.name, step.model_version), "-1 is the newest one");
    }
}

/// The names on the members' side of the maps.
fn mapped(look: &mut ModelChecker<'_>, step: &model_ensembling::Step, member: &Model, index: usize) {
    let at = [SCHEDULING, Name("step"), Nth(index)];
    let inputs: Vec<&str> = member.config.input.iter().map(|input| input.name.as_str()).collect();
    let outputs: Vec<&str> = member.config.output.iter().map(|output| output.name.as_str()).collect();
    for (map, field, known) in [(&step.input_map, "input_map", &inputs), (&step.output_map, "output_map", &outputs)] {
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            let message = if field == "input_map" { "input" } else { "output" };
            let way = [at[0], at[1], at[2], Name(field), Key(key)];
            let hint = did_you_mean(key, known.iter().copied()).unwrap_or_default();
            look.error(&way, format!("`{}` has no {message} `{key}`", member.name), hint);
        }
    }
    for input in member.config.input.iter().filter(|input| !input.optional && !step.input_map.contains_key(&input.name))
    {
        let message = format!("`{}` needs its input `{}`, but the step does not map it", member.name, input.name);
        look.error(&[at[0], at[1], at[2], Name("input_map")], message, "");
    }
}

/// Which tensors are written, by which step, and whether they are read.
fn flow(look: &mut ModelChecker<'_>, ensembling: &ModelEnsembling) {
    let config = &look.model.config;
    let way = |index: usize, map: &'static str| [SCHEDULING, Name("step"), Nth(index), Name(map)];
    let given: BTreeSet<&str> = config.input.iter().map(|input| input.name.as_str()).collect();
    let wanted: BTreeSet<&str> = config.output.iter().map(|output| output.name.as_str()).collect();
    let read: BTreeSet<&str> =
        ensembling.step.iter().flat_map(|step| step.input_map.values().map(String::as_str)).collect();
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, step) in ensembling.step.iter().enumerate() {
        for (key, tensor) in &step.output_map {
            let at = way(index, "output_map");
            let at = [at[0], at[1], at[2], at[3], Key(key)];
            if given.contains(tensor.as_str()) {
                look.error(&at, format!("`{tensor}` is an input of the ensemble; a step cannot write it"), "");
            } else if written.insert(tensor, index).is_some() {
                look.error(&at, format!("`{tensor}` is written twice"), "");
            }
            if !read.contains(tensor.as_str()) && !wanted.contains(tensor.as_str()) {
                look.error(
                    &at,
                    format!("`{tensor}` is written and never read"),
                    "map only what a later step or the ensemble needs",
                );
            }
        }
    }
    // Repeatedly runs each step that has all its inputs: the rest waits for itself or for a tensor that no step writes.
    let mut there = given.clone();
    let mut waiting: Vec<usize> = (0..ensembling.step.len()).collect();
    loop {
        let before = waiting.len();
        waiting.retain(|index| {
            let step = &ensembling.step[*index];
            let runs = step.input_map.values().all(|tensor| there.contains(tensor.as_str()));
            if runs {
                there.extend(step.output_map.values().map(String::as_str));
            }
            !runs
        });
        if waiting.len() == before {
            break;
        }
    }
    for index in waiting {
        for (key, tensor) in ensembling.step[index].input_map.iter().filter(|(_, t)| !there.contains(t.as_str())) {
            let at = way(index, "input_map");
            let at = [at[0], at[1], at[2], at[3], Key(key)];
            let (what, hint) = if written.contains_key(tensor.as_str()) {
                (format!("`{tensor}` is never ready: the steps wait for each other"), String::new())
            } else {
                let tensors: Vec<&str> = given.iter().copied().chain(written.keys().copied()).collect();
                (format!("no step writes `{tensor}`"), did_you_mean(tensor, tensors).unwrap_or_default())
            };
            look.error(&at, what, hint);
        }
    }
    for (index, output) in config.output.iter().enumerate() {
        if !written.contains_key(output.name.as_str()) {
            let hint = did_you_mean(&output.name, written.keys().copied().collect::<Vec<_>>()).unwrap_or_default();
            look.error(&[Name("output"), Nth(index)], format!("no step writes the output `{}`", output.name), hint);
        }
    }
    for (index, input) in config.input.iter().enumerate().filter(|(_, input)| !read.contains(input.name.as_str())) {
        look.error(&[Name("input"), Nth(index)], format!("no step reads the input `{}`", input.name), "");
    }
}

/// Whether all users of a tensor agree on its type and shape.
fn fit(look: &mut ModelChecker<'_>, ensembling: &ModelEnsembling, models: &[Model]) {
    let config = &look.model.config;
    let has_batches = config.max_batch_size > 0;
    let model = "the ensemble";
    let mut first: BTreeMap<String, Seen> = BTreeMap::new();
    // For the ensemble's own tensors the server compares the shape after `reshape`; for a member's, the dims.
    for tensor in config.input.iter().cloned().chain(config.output.iter().map(as_input)) {
        let dims = tensor.reshape.map_or(tensor.dims, |reshape| reshape.shape);
        first.insert(tensor.name, Seen { model: model.to_owned(), data_type: tensor.data_type, dims, has_batches });
    }
    for (index, step) in ensembling.step.iter().enumerate() {
        let Some(member) = models.iter().find(|model| model.name == step.model_name) else { continue };
        let has_batches = member.config.max_batch_size > 0;
        let maps = [("input_map", &step.input_map), ("output_map", &step.output_map)];
        for (field, (key, tensor)) in maps.iter().flat_map(|(field, map)| map.iter().map(move |pair| (*field, pair))) {
            let config = &member.config;
            let tensor_of_member = if field == "input_map" {
                config.input.iter().find(|input| input.name == *key).cloned()
            } else {
                config.output.iter().find(|output| output.name == *key).map(as_input)
            };
            let Some(ModelInput { data_type, dims, .. }) = tensor_of_member else { continue };
            let seen = Seen { model: format!("`{}`", member.name), data_type, dims, has_batches };
            let Some(other) = first.get(tensor.as_str()) else {
                first.insert(tensor.clone(), seen);
                continue;
            };
            let way = [SCHEDULING, Name("step"), Nth(index), Name(field), Key(key)];
            let word = |data_type: i32| DataType::try_from(data_type).map_or("?", |kind| kind.as_str_name());
            if other.data_type != seen.data_type {
                let (a, b) = (word(other.data_type), word(seen.data_type));
                let message = format!("`{tensor}` is {a} in {} and {b} in {}", other.model, seen.model);
                look.error(&way, message, "give both the same data_type");
            } else if !same_shape(other, &seen) {
                let message = format!(
                    "`{tensor}` is {:?} in {} and {:?} in {}",
                    full(other),
                    other.model,
                    full(&seen),
                    seen.model
                );
                look.error(&way, message, "-1 fits any length; the number of dims must be the same");
            }
        }
    }
}

/// The shape on the wire.
fn full(seen: &Seen) -> Vec<i64> {
    let batch = seen.has_batches.then_some(-1);
    batch.into_iter().chain(seen.dims.iter().copied()).collect()
}

/// As the server compares: -1 fits any length; where only one of them has batches, they may be left out.
fn same_shape(a: &Seen, b: &Seen) -> bool {
    let fits =
        |a: &[i64], b: &[i64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || *a == -1 || *b == -1);
    fits(&full(a), &full(b)) || a.has_batches != b.has_batches && fits(&a.dims, &b.dims)
}
