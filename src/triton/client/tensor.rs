//! Tensors as KServe v2 carries them: typed values in, raw bytes on the wire, typed values out.
//!
//! Raw is little endian, row major; BYTES elements carry a 4-byte length. Requests are always raw: it is the only way
//! for 16-bit floats, and mixing raw and typed in one request is an error. Answers may be either.

use bytes::{BufMut, Bytes, BytesMut};
use half::{bf16, f16};
use serde_json::{Value, json};
use strum::{Display, EnumDiscriminants, EnumString, IntoStaticStr, VariantArray};

use super::field_tensor::texts;
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::proto::inference::{InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse};
use base::diag::ErrorText;

impl DataType {
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// By the name on the wire, or by that of config.pbtxt (`TYPE_INT32`, `TYPE_STRING`).
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.strip_prefix("TYPE_").unwrap_or(name);
        let name = if name == "STRING" { "BYTES" } else { name };
        name.parse().ok()
    }

    /// Bytes of one element; `None` for BYTES: each element has its own length.
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }
}

/// Typed elements, row major. 16-bit floats are their bits.
#[derive(Clone, Debug, PartialEq, EnumDiscriminants)]
#[strum_discriminants(name(DataType), doc = "The data types of KServe v2, by their names on the wire.")]
#[strum_discriminants(derive(Display, EnumString, IntoStaticStr, VariantArray))]
#[strum_discriminants(strum(serialize_all = "UPPERCASE", const_into_str))]
pub enum TensorData {
    Bool(Vec<bool>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Fp16(Vec<u16>),
    Bf16(Vec<u16>),
    Fp32(Vec<f32>),
    Fp64(Vec<f64>),
    Bytes(Vec<Bytes>),
}

/// Calls `$do` with the vector inside and how one element is written.
macro_rules! numbers {
    ($data:expr, $values:ident => $do:expr, bytes $strings:ident => $bytes:expr, flags $flags:ident => $bool:expr) => {
        match $data {
            TensorData::Bool($flags) => $bool,
            TensorData::Uint8($values) => $do,
            TensorData::Uint16($values) | TensorData::Fp16($values) | TensorData::Bf16($values) => $do,
            TensorData::Uint32($values) => $do,
            TensorData::Uint64($values) => $do,
            TensorData::Int8($values) => $do,
            TensorData::Int16($values) => $do,
            TensorData::Int32($values) => $do,
            TensorData::Int64($values) => $do,
            TensorData::Fp32($values) => $do,
            TensorData::Fp64($values) => $do,
            TensorData::Bytes($strings) => $bytes,
        }
    };
}

impl TensorData {
    pub fn datatype(&self) -> DataType {
        self.into()
    }

