//! Prometheus text in the names of vLLM 0.24, from the state of the simulated engines that stand for vLLM: the same
//! families with the same types, labels and bucket limits in the same order, as `prometheus_client` writes them.
//!
//! `vllm:cache_config_info` and `vllm:lora_requests_info` are left out: most of their labels are not known here.

use std::fmt::Write as _;

use super::super::service::ServiceInner;
use crate::core::CoreLoad;
use crate::serve::statistics::{EngineCounts, HISTOGRAMS, HistogramRow};

/// One engine: a copy of a model.
struct Engine<'a> {
    model: &'a str,
    /// Among the copies, as vLLM numbers the engines of data parallelism.
    index: usize,
    /// KV blocks in its pool.
    blocks: u64,
    load: CoreLoad,
    counts: EngineCounts,
}

/// A label beside those that every series has, and its value.
type Label = Option<(&'static str, String)>;

/// `None`: no engine stands for one of vLLM.
pub(super) fn text(inner: &ServiceInner) -> Option<String> {
    let engines: Vec<Engine<'_>> = engines(inner).collect();
    if engines.is_empty() {
        return None;
    }
    let mut page = Page { text: String::new(), engines, created: inner.started };
    if page.engines.iter().any(|engine| !engine.counts.accepted.is_empty()) {
        speculation(&mut page);
    }
    // vLLM has them without `--enable-mfu-metrics`, too; then they stay 0.
    page.zero(
        "estimated_flops_per_gpu",
        "Estimated number of floating point operations per GPU (for Model Flops Utilization calculations).",
    );
    page.zero(
        "estimated_read_bytes_per_gpu",
        "Estimated number of bytes read from memory per GPU (for Model Flops Utilization calculations).",
    );
    page.zero(
        "estimated_write_bytes_per_gpu",
        "Estimated number of bytes written to memory per GPU (for Model Flops Utilization calculations).",
    );
    scheduler(&mut page);
    tokens(&mut page);
    requests(&mut page);
    Some(page.text)
}

fn engines(inner: &ServiceInner) -> impl Iterator<Item = Engine<'_>> {
    let models = inner.drivers.iter().filter_map(|(name, (drivers, _))| Some((inner.models.get(name)?, drivers)));
    models.flat_map(|(model, drivers)| {
        let blocks = model.engine().map_or(0, |engine| engine.limits.blocks);
        drivers.iter().enumerate().filter_map(move |(index, driver)| {
            let counts = driver.counts()?;
            Some(Engine { model: &model.name, index, blocks, load: driver.holding(), counts })
        })
    })
}

fn speculation(page: &mut Page<'_>) {
    page.counter("spec_decode_num_drafts", "Number of spec decoding drafts.", |engine| engine.counts.drafts);
    page.counter("spec_decode_num_draft_tokens", "Number of draft tokens.", |engine| engine.counts.draft_tokens);
    page.counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.", |engine| {
        engine.counts.accepted.iter().sum()
    });
    page.counters("spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", |engine| {
        engine
            .counts
            .accepted
            .iter()
            .enumerate()
            .map(|(at, count)| (Some(("position", at.to_string())), *count))
            .collect()
    });
}

fn scheduler(page: &mut Page<'_>) {
    page.gauge("num_requests_running", "Number of requests in model execution batches.", |engine| {
        vec![(None, engine.load.active.saturating_sub(engine.load.waiting) as f64)]
    });
    page.gauge("num_requests_waiting", "Number of requests waiting to be processed.", |engine| {
        vec![(None, engine.load.waiting as f64)]
    });
    let help = "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; \
                'deferred' = deferred \
                by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals \
                vllm:num_requests_waiting.";
    page.gauge("num_requests_waiting_by_reason", help, |engine| {
        let CoreLoad { waiting, deferred, .. } = engine.load;
        let waiting_for = |reason: &str, count: usize| (Some(("reason", reason.to_owned())), count as f64);
        vec![waiting_for("capacity", waiting - deferred), waiting_for("deferred", deferred)]
    });
    let help = "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; \
                weights_offloaded = 1 means \
                sleep level 1; discard_all = 1 means sleep level 2.";
    page.gauge("engine_sleep_state", help, |_| {
        let states = [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)];
        states.map(|(state, value)| (Some(("sleep_state", state.to_owned())), value)).to_vec()
    });
    page.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", |engine| {
        vec![(None, engine.load.used_blocks as f64 / engine.blocks.max(1) as f64)]
    });
    // As in a server without a prefix cache, KV connector and images.
    page.zero("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.");
    page.zero("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.");
    page.zero(
        "external_prefix_cache_queries",
        "External prefix cache queries from KV connector cross-instance cache \
         sharing, in terms of number of queried tokens.",
    );
    page.zero(
        "external_prefix_cache_hits",
        "External prefix cache hits from KV connector cross-instance cache \
         sharing, in terms of number of cached tokens.",
    );
    page.zero("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.");
    page.zero("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.");
    page.counter("num_preemptions", "Cumulative number of preemption from the engine.", |engine| engine.load.pauses);
}

