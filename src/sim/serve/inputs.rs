//! The inputs of a request: checked against the model's config as a Triton checks them, then read, row by row.

use std::collections::BTreeMap;

use bytes::Bytes;
use tonic::Code;

use super::load::LoadedModel;
use super::tokens::StopWords;
use base::spec::{FieldKind, FieldValue, REQUEST_FIELDS, WireForm};
use triton::field_tensor::{self, WordListError};
use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::proto::inference::{DataType as ConfigType, ModelInferRequest, ModelInput};
use triton::{DataType, TensorData, strings};

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestRefusal {
    pub code: Code,
    pub message: String,
    /// The error comes from the backend: the answer is the request's last one and is marked so.
    pub by_backend: bool,
}

impl RequestRefusal {
    pub(super) fn invalid(message: String) -> Self {
        Self { code: Code::InvalidArgument, message, by_backend: false }
    }

    pub(super) fn backend(message: String) -> Self {
        Self { code: Code::Internal, message, by_backend: true }
    }
}

/// What is wrong with the inputs of a request: the real server's sentences.
#[derive(Debug, thiserror::Error)]
enum InputsError {
    #[error(
        "expected {} but got {} inputs for model '{model}'. Got input(s) [{}], but missing required input(s) [{}]. \
         Please provide all required input(s).",
        input_count(*required, *all), given.len(), given.join(","), missing.join(",")
    )]
    Missing { model: String, required: usize, all: usize, given: Vec<String>, missing: Vec<String> },
    #[error("input '{input}' already exists in request")]
    Twice { input: String },
    #[error("inference input '{input}' data-type is '{found}', but model '{model}' expects '{expected}'")]
    Datatype { input: String, model: String, found: String, expected: &'static str },
    #[error(
        "unexpected shape for input '{input}' for model '{model}'. Expected {}, got {}.{}",
        brackets(expected), brackets(found),
        if *is_batched {
            " NOTE: a non-zero max_batch_size in the model config requires a batch dimension before each input shape."
        } else { "" }
    )]
    Shape { input: String, model: String, expected: Vec<i64>, found: Vec<i64>, is_batched: bool },
    #[error("inference request batch-size must be <= {limit} for '{model}'")]
    BatchSize { model: String, limit: i64 },
    #[error("input '{input}' batch size does not match other inputs for '{model}'")]
    BatchSizes { input: String, model: String },
    #[error("input '{input}' for model '{model}' is too large")]
    TooLarge { input: String, model: String },
    #[error("contents field must not be specified when using raw_input_contents for '{input}' for model '{model}'")]
    ContentsAndRaw { input: String, model: String },
    #[error("input byte size mismatch for input '{input}' for model '{model}'. Expected {expected}, got {found}")]
    Bytes { input: String, model: String, expected: usize, found: usize },
    #[error(
        "unexpected number of string elements {found} for inference input '{input}' for model '{model}', expecting \
         {expected}"
    )]
    Strings { input: String, model: String, expected: usize, found: usize },
    #[error("incomplete string data for inference input '{input}' for model '{model}'")]
    IncompleteStrings { input: String, model: String },
    #[error(
        "unexpected explicit tensor data for input tensor '{input}' for model '{model}': expected {expected} \
         elements, got {found}"
    )]
    Contents { input: String, model: String, expected: usize, found: usize },
}

fn input_count(required: usize, all: usize) -> String {
    if required == all { format!("{all} inputs") } else { format!("number of inputs between {required} and {all}") }
}

/// Checks every input and every requested output.
pub(super) fn check<'a>(model: &LoadedModel, request: &'a ModelInferRequest) -> Result<Inputs<'a>, RequestRefusal> {
    let has_raw = !request.raw_input_contents.is_empty();
    // The order of the checks is the real server's: data, count, then each input by itself.
    for (at, input) in request.inputs.iter().enumerate() {
        let is_there = if has_raw { at < request.raw_input_contents.len() } else { input.contents.is_some() };
        if !is_there && !input.shape.contains(&0) {
            return Err(RequestRefusal::invalid(format!(
                "unable to find data for input tensor '{}' for model '{}' in request.",
                input.name, model.name
            )));
        }
    }
    check_missing(model, request).map_err(|error| named(request, &error))?;
    for (at, input) in request.inputs.iter().enumerate() {
        let Some(known) = model.config.input.iter().find(|known| known.name == input.name) else {
            let message = format!("unexpected inference input '{}' for model '{}'", input.name, model.name);
            return Err(RequestRefusal::invalid(message));
        };
        let raw = request.raw_input_contents.get(at);
        check_one(model, known, request, input, raw).map_err(|error| named(request, &error))?;
    }
    let rows = rows(model, request).map_err(|error| named(request, &error))?;
    for output in &request.outputs {
        if !model.config.output.iter().any(|known| known.name == output.name) {
            let message = format!("unexpected inference output '{}' for model '{}'", output.name, model.name);
            return Err(RequestRefusal::invalid(message));
        }
    }
    Ok(Inputs::new(request, rows))
}