    pub fn len(&self) -> usize {
        numbers!(self, values => values.len(), bytes strings => strings.len(), flags flags => flags.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Typed contents, narrowed to what they are: the wire has no 8 and 16 bit integers, and no 16-bit floats at all.
    pub fn from_contents(datatype: DataType, from: &InferTensorContents) -> Self {
        match datatype {
            DataType::Bool => Self::Bool(from.bool_contents.clone()),
            DataType::Uint8 => Self::Uint8(from.uint_contents.iter().map(|value| *value as u8).collect()),
            DataType::Uint16 => Self::Uint16(from.uint_contents.iter().map(|value| *value as u16).collect()),
            DataType::Uint32 => Self::Uint32(from.uint_contents.clone()),
            DataType::Uint64 => Self::Uint64(from.uint64_contents.clone()),
            DataType::Int8 => Self::Int8(from.int_contents.iter().map(|value| *value as i8).collect()),
            DataType::Int16 => Self::Int16(from.int_contents.iter().map(|value| *value as i16).collect()),
            DataType::Int32 => Self::Int32(from.int_contents.clone()),
            DataType::Int64 => Self::Int64(from.int64_contents.clone()),
            DataType::Fp16 => Self::Fp16(Vec::new()),
            DataType::Bf16 => Self::Bf16(Vec::new()),
            DataType::Fp32 => Self::Fp32(from.fp32_contents.clone()),
            DataType::Fp64 => Self::Fp64(from.fp64_contents.clone()),
            DataType::Bytes => {
                Self::Bytes(from.bytes_contents.iter().map(|bytes| Bytes::copy_from_slice(bytes)).collect())
            }
        }
    }

    /// As the wire has them.
    pub fn raw(&self) -> Bytes {
        let mut out = BytesMut::new();
        numbers!(self,
            values => values.iter().for_each(|value| out.put_slice(&value.to_le_bytes())),
            bytes strings => out.put(texts(strings)),
            flags flags => flags.iter().for_each(|flag| out.put_u8(u8::from(*flag)))
        );
        out.freeze()
    }

    fn read(name: &str, datatype: DataType, raw: &Bytes) -> Result<Self, ErrorText> {
        fn each<const N: usize, T>(raw: &[u8], make: fn([u8; N]) -> T) -> Option<Vec<T>> {
            let (words, rest) = raw.as_chunks::<N>();
            rest.is_empty().then(|| words.iter().map(|word| make(*word)).collect())
        }
        let read = match datatype {
            DataType::Bool => Some(Self::Bool(raw.iter().map(|byte| *byte != 0).collect())),
            DataType::Uint8 => Some(Self::Uint8(raw.to_vec())),
            DataType::Int8 => each(raw, i8::from_le_bytes).map(Self::Int8),
            DataType::Uint16 => each(raw, u16::from_le_bytes).map(Self::Uint16),
            DataType::Fp16 => each(raw, u16::from_le_bytes).map(Self::Fp16),
            DataType::Bf16 => each(raw, u16::from_le_bytes).map(Self::Bf16),
            DataType::Int16 => each(raw, i16::from_le_bytes).map(Self::Int16),
            DataType::Uint32 => each(raw, u32::from_le_bytes).map(Self::Uint32),
            DataType::Int32 => each(raw, i32::from_le_bytes).map(Self::Int32),
            DataType::Fp32 => each(raw, f32::from_le_bytes).map(Self::Fp32),
            DataType::Uint64 => each(raw, u64::from_le_bytes).map(Self::Uint64),
            DataType::Int64 => each(raw, i64::from_le_bytes).map(Self::Int64),
            DataType::Fp64 => each(raw, f64::from_le_bytes).map(Self::Fp64),
            DataType::Bytes => strings(raw).map(Self::Bytes),
        };
        read.ok_or_else(|| {
            let bytes = raw.len();
            ErrorText::new(format_args!("`{name}`: {bytes} bytes are not a whole number of {datatype} elements"))
        })
    }
}

/// The elements of a BYTES tensor. `None`: one is longer than what is left.
pub fn strings(raw: &Bytes) -> Option<Vec<Bytes>> {
    let (mut at, mut found) = (0, Vec::new());
    while at < raw.len() {
        let len = u32::from_le_bytes(*raw.get(at..)?.first_chunk::<4>()?) as usize;
        let end = (at + 4).checked_add(len).filter(|end| *end <= raw.len())?;
        found.push(raw.slice(at + 4..end));
        at = end;
    }
    Some(found)
}

/// A named tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<i64>,
    pub data: TensorData,
}

impl Tensor {
    pub fn new(name: impl Into<String>, shape: impl Into<Vec<i64>>, data: TensorData) -> Result<Self, ErrorText> {
        let (name, shape) = (name.into(), shape.into());
        let sizes = shape.iter().map(|dim| usize::try_from(*dim).unwrap_or(0));
        // More elements than can be counted are more than can be given.
        let wanted = sizes.fold(1_usize, usize::saturating_mul);
        if wanted != data.len() {
            let given = data.len();
            let text = format!("`{name}`: shape {shape:?} has {wanted} elements, and {given} are given");
            return Err(ErrorText::new(text));
        }
        Ok(Self { name, shape, data })
    }

    /// Nested lists give values and shape; a single value is a list of one.
    pub fn from_json(name: &str, datatype: DataType, value: &Value) -> Result<Self, ErrorText> {
        let (mut shape, mut flat) = (Vec::new(), Vec::new());
        let list = if value.is_array() { value.clone() } else { json!([value]) };
        let ragged = || ErrorText::new(format_args!("`{name}`: its lists are not all of the same length"));
        flatten(&list, 0, &mut shape, &mut flat).ok_or_else(ragged)?;
        Self::new(name, shape, parse(name, datatype, &flat)?)
    }

