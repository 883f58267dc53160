//! The parts of one model's config: names and versions, tensors, instances, warm-up.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::pbtxt::{PbtxtDocument, PbtxtStep, unfilled};
use crate::proto::inference::model_input::Format;
use crate::proto::inference::model_instance_group::Kind;
use crate::proto::inference::model_warmup::input::InputDataType;
use crate::proto::inference::{DataType, ModelConfig, ModelTensorReshape};
use base::diag::{Diagnostic, Diagnostics, SourceText, did_you_mean};

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
    pub(super) fn error(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: Option<String>) {
        self.push_diagnostic(Diagnostic::error(message), way, hint);
    }

    pub(super) fn warn(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: Option<String>) {
        self.push_diagnostic(Diagnostic::warning(message), way, hint);
    }

    fn push_diagnostic(&mut self, what: Diagnostic, way: &[PbtxtStep<'_>], hint: Option<String>) {
        if self.found.is_full() {
            return;
        }
        let span = self.model.source.span(self.model.document.place(way));
        self.found.push(what.at(span, "").maybe_hint(hint));
    }

    pub(super) fn is_ensemble(&self) -> bool {
        self.model.config.platform == "ensemble"
    }
}

/// The way to a text of `parameters`.
pub(super) const fn parameter(key: &str) -> [PbtxtStep<'_>; 4] {
    [PbtxtStep::Name("parameters"), PbtxtStep::Key(key), PbtxtStep::Name("value"), PbtxtStep::Name("string_value")]
}

/// The placeholder that a whole text is, if it is one.
pub(super) fn placeholder(text: &str) -> Option<String> {
    unfilled(text).into_iter().next().map(|unfilled| unfilled.name)
}

// Inputs and outputs: names, types, dims, reshapes.

/// The common fields of inputs and outputs.
struct Tensor<'a> {
    list: &'static str,
    index: usize,
    name: &'a str,
    data_type: i32,
    dims: &'a [i64],
    reshape: Option<&'a ModelTensorReshape>,
    is_shape_tensor: bool,
    is_non_linear: bool,
}

pub(super) fn check_tensors(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    let inputs = config.input.iter().enumerate().map(|(index, input)| Tensor {
        list: "input",
        index,
        name: &input.name,
        data_type: input.data_type,
        dims: &input.dims,
        reshape: input.reshape.as_ref(),
        is_shape_tensor: input.is_shape_tensor,
        is_non_linear: input.is_non_linear_format_io,
    });
    let outputs = config.output.iter().enumerate().map(|(index, output)| Tensor {
        list: "output",
        index,
        name: &output.name,
        data_type: output.data_type,
        dims: &output.dims,
        reshape: output.reshape.as_ref(),
        is_shape_tensor: output.is_shape_tensor,
        is_non_linear: output.is_non_linear_format_io,
    });
    let mut seen: BTreeMap<(&str, &str), Tensor<'_>> = BTreeMap::new();
    for tensor in inputs.chain(outputs) {
        check_tensor(look, &tensor);
        match seen.get(&(tensor.list, tensor.name)) {
            Some(first) => check_duplicate(look, first, &tensor),
            None => {
                seen.insert((tensor.list, tensor.name), tensor);
            }
        }
    }
    for (index, input) in config.input.iter().enumerate() {
        if input.format() != Format::None && input.dims.len() != 3 {
            let way = [PbtxtStep::Name("input"), PbtxtStep::Nth(index), PbtxtStep::Name("format")];
            look.error(&way, format!("{} needs three dims", input.format().as_str_name()), None);
        }
    }
}

fn check_tensor(look: &mut ModelChecker<'_>, tensor: &Tensor<'_>) {
    let at = [PbtxtStep::Name(tensor.list), PbtxtStep::Nth(tensor.index)];
    let field = |name: &'static str| [at[0], at[1], PbtxtStep::Name(name)];
    let (list, name) = (tensor.list, tensor.name);
    if name.is_empty() {
        look.error(&at, format!("an {list} without a name"), None);
    }
    let has_type = DataType::try_from(tensor.data_type).is_ok_and(|kind| kind != DataType::TypeInvalid);
    if !has_type && (tensor.data_type != 0 || look.model.is_whole) {
        let hint = "for example `data_type: TYPE_INT32`".to_owned();
        look.error(&field("data_type"), format!("{list} `{name}` needs a data_type"), Some(hint));
    }
    if tensor.dims.is_empty() && look.model.is_whole {
        let hint = "for example `dims: [ -1 ]`; -1 is any length".to_owned();
        look.error(&field("dims"), format!("{list} `{name}` needs dims"), Some(hint));
    }
    let shape = tensor.reshape.map_or(&[][..], |reshape| &reshape.shape);
    let mut is_possible = true;
    for (way, values) in
        [(field("dims").to_vec(), tensor.dims), ([&field("reshape")[..], &[PbtxtStep::Name("shape")]].concat(), shape)]
    {
        for (nth, dim) in values.iter().enumerate().filter(|(_, dim)| **dim < -1 || **dim == 0) {
            is_possible = false;
            let way = [way.as_slice(), &[PbtxtStep::Nth(nth)]].concat();
            let hint = Some("a dim is 1 or more, or -1 for any length".to_owned());
            look.error(&way, format!("{dim} is not a dim of {list} `{name}`"), hint);
        }
    }
    if let Some(reshape) = tensor.reshape.filter(|_| is_possible && !tensor.dims.is_empty()) {
        reshaped(look, &field("reshape"), tensor, &reshape.shape);
    }
    let is_tensorrt = look.model.config.platform == "tensorrt_plan" || look.model.config.backend == "tensorrt";
    if tensor.is_shape_tensor && !is_tensorrt {
        look.error(&field("is_shape_tensor"), "only TensorRT knows shape tensors", None);
    }
    if tensor.is_non_linear && !is_tensorrt {
        look.error(&field("is_non_linear_format_io"), "only TensorRT knows tensors of a non-linear format", None);
    }
}