/// The real server puts the request's id before the message about its inputs.
fn named(request: &ModelInferRequest, error: &InputsError) -> RequestRefusal {
    let id = if request.id.is_empty() { "<id_unknown>" } else { &request.id };
    RequestRefusal::invalid(format!("[request id: {id}] {error}"))
}

fn check_one(
    model: &LoadedModel,
    known: &ModelInput,
    request: &ModelInferRequest,
    input: &InferInputTensor,
    raw: Option<&Bytes>,
) -> Result<(), InputsError> {
    let (name, model_name) = (input.name.clone(), model.name.clone());
    if request.inputs.iter().filter(|other| other.name == name).count() > 1 {
        return Err(InputsError::Twice { input: name });
    }
    let expected = wire_name(known.data_type());
    if input.datatype != expected {
        let datatype = input.datatype.clone();
        return Err(InputsError::Datatype { input: name, model: model_name, found: datatype, expected });
    }
    check_shape(model, known, input)?;
    let Some(count) = input.shape.iter().try_fold(1_i64, |product, n| product.checked_mul(*n)).map(|n| n as usize)
    else {
        return Err(InputsError::TooLarge { input: name, model: model_name });
    };
    if raw.is_some() && input.contents.is_some() {
        return Err(InputsError::ContentsAndRaw { input: name, model: model_name });
    }
    let width = wire_type(known.data_type()).map_or(Some(0), DataType::size);
    match (raw, width) {
        (Some(raw), Some(width)) if raw.len() != count.saturating_mul(width) => {
            let expected = count.saturating_mul(width);
            Err(InputsError::Bytes { input: name, model: model_name, expected, found: raw.len() })
        }
        (Some(raw), None) => match strings(raw).map(|found| found.len()) {
            Some(found) if found == count => Ok(()),
            Some(found) => Err(InputsError::Strings { input: name, model: model_name, expected: count, found }),
            None => Err(InputsError::IncompleteStrings { input: name, model: model_name }),
        },
        (None, _) => {
            let given = contents(input).map_or(0, |contents| contents.len());
            if given == count {
                return Ok(());
            }
            Err(InputsError::Contents { input: name, model: model_name, expected: count, found: given })
        }
        _ => Ok(()),
    }
}

/// The wire shape is `[batch] + dims` when the model batches.
fn check_shape(model: &LoadedModel, known: &ModelInput, input: &InferInputTensor) -> Result<(), InputsError> {
    let expected = full_shape(model.config.max_batch_size, &known.dims);
    let fits = input.shape.len() == expected.len()
        && input.shape.iter().zip(&expected).all(|(found, want)| *found >= 0 && (*want == -1 || found == want));
    if !fits {
        return Err(InputsError::Shape {
            input: input.name.clone(),
            model: model.name.clone(),
            expected,
            found: input.shape.clone(),
            is_batched: model.config.max_batch_size > 0,
        });
    }
    let limit = i64::from(model.config.max_batch_size);
    if limit > 0 && input.shape[0] > limit {
        return Err(InputsError::BatchSize { model: model.name.clone(), limit });
    }
    Ok(())
}

/// Requests in the message: the first dimension of every input, when the model batches.
fn rows(model: &LoadedModel, request: &ModelInferRequest) -> Result<usize, InputsError> {
    if model.config.max_batch_size == 0 {
        return Ok(1);
    }
    let mut inputs = request.inputs.iter();
    let rows = inputs.next().and_then(|input| input.shape.first().copied()).unwrap_or(1);
    match inputs.find(|input| input.shape.first() != Some(&rows)) {
        Some(other) => Err(InputsError::BatchSizes { input: other.name.clone(), model: model.name.clone() }),
        None => Ok(rows.max(1) as usize),
    }
}

