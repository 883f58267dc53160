//! Texts that tools print, as the objects that they save: the tables of vLLM and SGLang and of GenAI-Perf and AIPerf,
//! trtllm-bench's overviews, LoadGen's logs.

use serde_json::{Map, Value, json};

use super::file_format::{FileFormat, ImportedNumbers, text_at};

/// The title of the tables that `vllm bench serve` and SGLang's `bench_serving` print.
const TABLE: &str = " Serving Benchmark Result ";
/// Where trtllm-bench's result begins in what it prints; the second was its title until 0.12.
const OVERVIEW_TITLES: [&str; 2] = ["= PERFORMANCE OVERVIEW", "= STATISTICS"];
/// The logs of LoadGen that are read, in the order in which they count. Both have the same numbers.
pub const LOADGEN_LOG_FILES: [&str; 2] = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];

/// A value that is printed next to a label of the format's table: its place, and the value where it is of the label's
/// kind.
fn labeled(rows: &[Vec<String>], label: &str, text: &str) -> Option<(String, Value)> {
    let percentile = |row: &str| ["50", "90", "95", "99"].into_iter().find(|p| row.replace('#', p) == label);
    let (row, percentile) = rows.iter().find_map(|row| Some((row, percentile(&row[0])?)))?;
    let text = text.trim();
    let value = match text.split_whitespace().next()?.parse::<f64>() {
        _ if row.len() > 2 => json!(text),
        Ok(number) if number.is_finite() => json!(number),
        Ok(_) if text == "inf" => json!(text),
        _ => return None,
    };
    Some((row[1].replace('#', percentile), value)).filter(|(_, value)| value != "None")
}

/// Sets the value at a place that is not set.
fn set(object: &mut Value, place: &str, value: Value) {
    let target = place.split('/').skip(1).fold(object, |object, step| &mut object[step]);
    if target.is_null() {
        *target = value;
    }
}

/// The runs in a text that tools printed.
pub(super) fn printed_runs(text: &str) -> Vec<ImportedNumbers> {
    let readers = [overviews, metric_tables, serving_tables];
    readers.into_iter().map(|read| read(text)).find(|runs| !runs.is_empty()).unwrap_or_default()
}

/// Each table of a text that vLLM or SGLang printed.
fn serving_tables(text: &str) -> Vec<ImportedNumbers> {
    let numbers = |table: &Value| {
        let is_sglang = table.get("mean_e2e_latency_ms").is_some();
        let name = if is_sglang { "SGLang bench_serving, printed" } else { "vLLM bench serve, printed" };
        FileFormat::named(name).numbers(table, table)
    };
    tables(text).iter().map(numbers).collect()
}

/// The tables as the object that these tools save, with the settings that are printed above each.
fn tables(text: &str) -> Vec<Value> {
    let rows = &FileFormat::named("vLLM bench serve, printed").labels;
    let mut list = Vec::new();
    let (mut table, mut is_table) = (Map::new(), false);
    // In the log of a job or of containers each line begins with a name or a time.
    let Some(title) = text.lines().find(|line| line.contains(TABLE)) else { return list };
    let front = title.split("==").next().unwrap_or_default();
    for line in text.lines() {
        let line = if has_front(line, front) { &line[front.len()..] } else { line };
        // In a comment or a quotation, and after a bar of progress.
        let line = line.rsplit('\r').next().unwrap_or(line).trim_matches([' ', '\t', '#', '>']);
        if line.contains(TABLE) || is_table && line.len() > 20 && line.bytes().all(|byte| byte == b'=') {
            if is_table {
                list.push(Value::Object(std::mem::take(&mut table)));
            }
            is_table = line.contains(TABLE);
        } else if line.contains("Namespace(") {
            for (name, key) in [("model", "model_id"), ("backend", "backend"), ("dataset_name", "dataset_name")] {
                let value = [' ', '('].iter().find_map(|before| line.split_once(&format!("{before}{name}='")));
                if let Some((value, _)) = value.and_then(|(_, rest)| rest.split_once('\'')) {
                    table.insert(key.to_owned(), json!(value));
                }
            }
        } else if let Some((label, text)) = line.split_once(':')
            && let Some((place, value)) = labeled(rows, label, text)
        {
            table.insert(place.trim_start_matches('/').to_owned(), value);
        }
    }
    if is_table {
        list.push(Value::Object(table));
    }
    list
}

