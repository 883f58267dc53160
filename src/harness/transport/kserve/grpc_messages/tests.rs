//! Messages of servers, field by field.

use proptest::prelude::*;

use super::*;
use triton::proto::inference::infer_parameter::ParameterChoice;
use triton::proto::inference::model_infer_response::InferOutputTensor;
use triton::proto::inference::{InferParameter, InferTensorContents, ModelInferResponse, ModelStreamInferResponse};

const IDS: ScanRequest<'_> = ScanRequest { answer: "output_ids", is_text: false, is_batched: true, has_beams: false };

fn response(tokens: &[i32], is_final: bool, error: &str) -> ModelStreamInferResponse {
    let ids: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let tensor = |name: &str, len: usize| InferOutputTensor {
        name: name.to_owned(),
        datatype: "INT32".to_owned(),
        shape: vec![1, 1, len as i64],
        ..InferOutputTensor::default()
    };
    ModelStreamInferResponse {
        error_message: error.to_owned(),
        infer_response: Some(ModelInferResponse {
            model_name: "m".to_owned(),
            id: "17".to_owned(),
            parameters: [(
                "triton_final_response".to_owned(),
                InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_final)) },
            )]
            .into(),
            outputs: vec![tensor("batch_index", 1), tensor("output_ids", tokens.len())],
            raw_output_contents: vec![Bytes::from_static(&[9, 0, 0, 0]), ids.into()],
            ..ModelInferResponse::default()
        }),
    }
}

proptest! {
    #[test]
    fn the_scan_sees_what_was_written(
        tokens in prop::collection::vec(any::<i32>(), 0..20),
        fin: bool,
        error in "[a-z]{0,9}",
    ) {
        let bytes = response(&tokens, fin, &error).encode_to_vec();
        let seen = scan_stream(&bytes, &IDS).unwrap();
        prop_assert_eq!(named(&bytes).unwrap(), ("17", seen.error));
        let error = (!error.is_empty()).then_some(error.as_str());
        let expected = ScannedResponse {
            error,
            tokens: tokens.len() as u32,
            is_empty: tokens.is_empty(),
            last_token: tokens.last().copied(),
            is_final: fin,
            row: 9,
            raw: seen.raw,
            has_response: true,
            id: b"17",
            model: b"m",
            misshapen: None,
            datatype: Some(b"INT32"),
            not_an_id: tokens.iter().min().filter(|id| **id < 0).map(|id| i64::from(*id)),
            not_a_length: None,
        };
        let ids: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        prop_assert_eq!(seen.raw, &ids[..]);
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn no_bytes_make_the_scan_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan_stream(&bytes, &IDS);
        let _ = named(&bytes);
    }

    #[test]
    fn frames_survive_any_cut(sizes in prop::collection::vec(0usize..40, 1..10), step in 1usize..17) {
        let messages: Vec<ModelStreamInferResponse> =
            sizes.iter().map(|len| response(&vec![7; *len], false, "")).collect();
        let whole: Vec<u8> = messages.iter().flat_map(|message| frame(message).to_vec()).collect();
        let mut frames = Frames::new(u64::MAX, u64::MAX);
        let mut seen = Vec::new();
        for piece in whole.chunks(step) {
            frames.push(Bytes::copy_from_slice(piece));
            while let Some(message) = frames.next().unwrap() {
                seen.push(scan_stream(&message, &IDS).unwrap().tokens as usize);
            }
        }
        prop_assert_eq!(seen, sizes);
    }
}

#[test]
fn an_empty_final_has_no_token() {
    let message = ModelStreamInferResponse {
        infer_response: Some(ModelInferResponse {
            parameters: [(
                "triton_final_response".to_owned(),
                InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) },
            )]
            .into(),
            ..ModelInferResponse::default()
        }),
        ..ModelStreamInferResponse::default()
    };
    let bytes = message.encode_to_vec();
    assert_eq!(
        scan_stream(&bytes, &IDS).unwrap(),
        ScannedResponse { is_final: true, has_response: true, ..ScannedResponse::default() }
    );
}

