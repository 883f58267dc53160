//! What requests carry, as servers see it: shared beginnings, files, a tokenizer, a plan that is sent again.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::harness::{BenchSpec, DataKind, HarnessError, LoadPattern, PreviousAnswers, plan, write};
use regatta::sim::SimOptions;
use regatta::spec::{Length, Prefixes, StopAfter};
use serde_json::json;

use crate::arrivals::{from, measured, paced, spec};
use crate::scripted_server::Scripted;
use crate::simulator::ground::{Files, Running};
use crate::world::World;

fn prompts(server: &Scripted, warmups: u64) -> Vec<Vec<i32>> {
    let mut prompts = server.prompts.lock().unwrap().clone();
    prompts.sort();
    prompts.truncate(prompts.len() - warmups as usize);
    prompts.into_iter().map(|(_, ids)| ids).collect()
}

#[test]
fn shared_prefixes_reach_the_server_as_equal_ids() {
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, LoadPattern::Offline, 40);
    spec.content.prefixes = Some(Prefixes { count: 3, tokens: 24, zipf: None });
    let measured = measured(&spec);
    let mut beginnings: Vec<Vec<i32>> = prompts(&server, 1).iter().map(|ids| ids[..24].to_vec()).collect();
    beginnings.sort_unstable();
    beginnings.dedup();
    assert_eq!(beginnings.len(), 3);
    // The prefix is on top of the length, and counted.
    assert!(measured.requests.iter().all(|record| (28..=64).contains(&record.input_tokens)));
}

#[test]
fn the_same_seed_sends_the_same_bytes_whatever_the_clients_and_servers() {
    let once = |servers: usize, clients: u32, scenario: LoadPattern| {
        let all: Vec<Scripted> = (0..servers).map(|_| paced(Duration::ZERO)).collect();
        let mut spec = spec(all[0].address, scenario, 30);
        spec.endpoints = all.iter().map(|server| server.address.to_string().parse().unwrap()).collect();
        (spec.clients, spec.warmup) = (clients, 0);
        let measured = measured(&spec);
        let mut seen: Vec<(u64, Vec<i32>)> =
            all.iter().flat_map(|server| server.prompts.lock().unwrap().clone()).collect();
        seen.sort();
        (seen, measured.result.schedule_digest)
    };
    let one = once(1, 1, LoadPattern::Offline);
    assert_eq!(one, once(2, 3, LoadPattern::Offline));
    let closed = once(1, 1, LoadPattern::Concurrency { users: 1.0.into() });
    assert_eq!(closed, once(2, 2, LoadPattern::Concurrency { users: 7.0.into() }));
    assert_eq!(one.0, closed.0);
}

#[test]
fn a_plan_from_one_run_is_sent_again_by_another() {
    let server = paced(Duration::ZERO);
    let mut first = spec(server.address, LoadPattern::Server { rate: 500.0.into() }, 20);
    first.warmup = 0;
    let before = measured(&first);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &before).unwrap();
    let sent = prompts(&server, 0);
    let other = paced(Duration::ZERO);
    let mut again = BenchSpec { seed: 77, ..spec(other.address, LoadPattern::Server { rate: 500.0.into() }, 0) };
    (again.stop, again.warmup) = (StopAfter::default(), 0);
    again.content.data = Some(from(folder.path().join("plan.jsonl"), DataKind::Plan));
    let after = measured(&again);
    assert_eq!(prompts(&other, 0), sent);
    assert_eq!(after.result.schedule_digest, before.result.schedule_digest);
    let due = |measured: &regatta::harness::Measured| measured.requests.iter().map(|r| r.t_sched).collect::<Vec<_>>();
    assert_eq!(due(&after), due(&before));
}

#[test]
fn a_plan_with_a_length_that_no_model_takes_is_refused() {
    let server = paced(Duration::ZERO);
    let mut first = spec(server.address, LoadPattern::Offline, 2);
    first.warmup = 0;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &measured(&first)).unwrap();
    let file = folder.path().join("plan.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    for key in ["\"in\":", "\"out\":", "\"tokens\":"] {
        let Some((before, after)) = text.split_once(key) else { continue };
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        fs::write(&file, format!("{before}{key}2000000000{rest}")).unwrap();
        let mut again = spec(server.address, LoadPattern::Offline, 0);
        (again.stop, again.warmup) = (StopAfter::default(), 0);
        again.content.data = Some(from(file.clone(), DataKind::Plan));
        let why = plan(&again).unwrap_err().to_string();
        assert!(why.contains("2000000000 tokens: the maximum is"), "{key} {why}");
    }
}

/// A `.npy` of version 1.
fn npy(path: &Path, descr: &str, shape: &str, bytes: &[u8]) {
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(10 + head.len() + 1).is_multiple_of(64) {
        head.push(' ');
    }
    head.push('\n');
    let file = [b"\x93NUMPY\x01\x00", &(head.len() as u16).to_le_bytes()[..], head.as_bytes(), bytes].concat();
    fs::write(path, file).unwrap();
}

