//! Lines of `regatta bench`, and what they mean.

use clap::Parser;

use super::*;
use crate::cli::ArrivalsWord;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: BenchArgs,
}

fn read(line: &str) -> Result<BenchRequest, Box<dyn std::error::Error>> {
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let line = Line::try_parse_from(words)?;
    Ok(BenchRequest::from_args(line.args).map_err(|(_, text)| text)?)
}

#[test]
fn a_program_is_split_as_a_shell_splits_it() {
    let program = |text: &str| {
        let line = Line::try_parse_from(["bench", "gpt2", "--serve", "vllm", "--program", text]).expect("arguments");
        BenchRequest::from_args(line.args).map(|bench| bench.program).map_err(|(_, text)| text)
    };
    assert_eq!(program("sh -c 'two words'").unwrap(), ["sh", "-c", "two words"]);
    assert!(program("sh -c 'open").unwrap_err().contains("a quote is not closed"));
}

#[test]
fn a_certificate_whose_path_is_not_utf_8_is_an_error() {
    use std::os::unix::ffi::OsStrExt as _;

    let file = std::ffi::OsStr::from_bytes(b"c\xff.pem");
    for options in [&["--cacert"][..], &["--cert", "--key"]] {
        let words = ["bench", "https://h:1"].map(std::ffi::OsStr::new).into_iter();
        let files = options.iter().flat_map(|option| [std::ffi::OsStr::new(option), file]);
        let text = Line::try_parse_from(words.chain(files)).expect_err("no path").to_string();
        assert!(text.contains(options[0]) && text.contains("is not UTF-8"), "{text}");
    }
}

#[test]
fn genai_perfs_tutorial_is_understood_word_for_word() {
    let bench = read(
        "-m gpt2 --service-kind triton --backend tensorrtllm --num-prompts 100 --random-seed 123 \
         --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 0 --streaming --output-tokens-mean 100 \
         --output-tokens-stddev 0 --output-tokens-mean-deterministic \
         --tokenizer hf-internal-testing/llama-tokenizer --concurrency 1 --measurement-interval 4000 \
         --profile-export-file my_profile_export.json --url localhost:8001",
    )
    .unwrap();
    assert_eq!(
        (bench.target.as_str(), bench.protocol, bench.args.model.as_deref()),
        ("localhost:8001", Some("kserve"), Some("gpt2"))
    );
    assert_eq!(
        (bench.load, bench.duration.as_deref(), bench.requests),
        (BenchLoad::Concurrency(Quantity::Known(1)), Some("4000ms"), None)
    );
    assert_eq!(
        (bench.input.unwrap().mean, bench.output.unwrap().mean, bench.args.seed, bench.args.ignore_eos),
        (Quantity::Known(200), Quantity::Known(100), Quantity::Known(123), true)
    );
    assert_eq!(bench.notices.len(), 1, "{:?}", bench.notices);
}

#[test]
fn an_openai_line_gets_its_scheme() {
    let bench = read(
        "-m m --service-kind openai --endpoint-type chat --request-rate 5 -u host:8000 --extra-inputs \
        max_new:3 --extra-inputs a:b",
    )
    .unwrap();
    assert_eq!((bench.target.as_str(), bench.protocol), ("http://host:8000", Some("openai-chat")));
    assert_eq!((bench.load, bench.requests), (BenchLoad::Rate(Quantity::Known(5.0)), Some(Quantity::Known(100))));
    assert_eq!(Value::Object(bench.extra), serde_json::json!({"max_new": 3, "a": "b"}));
    // `--backend` of `vllm bench serve`, with the address of an OpenAI server.
    assert_eq!(read("http://h:8000 --backend vllm").unwrap().protocol, None);
    assert_eq!(read("h:8001 --backend vllm").unwrap().protocol, Some("kserve"));
}

