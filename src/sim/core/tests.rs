//! The golden rows, and what must hold for every load.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::random::mix;
use crate::timing::{Coefficients, LoraCost, Speculation, resolve};
use base::spec::{AcceptanceRate, Drafter, Drafting};

/// 8B bf16 on one H200: the rounded values that the golden rows were computed with.
pub(crate) const GOLDEN: Coefficients = Coefficients {
    overhead: 1.0e-3,
    weights: 4.18e-3,
    expert_weights: 0.0,
    launch: 0.0,
    graph_tokens: 0,
    expert_share: 0.0,
    overlap: 1.0,
    token: 27e-6,
    pair: 1.33e-9,
    request: 4e-6,
    kv_token: 34e-9,
    context: 0.0,
    prompt: 0.0,
    all_reduce: 0.0,
    frontend: 0.0,
    admission: 0.0,
    chunk: 0.0,
};

fn golden() -> EngineLimits {
    EngineLimits {
        policy: SchedulerPolicy::GuaranteedNoEvict,
        chunking: Chunking::FirstComeFirstServed,
        max_batch_size: 256,
        max_num_tokens: 8192,
        blocks: 25_234,
        tokens_per_block: 32,
        timing: GOLDEN,
        speculation: None,
        lora: None,
    }
}

/// SplitMix64, one stream for each purpose.
struct Stream(u64);

impl Stream {
    fn new(purpose: &str) -> Self {
        let digest = Sha256::digest(purpose.as_bytes());
        Self(1 ^ u64::from_le_bytes(digest[..8].try_into().unwrap()))
    }

    /// Evenly in the open interval (0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((mix(self.0) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// Poisson arrivals at 12/s, 1,000 requests, ISL 1000 ± 50 %, OSL 500 ± 50 %.
fn load() -> Vec<SimulatedRequest> {
    let (mut arrival, mut isl, mut osl) = (Stream::new("arrival"), Stream::new("isl"), Stream::new("osl"));
    let mut time = 0.0;
    (0..1000)
        .map(|_| {
            time += -arrival.unit().ln() / 12.0;
            let isl = ((1000.0 * (0.5 + isl.unit())) as u64).max(1);
            SimulatedRequest::new((time * 1e9) as u64, isl, ((500.0 * (0.5 + osl.unit())) as u64).max(2))
        })
        .collect()
}

fn percentile(mut values: Vec<f64>, p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * p) as usize).min(values.len() - 1)]
}

