//! What servers send, and what is measured of it: one table of all wire forms, true values beside measured ones.
//!
//! Each form answers two requests, one after the other, `GAP` between chunks with output. The truth is what the script writes. Times
//! depend on the machine: they are compared here, with a tolerance, and are not in the table.

mod grpc;
mod sse;

use std::fmt::Write as _;
use std::time::Duration;

use regatta::harness::{Api, BenchSpec, Http, LoadLevel, LoadPattern, Measured, Transport};
use regatta::spec::{Length, StreamMode};
use regatta::triton::proto::inference::{ModelInferRequest, ModelStreamInferResponse};

use crate::harness as kserve;
use crate::openai::script::{Do, Scripted as HttpServer};
use crate::openai::{self, measure};
use crate::scripted_server::{Act, Scripted as GrpcServer};

const GAP: Duration = Duration::from_millis(10);
const REQUESTS: u64 = 2;
const ASKED: u32 = 6;
/// A loaded machine delays single reads; a wrong count is off by more than this in every attempt.
const ATTEMPTS: u32 = 5;

/// One way to answer.
struct Form {
    name: &'static str,
    truth: Truth,
    by: By,
}

enum By {
    Http { api: Api, streams: bool, steps: Vec<Do> },
    Grpc { is_shared: bool, messages: fn(&ModelInferRequest) -> Vec<ModelStreamInferResponse> },
}

/// Of one request, by construction.
#[derive(Clone, Copy, Debug)]
struct Truth {
    /// 1: the answer is whole.
    ok: u64,
    tokens: u32,
    /// Tokens of the first read.
    first: u32,
    /// Chunks with at least one token.
    chunks: u32,
}

fn play(form: &Form) -> Measured {
    match &form.by {
        By::Http { api, streams, steps } => {
            let steps = steps.clone();
            let server = HttpServer::start(move |_| steps.clone());
            let mut spec = BenchSpec {
                model: "m".to_owned(),
                protocol: Transport::Http(Http::new(*api)),
                ..openai::spec(&server.address.to_string(), *api, REQUESTS)
            };
            spec.request.streaming = Some(*streams);
            measure(&one_by_one(spec))
        }
        By::Grpc { is_shared, messages } => {
            let messages = *messages;
            // On a shared stream, what follows the first answer is read long before the second one ends.
            let is_shared = *is_shared;
            let gap = move |id| match (is_shared, id) {
                (false, _) => GAP,
                (true, 0) => GAP / 5,
                (true, _) => GAP * 5,
            };
            let server = GrpcServer::start(true, None, kserve::script(move |id| Act::Play { gap: gap(id), messages }));
            let mut spec = BenchSpec { clients: 1, ..kserve::spec(&server, REQUESTS) };
            if is_shared {
                spec.pace.stream = StreamMode::Shared;
            }
            measure(&one_by_one(spec))
        }
    }
}

fn one_by_one(spec: BenchSpec) -> BenchSpec {
    BenchSpec {
        scenario: LoadPattern::Concurrency { users: LoadLevel::Fixed(1.0) },
        input_len: Length::Fixed(8),
        output_len: Length::Fixed(ASKED),
        timelines: true,
        ..spec
    }
}

/// Findings that depend on what the answers are, and not on how fast the machine is.
const LASTING: [&str; 9] =
    ["failures", "protocol", "self_check", "conservation", "in_flight", "lengths", "tokens", "coalesced", "unary"];

struct Row {
    truth: String,
    measured: String,
    source: String,
    verdict: String,
}