/// Whether a line begins like another one, but for its digits.
fn has_front(line: &str, front: &str) -> bool {
    let is_alike = |(one, other): (u8, u8)| one == other || one.is_ascii_digit() && other.is_ascii_digit();
    line.is_char_boundary(front.len()) && line.bytes().zip(front.bytes()).all(is_alike)
}

/// The title of the tables that GenAI-Perf and AIPerf print.
const METRICS: &str = "LLM Metrics";
/// The beginning of their CSV files.
const METRICS_CSV: &str = "Metric,";

/// Each table of a text that GenAI-Perf or AIPerf printed, as the object that it saves: `Request Latency (ms)` with a
/// column `avg` is `/request_latency/avg`.
fn metric_tables(text: &str) -> Vec<ImportedNumbers> {
    let is_csv = text.starts_with(METRICS_CSV);
    let rows = if is_csv { csv_rows(text) } else { String::new() };
    let parts = if is_csv { vec!["", &rows] } else { text.split(METRICS).collect() };
    let numbers = |parts: &[&str]| {
        // AIPerf's CSV has standard deviations.
        let is_aiperf = parts[0].trim_end_matches(['|', ' ']).ends_with(" AIPerf")
            || is_csv && parts[1].lines().next().is_some_and(|columns| columns.ends_with("|std|"));
        let table = metric_table(parts[1]);
        let format = FileFormat::named(if is_aiperf { "AIPerf, printed" } else { "GenAI-Perf, printed" });
        table.get("request_latency").is_some().then(|| format.numbers(&table, &table))
    };
    parts.windows(2).filter_map(numbers).collect()
}

