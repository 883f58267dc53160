//! The tables that `vllm bench serve` and SGLang's `bench_serving` print, as the object that these tools save.

use serde_json::{Map, Value, json};

/// What heads a table.
pub(crate) const TITLE: &str = " Serving Benchmark Result ";

/// A line of a table, and its key in the object.
const FIELDS: [(&str, &str); 12] = [
    ("Successful requests", "completed"),
    ("Failed requests", "failed"),
    ("Benchmark duration (s)", "duration"),
    ("Total input tokens", "total_input_tokens"),
    ("Total generated tokens", "total_output_tokens"),
    ("Request throughput (req/s)", "request_throughput"),
    ("Output token throughput (tok/s)", "output_throughput"),
    ("Traffic request rate", "request_rate"),
    ("Request rate configured (RPS)", "request_rate"),
    ("Maximum request concurrency", "max_concurrency"),
    ("Max request concurrency", "max_concurrency"),
    ("Max reqeuest concurrency", "max_concurrency"),
];

/// Each table of a text, with the settings that are printed above it.
pub(crate) fn tables(text: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let (mut table, mut is_table) = (Map::new(), false);
    for line in text.lines() {
        // In a comment or a quotation, and after a bar of progress.
        let line = line.rsplit('\r').next().unwrap_or(line).trim_matches([' ', '\t', '#', '>']);
        if line.contains(TITLE) || is_table && line.len() > 20 && line.bytes().all(|byte| byte == b'=') {
            if is_table {
                all.push(Value::Object(std::mem::take(&mut table)));
            }
            is_table = line.contains(TITLE);
        } else if line.contains("Namespace(") {
            let settings = [("model='", "model_id"), ("backend='", "backend"), ("dataset_name='", "dataset_name")];
            for (begins, key) in settings {
                let value = line.split_once(&format!(" {begins}")).or_else(|| line.split_once(&format!("({begins}")));
                if let Some((value, _)) = value.and_then(|(_, rest)| rest.split_once('\'')) {
                    table.insert(key.to_owned(), json!(value));
                }
            }
        } else if let Some((key, value)) = field(line) {
            table.insert(key, value);
        }
    }
    if is_table {
        all.push(Value::Object(table));
    }
    all
}

fn field(line: &str) -> Option<(String, Value)> {
    let (label, text) = line.split_once(':')?;
    let text = text.trim();
    let value = match text.split_whitespace().next()?.parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(text),
    };
    if label == "Backend" {
        return Some(("backend".to_owned(), json!(text)));
    }
    if let Some((_, key)) = FIELDS.iter().find(|(known, _)| *known == label) {
        return Some(((*key).to_owned(), value)).filter(|(_, value)| value.is_number() || value == "inf");
    }
    let (stat, metric) = label.strip_suffix(" (ms)")?.split_once(' ')?;
    let metric = ["TTFT", "TPOT", "ITL", "E2EL", "E2E Latency"].iter().find(|known| **known == metric)?;
    Some((format!("{stat} {metric} ms").to_lowercase().replace(' ', "_"), value)).filter(|(_, value)| value.is_number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Tool;
    use crate::vllm::import::import_numbers;

    const PRINTED: &str = "\
Namespace(subparser='bench', dataset_name='random', random_input_len=128, backend='openai', model='org/m', request_rate=inf)
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: 32
100%|#####| 32/32 [02:30<00:00,  4.71s/it]
============ Serving Benchmark Result ============
Successful requests:                     32
Failed requests:                         1
Maximum request concurrency:             32
Benchmark duration (s):                  150.87
Total input tokens:                      65536
Total generated tokens:                  4096
Request throughput (req/s):              0.21
Output token throughput (tok/s):         434.40
Total Token throughput (tok/s):          868.80
---------------Time to First Token----------------
Mean TTFT (ms):                          7279.56
Median TTFT (ms):                        7099.88
P99 TTFT (ms):                           10999.46
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          70.14
----------------End-to-end Latency----------------
Mean E2EL (ms):                          9000.5
==================================================
# ============ Serving Benchmark Result ============
# Backend:                                 sglang-oai
# Traffic request rate:                    8.0
# Max request concurrency:                 not set
# Successful requests:                     20
# Total generated tokens:                  400
# Total generated tokens (retokenized):    397
# Request throughput (req/s):              7.43
# ----------------End-to-End Latency----------------
# Mean E2E Latency (ms):                   8432.23
# P90 E2E Latency (ms):                    9000.00
# ---------------Time to First Token----------------
# Mean TTFT (ms):                          123.39
";

    #[test]
    fn tables_have_the_numbers_of_the_saved_object() {
        let tables = tables(PRINTED);
        let [vllm, sglang] = tables.as_slice() else { panic!("{tables:?}") };
        let numbers = import_numbers(vllm);
        assert_eq!((numbers.tool, numbers.ok, numbers.failed), (Some(Tool::Vllm), Some(32.0), Some(1.0)));
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(65536.0), Some(4096.0)));
        assert_eq!((numbers.requests_per_s, numbers.tokens_per_s), (Some(0.21), Some(434.4)));
        assert_eq!(
            Value::Object(numbers.requested),
            json!({ "model": "org/m", "concurrency": 32.0, "backend": "openai", "dataset": "random" })
        );
        let stats: Vec<_> = numbers.stats.iter().map(|(_, it)| (it.mean, it.p50, it.p99)).collect();
        assert_eq!(stats[0], (Some(7279.56), Some(7099.88), Some(10999.46)));
        assert_eq!((stats[1].0, stats[3].0), (Some(70.14), Some(9000.5)));
        let numbers = import_numbers(sglang);
        assert_eq!((numbers.tool, numbers.output_tokens), (Some(Tool::SglangChat), Some(400.0)));
        assert_eq!(Value::Object(numbers.requested), json!({ "request_rate": 8.0, "backend": "sglang-oai" }));
        assert_eq!(numbers.stats[3].1.p90, Some(9000.0));
    }

    #[test]
    fn a_table_that_is_cut_off_is_read_as_far_as_it_goes() {
        let cut = &PRINTED[..PRINTED.find("Median TTFT").unwrap()];
        assert_eq!(tables(cut)[0]["mean_ttft_ms"], 7279.56);
        assert!(tables("nothing of the kind").is_empty());
    }
}
