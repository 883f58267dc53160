//! A measurement in the making, out of another load tool's options: keys of a manifest's `bench:`.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::translated_bench::{Sweep, TranslatedBench};
use super::translation::{TranslationBuilder, TranslationKind, TranslationResult, number};
use base::spec::{Formula, NumberKind, Quantity};
use base::units::unquoted;

/// Keys of `bench:` with the option that `regatta bench` has for each.
#[derive(Default, Deserialize)]
struct BenchOptions {
    in_order: Vec<(String, String)>,
    others: Vec<(String, String)>,
}

static OPTIONS: LazyLock<BenchOptions> =
    LazyLock::new(|| toml::from_str(include_str!("bench-options.toml")).unwrap_or_default());

/// The option of a key.
pub(crate) fn option_of(key: &str) -> Option<&'static str> {
    let mut rows = OPTIONS.in_order.iter().chain(&OPTIONS.others);
    rows.find(|(other, _)| other == key).map(|(_, option)| option.as_str())
}

/// The load and the requests of a line, by the keys of `bench:`, and what there is to say about the line.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslatedLoad {
    target: String,
    /// Keys that `regatta bench` has an option for, with that option's values.
    options: Vec<(&'static str, Vec<String>)>,
    /// Keys that only a manifest has.
    pub keys: Map<String, Value>,
    sweep: Option<Sweep>,
    /// The data set of the line, where the tool has options for some of them only.
    pub data_set: String,
    pub builder: TranslationBuilder,
}

impl TranslatedLoad {
    pub fn target(&mut self, target: impl Into<String>) {
        self.target = target.into();
        // Whether it has a scheme is not known before it has a value.
        if Formula::read(&self.target, NumberKind::Any).is_some() {
            self.keys.insert("target".to_owned(), json!(self.target));
        }
    }

    /// Sets a key that has an option. The last value counts.
    pub fn put(&mut self, key: &'static str, value: impl Into<String>) {
        self.options.retain(|(other, _)| *other != key);
        self.options.push((key, vec![value.into()]));
    }

    /// One more value of a key that has several.
    pub fn add(&mut self, key: &'static str, value: impl Into<String>) {
        self.options.push((key, vec![value.into()]));
    }

    /// Sets a key whose option takes no value.
    pub fn flag(&mut self, key: &'static str) {
        self.options.retain(|(other, _)| *other != key);
        self.options.push((key, Vec::new()));
    }