/// The rows of a CSV file as those of a printed table. Commas in quotes are those of thousands.
fn csv_rows(text: &str) -> String {
    let row = |line: &str| {
        let parts = line.split('"').enumerate();
        let cells = parts.map(|(n, part)| if n % 2 == 0 { part.replace(',', "|") } else { part.to_owned() });
        format!("|{}|\n", cells.collect::<String>())
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(row).collect()
}

/// The rows of the first table in a text.
fn metric_table(text: &str) -> Value {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines().take_while(|line| !line.contains('└')) {
        let cells: Vec<&str> = line.split(['┃', '│', '|']).map(str::trim).collect();
        let [_, label, values @ .., _] = cells.as_slice() else { continue };
        match rows.last_mut() {
            // A long label goes on in the next line.
            Some((above, _)) if values.iter().all(|value| value.is_empty()) => above.extend([" ", *label]),
            _ => rows.push(((*label).to_owned(), values.to_vec())),
        }
    }
    let mut table = json!({});
    let columns = rows.first().map(|(_, columns)| columns.clone()).unwrap_or_default();
    for (label, values) in rows.iter().skip(1) {
        let name = label.split('(').next().unwrap_or_default().trim().to_lowercase().replace(' ', "_");
        for (column, value) in columns.iter().zip(values) {
            if let Ok(number) = value.replace(',', "").parse::<f64>() {
                table[&name][*column] = json!(number);
            }
        }
    }
    table
}

/// Each overview in what trtllm-bench printed, with anything before and after it. Lines may begin with the logger's
/// prefix.
fn overviews(text: &str) -> Vec<ImportedNumbers> {
    let format = FileFormat::named("trtllm-bench PERFORMANCE OVERVIEW");
    let [title, of_0_12] = OVERVIEW_TITLES;
    // Other programs have statistics, too.
    let is_0_12 = !text.contains(title) && text.contains(of_0_12) && text.contains("= ENGINE DETAILS");
    let title = if is_0_12 { of_0_12 } else { title };
    let overview = |above: &str, below: &str| {
        let mut object = json!({});
        let mut read = |rows: &[Vec<String>], lines: &[&str]| {
            for row in rows {
                for percentile in if row[0].contains('#') { &["50", "90", "95", "99"][..] } else { &[""] } {
                    let label = row[0].replace('#', percentile);
                    let text = lines.iter().find_map(|line| Some(line.split_once(&label)?.1));
                    let value = text.and_then(|text| labeled(rows, &label, text.trim_start_matches([' ', ':'])));
                    if let Some((place, value)) = value {
                        set(&mut object, &place, value);
                    }
                }
            }
        };
        read(&format.settings, &above.lines().rev().collect::<Vec<_>>());
        // Until 0.12 the requests are below the title, too.
        read(&format.settings, &below.lines().filter(|_| is_0_12).collect::<Vec<_>>());
        read(&format.labels, &below.lines().collect::<Vec<_>>());
        format.numbers(&object, &object)
    };
    // The settings of an overview are above it, after the numbers of the previous one.
    let parts: Vec<&str> = text.split(title).collect();
    parts.windows(2).map(|parts| overview(parts[0], parts[1])).collect()
}

/// A log of LoadGen's run.
pub(super) enum LoadGenLog {
    Performance(Box<ImportedNumbers>),
    /// LoadGen measures nothing in it.
    Accuracy,
}

/// Reads a log of LoadGen; `None` if the text is not one.
pub(super) fn loadgen_log(text: &str) -> Option<LoadGenLog> {
    const MARK: &str = ":::MLLOG ";
    const TITLE: &str = "MLPerf Results Summary";
    /// The endings of the lines that a summary of an accuracy run consists of, with a count or `No` before them.
    const ACCURACY_ONLY: [&str; 2] = ["encountered during test.", "encountered. See detailed log."];
    let format = FileFormat::named("LoadGen log");
    let mut values = json!({});
    if text.starts_with(MARK) {
        // The first value of a key counts, as it does for the submission checker.
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix(MARK)?).ok());
        for mut entry in entries {
            let Some(value) = entry.get_mut("value").map(Value::take) else { continue };
            let Some(key) = entry["key"].as_str().filter(|key| !key.contains('/')) else { continue };
            let place = labeled(&format.labels, key, "0").map_or_else(|| format!("/{key}"), |(place, _)| place);
            set(&mut values, &place, value);
        }
        if text_at(&values, "/effective_test_mode").as_deref() == Some("AccuracyOnly") {
            return Some(LoadGenLog::Accuracy);
        }
    } else if text.contains(TITLE) {
        for (label, text) in text.lines().filter_map(|line| line.split_once(':')) {
            if let Some((place, value)) = labeled(&format.labels, label.trim(), text) {
                set(&mut values, &place, value);
            }
        }
    } else {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let is_accuracy =
            lines.peek().is_some() && lines.all(|line| ACCURACY_ONLY.iter().any(|ending| line.ends_with(ending)));
        return is_accuracy.then_some(LoadGenLog::Accuracy);
    }
    Some(LoadGenLog::Performance(Box::new(format.numbers(&values, &values))))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::metrics::Tool;

    const TABLES: &str = "\
Namespace(subparser='bench', dataset_name='random', random_input_len=128, backend='openai', model='org/m', \
request_rate=inf)
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
Request goodput (req/s):                 0.20
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
        let [numbers, sglang]: [ImportedNumbers; 2] = serving_tables(TABLES).try_into().expect("two tables");
        assert_eq!((numbers.tool, numbers.ok, numbers.failed), (Tool::Vllm, Some(32.0), Some(1.0)));
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(65536.0), Some(4096.0)));
        assert_eq!((numbers.requests_per_s, numbers.tokens_per_s), (Some(0.21), Some(434.4)));
        assert_eq!(numbers.extra_rates[0], ("requests_goodput", Some(0.2)));
        let older = FileFormat::named("vLLM bench serve JSON").numbers(&json!({ "request_goodput:": 3.5 }), &json!({}));
        assert_eq!(older.extra_rates[1], ("requests_goodput", Some(3.5)));
        assert_eq!(
            Value::Object(numbers.requested),
            json!({ "model": "org/m", "concurrency": 32.0, "backend": "openai", "dataset": "random" })
        );
        let stats: Vec<_> = numbers.stats.iter().map(|(_, stats)| (stats.mean, stats.p50, stats.p99)).collect();
        assert_eq!(stats[0], (Some(7279.56), Some(7099.88), Some(10999.46)));
        assert_eq!((stats[1].0, stats[3].0), (Some(70.14), Some(9000.5)));
        let numbers = sglang;
        assert_eq!((numbers.tool, numbers.output_tokens), (Tool::SglangChat, Some(400.0)));
        assert_eq!(Value::Object(numbers.requested), json!({ "request_rate": 8.0, "backend": "sglang-oai" }));
        assert_eq!(numbers.stats[3].1.p90, Some(9000.0));
    }

    #[test]
    fn a_table_in_a_log_whose_lines_begin_with_a_name_or_a_time_is_read() {
        let title = TABLES.find("====").unwrap();
        let end = title + TABLES[title..].find("\n#").unwrap();
        let plain = tables(&TABLES[title..end]);
        for front in [
            "bench-1  | ",
            "0: ",
            "\u{1b}[36mbench |\u{1b}[0m ",
            "2026-06-01T10:00:0N.12NZ ",
            "[pod/x/y] ",
            "(X pid=1) ",
        ] {
            let lines = TABLES[title..end].lines().enumerate();
            let log: Vec<String> =
                lines.map(|(n, line)| format!("{}{line}", front.replace('N', &(n % 10).to_string()))).collect();
            assert_eq!(tables(&log.join("\n")), plain, "{front}");
        }
        assert_eq!(plain[0]["completed"], 32.0);
    }

    #[test]
    fn the_csv_of_genai_perf_and_aiperf_has_the_numbers_of_the_table() {
        let csv = "Metric,avg,min,max,p99,p50\r\nTime To First Token (ms),12.42,8.53,18.19,18.01,11.69\r\n\
            Request Latency (ms),\"1,027.62\",10.27,47.37,47.05,27.35\r\n\r\nMetric,Value\r\n\
            Request Throughput (per sec),36.87\r\nRequest Count (count),24\r\n";
        let [numbers]: [ImportedNumbers; 1] = metric_tables(csv).try_into().expect("a table");
        assert_eq!((numbers.tool, numbers.requests_per_s, numbers.ok), (Tool::GenAiPerf, Some(36.87), Some(24.0)));
        let stats: Vec<_> = numbers.stats.iter().map(|(_, stats)| (stats.mean, stats.p99)).collect();
        assert_eq!((stats[0], stats[2]), ((Some(12.42), Some(18.01)), (Some(1027.62), Some(47.05))));
        let aiperf = csv.replace("p99,p50", "p50,std");
        assert_eq!(metric_tables(&aiperf)[0].tool, Tool::AiPerf);
        assert!(metric_tables("Metric,avg\nPower (W),1\n").is_empty());
    }

    #[test]
    fn a_table_that_is_cut_off_is_read_as_far_as_it_goes() {
        let cut = &TABLES[..TABLES.find("Median TTFT").unwrap()];
        assert_eq!(tables(cut)[0]["mean_ttft_ms"], 7279.56);
        assert!(tables("nothing of the kind").is_empty());
    }

    /// As releases of 2025 print it, with the logger's prefix in front of some lines.
    const OVERVIEWS: &str = "