fn tokens(page: &mut Page<'_>) {
    page.counter("prompt_tokens", "Number of prefill tokens processed.", |engine| engine.counts.prompt_tokens);
    page.counters("prompt_tokens_by_source", "Number of prompt tokens by source.", |engine| {
        let sources =
            [("local_compute", engine.counts.prompt_tokens), ("local_cache_hit", 0), ("external_kv_transfer", 0)];
        sources.map(|(source, tokens)| (Some(("source", source.to_owned())), tokens)).to_vec()
    });
    page.zero("prompt_tokens_cached", "Number of cached prompt tokens (local + external).");
    page.counter("generation_tokens", "Number of generation tokens processed.", |engine| {
        engine.counts.generation_tokens
    });
}

fn requests(page: &mut Page<'_>) {
    page.counters("request_success", "Count of successfully processed requests.", |engine| {
        let EngineCounts { ended_by_stop, ended_by_length, .. } = engine.counts;
        // Those that a client gives up are not counted, as in vLLM.
        let reasons =
            [("stop", ended_by_stop), ("length", ended_by_length), ("abort", 0), ("error", 0), ("repetition", 0)];
        reasons.map(|(reason, count)| (Some(("finished_reason", reason.to_owned())), count)).to_vec()
    });
    for (at, row) in HISTOGRAMS.iter().enumerate() {
        page.histogram(row, at);
    }
}

struct Page<'a> {
    text: String,
    engines: Vec<Engine<'a>>,
    /// When the metrics came to be, Unix time in seconds.
    created: f64,
}

impl Page<'_> {
    fn zero(&mut self, name: &str, help: &str) {
        self.counter(name, help, |_| 0);
    }

    fn counter(&mut self, name: &str, help: &str, of: impl Fn(&Engine<'_>) -> u64) {
        self.counters(name, help, |engine| vec![(None, of(engine))]);
    }

    fn counters(&mut self, name: &str, help: &str, of: impl Fn(&Engine<'_>) -> Vec<(Label, u64)>) {
        let series = |engine: &Engine<'_>| of(engine).into_iter().map(|(label, count)| (label, count as f64)).collect();
        self.family(&format!("{name}_total"), help, "counter", &series);
        self.creation(name, help, &series);
    }

    fn gauge(&mut self, name: &str, help: &str, of: impl Fn(&Engine<'_>) -> Vec<(Label, f64)>) {
        self.family(name, help, "gauge", &of);
    }

    fn histogram(&mut self, row: &HistogramRow, at: usize) {
        let HistogramRow { name, help, .. } = row;
        self.head(name, help, "histogram");
        for engine in &self.engines {
            let histogram = &engine.counts.histograms[at];
            for (limit, count) in histogram.cumulative() {
                let limit = Some(("le", number(limit)));
                line(&mut self.text, &format!("{name}_bucket"), engine, limit.as_ref(), count as f64);
            }
            line(&mut self.text, &format!("{name}_count"), engine, None, histogram.count() as f64);
            line(&mut self.text, &format!("{name}_sum"), engine, None, histogram.sum());
        }
        self.creation(name, help, &|_| vec![(None, 0.0)]);
    }

    /// Beside each series of a counter and each histogram, `prometheus_client` has when it was made.
    fn creation(&mut self, name: &str, help: &str, of: &dyn Fn(&Engine<'_>) -> Vec<(Label, f64)>) {
        let created = self.created;
        let series = |engine: &Engine<'_>| of(engine).into_iter().map(|(label, _)| (label, created)).collect();
        self.family(&format!("{name}_created"), help, "gauge", &series);
    }

    fn family(&mut self, name: &str, help: &str, kind: &str, of: &dyn Fn(&Engine<'_>) -> Vec<(Label, f64)>) {
        self.head(name, help, kind);
        for engine in &self.engines {
            for (label, value) in of(engine) {
                line(&mut self.text, name, engine, label.as_ref(), value);
            }
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }
}

/// Labels are in the order of their names.
fn line(page: &mut String, name: &str, engine: &Engine<'_>, label: Option<&(&'static str, String)>, value: f64) {
    let model = ("model_name", engine.model.to_owned());
    let mut labels = vec![("engine", engine.index.to_string()), model];
    labels.extend(label.cloned());
    labels.sort_unstable_by_key(|(name, _)| *name);
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let _ = writeln!(page, "vllm:{name}{{{}}} {}", labels.join(","), number(value));
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// As Go writes a number, and `prometheus_client` after it: `1.0`, `0.25`, `1.234567e+06`.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let text = format!("{value:?}");
    match text.find('.') {
        Some(point) if point > 6 && !text.contains('e') => {
            let digits = format!("{}.{}{}", &text[..1], &text[1..point], &text[point + 1..]);
            format!("{}e+{:02}", digits.trim_end_matches('0').trim_end_matches('.'), point - 1)
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::number;
    use pretty_assertions::assert_eq;

    /// What `prometheus_client.utils.floatToGoString` makes of them.
    #[test]
    fn numbers_are_written_as_by_the_client_library() {
        let written = [1.0, 0.25, 100_000.0, 1e6, 1_234_567.0, 12_345_678.5, 1_763_889_121.25].map(number);
        assert_eq!(
            written,
            ["1.0", "0.25", "100000.0", "1e+06", "1.234567e+06", "1.23456785e+07", "1.76388912125e+09"]
        );
    }
}
