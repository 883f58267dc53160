//! `regatta repository fill`: Python's `string.Template` is the reference, the real one.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use regatta::triton::repository::{pairs, substitute};

use super::same_as_golden;
use crate::world::World;

const TEMPLATE: &str = "name: \"llm\"\nbackend: \"${triton_backend}\"\nmax_batch_size: ${triton_max_batch_size}\n\
    # ${not_filled_in_a_comment} costs $$5\n\
    dynamic_batching { max_queue_delay_microseconds: ${max_queue_delay_microseconds} }\n\
    parameters { key: \"gpt_model_path\" value: { string_value: \"${engine_dir}\" } }\n\
    parameters { key: \"medusa_choices\" value: { string_value: \"$medusa_choices\" } }\n";
const DETOKENIZER: &str = "name: \"post\"\nmax_batch_size: ${triton_max_batch_size}\n\
    parameters { key: \"tokenizer_dir\" value { string_value: \"${tokenizer_dir}\" } }\n";

fn templates() -> World {
    let world = World::new();
    world.file("all_models/llm/config.pbtxt", TEMPLATE).file("all_models/llm/1/model.py", "# the program\n");
    world.file("all_models/post/config.pbtxt", DETOKENIZER).file("all_models/README.md", "read me\n");
    world
}

/// The real thing, for many texts at once.
fn python(cases: &[(String, BTreeMap<String, String>)], program: &str) -> Vec<serde_json::Value> {
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is the reference of this test: apt-get install python3");
    let input = serde_json::to_vec(cases).expect("JSON");
    child.stdin.take().expect("a pipe").write_all(&input).expect("written");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
#[ignore = "needs Python"]
fn a_text_is_filled_as_pythons_templates_are() {
    let text = "(\\$\\{?(a|ab|_x1|A|1|é)?\\}?|\\$\\$|[ a\\n\"é{}$]){0,12}";
    let cases = (text, prop::collection::btree_map("a|ab|_x1|A", "[a${}\\\\ é]{0,4}", 0..4));
    let mut runner = TestRunner::deterministic();
    let cases: Vec<(String, BTreeMap<String, String>)> =
        (0..3000).map(|_| cases.new_tree(&mut runner).expect("a case").current()).collect();
    let program = "import json, string, sys\n\
        print(json.dumps([string.Template(t).safe_substitute(v) for t, v in json.load(sys.stdin)]))";
    for ((text, values), expected) in cases.iter().zip(python(&cases, program)) {
        let (ours, _) = substitute(text, &|name| values.get(name).cloned());
        assert_eq!(Some(ours.as_str()), expected.as_str(), "{text:?} {values:?}");
    }
}

#[test]
fn pairs_are_split_with_their_backslashes() {
    let pair = |text: &str| pairs(text).expect("pairs");
    let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(pair("a:1,b:2"), [own("a", "1"), own("b", "2")]);
    assert_eq!(pair(r"ids:0\,1,url:http\\://x"), [own("ids", "0,1"), own("url", "http://x")]);
    assert_eq!(pair(r"a:\\\\"), [own("a", r"\")]);
    assert!(pairs("a:b:c").is_err() && pairs("a").is_err() && pairs("").is_err());
}

#[test]
fn a_tree_is_filled_into_a_new_folder_and_every_key_is_accounted_for() {
    let world = templates();
    world.file("values.yaml", "triton_max_batch_size: 64\nllm: { engine_dir: /engines/llama }\n");
    let words = [
        "repository",
        "fill",
        "all_models",
        "--out",
        "repo",
        "--values",
        "values.yaml",
        "--substitutions",
        r"medusa_choices:[[0]\,[1]]",
        "--model",
        "post",
        "tokenizer_dir=/tokenizers/llama",
        "triton_backend=tensorrtllm",
    ];
    let ended = world.good(&words);
    same_as_golden("fill.txt", &ended.stdout);
    let filled = TEMPLATE
        .replace("${triton_backend}", "tensorrtllm")
        .replace("${triton_max_batch_size}", "64")
        .replace("${max_queue_delay_microseconds}", "0")
        .replace("${engine_dir}", "/engines/llama")
        .replace("$medusa_choices", "[[0],[1]]")
        .replace("$$5", "$5");
    assert_eq!(world.read("repo/llm/config.pbtxt"), filled);
    assert_eq!(world.read("repo/llm/1/model.py"), "# the program\n");
    assert_eq!(world.read("repo/README.md"), "read me\n");
    assert_eq!(world.read("all_models/llm/config.pbtxt"), TEMPLATE, "the templates stay");
    // A second time into the same folder would mix two fills.
    assert_eq!(world.regatta(&words).code, 2);
}

#[test]
fn what_is_unknown_or_left_over_is_reported_at_its_place_and_nothing_is_written() {
    let world = templates();
    let ended = world.regatta(&[
        "repository",
        "fill",
        "all_models",
        "--out",
        "repo",
        "triton_max_bach_size=64",
        "--model",
        "pots",
        "tokenizer_dir=x",
    ]);
    assert_eq!(ended.code, 2);
    same_as_golden("fill-refused.txt", &ended.stderr);
    assert!(!world.path("repo").exists());
}

#[test]
fn a_placeholder_in_quotes_may_stay_if_that_is_said_and_a_bare_one_may_not() {
    let world = templates();
    let fill = |more: &[&str]| {
        let mut words = vec!["repository", "fill", "all_models", "--out", "repo", "--allow-unfilled"];
        words.extend(more);
        world.regatta(&words)
    };
    assert_eq!(fill(&["triton_backend=python"]).code, 2);
    let ended = fill(&["triton_max_batch_size=8"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.shows("engine_dir stays unfilled");
    assert!(
        fs::read_to_string(world.path("repo/post/config.pbtxt")).expect("a config").contains("\"${tokenizer_dir}\"")
    );
}

#[test]
fn a_value_that_breaks_the_text_is_refused() {
    let world = templates();
    let ended = world.regatta(&[
        "repository",
        "fill",
        "all_models",
        "--out",
        "repo",
        "--allow-unfilled",
        "triton_max_batch_size=8",
        "engine_dir=\"/x",
    ]);
    assert_eq!(ended.code, 2);
    ended.shows("all_models/llm/config.pbtxt (filled):6:61");
}
