//! The parts of one model's config: names and versions, tensors, instances, warm-up.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::pbtxt::PbtxtStep::{self, Key, Name, Nth};
use crate::pbtxt::{PbtxtDocument, unfilled};
use crate::proto::inference::model_input::Format;
use crate::proto::inference::model_instance_group::Kind;
use crate::proto::inference::model_warmup::input::InputDataType;
use crate::proto::inference::{DataType, ModelConfig, ModelInput, ModelOutput};
use base::diag::{Diagnostic, Diagnostics, SourceText, did_you_mean, nearest};

/// A model's folder and its config, as far as it can be read.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) source: SourceText,
    pub(super) document: PbtxtDocument,
    pub(super) config: ModelConfig,
    /// Whether every field could be read. Rules about what is missing hold only then.
    pub(super) is_whole: bool,
    /// Version folders, the newest first.
    pub(super) versions: Vec<u64>,
}

/// One model under examination.
pub(super) struct ModelChecker<'a> {
    pub(super) model: &'a Model,
    pub(super) found: &'a mut Diagnostics,
}

impl ModelChecker<'_> {
    /// An empty hint is left out.
    pub(super) fn error(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: impl Into<String>) {
        self.push_diagnostic(Diagnostic::error(message), way, hint.into());
    }

    pub(super) fn warn(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: impl Into<String>) {
        self.push_diagnostic(Diagnostic::warning(message), way, hint.into());
    }

    fn push_diagnostic(&mut self, what: Diagnostic, way: &[PbtxtStep<'_>], hint: String) {
        if self.found.is_full() {
            return;
        }
        let span = self.model.source.span(self.model.document.place(way));
        self.found.push(what.at(span, "").maybe_hint(Some(hint).filter(|hint| !hint.is_empty())));
    }

    pub(super) fn is_ensemble(&self) -> bool {
        self.model.config.platform == "ensemble"
    }
}

/// The way to a text of `parameters`.
pub(super) const fn parameter(key: &str) -> [PbtxtStep<'_>; 4] {
    [Name("parameters"), Key(key), Name("value"), Name("string_value")]
}

/// The placeholder that a whole text is, if it is one.
pub(super) fn placeholder(text: &str) -> Option<String> {
    unfilled(text).into_iter().next().map(|unfilled| unfilled.name)
}

/// A question about the nearest of the known names.
pub(super) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|name| format!("did you mean `{name}`?"))
}

// Inputs and outputs: names, types, dims, reshapes.

/// An output as an input: what is checked of them is the same.
pub(super) fn as_input(output: &ModelOutput) -> ModelInput {
    let ModelOutput { name, data_type, dims, reshape, is_shape_tensor, is_non_linear_format_io, .. } = output.clone();
    ModelInput { name, data_type, dims, reshape, is_shape_tensor, is_non_linear_format_io, ..ModelInput::default() }
}

pub(super) fn check_tensors(look: &mut ModelChecker<'_>) {
    let config = &look.model.config;
    let outputs: Vec<ModelInput> = config.output.iter().map(as_input).collect();
    for (list, tensors) in [("input", &config.input), ("output", &outputs)] {
        let mut seen: BTreeMap<&str, &ModelInput> = BTreeMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            let at = [Name(list), Nth(index)];
            check_tensor(look, at, list, tensor);
            let first = *seen.entry(&tensor.name).or_insert(tensor);
            if !std::ptr::eq(first, tensor) {
                check_duplicate(look, at, list, first, tensor);
            }
        }
    }
    for (index, input) in config.input.iter().enumerate() {
        if input.format() != Format::None && input.dims.len() != 3 {
            let way = [Name("input"), Nth(index), Name("format")];
            look.error(&way, format!("{} needs three dims", input.format().as_str_name()), "");
        }
    }
}

fn check_tensor(look: &mut ModelChecker<'_>, at: [PbtxtStep<'_>; 2], list: &str, tensor: &ModelInput) {
    let field = |name: &'static str| [at[0], at[1], Name(name)];
    let name = &tensor.name;
    if name.is_empty() {
        look.error(&at, format!("an {list} without a name"), "");
    }
    let has_type = DataType::try_from(tensor.data_type).is_ok_and(|kind| kind != DataType::TypeInvalid);
    if !has_type && (tensor.data_type != 0 || look.model.is_whole) {
        look.error(
            &field("data_type"),
            format!("{list} `{name}` needs a data_type"),
            "for example `data_type: TYPE_INT32`",
        );
    }
    if tensor.dims.is_empty() && look.model.is_whole {
        look.error(
            &field("dims"),
            format!("{list} `{name}` needs dims"),
            "for example `dims: [ -1 ]`; -1 is any length",
        );
    }
    let shape = tensor.reshape.as_ref().map_or(&[][..], |reshape| &reshape.shape);
    let mut is_possible = true;
    for (way, values) in
        [(field("dims").to_vec(), tensor.dims.as_slice()), ([&field("reshape")[..], &[Name("shape")]].concat(), shape)]
    {
        for (nth, dim) in values.iter().enumerate().filter(|(_, dim)| **dim < -1 || **dim == 0) {
            is_possible = false;
            let way = [way.as_slice(), &[Nth(nth)]].concat();
            let hint = "a dim is 1 or more, or -1 for any length";
            look.error(&way, format!("{dim} is not a dim of {list} `{name}`"), hint);
        }
    }
    if let Some(reshape) = tensor.reshape.as_ref().filter(|_| is_possible && !tensor.dims.is_empty()) {
        reshaped(look, &field("reshape"), list, tensor, &reshape.shape);
    }
    let is_tensorrt = look.model.config.platform == "tensorrt_plan" || look.model.config.backend == "tensorrt";
    if tensor.is_shape_tensor && !is_tensorrt {
        look.error(&field("is_shape_tensor"), "only TensorRT knows shape tensors", "");
    }
    if tensor.is_non_linear_format_io && !is_tensorrt {
        look.error(&field("is_non_linear_format_io"), "only TensorRT knows tensors of a non-linear format", "");
    }
}

