//! Reads the tensors of a request that was checked, row by row: a message may hold several requests.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::decode::StopWords;
use base::spec::{FieldKind, FieldValue, REQUEST_FIELDS, WireForm};
use triton::field_tensor::{self, WordListError};
use triton::proto::inference::ModelInferRequest;
use triton::proto::inference::model_infer_request::InferInputTensor;
use triton::{DataType, TensorData, strings};

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
        let all = match raw {
            Some(raw) => Bytes::copy_from_slice(raw),
            None => contents(input)?.raw(),
        };
        let rows = self.rows.max(1);
        if input.datatype == "BYTES" {
            let elements = strings(&all)?;
            let share = elements.len() / rows;
            return elements.get(row * share..(row + 1) * share).map(field_tensor::texts);
        }
        let share = all.len() / rows;
        (share * rows <= all.len()).then(|| all.slice(row * share..(row + 1) * share))
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
        for field in &REQUEST_FIELDS {
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

/// Typed contents. `None`: there are none, or their type is not known.
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