#[test]
fn ids_beyond_their_sequence_length_are_no_tokens() {
    let read = |beams: usize, ids: &[i32], lengths: &[i32], is_raw: bool| {
        let tensor = |name: &str, numbers: &[i32], shape: Vec<i64>| InferOutputTensor {
            name: name.to_owned(),
            datatype: "INT32".to_owned(),
            shape,
            contents: (!is_raw)
                .then(|| InferTensorContents { int_contents: numbers.to_vec(), ..InferTensorContents::default() }),
            ..InferOutputTensor::default()
        };
        let raw = |numbers: &[i32]| -> Bytes { numbers.iter().flat_map(|number| number.to_le_bytes()).collect() };
        let row = (ids.len() / beams) as i64;
        let message = ModelInferResponse {
            outputs: vec![
                tensor("sequence_length", lengths, vec![1, lengths.len() as i64]),
                tensor("output_ids", ids, vec![1, beams as i64, row]),
            ],
            raw_output_contents: if is_raw { vec![raw(lengths), raw(ids)] } else { Vec::new() },
            ..ModelInferResponse::default()
        };
        let bytes = message.encode_to_vec();
        let seen = scan_response(&bytes, &IDS).unwrap();
        (seen.tokens, seen.last_token.filter(|_| is_raw), seen.not_a_length, seen.not_an_id)
    };
    for is_raw in [true, false] {
        let last = |id: i32| Some(id).filter(|_| is_raw);
        assert_eq!(read(1, &[5, 6, 2, 2], &[2], is_raw), (2, last(6), None, None));
        assert_eq!(read(1, &[5, 6], &[2], is_raw), (2, last(6), None, None));
        assert_eq!(read(1, &[5, 6], &[0], is_raw), (0, None, None, None));
        // The longest beam counts, once for each: the reader divides by their number.
        assert_eq!(read(2, &[5, 6, 2, 7, 2, 2], &[2, 1], is_raw), (4, last(2), None, None));
        assert_eq!(read(1, &[5, 6], &[-5], is_raw), (2, last(6), Some(-5), None));
        assert_eq!(read(1, &[5, 6], &[i32::MAX], is_raw), (2, last(6), Some(i64::from(i32::MAX)), None));
        assert_eq!(read(2, &[5, 6, 7, 8], &[2, 3], is_raw), (4, last(8), Some(3), None));
    }
    // What pads is no id.
    assert_eq!(read(1, &[5, -1, -1], &[1], true), (1, Some(5), None, None));
}

/// Tensors with contradictory shape, data type and bytes.
#[test]
fn a_shape_without_its_bytes_is_reported_and_counts_what_came() {
    let read = |shape: &[i64], datatype: &str, raw: &'static [u8]| {
        let message = ModelInferResponse {
            outputs: vec![InferOutputTensor {
                name: "output_ids".to_owned(),
                datatype: datatype.to_owned(),
                shape: shape.to_vec(),
                ..InferOutputTensor::default()
            }],
            raw_output_contents: if raw.is_empty() { Vec::new() } else { vec![Bytes::from_static(raw)] },
            ..ModelInferResponse::default()
        };
        let bytes = message.encode_to_vec();
        let seen = scan_response(&bytes, &IDS).unwrap();
        (seen.tokens, seen.misshapen.is_some())
    };
    assert_eq!(read(&[1, 1, 2], "INT32", &[1, 0, 0, 0, 2, 0, 0, 0]), (2, false));
    assert_eq!(read(&[1, 1, 3], "INT32", &[1, 0, 0, 0, 2, 0, 0, 0]), (2, true));
    assert_eq!(read(&[1, 1, 1], "INT64", &[1, 0, 0, 0, 0, 0, 0, 0]), (1, false));
    assert_eq!(read(&[1, 1, 1], "INT32", &[1, 0, 0, 0, 9]), (1, true));
    assert_eq!(read(&[1, 1, 3], "INT32", &[]), (0, true));
    assert_eq!(read(&[-1], "INT32", &[1, 0, 0, 0]), (1, true));
}

#[test]
fn numbers_below_zero_are_no_ids_except_behind_a_shorter_beam() {
    let read = |datatype: &str, raw: &'static [u8], contents: Option<Vec<i32>>, has_beams| {
        let message = ModelInferResponse {
            outputs: vec![InferOutputTensor {
                name: "output_ids".to_owned(),
                datatype: datatype.to_owned(),
                shape: vec![2],
                contents: contents
                    .map(|ids| InferTensorContents { int_contents: ids, ..InferTensorContents::default() }),
                ..InferOutputTensor::default()
            }],
            raw_output_contents: if raw.is_empty() { Vec::new() } else { vec![Bytes::from_static(raw)] },
            ..ModelInferResponse::default()
        };
        let bytes = message.encode_to_vec();
        let seen = scan_response(&bytes, &ScanRequest { has_beams, ..IDS }).unwrap();
        (seen.tokens, seen.not_an_id)
    };
    let minus_one = &[7, 0, 0, 0, 255, 255, 255, 255];
    assert_eq!(read("INT32", minus_one, None, false), (2, Some(-1)));
    assert_eq!(read("INT32", minus_one, None, true), (2, None));
    assert_eq!(read("UINT32", minus_one, None, false), (2, None));
    assert_eq!(read("INT32", &[7, 0, 0, 0, 251, 255, 255, 255], None, true), (2, Some(-5)));
    assert_eq!(read("INT64", &[255; 16], None, false), (2, Some(-1)));
    assert_eq!(read("INT32", &[], Some(vec![70_000, -5]), false), (2, Some(-5)));
    assert_eq!(read("INT32", &[], Some(vec![70_000, 5]), false), (2, None));
}

#[test]
fn a_message_beyond_its_limit_is_refused_by_its_length_alone() {
    let mut frames = Frames::new(1000, u64::MAX);
    frames.push(Bytes::from_static(&[0, 0, 0, 3, 233]));
    assert_eq!(frames.next(), Err(WireError::TooLong(1001)));
}