[08/01/2025-10:00:00] [TRT-LLM] [I] Starting benchmarking async task.
= PERFORMANCE OVERVIEW
Request Throughput (req/sec): 1.0
[08/01/2025-10:10:00] [TRT-LLM] [I]
===========================================================
= PYTORCH BACKEND
===========================================================
Model:\t\t\tLlama3.3-70B
Model Path:\t\t/models/x
TensorRT-LLM Version:\t1.0.0rc1
Quantization:\t\tNVFP4

= WORLD + RUNTIME INFORMATION
TP Size:                2
EP Size:                None
Max Runtime Batch Size: 640

= REQUEST DETAILS
Number of requests:             4000
Number of concurrent requests:  612.5000
Average Input Length (tokens):  1000.0000
Average Output Length (tokens): 1000.5000
= PERFORMANCE OVERVIEW
Request Throughput (req/sec):                     43.2500
Total Output Throughput (tokens/sec):             43271.6250
Total Token Throughput (tokens/sec):              86521.6250
Total Latency (ms):                               92485.5000
Average request latency (ms):                     14000.5000
Per User Output Throughput [w/ ctx] (tps/user):   71.5000
Per GPU Output Throughput (tps/gpu):              21635.8125
Average time-to-first-token [TTFT] (ms):          812.2500
Average time-per-output-token [TPOT] (ms):        13.2000
Per User Output Speed (tps/user):                 75.7500

