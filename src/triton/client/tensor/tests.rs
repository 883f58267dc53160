//! Every data type survives a round trip; input that is not a tensor is refused with the reason.

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
    assert_eq!(wrong(DataType::Int8, json!([1, 200])), "`x`: 200 is no INT8");
    assert_eq!(wrong(DataType::Bytes, json!([1])), "`x`: 1 is no BYTES");
    assert_eq!(wrong(DataType::Int32, json!([[1, 2], [3]])), "`x`: its lists are not all of the same length");
    assert_eq!(wrong(DataType::Int32, json!([1, [2]])), "`x`: its lists are not all of the same length");
    let short = Tensor::new("x", [2, 2], TensorData::Int32(vec![1, 2, 3])).unwrap_err().to_string();
    assert_eq!(short, "`x`: shape [2, 2] has 4 elements, and 3 are given");
    let torn =
        TensorData::read("x", DataType::Bytes, &Bytes::from_static(&[9, 0, 0, 0, b'a'])).unwrap_err().to_string();
    assert_eq!(torn, "`x`: 5 bytes are no whole number of BYTES elements");
}

proptest! {
    #[test]
    fn sixteen_bit_floats_keep_every_value(bits: u16) {
        let half = f16_to_f32(bits);
        prop_assert!(half.is_nan() || f32_to_f16(half) == bits);
        let brain = bf16_to_f32(bits);
        prop_assert!(brain.is_nan() || f32_to_bf16(brain) == bits);
    }

    #[test]
    fn a_rounded_half_is_the_nearest_there_is(value in -70000f32..70000f32) {
        let bits = f32_to_f16(value);
        let error = (f16_to_f32(bits) - value).abs();
        // Neighbors have neighboring bits.
        for other in [bits.wrapping_sub(1), bits.wrapping_add(1)] {
            let other = f16_to_f32(other);
            prop_assert!(other.is_nan() || f16_to_f32(bits).is_infinite() || (other - value).abs() >= error);
        }
    }

    #[test]
    fn no_bytes_make_the_tensor_reader_panic(raw in prop::collection::vec(any::<u8>(), 0..40), which in 0usize..14) {
        let _ = TensorData::read("x", DataType::ALL[which], &raw.into());
    }
}
