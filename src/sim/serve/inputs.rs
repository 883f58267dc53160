//! The inputs of a request: checked against the model's config as a Triton checks them, then read, row by row.

use std::collections::BTreeMap;
use std::fmt::Display;

use bytes::Bytes;
use tonic::Status;

use super::answer::StopWords;
use super::load::LoadedModel;
use base::spec::{FieldKind, FieldValue, REQUEST_FIELDS, WireForm};
use triton::field_tensor::{self, WordListError};
use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::proto::inference::{DataType as ConfigType, ModelInferRequest, ModelInput};
use triton::{DataType, TensorData, strings};

/// Checks every input and every requested output.
pub(super) fn check<'a>(model: &LoadedModel, request: &'a ModelInferRequest) -> Result<Inputs<'a>, Status> {
    let has_raw = !request.raw_input_contents.is_empty();
    // The order of the checks is the real server's: data, count, then each input by itself.
    for (at, input) in request.inputs.iter().enumerate() {
        let is_there = if has_raw { at < request.raw_input_contents.len() } else { input.contents.is_some() };
        if !is_there && !input.shape.contains(&0) {
            let (input, model) = (&input.name, &model.name);
            return invalid(format_args!(
                "unable to find data for input tensor '{input}' for model '{model}' in request."
            ));
        }
    }
    let check = InputsCheck { model, request };
    check.missing()?;
    for (at, input) in request.inputs.iter().enumerate() {
        let Some(known) = model.config.input.iter().find(|known| known.name == input.name) else {
            return invalid(format_args!("unexpected inference input '{}' for model '{}'", input.name, model.name));
        };
        check.input(known, input, request.raw_input_contents.get(at))?;
    }
    let rows = check.rows()?;
    for output in &request.outputs {
        if !model.config.output.iter().any(|known| known.name == output.name) {
            return invalid(format_args!("unexpected inference output '{}' for model '{}'", output.name, model.name));
        }
    }
    Ok(Inputs::new(request, rows))
}

/// The server refuses the request.
pub(super) fn invalid<T>(message: impl Display) -> Result<T, Status> {
    Err(Status::invalid_argument(message.to_string()))
}

/// The checks whose messages begin with the request's id. The sentences are the real server's.
struct InputsCheck<'a> {
    model: &'a LoadedModel,
    request: &'a ModelInferRequest,
}

