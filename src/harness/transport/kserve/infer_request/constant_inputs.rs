//! Tensors under construction: the fixed constants, and the inputs of one message.

use bytes::Bytes;

use super::tensor::{self, ScalarValue, texts, word_list};
use super::tensor_names::ModelMetadata;
use base::spec::{Interface, WordList};
use triton::proto::inference::model_infer_request::InferInputTensor;

/// A tensor that is the same in every row of every message.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantTensor {
    pub name: &'static str,
    pub datatype: String,
    /// Without the batch dimension.
    pub shape: Vec<i64>,
    pub row: Bytes,
}

/// Inputs of a message under construction.
pub struct MessageInputs {
    has_rows: bool,
    rows: usize,
    pub inputs: Vec<InferInputTensor>,
    pub raw: Vec<Bytes>,
}

impl MessageInputs {
    pub const fn new(has_rows: bool, rows: usize) -> Self {
        Self { has_rows, rows, inputs: Vec::new(), raw: Vec::new() }
    }

    /// `shape` without the batch dimension, `raw` for all rows.
    pub fn put(&mut self, name: &str, datatype: &str, shape: &[i64], raw: Bytes) {
        let rows = self.has_rows.then_some(self.rows as i64);
        self.inputs.push(InferInputTensor {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape: rows.into_iter().chain(shape.iter().copied()).collect(),
            ..InferInputTensor::default()
        });
        self.raw.push(raw);
    }
}

/// Constants so far, and those that do not fit.
pub struct ConstantInputs<'a> {
    pub metadata: &'a ModelMetadata,
    pub constants: Vec<ConstantTensor>,
    pub faults: Vec<String>,
    /// Some input is missing.
    pub lacks: bool,
}

impl<'a> ConstantInputs<'a> {
    pub const fn new(metadata: &'a ModelMetadata, faults: Vec<String>) -> Self {
        Self { metadata, constants: Vec::new(), faults, lacks: false }
    }

    /// The first of `names` that the model has, with its type.
    pub fn find(&mut self, key: &str, names: &[&'static str], usual: &str) -> Option<(&'static str, String)> {
        let found = names.iter().find_map(|name| Some((*name, self.metadata.input_type(name, usual)?)));
        if found.is_none() {
            self.lacks = true;
            self.faults.push(format!("request.{key} needs the input `{}`, which the model does not have", names[0]));
        }
        found
    }

    pub fn require_input(&mut self, key: &str, name: &'static str) {
        if self.metadata.input_type(name, "").is_none() {
            self.lacks = true;
            let key = if key == "model" { "this interface".to_owned() } else { format!("request.{key}") };
            self.faults.push(format!("{key} needs the input `{name}`, which the model does not have"));
        }
    }

    /// Sent where the model has it.
    pub fn input_if_available(&mut self, name: &'static str, value: ScalarValue) {
        if let Some(datatype) = self.metadata.input_type(name, value.usual_type()) {
            self.constant(name, datatype, value);
        }
    }

    /// Sent when it is requested; then the model must have it.
    pub fn input_if_set(&mut self, key: &str, names: &[&'static str], value: Option<ScalarValue>) {
        let Some(value) = value else { return };
        if let Some((name, datatype)) = self.find(key, names, value.usual_type()) {
            self.constant(name, datatype, value);
        }
    }

    fn constant(&mut self, name: &'static str, datatype: String, value: ScalarValue) {
        let row = tensor::column([value], &datatype);
        self.constants.push(ConstantTensor { name, datatype, shape: vec![1], row });
    }

    pub fn word_list_input(&mut self, key: &str, name: &'static str, words: Option<&WordList>, interface: Interface) {
        let Some(words) = words else { return };
        let (shape, row, datatype) = match (words, interface) {
            (WordList::Ids(words), Interface::TokenIds) => {
                let (len, row) = word_list(words);
                (vec![2, len], row, "INT32")
            }
            (WordList::Texts(words), Interface::Text) => (vec![words.len() as i64], texts(words), "BYTES"),
            (WordList::Ids(_), Interface::Text) => {
                return self.faults.push(format!("request.{key}: this model takes text, so `texts` are required"));
            }
            (WordList::Texts(_), Interface::TokenIds) => {
                return self.faults.push(format!("request.{key}: this model takes token ids, so `ids` are required"));
            }
        };
        if let Some((name, datatype)) = self.find(key, &[name], datatype) {
            self.constants.push(ConstantTensor { name, datatype, shape, row });
        }
    }
}
