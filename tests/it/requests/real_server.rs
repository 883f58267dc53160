//! The same against a real Triton with a Python model in the engine's place.

use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;
use crate::sending::SHARED;
use crate::tritonserver::{self, RealTriton};

/// A repository for the Python backend, with its models.
fn repository(streaming: bool) -> Files {
    let files = Files::new(streaming, &json!({"triton_backend": "python"}));
    copy(&tritonserver::models(), &files.repository());
    files
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().map(Result::unwrap) {
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn serve(files: &Files) -> RealTriton {
    wait_for(RealTriton::ready(&files.repository(), &[]))
}

fn spec_of(server: &RealTriton, model: &str, request: Request) -> BenchSpec {
    BenchSpec { model: model.to_owned(), ..spec(server.endpoint.clone(), 12, request) }
}

#[test]
#[ignore = "needs a real tritonserver"]
fn the_real_decoupled_server_streams_batches_stops_and_cancels() {
    let files = repository(true);
    let server = serve(&files);
    for model in ["tensorrt_llm", "ensemble", "tensorrt_llm_bls"] {
        let measured = measured(&spec_of(&server, model, Request::default()));
        all_ok(&measured);
        assert_eq!(measured.result.client.call, "stream");
    }
    for model in ["tensorrt_llm", "ensemble", "tensorrt_llm_bls"] {
        let shared = measured(&BenchSpec { pace: SHARED, ..spec_of(&server, model, Request::default()) });
        all_ok(&shared);
        assert_eq!(shared.result.connections.shared_streams, Some(2), "one for each connection");
        assert!(shared.requests.iter().all(|record| record.final_marker));
    }
    let batch = measured(&spec_of(&server, "tensorrt_llm", Request { batch: Some(3), ..Request::default() }));
    all_ok(&batch);
    assert!(batch.requests.iter().all(|record| record.final_marker && record.chunks == record.tokens));
    // Its tokens are the letters in a circle: every answer says "a" within 26 tokens.
    let letter = 3 + i32::from(b'a');
    let words = Request { stop_words: Some(WordList::Ids(vec![vec![letter]])), ..Request::default() };
    let stopped = measured(&BenchSpec { output_len: Length::Fixed(40), ..spec_of(&server, "tensorrt_llm", words) });
    assert_eq!(stopped.result.counts.ok, 12);
    assert!(stopped.requests.iter().all(|record| (1..=26).contains(&record.tokens)), "{:?}", stopped.requests);
    for by in [CancelBy::Rpc, CancelBy::Stop] {
        let request = Request { cancel: Some(CancelPolicy { after_tokens: 2, share: 1.0, by }), ..Request::default() };
        // At 2 ms a token an answer would take a minute.
        let long =
            BenchSpec { output_len: Length::Fixed(30_000), warmup: 0, ..spec_of(&server, "tensorrt_llm", request) };
        let cancelled = measured(&long).result;
        assert_eq!((cancelled.counts.cancelled_early, cancelled.counts.failed), (12, 0), "{:?}", cancelled.counts);
        assert!(cancelled.cancellations.unwrap().tokens < 12 * 30_000);
    }
    let cancel = Some(CancelPolicy { after_tokens: 2, share: 0.5, by: CancelBy::Stop });
    let request = Request { cancel, ..Request::default() };
    let half = BenchSpec { output_len: Length::Fixed(200), pace: SHARED, ..spec_of(&server, "tensorrt_llm", request) };
    let half = measured(&half).result;
    assert_eq!(
        (half.counts.ok + half.counts.cancelled_early, half.connections.shared_streams),
        (12, Some(2)),
        "{:?}",
        half.counts
    );
    assert!(half.counts.ok > 0 && half.counts.cancelled_early > 0);
    let whole = Request { streaming: Some(false), ..Request::default() };
    all_ok(&measured(&spec_of(&server, "tensorrt_llm", whole)));
}

#[test]
#[ignore = "needs a real tritonserver"]
fn the_real_server_answers_at_once_and_refuses_in_its_own_words() {
    let files = repository(false);
    let server = serve(&files);
    for (model, call) in [("tensorrt_llm", "unary"), ("ensemble", "unary"), ("tensorrt_llm_bls", "unary")] {
        let measured = measured(&spec_of(&server, model, Request::default()));
        all_ok(&measured);
        assert_eq!(measured.result.client.call, call);
    }
    for exclude in [Some(true), Some(false)] {
        let request = Request { exclude_input_in_output: exclude, ..Request::default() };
        all_ok(&measured(&spec_of(&server, "tensorrt_llm", request)));
    }
    let faults = refused(&spec_of(&server, "tensorrt_llm", Request { streaming: Some(true), ..Request::default() }));
    assert!(faults[0].starts_with("request.streaming: the model is not decoupled"), "{faults:?}");
}