/// The same number of elements, between any two free dims too.
fn reshaped(look: &mut ModelChecker<'_>, way: &[PbtxtStep<'_>], tensor: &Tensor<'_>, shape: &[i64]) {
    let (list, name) = (tensor.list, tensor.name);
    if shape.is_empty() && look.model.config.max_batch_size == 0 {
        let hint = "a tensor without dims needs max_batch_size above 0".to_owned();
        look.error(way, format!("{list} `{name}` is reshaped to nothing, but the model does not batch"), Some(hint));
        return;
    }
    let segments = |dims: &[i64]| -> Vec<i128> {
        dims.split(|dim| *dim == -1).map(|part| part.iter().map(|dim| i128::from(*dim)).product()).collect()
    };
    let (from, to) = (segments(tensor.dims), segments(shape));
    if from.len() != to.len() {
        look.error(way, format!("{list} `{name}` has another number of free dims (-1) in its reshape"), None);
    } else if from != to {
        look.error(way, format!("{list} `{name}` has another number of elements in its reshape"), None);
    }
}

/// The server accepts it; which of the two counts is undocumented.
fn check_duplicate(look: &mut ModelChecker<'_>, first: &Tensor<'_>, second: &Tensor<'_>) {
    let way = [PbtxtStep::Name(second.list), PbtxtStep::Nth(second.index)];
    let (list, name) = (second.list, second.name);
    if name.is_empty() {
    } else if first.data_type == second.data_type && first.dims == second.dims {
        look.warn(&way, format!("{list} `{name}` is here twice"), None);
    } else {
        look.error(&way, format!("{list} `{name}` is here twice, with different values"), None);
    }
}

// Instance groups: where copies of a model run, and how many.

pub(super) fn check_instances(look: &mut ModelChecker<'_>, machine: Option<u32>) {
    let model = look.model;
    let section = PbtxtStep::Name("instance_group");
    if look.is_ensemble() {
        return;
    }
    for (index, group) in model.config.instance_group.iter().enumerate() {
        let way = |field: &'static str| [section, PbtxtStep::Nth(index), PbtxtStep::Name(field)];
        if group.count < 0 {
            let hint = "1 or more; the server silently takes 1 for it".to_owned();
            look.error(&way("count"), format!("an instance group of {} instances", group.count), Some(hint));
        }
        if group.kind() == Kind::Cpu && !group.gpus.is_empty() {
            let hint = "remove `gpus`, or write KIND_GPU".to_owned();
            look.error(&way("gpus"), "a group on the CPU has no GPUs", Some(hint));
        }
        for (nth, gpu) in group.gpus.iter().enumerate() {
            let way = [section, PbtxtStep::Nth(index), PbtxtStep::Name("gpus"), PbtxtStep::Nth(nth)];
            if *gpu < 0 {
                look.error(&way, format!("{gpu} is not a GPU"), None);
            } else if let Some(machine) = machine.filter(|machine| *gpu as u32 >= *machine) {
                look.error(&way, format!("no GPU {gpu}: the machine has {machine}"), None);
            }
        }
        if model.config.backend == "tensorrtllm" && group.kind() != Kind::Cpu {
            let hint = "write KIND_CPU; the parameter `gpu_device_ids` has the GPUs".to_owned();
            look.warn(&way("kind"), "TensorRT-LLM places its engines itself, not by instance groups", Some(hint));
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
        let section = [PbtxtStep::Name("model_warmup"), PbtxtStep::Nth(index)];
        let most = config.max_batch_size.max(1) as u32;
        if warmup.batch_size > most {
            let way = [section[0], section[1], PbtxtStep::Name("batch_size")];
            look.error(
                &way,
                format!("the warm-up's batch size {} is above max_batch_size {most}", warmup.batch_size),
                None,
            );
        }
        for (name, input) in &warmup.inputs {
            let way = [section[0], section[1], PbtxtStep::Name("inputs"), PbtxtStep::Key(name)];
            match config.input.iter().find(|known| known.name == *name) {
                None => {
                    let names = config.input.iter().map(|input| input.name.as_str());
                    look.error(&way, format!("there is no input `{name}` to warm up with"), did_you_mean(name, names));
                }
                Some(known) if known.data_type != input.data_type => {
                    let message = format!(
                        "the warm-up's `{name}` is {}, but the input is {}",
                        input.data_type().as_str_name(),
                        known.data_type().as_str_name()
                    );
                    look.error(&way, message, None);
                }
                Some(_) => {}
            }
            match &input.input_data_type {
                None => {
                    let hint = "`zero_data: true`, `random_data: true` or `input_data_file`".to_owned();
                    look.error(&way, format!("the warm-up's `{name}` has no data"), Some(hint));
                }
                Some(InputDataType::InputDataFile(file)) => {
                    let path = model.folder.join("warmup").join(file);
                    if !path.is_file() {
                        look.error(&way, format!("{} is missing", path.display()), None);
                    }
                }
                Some(_) => {}
            }
        }
        for input in config.input.iter().filter(|input| !input.optional && !warmup.inputs.contains_key(&input.name)) {
            look.error(&section, format!("the warm-up has no data for input `{}`", input.name), None);
        }
    }
}