fn check_missing(model: &LoadedModel, request: &ModelInferRequest) -> Result<(), InputsError> {
    let missing: Vec<String> = model
        .config
        .input
        .iter()
        .filter(|known| !known.optional && !request.inputs.iter().any(|input| input.name == known.name))
        .map(|known| format!("'{}'", known.name))
        .collect();
    let required = model.config.input.iter().filter(|known| !known.optional).count();
    let declared = model.config.input.len();
    let is_counted = (required..=declared).contains(&request.inputs.len());
    if missing.is_empty() && is_counted {
        return Ok(());
    }
    // A wrong name in the place of a required one is reported by the wrong name.
    let has_stranger =
        request.inputs.iter().any(|input| !model.config.input.iter().any(|known| known.name == input.name));
    if is_counted && has_stranger {
        return Ok(());
    }
    let given = request.inputs.iter().map(|input| format!("'{}'", input.name)).collect();
    Err(InputsError::Missing { model: model.name.clone(), required, all: declared, given, missing })
}

pub(super) fn full_shape(max_batch_size: i32, dims: &[i64]) -> Vec<i64> {
    if max_batch_size > 0 { std::iter::once(-1).chain(dims.iter().copied()).collect() } else { dims.to_vec() }
}

fn brackets(shape: &[i64]) -> String {
    format!("[{}]", shape.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// The config's type as the protocol has it.
pub(super) fn wire_type(data_type: ConfigType) -> Option<DataType> {
    DataType::parse(data_type.as_str_name())
}

/// The same by its name.
pub(super) fn wire_name(data_type: ConfigType) -> &'static str {
    wire_type(data_type).map_or("INVALID", DataType::name)
}

// Reads the tensors of a request that was checked, row by row: a message may hold several requests.

/// The inputs of a request after its names, types, shapes and sizes were checked.
pub(super) struct Inputs<'a> {
    request: &'a ModelInferRequest,
    /// Requests in the message.
    pub rows: usize,
}

impl<'a> Inputs<'a> {
    pub(super) const fn new(request: &'a ModelInferRequest, rows: usize) -> Self {
        Self { request, rows }
    }

    fn find(&self, name: &str) -> Option<(&'a InferInputTensor, Option<&'a [u8]>)> {
        let at = self.request.inputs.iter().position(|input| input.name == name)?;
        Some((&self.request.inputs[at], self.request.raw_input_contents.get(at).map(|raw| &raw[..])))
    }

    /// The bytes of one row; every row has as many elements.
    fn row(&self, name: &str, row: usize) -> Option<Bytes> {
        let (input, raw) = self.find(name)?;
        let contents = match raw {
            Some(raw) => Bytes::copy_from_slice(raw),
            None => contents(input)?.raw(),
        };
        let rows = self.rows.max(1);
        if input.datatype == "BYTES" {
            let elements = strings(&contents)?;
            let share = elements.len() / rows;
            return elements.get(row * share..(row + 1) * share).map(field_tensor::texts);
        }
        let share = contents.len() / rows;
        (share * rows <= contents.len()).then(|| contents.slice(row * share..(row + 1) * share))
    }

    /// A tensor that is read as a field of this kind.
    fn value(&self, name: &str, kind: FieldKind, row: usize) -> Option<Result<FieldValue, WordListError>> {
        let (input, _) = self.find(name)?;
        field_tensor::decode(kind, &input.datatype, &self.row(name, row)?).transpose()
    }

    pub(super) fn ints(&self, name: &str, row: usize) -> Option<Vec<i32>> {
        Some(self.row(name, row)?.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect())
    }

    pub(super) fn int(&self, name: &str, row: usize) -> Option<i32> {
        self.ints(name, row)?.first().copied()
    }

    pub(super) fn switch(&self, name: &str, row: usize) -> Option<bool> {
        self.row(name, row)?.first().map(|byte| *byte != 0)
    }

    /// The first element of a BYTES tensor.
    pub(super) fn text(&self, name: &str, row: usize) -> Option<Vec<u8>> {
        strings(&self.row(name, row)?)?.first().map(|text| text.to_vec())
    }

