//! Speculative decoding: published speed-ups, the batch at which it stops to help, and what a simulated server sends.

use std::fmt::Write as _;

use regatta::sim::{
    EngineServing, EngineSpec, GpuTiming, SimulatedRequest, VirtualWorkload, served_limits, simulate, with_users,
    write_engine,
};
use regatta::spec::{AcceptanceRate, Drafter, Drafting, Length, LimitedMetric, ModelShape, SimCalibration, Statistic};
use serde_json::json;

use super::ground::{Files, Running, engine_spec, request, stream};

/// DeepSeek-R1 in NVFP4 on eight B200, with the shipped calibration, but for what it has of runs without CUDA graphs: this one had them.
fn deepseek_r1(drafts: &[f64]) -> EngineSpec {
    EngineSpec {
        model: ModelShape {
            name: "deepseek-r1".into(),
            architecture: "DeepseekV3ForCausalLM".into(),
            parameters: 671_026_419_200,
            active_parameters: Some(37_552_297_472),
            num_experts: Some(256),
            experts_per_token: Some(8),
            num_hidden_layers: 61,
            hidden_size: 7168,
            intermediate_size: 18_432,
            num_attention_heads: 128,
            num_key_value_heads: 8,
            head_dim: None,
            vocab_size: 129_280,
            max_position_embeddings: 163_840,
        },
        gpu: GpuTiming {
            name: "B200".into(),
            memory_gb: 180.0,
            bandwidth_gbs: 8000.0,
            link_gbs: Some(900.0),
            tflops_16bit: 2250.0,
        },
        calibration: SimCalibration {
            compute_fp4: Some(0.93),
            link: 0.5,
            layer_us: 134.0,
            cuda_graph_tokens: 4096,
            request_us: 12.0,
            prompt_us: 1000.0,
            ..SimCalibration::default()
        },
        precision: "fp4".into(),
        tensor_parallelism: 8,
        build_flags: json!({"max_batch_size": 8, "max_input_len": 1024, "max_seq_len": 4096})
            .as_object()
            .unwrap()
            .clone(),
        drafting: Some(Drafting {
            drafter: Drafter::Layer,
            draft_len: drafts.len() as u32,
            acceptance: AcceptanceRate::PerPosition(drafts.to_vec()),
        }),
        ..engine_spec()
    }
}

/// Tokens a second of one user.
fn of_a_user(spec: &EngineSpec) -> f64 {
    let workload = VirtualWorkload {
        input_tokens: Length::Fixed(1024),
        output_tokens: Length::Fixed(2048),
        adapters: Vec::new(),
        seed: 5,
    };
    let ran = with_users(&served_limits(spec, &EngineServing::default()).unwrap(), 1, &workload, 10, 1).unwrap();
    1e3 / ran.statistic(LimitedMetric::Tpot, Statistic::Mean).unwrap().unwrap()
}

/// "Pushing Latency Boundaries: Optimizing DeepSeek-R1 Performance on NVIDIA B200 GPUs" (TensorRT-LLM's technical blog 1): one user, 1,000 and 2,000
/// tokens. MTP layers, tokens of a step and tokens a second. What each further layer adds is the rate of its position.
const PUBLISHED: [(usize, f64, f64); 6] =
    [(0, 1.00, 111.0), (1, 1.92, 198.0), (2, 2.58, 250.0), (3, 2.82, 253.0), (4, 2.99, 245.0), (5, 3.01, 239.0)];

#[test]
fn published_speed_ups_beside_the_simulators() {
    let rates: Vec<f64> = PUBLISHED.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let mut table = String::from(
        "| MTP layers | tokens of a step | tok/s of a user | simulated | error, % | speed-up | simulated | error, % |\n|---|---|---|---|---|---|---|---|\n",
    );
    let alone = of_a_user(&deepseek_r1(&[]));
    for (layers, tokens, published) in PUBLISHED {
        let simulated = of_a_user(&deepseek_r1(&rates[..layers]));
        let (gain, found) = (published / PUBLISHED[0].2, simulated / alone);
        let error = found / gain - 1.0;
        let _ = writeln!(
            table,
            "| {layers} | {tokens:.2} | {published:.0} | {simulated:.0} | {:+.0} | {gain:.2} | {found:.2} | {:+.0} |",
            (simulated / published - 1.0) * 100.0,
            error * 100.0
        );
        assert!(error.abs() < 0.15, "{table}");
    }
    super::on_the_page("concepts/simulation.md", &table);
}