    /// Flat values; strings that are not UTF-8 lose what is not.
    pub fn to_json(&self) -> Value {
        match &self.data {
            TensorData::Fp16(bits) => bits.iter().map(|bits| json!(f16::from_bits(*bits).to_f32())).collect(),
            TensorData::Bf16(bits) => bits.iter().map(|bits| json!(bf16::from_bits(*bits).to_f32())).collect(),
            data => numbers!(data,
                values => values.iter().map(|value| json!(value)).collect(),
                bytes strings => strings.iter().map(|bytes| json!(String::from_utf8_lossy(bytes))).collect(),
                flags flags => flags.iter().map(|flag| json!(flag)).collect()
            ),
        }
    }
}

/// The shape of nested lists, and their leaves; `None` where lists beside each other differ.
fn flatten<'a>(value: &'a Value, depth: usize, shape: &mut Vec<i64>, flat: &mut Vec<&'a Value>) -> Option<()> {
    let Value::Array(items) = value else {
        flat.push(value);
        return (depth == shape.len()).then_some(());
    };
    let len = items.len() as i64;
    match shape.get(depth) {
        Some(known) => (*known == len).then_some(())?,
        // Leaves were seen already at this depth: a list beside a value.
        None if !flat.is_empty() => return None,
        None => shape.push(len),
    }
    items.iter().try_for_each(|item| flatten(item, depth + 1, shape, flat))
}

fn parse(name: &str, datatype: DataType, values: &[&Value]) -> Result<TensorData, ErrorText> {
    fn all<'a, T>(values: &[&'a Value], of: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, &'a Value> {
        values.iter().map(|value| of(value).ok_or(*value)).collect()
    }
    fn int<T: TryFrom<i64>>(value: &Value) -> Option<T> {
        T::try_from(value.as_i64()?).ok()
    }
    let float = |value: &Value| value.as_f64().map(|value| value as f32);
    let data = match datatype {
        DataType::Bool => {
            all(values, |value| value.as_bool().or_else(|| value.as_u64().map(|n| n != 0))).map(TensorData::Bool)
        }
        DataType::Uint8 => all(values, int).map(TensorData::Uint8),
        DataType::Uint16 => all(values, int).map(TensorData::Uint16),
        DataType::Uint32 => all(values, int).map(TensorData::Uint32),
        DataType::Uint64 => all(values, Value::as_u64).map(TensorData::Uint64),
        DataType::Int8 => all(values, int).map(TensorData::Int8),
        DataType::Int16 => all(values, int).map(TensorData::Int16),
        DataType::Int32 => all(values, int).map(TensorData::Int32),
        DataType::Int64 => all(values, Value::as_i64).map(TensorData::Int64),
        DataType::Fp16 => all(values, |value| Some(f16::from_f32(float(value)?).to_bits())).map(TensorData::Fp16),
        DataType::Bf16 => all(values, |value| Some(bf16::from_f32(float(value)?).to_bits())).map(TensorData::Bf16),
        DataType::Fp32 => all(values, float).map(TensorData::Fp32),
        DataType::Fp64 => all(values, Value::as_f64).map(TensorData::Fp64),
        DataType::Bytes => all(values, |value| value.as_str().map(|text| Bytes::copy_from_slice(text.as_bytes())))
            .map(TensorData::Bytes),
    };
    data.map_err(|value| ErrorText::new(format_args!("`{name}`: {value} is not of type {datatype}")))
}

/// A request being made.
#[derive(Clone, Debug, Default)]
pub struct InferRequest(ModelInferRequest);

impl InferRequest {
    pub fn new(model: impl Into<String>, id: impl Into<String>) -> Self {
        Self(ModelInferRequest { model_name: model.into(), id: id.into(), ..ModelInferRequest::default() })
    }

    #[must_use]
    pub fn input(mut self, tensor: Tensor) -> Self {
        self.0.raw_input_contents.push(tensor.data.raw());
        self.0.inputs.push(InferInputTensor {
            datatype: tensor.data.datatype().name().to_owned(),
            name: tensor.name,
            shape: tensor.shape,
            ..InferInputTensor::default()
        });
        self
    }

    /// Only named outputs come back; without any, all do.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>) -> Self {
        self.0.outputs.push(InferRequestedOutputTensor { name: name.into(), ..InferRequestedOutputTensor::default() });
        self
    }

    /// A last response without tokens is passed on too: without it some streams have no end that can be seen.
    #[must_use]
    pub fn with_final_response(mut self) -> Self {
        let choice = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
        self.0.parameters.insert("triton_enable_empty_final_response".to_owned(), choice);
        self
    }

    pub fn build(self) -> ModelInferRequest {
        self.0
    }
}

/// The outputs of an answer, from raw or typed contents.
pub fn tensors_of(response: &ModelInferResponse) -> Result<Vec<Tensor>, ErrorText> {
    let outputs = response.outputs.iter().enumerate().map(|(index, output)| {
        let name = &output.name;
        let unknown =
            || ErrorText::new(format_args!("`{name}` has the data type `{}`, which is not known", output.datatype));
        let datatype = DataType::parse(&output.datatype).ok_or_else(unknown)?;
        let data = match (response.raw_output_contents.get(index), &output.contents) {
            (Some(raw), _) => TensorData::read(name, datatype, raw)?,
            (None, Some(contents)) => TensorData::from_contents(datatype, contents),
            (None, None) => TensorData::read(name, datatype, &Bytes::new())?,
        };
        Tensor::new(name, output.shape.clone(), data)
    });
    outputs.collect()
}

#[cfg(test)]
mod tests {
    // Every data type survives a round trip; input that is not a tensor is refused with the reason.

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::proto::inference::model_infer_response::InferOutputTensor;

