//! Inputs and outputs: names, types, dims, reshapes.

use std::collections::BTreeMap;

use super::ModelChecker;
use crate::pbtxt::PbtxtStep;
use crate::proto::inference::{DataType, ModelTensorReshape, model_input::Format};

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

pub(super) fn check(look: &mut ModelChecker<'_>) {
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
    let known = DataType::try_from(tensor.data_type).is_ok_and(|kind| kind != DataType::TypeInvalid);
    if !known && (tensor.data_type != 0 || look.model.is_whole) {
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
            look.error(&way, format!("{dim} is no dim of {list} `{name}`"), hint);
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
        look.error(way, format!("{list} `{name}` is reshaped to nothing, and the model has no batches"), Some(hint));
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
