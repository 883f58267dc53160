//! The JSON of `vllm bench serve`: its numbers, and its requests when it is detailed; and the numbers of SGLang's `bench_serving`.

use serde_json::{Map, Value, json};

use crate::metrics::{MetricConcept, MetricStats, RequestTrace, Tool, TracedChunks};
use crate::results::imported::{ImportedNumbers, ImportedRequests, at, from_gaps, put, text_at};

/// vLLM's object, and SGLang's, which has other names for the whole answer.
pub(crate) fn import_numbers(value: &Value) -> ImportedNumbers {
    let is_sglang = value.get("mean_e2e_latency_ms").is_some();
    let (tool, format, e2e) = if is_sglang {
        let native = matches!(text_at(value, "/backend").as_deref(), Some("sglang" | "sglang-native"));
        let tool = if native { Tool::SglangNative } else { Tool::SglangChat };
        (tool, "SGLang bench_serving JSON", "e2e_latency")
    } else {
        (Tool::Vllm, "vLLM bench serve JSON", "e2el")
    };
    let completed = at(value, "/completed");
    let stat = |name: &str| MetricStats {
        n: 0,
        mean: at(value, &format!("/mean_{name}_ms")),
        p50: at(value, &format!("/median_{name}_ms")),
        p90: at(value, &format!("/p90_{name}_ms")),
        p95: at(value, &format!("/p95_{name}_ms")),
        p99: at(value, &format!("/p99_{name}_ms")),
        min: None,
        max: None,
    };
    let mut requested = Map::new();
    for (key, place) in [
        ("model", "/model_id"),
        ("request_rate", "/request_rate"),
        ("burstiness", "/burstiness"),
        ("concurrency", "/max_concurrency"),
        ("requests", "/num_prompts"),
        ("backend", "/backend"),
        ("label", "/label"),
        ("tag", "/tag"),
        ("dataset", "/dataset_name"),
        ("ramp", "/ramp_up_strategy"),
    ] {
        put(&mut requested, key, value.pointer(place).cloned());
    }
    if is_sglang {
        // Lengths of other data sets have these options, too, and do not follow them.
        if text_at(value, "/dataset_name").is_some_and(|name| name.starts_with("random")) {
            put(&mut requested, "input_tokens", value.get("random_input_len").cloned());
            put(&mut requested, "output_tokens", value.get("random_output_len").cloned());
        }
        put(&mut requested, "model", value.pointer("/server_info/model_path").cloned());
        put(&mut requested, "tp", value.pointer("/server_info/tp_size").cloned());
    }
    requested.extend(metadata(value));
    // Beside a limit on requests in flight an infinite rate is as many users.
    if requested.contains_key("concurrency") && requested.get("request_rate").is_some_and(|rate| rate == "inf") {
        requested.shift_remove("request_rate");
    }
    ImportedNumbers {
        tool: Some(tool),
        format,
        requested,
        ok: completed,
        failed: at(value, "/failed").or_else(|| failed_of(value)),
        input_tokens: at(value, "/total_input_tokens"),
        output_tokens: at(value, "/total_output_tokens"),
        window_s: at(value, "/duration"),
        requests_per_s: at(value, "/request_throughput"),
        tokens_per_s: at(value, "/output_throughput"),
        stats: vec![
            (MetricConcept::Ttft, MetricStats { n: completed.map_or(0, |n| n as u64), ..stat("ttft") }),
            (MetricConcept::Tpot, stat("tpot")),
            (MetricConcept::Itl, stat("itl")),
            (MetricConcept::E2e, MetricStats { n: completed.map_or(0, |n| n as u64), ..stat(e2e) }),
        ],
        ..ImportedNumbers::default()
    }
}

/// What `--metadata KEY=VALUE` added: texts of other names than the tools' own.
fn metadata(value: &Value) -> impl Iterator<Item = (String, Value)> {
    const OWN: [&str; 10] = [
        "backend",
        "dataset_name",
        "date",
        "endpoint_type",
        "label",
        "model_id",
        "ramp_up_strategy",
        "request_rate",
        "tag",
        "tokenizer_id",
    ];
    // Times differ from run to run, and what `regatta export` adds is in its own result.
    let is_added = |key: &str| {
        !OWN.contains(&key) && !key.starts_with("regatta_") && !["date", "time"].iter().any(|word| key.contains(word))
    };
    let texts = value.as_object().into_iter().flatten().filter(|(_, value)| value.is_string());
    texts.filter(move |(key, _)| is_added(key)).map(|(key, value)| (key.clone(), value.clone()))
}

/// Of a table that was printed, which has the names of the object.
pub(crate) fn printed_numbers(table: &Value) -> ImportedNumbers {
    let numbers = import_numbers(table);
    let is_vllm = numbers.tool == Some(Tool::Vllm);
    let format = if is_vllm { "vLLM bench serve, printed" } else { "SGLang bench_serving, printed" };
    ImportedNumbers { format, ..numbers }
}

/// SGLang counts no failures; its details have an error, or an empty text, for each request.
fn failed_of(value: &Value) -> Option<f64> {
    let errors = value.get("errors")?.as_array()?;
    Some(errors.iter().filter_map(Value::as_str).filter(|error| !error.is_empty()).count() as f64)
}

/// vLLM's detailed arrays. `None` where the file was saved without them.
pub(crate) fn requests(value: &Value) -> Option<ImportedRequests> {
    if value.get("mean_e2e_latency_ms").is_some() {
        return None;
    }
    let list = |key: &str| value.get(key).and_then(Value::as_array);
    let (first, starts, lengths) = (list("ttfts")?, list("start_times")?, list("output_lens")?);
    // `regatta export` writes them and vLLM none: it takes an answer to end with its last chunk.
    let whole = list("latencies");
    let number = |list: Option<&Vec<Value>>, n: usize| list.and_then(|list| list.get(n)?.as_f64());
    let origin = starts.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min);
    let seen = (0..first.len())
        .filter_map(|n| {
            let issue = (number(Some(starts), n)? - origin) * 1e3;
            let tokens = number(Some(lengths), n).map(|tokens| tokens as u32);
            let error = list("errors").and_then(|all| all.get(n)?.as_str()).filter(|error| !error.is_empty());
            let ok = error.is_none() && tokens != Some(0);
            let gaps: Vec<f64> = list("itls")
                .and_then(|all| all.get(n)?.as_array())
                .map(|all| all.iter().filter_map(|gap| Some(gap.as_f64()? * 1e3)).collect())
                .unwrap_or_default();
            let to_first = number(Some(first), n)? * 1e3;
            let end = issue + number(whole, n).map_or_else(|| to_first + gaps.iter().sum::<f64>(), |all| all * 1e3);
            Some(RequestTrace {
                index: n as u64,
                ok,
                sched: None,
                issue,
                end,
                input: number(list("input_lens"), n).map(|tokens| tokens as u32),
                input_server: None,
                tokens,
                retokenized: None,
                chunks: if ok {
                    from_gaps(issue + to_first, &gaps, tokens, Some(end))
                } else {
                    TracedChunks::Every(Vec::new())
                },
                error: error.map(str::to_owned),
            })
        })
        .collect();
    let mut requested = Map::new();
    requested.insert("requests".to_owned(), json!(first.len()));
    Some(ImportedRequests {
        tool: Tool::Vllm,
        format: "vLLM bench serve JSON, detailed",
        version: None,
        requested,
        counted: None,
        request_traces: seen,
    })
}