#[test]
fn drafts_help_few_users_and_hurt_many() {
    let at = |drafts: u32, users: usize| {
        let spec = EngineSpec {
            drafting: Some(Drafting {
                drafter: Drafter::Layer,
                draft_len: drafts,
                acceptance: AcceptanceRate::Same(0.7),
            }),
            ..engine_spec()
        };
        let workload = VirtualWorkload {
            input_tokens: Length::Fixed(128),
            output_tokens: Length::Fixed(200),
            adapters: Vec::new(),
            seed: 9,
        };
        let server = served_limits(&spec, &EngineServing::default()).unwrap();
        with_users(&server, 1, &workload, 8 * users.max(16), users).unwrap().tokens_per_second()
    };
    let gain = |users| at(3, users) / at(0, users);
    let gains = [1, 16, 64, 256, 512].map(gain);
    // 2.53 tokens of a step, less what drafting and verifying cost.
    assert!((1.7..2.5).contains(&gains[0]), "{gains:?}");
    assert!(gains[4] < 0.95, "{gains:?}");
    assert!(gains.windows(2).all(|pair| pair[1] < pair[0]), "{gains:?}");
    // Fewer drafts lose less where there are many users.
    assert!(at(1, 512) > at(3, 512));
}

/// A server sends the tokens of a step in one chunk, and at the times that virtual time has for the same arrivals.
#[tokio::test]
async fn a_chunk_has_the_tokens_of_a_step_on_both_clocks() {
    let files = Files::new(true, &json!({}));
    let spec = EngineSpec {
        drafting: Some(Drafting { drafter: Drafter::NGram, draft_len: 3, acceptance: AcceptanceRate::Same(0.6) }),
        ..engine_spec()
    };
    write_engine(&spec, &files.0.path().join("engine")).unwrap();
    let server = Running::start(files.options());
    let mut client = server.client().await;
    let requests: Vec<_> = (0..20)
        .map(|at| {
            let (isl, osl) = (20 + (at * 37) % 300, 2 + (at * 13) % 60);
            let mut request = request(&format!("{isl} {osl} {at}"), isl, osl, true);
            request.inputs.push(super::ground::tensor("return_perf_metrics", "BOOL", &[1, 1]));
            request.raw_input_contents.push(vec![1].into());
            request
        })
        .collect();
    let (mut chunks, mut served) = (Vec::new(), Vec::new());
    for answer in stream(&mut client, requests).await {
        let response = answer.infer_response.unwrap();
        let lengths: Vec<u64> = response.id.split(' ').map(|number| number.parse().unwrap()).collect();
        chunks.push((response.id.clone(), super::ground::output_ids(&response).len() as u64));
        let Some(arrival) = super::determinism::stamp(&response, "arrival_time_ns") else { continue };
        let times = ["first_token_time_ns", "last_token_time_ns"]
            .map(|name| super::determinism::stamp(&response, name).unwrap());
        served.push((SimulatedRequest::new(arrival, lengths[0], lengths[1]), times, response.id.clone()));
    }
    server.stop().unwrap();
    assert!(chunks.iter().all(|(_, tokens)| (1..=4).contains(tokens)) && chunks.iter().any(|(_, tokens)| *tokens == 4));
    served.sort_by_key(|(request, ..)| request.at);
    let load: Vec<_> = served.iter().map(|(request, ..)| *request).collect();
    let replayed = simulate(&served_limits(&spec, &EngineServing::default()).unwrap(), &load).unwrap();
    assert_eq!(served.len(), 20);
    for ((request, times, id), replayed) in served.iter().zip(&replayed.requests) {
        assert_eq!([replayed.first, replayed.last], *times, "{id}");
        let tokens: u64 = chunks.iter().filter(|(other, _)| other == id).map(|(_, tokens)| tokens).sum();
        assert_eq!(tokens, request.osl, "{id}");
    }
}