/// The same number of elements, between any two free dims too.
fn reshaped(look: &mut ModelChecker<'_>, way: &[PbtxtStep<'_>], list: &str, tensor: &ModelInput, shape: &[i64]) {
    let name = &tensor.name;
    if shape.is_empty() && look.model.config.max_batch_size == 0 {
        look.error(
            way,
            format!("{list} `{name}` is reshaped to nothing, but the model does not batch"),
            "a tensor without dims needs max_batch_size above 0",
        );
        return;
    }
    let segments = |dims: &[i64]| -> Vec<i128> {
        dims.split(|dim| *dim == -1).map(|part| part.iter().map(|dim| i128::from(*dim)).product()).collect()
    };
    let (from, to) = (segments(&tensor.dims), segments(shape));
    if from.len() != to.len() {
        look.error(way, format!("{list} `{name}` has another number of free dims (-1) in its reshape"), "");
    } else if from != to {
        look.error(way, format!("{list} `{name}` has another number of elements in its reshape"), "");
    }
}

/// The server accepts it; which of the two counts is undocumented.
fn check_duplicate(
    look: &mut ModelChecker<'_>,
    at: [PbtxtStep<'_>; 2],
    list: &str,
    first: &ModelInput,
    second: &ModelInput,
) {
    let name = &second.name;
    if name.is_empty() {
    } else if first.data_type == second.data_type && first.dims == second.dims {
        look.warn(&at, format!("{list} `{name}` is here twice"), "");
    } else {
        look.error(&at, format!("{list} `{name}` is here twice, with different values"), "");
    }
}

// Instance groups: where copies of a model run, and how many.

pub(super) fn check_instances(look: &mut ModelChecker<'_>, machine: Option<u32>) {
    let model = look.model;
    let section = Name("instance_group");
    if look.is_ensemble() {
        return;
    }
    for (index, group) in model.config.instance_group.iter().enumerate() {
        let way = |field: &'static str| [section, Nth(index), Name(field)];
        if group.count < 0 {
            look.error(
                &way("count"),
                format!("an instance group of {} instances", group.count),
                "1 or more; the server silently takes 1 for it",
            );
        }
        if group.kind() == Kind::Cpu && !group.gpus.is_empty() {
            look.error(&way("gpus"), "a group on the CPU has no GPUs", "remove `gpus`, or write KIND_GPU");
        }
        for (nth, gpu) in group.gpus.iter().enumerate() {
            let way = [section, Nth(index), Name("gpus"), Nth(nth)];
            if *gpu < 0 {
                look.error(&way, format!("{gpu} is not a GPU"), "");
            } else if let Some(machine) = machine.filter(|machine| *gpu as u32 >= *machine) {
                look.error(&way, format!("no GPU {gpu}: the machine has {machine}"), "");
            }
        }
        if model.config.backend == "tensorrtllm" && group.kind() != Kind::Cpu {
            look.warn(
                &way("kind"),
                "TensorRT-LLM places its engines itself, not by instance groups",
                "write KIND_CPU; the parameter `gpu_device_ids` has the GPUs",
            );
        }
    }
}

// Warm-up requests, which the server sends itself while it loads a model.

pub(super) fn check_warmup(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    if look.is_ensemble() {
        return;
    }
    for (index, warmup) in config.model_warmup.iter().enumerate() {
        let section = [Name("model_warmup"), Nth(index)];
        let most = config.max_batch_size.max(1) as u32;
        if warmup.batch_size > most {
            let way = [section[0], section[1], Name("batch_size")];
            look.error(
                &way,
                format!("the warm-up's batch size {} is above max_batch_size {most}", warmup.batch_size),
                "",
            );
        }
        for (name, input) in &warmup.inputs {
            let way = [section[0], section[1], Name("inputs"), Key(name)];
            match config.input.iter().find(|known| known.name == *name) {
                None => {
                    let names = config.input.iter().map(|input| input.name.as_str());
                    look.error(
                        &way,
                        format!("there is no input `{name}` to warm up with"),
                        did_you_mean(name, names).unwrap_or_default(),
                    );
                }
                Some(known) if known.data_type != input.data_type => {
                    let message = format!(
                        "the warm-up's `{name}` is {}, but the input is {}",
                        input.data_type().as_str_name(),
                        known.data_type().as_str_name()
                    );
                    look.error(&way, message, "");
                }
                Some(_) => {}
            }
            match &input.input_data_type {
                None => {
                    look.error(
                        &way,
                        format!("the warm-up's `{name}` has no data"),
                        "`zero_data: true`, `random_data: true` or `input_data_file`",
                    );
                }
                Some(InputDataType::InputDataFile(file)) => {
                    let path = model.folder.join("warmup").join(file);
                    if !path.is_file() {
                        look.error(&way, format!("{} is missing", path.display()), "");
                    }
                }
                Some(_) => {}
            }
        }
        for input in config.input.iter().filter(|input| !input.optional && !warmup.inputs.contains_key(&input.name)) {
            look.error(&section, format!("the warm-up has no data for input `{}`", input.name), "");
        }
    }
}