-- Per-Request Time-per-Output-Token [TPOT] Breakdown (ms)

[TPOT] MINIMUM: 9.0000
[TPOT] MAXIMUM: 15.5000
[TPOT] AVERAGE: 13.2000
[TPOT] P50    : 13.1000
[TPOT] P99    : 15.1000

-- Request Latency Breakdown (ms) -----------------------

[Latency] P50    : 13900.0000
[Latency] P99    : 15900.0000
[Latency] AVERAGE: 14000.5000
";

    #[test]
    fn the_report_of_trtllm_bench_0_12_is_read() {
        let report = "= ENGINE DETAILS\nModel:\t\t\torg/m\nTensorRT-LLM Version:\t0.12.0\n= STATISTICS\n\
            Number of requests:\t\t3000\nAverage Input Length (tokens):\t128.0\nAverage Output Length (tokens):\t\
            100.0\nToken Throughput (tokens/sec):\t18286.5\nRequest Throughput (req/sec):\t\t182.86\n\
            Total Latency (seconds):\t\t16.4\n";
        let [numbers]: [ImportedNumbers; 1] = printed_runs(report).try_into().expect("one report");
        assert_eq!((numbers.ok, numbers.window_s, numbers.tokens_per_s), (Some(3000.0), Some(16.4), Some(18286.5)));
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(384_000.0), Some(300_000.0)));
        assert_eq!(numbers.version.as_deref(), Some("0.12.0"));
    }

    #[test]
    fn every_overview_is_read_with_everything_in_it() {
        let [first, numbers]: [ImportedNumbers; 2] = overviews(OVERVIEWS).try_into().expect("two overviews");
        assert_eq!((first.requests_per_s, first.tokens_per_s, first.ok), (Some(1.0), None, None));
        assert_eq!(numbers.in_flight, Some(612.5));
        assert_eq!(
            (numbers.ok, numbers.requests_per_s, numbers.tokens_per_s),
            (Some(4000.0), Some(43.25), Some(43271.625))
        );
        assert_eq!((numbers.input_tokens, numbers.output_tokens), (Some(4_000_000.0), Some(4_002_000.0)));
        assert_eq!(numbers.window_s, Some(92.4855));
        assert_eq!(numbers.version.as_deref(), Some("1.0.0rc1"));
        assert_eq!(
            Value::Object(numbers.requested),
            json!({"model": "Llama3.3-70B", "quantization": "NVFP4", "tp": 2.0, "max_batch_size": 640.0})
        );
        let more: Vec<f64> = numbers.extra_rates.iter().filter_map(|(_, value)| *value).collect();
        assert_eq!(more, [86521.625, 21635.8125, 71.5, 75.75]);
        let tpot = &numbers.stats[1].1;
        assert_eq!(
            (tpot.mean, tpot.p50, tpot.p90, tpot.p99, tpot.min, tpot.max),
            (Some(13.2), Some(13.1), None, Some(15.1), Some(9.0), Some(15.5))
        );
        let ttft = &numbers.stats[0].1;
        assert_eq!((ttft.mean, ttft.p99, ttft.n), (Some(812.25), None, 4000));
        assert_eq!(numbers.stats[2].1.p50, Some(13900.0));
    }

    #[test]
    fn words_of_other_releases_are_known_and_other_texts_are_none() {
        let older = "Number of requests:\t\t3000\n= PERFORMANCE OVERVIEW \nToken Throughput (tokens/sec):\t5530.7382\n\
        Per GPU Output Throughput (tokens/sec/gpu):       5530.7382\n";
        let overview = |text: &str| overviews(text).pop();
        let none = overview("Quantization:           None\n= PERFORMANCE OVERVIEW\n").expect("an overview");
        assert!(none.requested.is_empty(), "Python's word for nothing is not a value: {:?}", none.requested);
        let numbers = overview(older).expect("an overview");
        assert_eq!(numbers.tokens_per_s, Some(5530.7382));
        assert_eq!(numbers.extra_rates[1].1, Some(5530.7382));
        assert!(overview("nothing of the kind").is_none());
    }

    fn text(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(name);
        std::fs::read_to_string(path).unwrap()
    }

    fn numbers_of(text: &str) -> ImportedNumbers {
        match loadgen_log(text) {
            Some(LoadGenLog::Performance(numbers)) => *numbers,
            _ => panic!("no log of a performance run"),
        }
    }

    fn log(name: &str) -> ImportedNumbers {
        numbers_of(&text(name))
    }

    #[test]
    fn the_summary_and_the_detail_log_have_the_same_numbers() {
        for folder in ["server-valid", "offline-valid"] {
            let summary = log(&format!("{folder}/mlperf_log_summary.txt"));
            let detail = log(&format!("{folder}/mlperf_log_detail.txt"));
            // The summary has two decimals.
            let rounded = |rate: Option<f64>| rate.map(|rate| format!("{rate:.2}"));
            let shown = |numbers: &ImportedNumbers| {
                format!("{:?} {:?} {:?}", numbers.stats, rounded(numbers.requests_per_s), rounded(numbers.tokens_per_s))
            };
            assert_eq!(shown(&summary), shown(&detail), "{folder}");
            for key in ["scenario", "sut", "target_qps", "loadgen_result"] {
                let value = |numbers: &ImportedNumbers| {
                    numbers.requested[key]
                        .as_f64()
                        .map_or_else(|| numbers.requested[key].to_string(), |n| n.to_string())
                };
                assert_eq!(value(&summary), value(&detail), "{folder}: {key}");
            }
        }
        let server = log("server-valid/mlperf_log_detail.txt");
        assert_eq!((server.requests_per_s, server.tokens_per_s), (Some(404.317), Some(2024.75)));
        let (_, ttft) = &server.stats[0];
        assert_eq!(ttft.p99, Some(15.320_277));
        assert_eq!(server.version.as_deref(), Some("6.0.17 @ d6147c7eb7"));
        assert!(loadgen_log("MLPerf").is_none());
    }

    #[test]
    fn the_summary_of_an_older_loadgen_has_the_same_numbers() {
        let newer = text("server-valid/mlperf_log_summary.txt");
        let older = newer.replace("Time per Output Token", "Time to Output Token");
        assert_ne!(older, newer);
        assert_eq!(format!("{:?}", numbers_of(&older).stats), format!("{:?}", numbers_of(&newer).stats));
    }

    #[test]
    fn an_accuracy_run_has_no_numbers() {
        for name in ["server-accuracy", "offline-accuracy"]
            .into_iter()
            .flat_map(|folder| LOADGEN_LOG_FILES.map(|file| format!("{folder}/{file}")))
        {
            assert!(matches!(loadgen_log(text(&name).trim()), Some(LoadGenLog::Accuracy)), "{name}");
        }
        let warned = "2 warnings encountered. See detailed log.\n\n1 ERROR encountered. See detailed log.\n";
        assert!(matches!(loadgen_log(warned), Some(LoadGenLog::Accuracy)));
        assert!(loadgen_log("").is_none());
    }
}