impl InputsCheck<'_> {
    fn refuse<T>(&self, message: impl Display) -> Result<T, Status> {
        let id = if self.request.id.is_empty() { "<id_unknown>" } else { &self.request.id };
        invalid(format_args!("[request id: {id}] {message}"))
    }

    fn missing(&self) -> Result<(), Status> {
        let (given, declared) = (&self.request.inputs, &self.model.config.input);
        let (required, most) = (declared.iter().filter(|known| !known.optional).count(), declared.len());
        let is_missing = |known: &&ModelInput| !known.optional && !given.iter().any(|input| input.name == known.name);
        let missing: Vec<String> =
            declared.iter().filter(is_missing).map(|known| format!("'{}'", known.name)).collect();
        let is_counted = (required..=most).contains(&given.len());
        if missing.is_empty() && is_counted {
            return Ok(());
        }
        // A wrong name in the place of a required one is reported by the wrong name.
        let has_stranger = given.iter().any(|input| !declared.iter().any(|known| known.name == input.name));
        if is_counted && has_stranger {
            return Ok(());
        }
        let given: Vec<String> = given.iter().map(|input| format!("'{}'", input.name)).collect();
        let expected = if required == most {
            format!("{most} inputs")
        } else {
            format!("number of inputs between {required} and {most}")
        };
        self.refuse(format_args!(
            "expected {expected} but got {} inputs for model '{}'. Got input(s) [{}], but missing required input(s) \
             [{}]. Please provide all required input(s).",
            given.len(),
            self.model.name,
            given.join(","),
            missing.join(",")
        ))
    }

    fn input(&self, known: &ModelInput, input: &InferInputTensor, raw: Option<&Bytes>) -> Result<(), Status> {
        let (name, model) = (&input.name, &self.model.name);
        if self.request.inputs.iter().filter(|other| other.name == *name).count() > 1 {
            return self.refuse(format_args!("input '{name}' already exists in request"));
        }
        let expected = wire_name(known.data_type());
        if input.datatype != expected {
            let datatype = &input.datatype;
            return self.refuse(format_args!(
                "inference input '{name}' data-type is '{datatype}', but model '{model}' expects '{expected}'"
            ));
        }
        self.shape(known, input)?;
        let Some(count) = input.shape.iter().try_fold(1_i64, |product, n| product.checked_mul(*n)).map(|n| n as usize)
        else {
            return self.refuse(format_args!("input '{name}' for model '{model}' is too large"));
        };
        if raw.is_some() && input.contents.is_some() {
            return self.refuse(format_args!(
                "contents field must not be specified when using raw_input_contents for '{name}' for model '{model}'"
            ));
        }
        let width = wire_type(known.data_type()).map_or(Some(0), DataType::size);
        match (raw, width) {
            (Some(raw), Some(width)) if raw.len() != count.saturating_mul(width) => self.refuse(format_args!(
                "input byte size mismatch for input '{name}' for model '{model}'. Expected {}, got {}",
                count.saturating_mul(width),
                raw.len()
            )),
            (Some(raw), None) => match strings(raw).map(|elements| elements.len()) {
                Some(given) if given == count => Ok(()),
                Some(given) => self.refuse(format_args!(
                    "unexpected number of string elements {given} for inference input '{name}' for model '{model}', \
                     expecting {count}"
                )),
                None => {
                    self.refuse(format_args!("incomplete string data for inference input '{name}' for model '{model}'"))
                }
            },
            (None, _) => match contents(input).map_or(0, |contents| contents.len()) {
                given if given == count => Ok(()),
                given => self.refuse(format_args!(
                    "unexpected explicit tensor data for input tensor '{name}' for model '{model}': expected {count} \
                     elements, got {given}"
                )),
            },
            _ => Ok(()),
        }
    }

    /// The wire shape is `[batch] + dims` when the model batches.
    fn shape(&self, known: &ModelInput, input: &InferInputTensor) -> Result<(), Status> {
        let (name, model, limit) = (&input.name, &self.model.name, self.model.config.max_batch_size);
        let expected = full_shape(limit, &known.dims);
        let fits = input.shape.len() == expected.len()
            && input.shape.iter().zip(&expected).all(|(given, want)| *given >= 0 && (*want == -1 || given == want));
        if !fits {
            let note = " NOTE: a non-zero max_batch_size in the model config requires a batch dimension before each \
                        input shape.";
            return self.refuse(format_args!(
                "unexpected shape for input '{name}' for model '{model}'. Expected {}, got {}.{}",
                brackets(&expected),
                brackets(&input.shape),
                if limit > 0 { note } else { "" }
            ));
        }
        if limit > 0 && input.shape[0] > i64::from(limit) {
            return self.refuse(format_args!("inference request batch-size must be <= {limit} for '{model}'"));
        }
        Ok(())
    }

    /// Requests in the message: the first dimension of every input, when the model batches.
    fn rows(&self) -> Result<usize, Status> {
        if self.model.config.max_batch_size == 0 {
            return Ok(1);
        }
        let mut inputs = self.request.inputs.iter();
        let rows = inputs.next().and_then(|input| input.shape.first().copied()).unwrap_or(1);
        match inputs.find(|input| input.shape.first() != Some(&rows)) {
            Some(InferInputTensor { name, .. }) => self.refuse(format_args!(
                "input '{name}' batch size does not match other inputs for '{}'",
                self.model.name
            )),
            None => Ok(rows.max(1) as usize),
        }
    }
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
        let FieldValue::Int(value) = self.0.get(key)? else { return None };
        Some(*value)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        let FieldValue::Number(value) = self.0.get(key)? else { return None };
        Some(*value)
    }

    /// A seed, or the id of an adapter.
    pub(super) fn id(&self, key: &str) -> Option<u64> {
        let FieldValue::Long(value) = self.0.get(key)? else { return None };
        Some(*value)
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