    /// Removes a key, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let at = self.options.iter().position(|(other, _)| *other == key)?;
        self.options.remove(at).1.into_iter().next()
    }

    pub fn has(&self, key: &str) -> bool {
        self.options.iter().any(|(other, _)| *other == key)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(other, _)| *other == key)?.1.first().map(String::as_str)
    }

    /// Sets a key that only a manifest has. `data.repeat` is the key `repeat` of `data`.
    pub fn set(&mut self, key: &str, value: Value) {
        match key.split_once('.') {
            Some((outer, inner)) => self.keys.entry(outer).or_insert_with(|| json!({}))[inner] = value,
            None => drop(self.keys.insert(key.to_owned(), value)),
        }
    }

    /// Sets a key by a text, as an option where it has one.
    pub fn assign(&mut self, key: &'static str, value: impl Into<String>) {
        if option_of(key).is_some() { self.put(key, value) } else { self.set(key, json!(value.into())) }
    }

    pub fn streaming(&mut self, is_on: bool) {
        self.put("request.streaming", is_on.to_string());
    }

    /// One measurement for each value of a key. The option of the key, where there is one, is given the first.
    pub fn sweep(&mut self, key: &'static str, values: Vec<Value>) {
        let option = option_of(key);
        if let (Some(_), Some(first)) = (option, values.first()) {
            self.put(key, unquoted(first));
        }
        if let (None, [only]) = (option, values.as_slice()) {
            self.keys.insert(key.to_owned(), only.clone());
        }
        if values.len() > 1 {
            if option.is_some() && !values.is_sorted_by(|one, next| one.as_f64() < next.as_f64()) {
                self.builder.note("the levels of a sweep are measured in ascending order, each once");
            }
            self.sweep = Some(Sweep::new(key, values));
        }
    }

    /// A sweep that finds its levels, with this many rates between one user and saturation.
    pub fn sweep_to_saturation(&mut self, rates: u32) {
        self.options.retain(|(key, _)| !["concurrency", "rate"].contains(key));
        self.put("sweep", rates.to_string());
    }

    /// The highest of its users.
    pub fn most_users(&self) -> Option<Quantity<u64>> {
        match self.sweep.as_ref().filter(|sweep| sweep.key == "concurrency") {
            Some(sweep) => {
                sweep.values.iter().filter_map(Value::as_f64).reduce(f64::max).map(|users| (users as u64).into())
            }
            None => self.get("concurrency")?.parse().ok(),
        }
    }

    /// Divides its rate, and every rate of its sweep.
    pub fn divide_rate(&mut self, by: f64) {
        let divided = |rate: f64| number((rate / by * 1e6).round() / 1e6);
        match self.get("rate").and_then(|rate| rate.parse::<Quantity<f64>>().ok()) {
            Some(Quantity::Known(rate)) => self.put("rate", divided(rate).to_string()),
            Some(rate) => self.put("rate", rate.combine("/", by, |rate, by| rate / by).to_string()),
            None => {}
        }
        if let Some(sweep) = self.sweep.as_mut().filter(|sweep| sweep.key == "rate") {
            sweep.values = sweep.values.iter().filter_map(Value::as_f64).map(divided).collect();
        }
    }

    /// A length from `min` to `max`, both included. The option, which takes one number, is given the mean.
    pub fn length_between(&mut self, key: &'static str, min: &Quantity<u32>, max: &Quantity<u32>) {
        let mean = match (min, max) {
            (Quantity::Known(min), Quantity::Known(max)) => Quantity::Known(min.midpoint(*max) + (min ^ max) % 2),
            _ if min == max => max.clone(),
            _ => min.clone().combine("+", max.clone(), |min, _| min).combine("//", 2_u32, |sum, _| sum),
        };
        self.put(key, mean.to_string());
        if min != max {
            self.keys.insert(key.to_owned(), json!({"uniform": {"min": min, "max": max}}));
        }
    }

    /// Shared beginnings of prompts; none of no tokens.
    pub fn prefixes(&mut self, count: impl Into<Quantity<u32>>, tokens: &Quantity<u32>) {
        if *tokens != Quantity::Known(0) {
            self.set("prefixes", json!({"count": count.into(), "tokens": tokens}));
        }
    }

    /// A file with prompts.
    pub fn data(&mut self, kind: &str, file: impl Into<String>) {
        self.put("data", file);
        self.put("data.kind", kind);
    }

    /// Arrivals at the time stamps of the data, `speed` times as fast.
    pub fn trace(&mut self, speed: f64) {
        // A trace has no other load.
        self.options.retain(|(key, _)| !["concurrency", "rate", "arrivals"].contains(key));
        self.sweep = None;
        if (speed - 1.0).abs() > f64::EPSILON {
            self.put("speed", number(speed).to_string());
        } else {
            self.flag("speed");
        }
    }

    /// Over chat the length of an answer is in `max_completion_tokens`: so do AIPerf 0.13.0
    /// (aiperf/endpoints/openai_chat.py), vLLM 0.33.0
    /// (vllm/benchmarks/lib/endpoint_request_func.py), SGLang 0.5.23 (sglang/benchmark/serving.py) and GuideLLM 0.8.1
    /// (guidellm/backends/openai/request_handlers.py). Over completions all have `max_tokens`.
    pub fn limits_completion_tokens(&mut self) {
        if self.get("protocol") == Some("openai-chat") {
            self.put("request.length_field", "max_completion_tokens");
        }
    }

    /// Conversations as the data have them, each turn with the answers that came before it in front.
    pub fn sessions_of_data(&mut self) {
        self.set("sessions", json!({"turns": "given", "history": "answers"}));
    }

    /// Whether a sweep changes this key.
    pub fn sweeps(&self, key: &str) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| sweep.key == key)
    }

    pub fn is_swept(&self) -> bool {
        self.sweep.is_some()
    }

    pub fn means(self) -> TranslationKind {
        TranslationKind::Bench(self.bench())
    }

    /// The translation of a line that is one measurement.
    pub fn finish(mut self, tool: &'static str) -> TranslationResult {
        std::mem::take(&mut self.builder).finish(tool, self.means())
    }

    pub fn bench(mut self) -> TranslatedBench {
        // Without TLS, `tls.insecure` has no effect: drop it.
        let has_tls = self.target.starts_with("https:");
        self.options.retain(|(key, _)| has_tls || *key != "tls.insecure");
        let place = |key: &str| OPTIONS.in_order.iter().position(|(other, _)| other == key).unwrap_or(usize::MAX);
        self.options.sort_by_key(|(key, _)| place(key));
        let mut args = vec![self.target];
        for (key, values) in self.options {
            let option = option_of(key).unwrap_or(key);
            match (key, values.as_slice()) {
                ("request.streaming", [is_on]) if is_on == "false" => args.push("--no-streaming".to_owned()),
                ("request.streaming" | "scenario", _) => args.push(option.to_owned()),
                // Their value is optional: it is in the same argument.
                ("sweep" | "speed", [value]) => args.push(format!("{option}={value}")),
                ("stop.duration", [time]) if let Some(ms) = time.strip_suffix("ms") => {
                    args.extend(["--measurement-interval".to_owned(), ms.to_owned()]);
                }
                _ => {
                    args.push(option.to_owned());
                    args.extend(values);
                }
            }
        }
        let mut bench = TranslatedBench { args, keys: self.keys, sweep: self.sweep };
        bench.put_sweep();
        bench
    }
}

/// `1:4`, `1:4:2` or `8`, ends included, as perf_analyzer and GenAI-Perf write ranges; step 1 where none is given.
pub(crate) fn range(text: &str) -> Option<Vec<Value>> {
    /// A range with more values than this is an error.
    const MOST: usize = 1000;
    let parts: Vec<f64> =
        text.split(':').map(|part| part.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect::<Option<_>>()?;
    let (from, to, step) = match parts.as_slice() {
        [level] => return Some(vec![number(*level)]),
        [from, to] => (*from, *to, 1.0),
        [from, to, step] => (*from, *to, *step),
        _ => return None,
    };
    if step <= 0.0 || to < from || (to - from) / step > MOST as f64 {
        return None;
    }
    let count = ((to - from) / step + 1e-9).floor() as usize;
    Some((0..=count).map(|n| number(from + n as f64 * step)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_read() {
        assert_eq!((option_of("model"), option_of("tls.key")), (Some("--model"), None));
        assert_eq!((OPTIONS.in_order.len(), OPTIONS.others.len()), (29, 9));
    }

    #[test]
    fn ranges_have_both_ends() {
        assert_eq!(range("8"), Some(vec![json!(8)]));
        assert_eq!(range("1:4"), Some(vec![json!(1), json!(2), json!(3), json!(4)]));
        assert_eq!(range("10:40:15"), Some(vec![json!(10), json!(25), json!(40)]));
        assert_eq!(range("0.5:1.5:0.5"), Some(vec![json!(0.5), json!(1), json!(1.5)]));
        for bad in ["", "a", "4:1", "1:2:0", "1:2:3:4", "1:1e9", "nan"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