    /// The fields of one request, under the names of a model of this form.
    pub(super) fn fields(&self, form: WireForm, row: usize) -> Result<ReadFields, WordListError> {
        let mut values = BTreeMap::new();
        for field in REQUEST_FIELDS {
            if let Some(value) = field.names(form).iter().find_map(|name| self.value(name, field.kind, row)) {
                values.insert(field.key, value?);
            }
        }
        Ok(ReadFields(values))
    }
}

/// The fields of a request that was received, by their keys.
#[derive(Debug, Default)]
pub(super) struct ReadFields(BTreeMap<&'static str, FieldValue>);

impl ReadFields {
    pub(super) fn int(&self, key: &str) -> Option<i64> {
        match self.0.get(key)? {
            FieldValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.0.get(key)? {
            FieldValue::Number(value) => Some(*value),
            _ => None,
        }
    }

    /// A seed, or the id of an adapter.
    pub(super) fn id(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            FieldValue::Long(value) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn is_on(&self, key: &str) -> bool {
        self.0.get(key) == Some(&FieldValue::Switch(true))
    }

    /// Stop words or bad words.
    pub(super) fn words(&self, key: &str) -> StopWords {
        let mut words = StopWords::default();
        if let Some(FieldValue::Ids(ids)) = self.0.get(&*format!("{key}.ids")) {
            words.ids.clone_from(ids);
        }
        if let Some(FieldValue::Texts(texts)) = self.0.get(&*format!("{key}.texts")) {
            words.texts = texts.iter().filter(|text| !text.is_empty()).map(|text| text.clone().into_bytes()).collect();
        }
        words
    }
}

/// Typed contents. `None` if the tensor has none, or their type is not known.
pub(super) fn contents(input: &InferInputTensor) -> Option<TensorData> {
    Some(TensorData::from_contents(DataType::parse(&input.datatype)?, input.contents.as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values of a field that a message can have, within its bounds.
    fn values(kind: FieldKind) -> BoxedStrategy<FieldValue> {
        let words = |length| prop::collection::vec(length, 1..4);
        match kind {
            FieldKind::Int { min, max } => (min..=max).prop_map(FieldValue::Int).boxed(),
            FieldKind::Number(_) => any::<f32>()
                .prop_filter("a number", |value| value.is_finite())
                .prop_map(|value| FieldValue::Number(value.into()))
                .boxed(),
            FieldKind::Switch => any::<bool>().prop_map(FieldValue::Switch).boxed(),
            FieldKind::Seed | FieldKind::Turns => any::<u64>().prop_map(FieldValue::Long).boxed(),
            FieldKind::WordIds => words(prop::collection::vec(0..9_i32, 1..4)).prop_map(FieldValue::Ids).boxed(),
            FieldKind::WordTexts => prop::collection::vec("[a-z]{0,5}", 1..4).prop_map(FieldValue::Texts).boxed(),
            FieldKind::Client => Just(FieldValue::Set).boxed(),
        }
    }

    proptest! {
        #[test]
        fn every_field_is_read_as_it_was_sent(
            (field, value, rows) in (0..REQUEST_FIELDS.len(), 1..3_usize).prop_flat_map(|(at, rows)| {
                let field = &REQUEST_FIELDS[at];
                (Just(field), values(field.kind), Just(rows))
            })
        ) {
            for form in [WireForm::TokenIds, WireForm::Text] {
                for name in field.names(form) {
                    let datatype = field_tensor::usual_type(&value);
                    let (shape, row) = field_tensor::encode(&value, datatype);
                    let request = ModelInferRequest {
                        inputs: vec![InferInputTensor {
                            name: (*name).to_owned(),
                            datatype: datatype.to_owned(),
                            shape,
                            ..InferInputTensor::default()
                        }],
                        raw_input_contents: vec![row.repeat(rows).into()],
                        ..ModelInferRequest::default()
                    };
                    let inputs = Inputs::new(&request, rows);
                    for row in 0..rows {
                        let read = inputs.fields(form, row).unwrap();
                        prop_assert_eq!(read.0.get(field.key), Some(&value), "{}", field.key);
                        prop_assert_eq!(read.0.len(), 1);
                    }
                }
            }
        }
    }
}