#[test]
fn benchmark_core_models_words_are_understood() {
    let bench = read(
        "h:8001 --request-rate -1 --num-requests 30 --input-mean 128 --input-stdev 5 --output-mean 20 \
        --output-stdev 2 --max-input-len 300 --decoupled",
    )
    .unwrap();
    assert_eq!((bench.load, bench.requests), (BenchLoad::Offline, Some(Quantity::Known(30))));
    let input = bench.input.unwrap();
    assert_eq!((input.stddev, input.max), (Quantity::Known(5.0), Some(Quantity::Known(300))));
    let law = |line: &str| read(line).map(|bench| bench.notices.iter().any(|notice| notice.contains("Poisson")));
    assert!(law("h:1 --backend tensorrtllm --request-rate 2").unwrap());
    assert!(!law("h:1 --backend tensorrtllm --request-rate 2 --arrivals poisson").unwrap());
    assert!(!law("h:1 --request-rate 2").unwrap());
    assert!(
        read("h:1 --time-delay-dist exponential_dist --request-rate 2")
            .is_ok_and(|bench| bench.args.arrivals == Some(ArrivalsWord::Poisson))
    );
}

#[test]
fn several_levels_are_a_sweep() {
    let sweep = |line: &str| match read(line).map(|bench| (bench.load, bench.requests, bench.duration)) {
        Ok((BenchLoad::Sweep(sweep), requests, duration)) => {
            format!("{} {} {duration:?}", serde_json::json!(sweep), serde_json::json!(requests))
        }
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(sweep("h:1 -c 1,4,2"), r#"{"concurrency":[1,4,2]} null Some("30s")"#);
    assert_eq!(sweep("h:1 --rate 2..64 -n 50"), r#"{"rate":"2..64"} 50 None"#);
    assert_eq!(sweep("h:1 --sweep"), r#"{"auto":8} null Some("30s")"#);
    assert_eq!(sweep("--sweep=3 sim: --duration 5s"), r#"{"auto":3} null Some("5s")"#);
    assert_eq!(read("h:1 -c 8").unwrap().load, BenchLoad::Concurrency(Quantity::Known(8)));
    let reason = |line: &str| read(line).unwrap_err().to_string();
    assert!(reason("h:1 -c 0").contains("must be above 0") && reason("h:1 -c 1,1.5").contains("whole numbers"));
    assert!(reason("h:1 --rate 1,-1").contains("must be above 0"));
    assert!(reason("h:1 -c many").contains("such as `1,2,4`"));
    assert!(reason("h:1 --sweep -c 2").contains("cannot be used with"));
}

#[test]
fn data_bring_their_own_lengths_and_number() {
    let bench = read("h:1 --input-file prompts.jsonl").unwrap();
    assert_eq!((bench.data, bench.input, bench.requests), (Some(("jsonl", "prompts.jsonl".into())), None, None));
    assert!(read("h:1 --data Cargo.toml").unwrap_err().to_string().contains("--data-kind"));
    assert_eq!(read("h:1 --data x.txt --data-kind mooncake --osl 5").unwrap().output.unwrap().mean, Quantity::Known(5));
}

#[test]
fn a_trace_is_replayed_at_its_time_stamps_unless_a_load_is_given() {
    let load = |line: &str| read(&format!("h:1 --data t.jsonl {line}")).map(|bench| bench.load);
    assert_eq!(load("--data-kind mooncake").unwrap(), BenchLoad::Trace(1.0));
    assert_eq!(load("--trace=2").unwrap(), BenchLoad::Trace(2.0));
    assert_eq!(load("--fixed-schedule").unwrap(), BenchLoad::Trace(1.0));
    assert_eq!(load("--data-kind mooncake -c 4").unwrap(), BenchLoad::Concurrency(Quantity::Known(4)));
    assert_eq!(load("--data-kind mooncake --offline").unwrap(), BenchLoad::Offline);
    assert_eq!(load("").unwrap(), BenchLoad::Concurrency(Quantity::Known(1)));
    let reason = |line: &str| load(line).unwrap_err().to_string();
    assert!(reason("--trace=0").contains("above 0") && reason("--trace --rate 2").contains("cannot be used with"));
    assert!(reason("--trace --repeat-data").contains("sent once"));
}

#[test]
fn an_option_without_effect_is_noticed() {
    let noticed = |line: &str| read(line).unwrap().notices.join("; ");
    let data = |line: &str| noticed(&format!("h:1 --data p.jsonl {line}"));
    assert_eq!(data("--max-input-len 2 --output-tokens 3 -n 2 --repeat-data"), "");
    assert!(data("--input-tokens 9 --max-input-len 2").contains("--input-tokens and its deviation are not used"));
    assert!(data("--output-tokens-stddev 9").contains("--output-tokens-stddev is not used"));
    assert!(data("--repeat-data").contains("--repeat-data is not used"));
    assert!(data("--data-kind plan --duration 3s").contains("--duration are not used"));
    assert!(noticed("h:1 -c 2 --arrivals constant").contains("--arrivals is not used"));
    assert_eq!(noticed("h:1 --rate 2 --arrivals constant"), "");
    assert_eq!(noticed("h:1 --sweep --arrivals constant"), "");
    assert!(noticed("h:1 --offline --duration 3s").contains("--duration is not used"));
}

#[test]
fn options_of_tls_need_a_target_with_it() {
    let reason = |line: &str| read(line).unwrap_err().to_string();
    assert!(reason("openai://h:1 -k").contains("`--insecure` requires an `https://` target"));
    assert!(reason("h:1 --cacert ca.pem").contains("`--cacert` requires an `https://` target"));
    assert!(read("https://h:1/v1 -k").is_ok());
}

#[test]
fn a_target_behind_the_slos_is_the_target() {
    let bench = read("--goodput ttft:150 tpot:40 sim:").unwrap();
    assert_eq!(
        (bench.target.as_str(), bench.slo),
        ("sim:", vec![("ttft", Quantity::Known(150.0)), ("tpot", Quantity::Known(40.0))])
    );
    assert_eq!(read("--goodput e2el:9 sim:").unwrap().slo, vec![("e2e", Quantity::Known(9.0))]);
    assert!(read("--goodput ttft:150 tpot:40").unwrap_err().to_string().contains("no TARGET"));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let reason = |line: &str| read(line).unwrap_err().to_string();
    assert!(reason("").contains("no TARGET was given"));
    assert!(reason("h:1 --protocol kserve --service-kind openai").contains("contradicts"));
    assert!(reason("h:1 --rate 0").contains("above 0"));
    assert!(reason("h:1 --rate 5 --concurrency 2").contains("cannot be used with"));
    assert!(reason("h:1 --goodput speed:3").contains("ttft, tpot and e2e"));
    assert!(reason("h:1 --extra x").contains("NAME:VALUE"));
    assert!(reason("h:1 --service-kind openai --endpoint-type kserve").contains("chat and completions"));
}

#[test]
fn data_of_a_kind_that_is_not_read_is_told_what_to_make_of_it() {
    let reason = |file: &str| read(&format!("h:1 --data {file}")).unwrap_err().to_string();
    assert!(reason("/tmp").contains("it is a folder"));
    for absent in ["p.txt", "p.csv", "sharegpt"] {
        assert!(reason(absent).contains("no such file"), "{absent}");
    }
    let folder = tempfile::tempdir().unwrap();
    let reason = |name: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, "").unwrap();
        reason(&file.to_string_lossy())
    };
    assert!(reason("p.txt").contains("`jq -Rc . FILE > FILE.jsonl` makes"));
    assert!(reason("p.csv").contains("it is plain text"));
    assert!(reason("p.jsonl.gz").contains("unpack it first"));
    assert!(reason("Cargo.toml").contains("add --data-kind"));
    assert!(reason("p.parquet").contains("save a line of JSON for each row"));
}