fn row(form: &Form, measured: &Measured) -> Row {
    let Truth { ok, tokens, first, chunks } = form.truth;
    let of_all = |one: u32| u64::from(one) * REQUESTS;
    let result = &measured.result;
    let good = || measured.requests.iter().filter(regatta::harness::RequestRecord::is_ok);
    let sum =
        |of: fn(&regatta::harness::RequestRecord) -> u32| good().map(|record| u64::from(of(&record))).sum::<u64>();
    let is_known = good().all(|record| !record.chunk_tokens_unknown);
    let itl = &result.latency.itl_token;
    let itl_n = if itl.absent.is_some() { "left out".to_owned() } else { itl.n.to_string() };
    let firsts = if is_known {
        sum(|record| record.first_tokens.max(record.first_read_tokens)).to_string()
    } else {
        "?".to_owned()
    };
    let counts = &result.counts;
    let findings: Vec<String> = result
        .reasons()
        .iter()
        .filter(|reason| LASTING.contains(&reason.check.as_str()))
        .map(|reason| format!("{:?} {}", reason.severity, reason.check))
        .collect();
    let violations: Vec<String> =
        counts.violations.iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
    let reasons: Vec<String> =
        counts.finish_reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect();
    let mut verdict = if findings.is_empty() { "valid".to_owned() } else { findings.join(", ") };
    for part in [violations, reasons].into_iter().filter(|part| !part.is_empty()) {
        let _ = write!(verdict, "; {}", part.join(", "));
    }
    Row {
        truth: format!("{}/{}/{}/{}", ok * REQUESTS, of_all(tokens), of_all(first), of_all(tokens - first)),
        measured: format!("{}/{}/{firsts}/{itl_n}", counts.ok, result.tokens.output),
        source: result.tokens.source.clone(),
        verdict,
    }
    .checked(form, measured, chunks)
}

impl Row {
    /// What holds for every form.
    fn checked(self, form: &Form, measured: &Measured, chunks: u32) -> Self {
        let (name, result) = (form.name, &measured.result);
        let Truth { ok, tokens, first, .. } = form.truth;
        assert_eq!(result.counts.ok, ok * REQUESTS, "{name}: {:?}", result.counts.failures);
        assert!(result.self_check.mismatches.is_empty(), "{name}: {:?}", result.self_check);
        assert!(result.self_check.checks >= 6, "{name}");
        let is_counted = ["usage.completion_tokens", "output_ids", "token ids or log probabilities of each chunk"]
            .contains(&result.tokens.source.as_str());
        let is_consistent = !result.counts.violations.contains_key(&regatta::harness::Violation::UsageMismatch);
        if is_counted && is_consistent {
            assert_eq!(result.tokens.output, u64::from(tokens) * REQUESTS, "{name}: {:?}", measured.requests);
        }
        let itl = &result.latency.itl_token;
        if itl.absent.is_none() {
            assert_eq!(itl.n, u64::from(tokens - first) * REQUESTS, "{name}");
        }
        for record in measured.requests.iter().filter(regatta::harness::RequestRecord::is_ok) {
            assert_eq!(record.chunks, chunks, "{name}: {:?}", record.timeline);
        }
        self
    }
}

/// The mean of ITL, ms, against what the script waits: chunks are `GAP` apart.
fn is_near(form: &Form, measured: &Measured) -> bool {
    let Truth { tokens, first, chunks, .. } = form.truth;
    let is_paced = !matches!(form.by, By::Grpc { is_shared: true, .. });
    let Some(mean) = measured.result.latency.itl_token.mean.filter(|_| is_paced) else { return true };
    let truth = GAP.as_secs_f64() * 1e3 * f64::from(chunks - 1) / f64::from(tokens - first);
    (0.7 * truth..2.5 * truth).contains(&mean)
}

#[test]
fn every_wire_form_is_measured_as_it_is_written() {
    let forms: Vec<Form> = sse::forms().into_iter().chain(grpc::forms()).collect();
    assert!(forms.len() >= 60, "{}", forms.len());
    let mut table = String::from(
        "# Two requests each. true and measured: whole answers / tokens / tokens of first reads / values of inter-token latency\n",
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/wire-forms.txt");
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let line = |form: &Form, measured: &Measured| {
        let Row { truth, measured, source, verdict } = row(form, measured);
        format!("{:<60} | {truth:<11} | {measured:<16} | {source:<45} | {verdict}\n", form.name)
    };
    for form in &forms {
        let mut measured = play(form);
        for _ in 1..ATTEMPTS {
            if is_near(form, &measured) && written.contains(&line(form, &measured)) {
                break;
            }
            measured = play(form);
        }
        assert!(is_near(form, &measured), "{}: {:?}", form.name, measured.result.latency.itl_token);
        table += &line(form, &measured);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    pretty_assertions::assert_eq!(std::fs::read_to_string(&path).unwrap(), table, "regenerate with UPDATE=1");
}