    /// As a server that echoes would answer.
    fn echoed(request: ModelInferRequest) -> ModelInferResponse {
        let outputs = request.inputs.into_iter().map(|input| InferOutputTensor {
            name: input.name,
            datatype: input.datatype,
            shape: input.shape,
            ..InferOutputTensor::default()
        });
        ModelInferResponse {
            outputs: outputs.collect(),
            raw_output_contents: request.raw_input_contents,
            ..ModelInferResponse::default()
        }
    }

    fn round_trip(tensor: Tensor) -> Tensor {
        let request = InferRequest::new("m", "1").input(tensor).build();
        tensors_of(&echoed(request)).unwrap().remove(0)
    }

    #[test]
    fn every_data_type_comes_back_as_it_went() {
        for (datatype, value) in [
            (DataType::Bool, json!([[true, false]])),
            (DataType::Uint8, json!([0, 255])),
            (DataType::Uint16, json!([0, 65535])),
            (DataType::Uint32, json!([0, 4_294_967_295u32])),
            (DataType::Uint64, json!([0, u64::MAX])),
            (DataType::Int8, json!([-128, 127])),
            (DataType::Int16, json!([-32768, 32767])),
            (DataType::Int32, json!([[i32::MIN], [i32::MAX]])),
            (DataType::Int64, json!([i64::MIN, i64::MAX])),
            (DataType::Fp16, json!([1.5, -0.25])),
            (DataType::Bf16, json!([1.5, -0.25])),
            (DataType::Fp32, json!([1.5, -3.25])),
            (DataType::Fp64, json!([1e300, -0.1])),
            (DataType::Bytes, json!(["", "sous le pont d’Avignon"])),
        ] {
            let tensor = Tensor::from_json("x", datatype, &value).unwrap();
            assert_eq!(round_trip(tensor.clone()), tensor);
            let flat: Vec<&Value> = value
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|v| v.as_array().map_or(vec![v], |list| list.iter().collect()))
                .collect();
            let back = tensor.to_json();
            assert_eq!(back.as_array().unwrap().iter().collect::<Vec<_>>(), flat, "{datatype}");
            assert_eq!(DataType::parse(datatype.name()), Some(datatype));
        }
        assert_eq!(DataType::parse("TYPE_STRING"), Some(DataType::Bytes));
    }

    #[test]
    fn typed_contents_are_read_too() {
        let contents = InferTensorContents { int_contents: vec![-1, 7], ..InferTensorContents::default() };
        let output = InferOutputTensor {
            name: "x".to_owned(),
            datatype: "INT8".to_owned(),
            shape: vec![2],
            contents: Some(contents),
            ..InferOutputTensor::default()
        };
        let response = ModelInferResponse { outputs: vec![output], ..ModelInferResponse::default() };
        assert_eq!(tensors_of(&response).unwrap()[0].data, TensorData::Int8(vec![-1, 7]));
    }

    #[test]
    fn what_is_no_tensor_says_why() {
        let wrong = |datatype, value: Value| Tensor::from_json("x", datatype, &value).unwrap_err().to_string();
        assert_eq!(wrong(DataType::Int8, json!([1, 200])), "`x`: 200 is not of type INT8");
        assert_eq!(wrong(DataType::Bytes, json!([1])), "`x`: 1 is not of type BYTES");
        assert_eq!(wrong(DataType::Int32, json!([[1, 2], [3]])), "`x`: its lists are not all of the same length");
        assert_eq!(wrong(DataType::Int32, json!([1, [2]])), "`x`: its lists are not all of the same length");
        let short = Tensor::new("x", [2, 2], TensorData::Int32(vec![1, 2, 3])).unwrap_err().to_string();
        assert_eq!(short, "`x`: shape [2, 2] has 4 elements, and 3 are given");
        let torn =
            TensorData::read("x", DataType::Bytes, &Bytes::from_static(&[9, 0, 0, 0, b'a'])).unwrap_err().to_string();
        assert_eq!(torn, "`x`: 5 bytes are not a whole number of BYTES elements");
    }

    proptest! {
        #[test]
        fn sixteen_bit_floats_keep_every_value(bits: u16) {
            for data in [TensorData::Fp16(vec![bits]), TensorData::Bf16(vec![bits])] {
                let tensor = Tensor::new("x", [1], data).unwrap();
                let json = tensor.to_json();
                // JSON has neither NaN nor infinity.
                prop_assert!(
                    json[0].is_null() || Tensor::from_json("x", tensor.data.datatype(), &json).unwrap() == tensor
                );
            }
        }

        #[test]
        fn no_bytes_make_the_tensor_reader_panic(
            raw in prop::collection::vec(any::<u8>(), 0..40),
            which in 0usize..14,
        ) {
            let _ = TensorData::read("x", DataType::ALL[which], &raw.into());
        }
    }
}