fn row(limits: &EngineLimits) -> String {
    let load = load();
    let ran = simulate(limits, &load).unwrap();
    let ttft: Vec<f64> = ran.requests.iter().zip(&load).map(|(r, a)| (r.first - a.at) as f64 / 1e6).collect();
    let tpot: Vec<f64> = ran
        .requests
        .iter()
        .filter(|r| r.tokens > 1)
        .map(|r| (r.last - r.first) as f64 / 1e6 / (r.tokens - 1) as f64)
        .collect();
    let tokens: u64 = ran.requests.iter().map(|r| r.tokens).sum();
    let pauses: u32 = ran.requests.iter().map(|r| r.pauses).sum();
    let lines: Vec<String> =
        ran.requests.iter().enumerate().map(|(id, r)| format!("{id},{},{};", r.first, r.last)).collect();
    let text = lines.concat();
    let digest: Vec<String> = Sha256::digest(text.as_bytes())[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = digest.concat();
    format!(
        "{:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {} | {pauses} | {hash}",
        tokens as f64 / (ran.end as f64 / 1e9),
        percentile(ttft.clone(), 0.5),
        percentile(ttft, 0.99),
        percentile(tpot.clone(), 0.5),
        percentile(tpot, 0.99),
        ran.steps,
    )
}

#[test]
fn the_golden_rows_come_out_to_the_last_bit() {
    let rows = [
        ("GNE, chunked", golden()),
        ("GNE, not chunked", EngineLimits { chunking: Chunking::Off, ..golden() }),
        ("GNE, max_num_tokens 2,048", EngineLimits { max_num_tokens: 2048, ..golden() }),
        ("GNE, KV 3,000 blocks", EngineLimits { blocks: 3000, ..golden() }),
        ("MU, KV 3,000 blocks", EngineLimits { policy: SchedulerPolicy::MaxUtilization, blocks: 3000, ..golden() }),
        ("GNE, max_batch_size 32", EngineLimits { max_batch_size: 32, ..golden() }),
    ];
    let rows: Vec<String> = rows.iter().map(|(name, limits)| format!("{name} | {}", row(limits))).collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    GNE, chunked | 5465 | 44 | 135 | 11.90 | 13.95 | 8171 | 0 | 799cf92c4c76
    GNE, not chunked | 5465 | 44 | 135 | 11.90 | 13.95 | 8171 | 0 | 799cf92c4c76
    GNE, max_num_tokens 2,048 | 5465 | 43 | 130 | 11.88 | 13.92 | 8186 | 0 | d8ac5a130220
    GNE, KV 3,000 blocks | 5228 | 1307 | 4789 | 11.08 | 11.70 | 8975 | 0 | 4bb59e1bd233
    MU, KV 3,000 blocks | 5184 | 70 | 5080 | 12.50 | 15.12 | 8073 | 192 | d1e1388d8a81
    GNE, max_batch_size 32 | 3779 | 19807 | 41491 | 8.19 | 8.70 | 16247 | 0 | 9abfb917f8d5
    ");
}

#[test]
fn a_static_batch_admits_no_request_until_empty() {
    let limits = EngineLimits { policy: SchedulerPolicy::StaticBatch, ..golden() };
    let load = [SimulatedRequest::new(0, 10, 5), SimulatedRequest::new(1, 10, 5)];
    let ran = simulate(&limits, &load).unwrap();
    assert!(ran.requests[1].first > ran.requests[0].last);
    let ran = simulate(&golden(), &load).unwrap();
    assert!(ran.requests[1].first < ran.requests[0].last);
}

#[test]
fn equal_progress_deals_a_block_each() {
    let limits = EngineLimits { chunking: Chunking::EqualProgress, max_num_tokens: 96, ..golden() };
    let mut core = Core::new(limits);
    core.arrive(CoreRequest { id: 0, isl: 200, osl: 1, ..CoreRequest::default() }).unwrap();
    core.arrive(CoreRequest { id: 1, isl: 200, osl: 1, ..CoreRequest::default() }).unwrap();
    core.begin(0).unwrap();
    let pieces = &core.in_flight.as_ref().unwrap().contexts;
    assert_eq!(*pieces, [(0, 64), (1, 32)]);
}

#[test]
fn a_cancelled_request_gives_its_blocks_back_and_makes_no_token() {
    let mut core = Core::new(golden());
    core.arrive(CoreRequest { id: 7, isl: 100, osl: 50, ..CoreRequest::default() }).unwrap();
    core.begin(0).unwrap();
    core.cancel(7);
    let mut tokens = Vec::new();
    core.finish(true, |token| tokens.push(token));
    assert_eq!((tokens.len(), core.is_idle()), (0, true));
}

#[test]
fn what_can_never_run_is_refused_at_the_door() {
    let mut core = Core::new(EngineLimits { blocks: 10, ..golden() });
    assert_eq!(
        core.arrive(CoreRequest { id: 0, isl: 300, osl: 21, ..CoreRequest::default() }),
        Err(NeverFits::Blocks { needed: 11, pool: 10 })
    );
    let mut core = Core::new(EngineLimits { chunking: Chunking::Off, max_num_tokens: 64, ..golden() });
    assert_eq!(
        core.arrive(CoreRequest { id: 0, isl: 65, osl: 1, ..CoreRequest::default() }),
        Err(NeverFits::Context { context: 65, limit: 64 })
    );
}

fn speculation(draft_len: u32, rate: f64) -> Speculation {
    let drafting = Drafting { drafter: Drafter::NGram, draft_len, acceptance: AcceptanceRate::Same(rate) };
    resolve(&drafting, None).unwrap()
}

fn limits() -> impl Strategy<Value = EngineLimits> {
    let policy = prop_oneof![
        Just(SchedulerPolicy::GuaranteedNoEvict),
        Just(SchedulerPolicy::MaxUtilization),
        Just(SchedulerPolicy::StaticBatch),
        Just(SchedulerPolicy::Vllm)
    ];
    let chunking =
        prop_oneof![Just(Chunking::Off), Just(Chunking::FirstComeFirstServed), Just(Chunking::EqualProgress)];
    let speculation = prop::option::of((1_u32..5, 0.0_f64..=1.0).prop_map(|(drafts, rate)| speculation(drafts, rate)));
    let lora = prop::option::of((1_u32..4).prop_map(|slots| LoraCost { slots, read: 1e-4, token: 1e-6, load: 2e-3 }));
    let sizes = (1_usize..12, 150_u64..400, 10_u64..40, prop_oneof![Just(8_u64), Just(16), Just(32)]);
    (policy, chunking, sizes, speculation, lora).prop_map(
        |(policy, chunking, (max_batch_size, max_num_tokens, blocks, tokens_per_block), speculation, lora)| {
            EngineLimits {
                policy,
                chunking,
                max_batch_size,
                max_num_tokens,
                blocks: blocks * 32 / tokens_per_block,
                tokens_per_block,
                timing: GOLDEN,
                speculation,
                lora,
            }
        },
    )
}

/// None, or one of five.
const fn adapter_of(at: u64) -> Option<u64> {
    match at % 6 {
        0 => None,
        adapter => Some(adapter),
    }
}

fn loads() -> impl Strategy<Value = Vec<SimulatedRequest>> {
    let lengths = prop_oneof![(1_u64..100, 1_u64..40), (1_u64..30, 40_u64..110)];
    let request = (0_u64..2_000_000_000, lengths).prop_map(|(at, (isl, osl))| SimulatedRequest {
        adapter: adapter_of(at),
        ..SimulatedRequest::new(at, isl, osl)
    });
    prop::collection::vec(request, 1..40)
}

/// What `simulate` does, without running equal steps at once; and what each step computed: its end, its context tokens,
/// the requests that generate and those that were paused.
pub(super) fn one_by_one(limits: &EngineLimits, load: &[SimulatedRequest]) -> (VirtualRun, Vec<CoreStep>) {
    let mut order: Vec<usize> = (0..load.len()).collect();
    order.sort_by_key(|&at| (load[at].at, at));
    let mut order = order.into_iter().peekable();
    let mut core = Core::new(limits.clone());
    let mut run = VirtualRun { requests: vec![Served::default(); load.len()], ..VirtualRun::default() };
    let mut steps = Vec::new();
    let (mut now, mut next_admission) = (0, 0);
    loop {
        while let Some(at) = order.next_if(|&at| limits.timing.admitted(load[at].at, next_admission).0 <= now) {
            next_admission = limits.timing.admitted(load[at].at, next_admission).1;
            core.arrive(load[at].with_id(at as u64)).unwrap();
        }
        let Some(step) = core.begin(now) else {
            let Some(&at) = order.peek() else { break };
            now = limits.timing.admitted(load[at].at, next_admission).0;
            continue;
        };
        steps.push(step);
        now = step.end;
        core.finish(true, |token| {
            let served = &mut run.requests[token.id as usize];
            if token.index == 0 {
                served.first = step.sent;
            }
            *served = Served { last: step.sent, tokens: served.tokens + token.count, pauses: token.pauses, ..*served };
        });
    }
    let run = VirtualRun { end: now, steps: core.steps, peak_blocks: core.peak_blocks, ..run };
    (run, steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The invariants of the core itself are debug assertions; they run here on every step.
    #[test]
    fn every_request_gets_exactly_its_tokens(limits in limits(), load in loads()) {
        let ran = simulate(&limits, &load).unwrap();
        for (served, arrival) in ran.requests.iter().zip(&load) {
            prop_assert_eq!(served.tokens, arrival.osl);
            prop_assert!(served.first > arrival.at, "a token before its context ended");
        }
        prop_assert!(ran.peak_blocks <= limits.blocks);
        prop_assert_eq!(simulate(&limits, &load).unwrap(), ran);
    }

    /// A request whose adapter has a slot does not wait for one whose adapter has none.
    #[test]
    fn only_requests_without_a_slot_for_their_adapter_are_overtaken(vllm in any::<bool>()) {
        let policy = if vllm { SchedulerPolicy::Vllm } else { SchedulerPolicy::GuaranteedNoEvict };
        let lora = LoraCost { slots: 1, read: 1e-4, token: 1e-6, load: 2e-3 };
        let limits = EngineLimits { policy, lora: Some(lora), max_batch_size: 8, ..golden() };
        // Adapters 1, 2, 3, 1, 2, 3 … at once: those of the first adapters go first, and together.
        let load: Vec<_> =
            (0..24)
                .map(|at| SimulatedRequest { adapter: Some(at % 3 + 1), ..SimulatedRequest::new(0, 50, 40) })
                .collect();
        let (run, steps) = one_by_one(&limits, &load);
        let first = |adapter: u64| {
            load.iter()
                .zip(&run.requests)
                .filter(move |(request, _)| request.adapter == Some(adapter))
                .map(|(_, served)| served.first)
        };
        prop_assert!(first(1).max() < first(3).min());
        let most = steps.iter().map(|step| step.generating).max();
        prop_assert_eq!(most, Some(8));
        let without = simulate(&EngineLimits { lora: None, ..limits }, &load).unwrap();
        prop_assert!(without.end < run.end, "{} {}", without.end, run.end);
    }

    /// Requests at once with one answer length: each step of a request makes from 1 to all of its drafts and one more.
    #[test]
    fn drafts_make_fewer_steps_and_the_same_tokens(rate in 0.0_f64..=1.0, drafts in 1_u32..5, osl in 1_u64..60) {
        let limits = EngineLimits { speculation: Some(speculation(drafts, rate)), ..golden() };
        let load = [SimulatedRequest::new(0, 10, osl)];
        let (run, steps) = one_by_one(&limits, &load);
        prop_assert_eq!(run.requests[0].tokens, osl);
        let most = u64::from(drafts) + 1;
        prop_assert!((1 + (osl - 1).div_ceil(most)..=osl).contains(&(steps.len() as u64)), "{} steps", steps.len());
    }

    /// Steps that are run at once and steps one by one: the same tokens at the same times.
    #[test]
    fn equal_steps_at_once_are_the_same_as_one_by_one(
        limits in limits(), load in loads(), chunk in 0_u32..4, admission in 0_u32..4,
    ) {
        let (chunk, admission) = (f64::from(chunk) * 4e-4, f64::from(admission) * 3e-3);
        let timing = Coefficients { chunk, admission, frontend: 2.0 * admission, ..limits.timing };
        let limits = EngineLimits { timing, ..limits };
        prop_assert_eq!(simulate(&limits, &load).unwrap(), one_by_one(&limits, &load).0);
    }

    /// The HTTP server reads one request after another: of those that come at once the last one waits for all others.
    #[test]
    fn requests_that_come_at_once_reach_the_scheduler_one_after_another(count in 2_usize..60) {
        let timing = Coefficients { frontend: 5e-3, admission: 40e-3, ..GOLDEN };
        let load = vec![SimulatedRequest::new(0, 16, 1); count];
        let run = simulate(&EngineLimits { timing, ..golden() }, &load).unwrap();
        let first: Vec<u64> = run.requests.iter().map(|served| served.first).collect();
        // A step is much shorter than 40 ms, so that each request is alone.
        prop_assert!(first.windows(2).all(|pair| pair[1] - pair[0] == 40_000_000), "{:?}", first);
        prop_assert!((5_000_000..15_000_000).contains(&first[0]), "{:?}", first);
    }

    /// The HTTP server sends one chunk after another; the engine does not wait for it, and users do.
    #[test]
    fn chunks_that_take_longer_than_steps_delay_answers_and_not_steps(users in 20_usize..60) {
        let slow = EngineLimits { timing: Coefficients { chunk: 1e-3, ..GOLDEN }, ..golden() };
        let load = vec![SimulatedRequest::new(0, 100, 50); users];
        let (fast, late) = (simulate(&golden(), &load).unwrap(), simulate(&slow, &load).unwrap());
        prop_assert_eq!((fast.end, fast.steps), (late.end, late.steps));
        let last = |run: &VirtualRun| run.requests.iter().map(|served| served.last).max().unwrap();
        let sending = 1_000_000 * 50 * users as u64;
        prop_assert!((sending..sending + fast.end).contains(&last(&late)), "{} {}", last(&late), last(&fast));
        let (sent, _) = simulate_users(&slow, &vec![SimulatedRequest::new(0, 100, 50); 2 * users], users).unwrap();
        prop_assert!(sent[users..].iter().all(|request| request.at >= sending - 1_000_000 * users as u64));
    }

    /// Users wait for their answers: no more requests are under way than there are users, and none is forgotten.
    #[test]
    fn a_closed_loop_has_as_many_requests_as_users(limits in limits(), load in loads(), users in 1_usize..8) {
        let (sent, ran) = simulate_users(&limits, &load, users).unwrap();
        prop_assert_eq!(sent.len(), load.len());
        for (at, (request, served)) in sent.iter().zip(&ran.requests).enumerate() {
            prop_assert_eq!(served.tokens, request.osl);
            let under_way =
                sent[..at].iter().zip(&ran.requests).filter(|(_, earlier)| earlier.last > request.at).count();
            prop_assert!(under_way < users, "{} under way", under_way);
        }
        // With a user for each request it is a load that is there at once.
        let at_once: Vec<_> = load.iter().map(|request| SimulatedRequest { at: 0, ..*request }).collect();
        prop_assert_eq!(simulate_users(&limits, &load, load.len()).unwrap().1, simulate(&limits, &at_once).unwrap());
    }

    #[test]
    fn only_policies_that_take_blocks_as_they_go_pause(limits in limits(), load in loads()) {
        let ran = simulate(&limits, &load).unwrap();
        let pauses: u32 = ran.requests.iter().map(|r| r.pauses).sum();
        prop_assert!(matches!(limits.policy, SchedulerPolicy::MaxUtilization | SchedulerPolicy::Vllm) || pauses == 0);
    }

    /// No request waits while there is room, except behind one that does not fit.
    #[test]
    fn no_evict_conserves_work(limits in limits(), load in loads()) {
        let limits = EngineLimits {
            policy: SchedulerPolicy::GuaranteedNoEvict,
            chunking: Chunking::FirstComeFirstServed,
            lora: None,
            ..limits
        };
        let mut core = Core::new(limits.clone());
        for (id, arrival) in load.iter().enumerate() {
            core.arrive(arrival.with_id(id as u64)).unwrap();
        }
        let mut now = 0;
        while let Some(step) = core.begin(now) {
            now = step.end;
            let requests = &core.requests;
            let most: u64 = requests.computing.iter().map(|request| request.most_blocks).sum();
            let held = requests.generating.most_blocks + most;
            let tokens = step.context_tokens + step.generating as u64 * (1 + limits.drafts());
            if let Some(first) = requests.waiting.front() {
                let is_full = requests.running() >= limits.max_batch_size;
                let has_no_blocks = held + first.most_blocks > limits.blocks;
                let has_no_tokens = limits.max_num_tokens - tokens < limits.tokens_per_block.min(first.left());
                prop_assert!(is_full || has_no_blocks || has_no_tokens);
            }
            core.finish(true, |_| {});
        }
    }

    #[test]
    fn cancelling_a_request_at_any_time_leaves_the_others_whole(
        limits in limits(),
        load in loads(),
        when in 0_u64..30,
        who in 0_usize..40,
    ) {
        let mut core = Core::new(limits);
        let mut made = vec![0; load.len()];
        for (id, arrival) in load.iter().enumerate() {
            core.arrive(arrival.with_id(id as u64)).unwrap();
        }
        let mut now = 0;
        while let Some(step) = core.begin(now) {
            if core.steps == when {
                core.cancel(who as u64);
            }
            now = step.end;
            core.finish(true, |token| made[token.id as usize] += token.count);
        }
        for (id, arrival) in load.iter().enumerate() {
            prop_assert!(made[id] == arrival.osl || id == who);
        }
    }
}

/// A case of the second implementation, `tests/golden/simulator/reference.py`, which keeps every block in a list.
#[derive(Deserialize)]
struct Case {
    policy: String,
    chunked: bool,
    max_batch_size: usize,
    max_num_tokens: u64,
    tokens_per_block: u64,
    blocks: u64,
    requests: Vec<(u64, u64, u64)>,
    /// End, context tokens, requests that generate, requests that lost their blocks.
    steps: Vec<(u64, u64, usize, usize)>,
}

#[test]
fn every_step_is_that_of_a_second_implementation() {
    let text = include_str!("../../../tests/golden/simulator/steps.jsonl");
    let (mut cases, mut pauses) = (0, 0);
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let limits = EngineLimits {
            policy: match case.policy.as_str() {
                "guaranteed_no_evict" => SchedulerPolicy::GuaranteedNoEvict,
                "max_utilization" => SchedulerPolicy::MaxUtilization,
                "static_batch" => SchedulerPolicy::StaticBatch,
                _ => SchedulerPolicy::Vllm,
            },
            chunking: if case.chunked { Chunking::FirstComeFirstServed } else { Chunking::Off },
            max_batch_size: case.max_batch_size,
            max_num_tokens: case.max_num_tokens,
            blocks: case.blocks,
            tokens_per_block: case.tokens_per_block,
            timing: Coefficients { context: 2e-4, prompt: 5e-5, ..GOLDEN },
            speculation: None,
            lora: None,
        };
        let load: Vec<_> = case.requests.iter().map(|&(at, isl, osl)| SimulatedRequest::new(at, isl, osl)).collect();
        let (run, steps) = one_by_one(&limits, &load);
        let steps: Vec<_> =
            steps.iter().map(|step| (step.end, step.context_tokens, step.generating, step.paused)).collect();
        assert_eq!(steps, case.steps, "case {cases}, {}", case.policy);
        assert_eq!(simulate(&limits, &load).unwrap(), run);
        cases += 1;
        pauses += steps.iter().map(|step| step.3).sum::<usize>();
    }
    assert!(cases >= 48 && pauses > 50, "{cases} cases, {pauses} pauses");
}