#[test]
fn padded_ids_of_a_processed_dataset_are_cut_to_their_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ids: Vec<u8> = [5i32, 6, 7, 0, 8, 9, 0, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
    npy(&path("ids.npy"), "<i4", "(2, 4)", &ids);
    let lengths: Vec<u8> = [3i64, 2].iter().flat_map(|length| length.to_le_bytes()).collect();
    npy(&path("lens.npy"), "<i8", "(2,)", &lengths);
    npy(&path("out.npy"), "|u1", "(2, 1)", &[4, 2]);
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, LoadPattern::Offline, 0);
    (spec.stop, spec.warmup) = (StopAfter::default(), 0);
    (spec.input_len, spec.output_len) = (Length::Given, Length::Given);
    let mut data = from(path("ids.npy"), DataKind::InputIds);
    data.lengths = Some(path("lens.npy"));
    data.output_lengths = Some(path("out.npy"));
    spec.content.data = Some(data.clone());
    let measured = measured(&spec);
    assert_eq!(prompts(&server, 0), [vec![5, 6, 7], vec![8, 9]]);
    assert_eq!(measured.requests.iter().map(|record| record.tokens).collect::<Vec<_>>(), [4, 2]);
    let data = measured.result.load.data.as_ref().unwrap();
    assert_eq!((data.records, data.digest.len()), (2, 64));

    let why = |spec: &BenchSpec| plan(spec).unwrap_err().to_string();
    npy(&path("lens.npy"), "<i8", "(2,)", &[9i64, 0].map(i64::to_le_bytes).concat());
    let both = why(&spec);
    assert!(both.contains("row 0: its length is 9") && both.contains("row 1: its length is 0"), "{both}");
    npy(&path("ids.npy"), "<f4", "(2, 4)", &ids);
    assert!(why(&spec).contains("`<f4`"));
    // Sizes that a header claims, and the file does not have: none is allocated.
    let lies = ["(2, 4000000000)", "(4294967296, 4)", "(9223372036854775808, 4)", "(1152921504606846976, 0)", "(2, 9)"];
    for shape in lies {
        npy(&path("ids.npy"), "<i4", shape, &ids);
        assert!(why(&spec).contains("the file does not hold that many numbers"), "{shape}");
    }
}

/// Two hundred words of one token each, with a pre-tokenizer like that of Llama 3.
pub fn tokenizer(path: &Path) {
    let words: Vec<String> = (0..200u32)
        .map(|n| format!("{}{}a", (b'b' + (n % 20) as u8) as char, (b'b' + (n / 20) as u8) as char))
        .collect();
    let mut vocabulary = serde_json::Map::new();
    vocabulary.insert("<unk>".to_owned(), json!(0));
    vocabulary.insert("a".to_owned(), json!(1));
    for (number, word) in words.iter().enumerate() {
        vocabulary.insert(word.clone(), json!(number + 2));
    }
    let file = json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    fs::write(path, file.to_string()).unwrap();
}

#[test]
fn with_a_tokenizer_ids_and_text_are_the_same_prompt_of_exactly_the_length_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    tokenizer(&file);
    let server = paced(Duration::ZERO);
    let mut spec = spec(server.address, LoadPattern::Offline, 20);
    (spec.content.tokenizer, spec.warmup) = (Some(file.clone()), 0);
    spec.content.prefixes = Some(Prefixes { count: 2, tokens: 16, zipf: None });
    let measured = measured(&spec);
    let planned = plan(&spec).unwrap();
    let sent = prompts(&server, 0);
    for (index, (request, ids)) in planned.requests.iter().zip(&sent).enumerate() {
        let text = planned.text(index as u64, &request, &PreviousAnswers::default()).unwrap();
        assert_eq!(planned.count(&text), Some(request.input_len));
        assert_eq!(ids.len() as u32, request.input_len);
        assert_eq!(*ids, planned.ids(index as u64, &request, &PreviousAnswers::default()).unwrap());
        assert!(ids.iter().all(|id| *id > 1));
    }
    assert!(measured.result.load.input_lengths.contains("tokenizer"), "{}", measured.result.load.input_lengths);
    fs::write(&file, "{}").unwrap();
    assert!(matches!(plan(&spec), Err(HarnessError::Data { .. })));
}

const MANIFEST: &str = r#"
params: { target: { text: {} } }
stages:
  race:
    bench:
      target: "{{ target }}"
      scenario: offline
      data: { jsonl: prompts.jsonl }
      output_tokens: { fixed: 3 }
    # Without this, a server that the run does not start is measured every time.
    cache: true
"#;

#[test]
fn a_file_of_prompts_is_an_input_of_its_stage() {
    let world = World::with(MANIFEST);
    world.file("prompts.jsonl", "{\"input_ids\": [5, 6]}\n");
    let files = Files::new(true, &json!({}));
    // A simulator is measured in real time only.
    let server = Running::start(SimOptions { speed: 1.0, ..files.options() });
    let target = format!("target={}", server.address);
    world.good_when_undisturbed(&["run", "m", &target]);
    assert!(world.will_run(&[&target]).is_empty());
    world.file("prompts.jsonl", "{\"input_ids\": [7, 8, 9]}\n");
    assert_eq!(world.will_run(&[&target]), ["race"]);
    let mistaken =
        world.file("prompts.jsonl", "{\"input_ids\": 7}\n\n{\"input\": []}\n").regatta(&["run", "m", &target]);
    assert_eq!(mistaken.code, 1);
    mistaken.shows("line 1:").shows("line 3:");
}
