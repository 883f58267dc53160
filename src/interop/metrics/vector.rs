//! Five hand-made requests on which every tool's definition has a known number.

use super::request_trace::{ChunkKind, RequestTrace, TracedChunk, TracedChunks};

/// A chat answer with a role chunk, a chunk of three tokens and a usage chunk; one that the client held back for 500 ms;
/// a one-token answer; one with an empty text in its first token; an error.
pub fn vector() -> Vec<RequestTrace> {
    use ChunkKind::{Empty, Role, Token, Usage};
    let held: Vec<(f64, u32, ChunkKind)> = (0..11).map(|i| (710.0 + 20.0 * f64::from(i), 1, Token)).collect();
    let role = [(100.0, 0, Role), (200.0, 1, Token), (220.0, 1, Token), (240.0, 3, Token), (300.0, 1, Token)];
    let role: Vec<_> = role.into_iter().chain([(305.0, 0, Usage)]).collect();
    let empty = [(190.0, 1, Empty), (220.0, 1, Token), (250.0, 1, Token), (280.0, 1, Token), (310.0, 1, Token)];
    vec![
        seen(0, (0.0, 2.0, 306.0), 6, 6, &role),
        seen(1, (10.0, 510.0, 912.0), 11, 11, &held),
        seen(2, (20.0, 21.0, 223.0), 1, 1, &[(221.0, 1, Token)]),
        seen(3, (30.0, 31.0, 311.0), 5, 4, &empty),
        RequestTrace {
            ok: false,
            error: Some("an error after 20 ms".to_owned()),
            ..seen(4, (40.0, 41.0, 61.0), 0, 0, &[])
        },
    ]
}

fn seen(
    index: u64,
    (sched, issue, end): (f64, f64, f64),
    tokens: u32,
    retokenized: u32,
    chunks: &[(f64, u32, ChunkKind)],
) -> RequestTrace {
    RequestTrace {
        index,
        ok: true,
        sched: Some(sched),
        issue,
        end,
        input: None,
        input_server: None,
        tokens: Some(tokens),
        retokenized: Some(retokenized),
        chunks: TracedChunks::Every(
            chunks.iter().map(|&(at, tokens, kind)| TracedChunk { at, tokens, kind }).collect(),
        ),
        error: None,
    }
}
