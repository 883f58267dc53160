//! Prometheus' text format: `name{label="value"} 1.5 1700000000000`, with `# HELP` and `# TYPE` before. And OpenMetrics
//! 1.0, which ends with `# EOF`: the counter `name` has the sample `name_total`, times are seconds, and a sample may
//! have an exemplar behind ` # `.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use serde::{Serialize, Serializer};
use strum::EnumString;

use super::summary::is_summarized;
use base::diag::ErrorText;

/// Lines of one answer that are read: samples, and the descriptions of their families. The largest servers have some
/// ten thousand.
const MOST_LINES: usize = 200_000;

/// The end of a sample's name that is the time when its series was made.
pub(super) const CREATED: &str = "_created";

/// How to interpret a family's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum MetricKind {
    /// Only grows, until the server restarts.
    Counter,
    Gauge,
    Histogram,
    Summary,
    #[default]
    Untyped,
}

/// A number; JSON has no representation for NaN and infinity.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct MetricValue(pub f64);

impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() { to.serialize_f64(self.0) } else { to.serialize_str(&self.to_string()) }
    }
}

impl std::fmt::Display for MetricValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricSample {
    /// The family's name, with `_bucket`, `_sum` or `_count` where it has parts.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: MetricValue,
    /// Milliseconds since the epoch, where the server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

impl MetricSample {
    /// `name{label="value"}`, labels in order: the same series has the same key.
    pub fn key(&self) -> String {
        let mut key = self.name.clone();
        for (index, (name, value)) in self.labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(key, "{open}{name}=\"{value}\"");
        }
        if !self.labels.is_empty() {
            key.push('}');
        }
        key
    }
}

/// Samples of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MetricFamily {
    pub name: String,
    pub help: String,
    pub kind: MetricKind,
    pub samples: Vec<MetricSample>,
}

/// Of a counter, in OpenMetrics.
const TOTAL: &str = "_total";

/// Everything in one answer of `/metrics`, in its order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Exposition {
    pub families: Vec<MetricFamily>,
}

impl Exposition {
    /// # Errors
    /// The first line that cannot be read as a metric, and why.
    pub fn parse(text: &str) -> Result<Self, ErrorText> {
        let mut families: Vec<MetricFamily> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let times_per_ms = if text.trim_end().ends_with("\n# EOF") { 1e3 } else { 1.0 };
        for (number, line) in (1..).zip(text.lines()) {
            let fault = |error: &dyn Display| ErrorText::new(format_args!("line {number} is not a metric: {error}"));
            if number > MOST_LINES {
                return Err(fault(&format_args!("no more than {MOST_LINES} lines are read")));
            }
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                let mut words = comment.trim_start().splitn(3, [' ', '\t']);
                let (what, name, rest) = (words.next(), words.next().unwrap_or_default(), words.next());
                let name = &with_colon(name);
                match what {
                    Some("HELP") => {
                        let at = place(&mut places, &mut families, name);
                        families[at].help = unescaped(rest.unwrap_or_default());
                    }
                    Some("TYPE") => {
                        let at = place(&mut places, &mut families, name);
                        families[at].kind = rest.unwrap_or_default().trim().parse().unwrap_or_default();
                    }
                    _ => {}
                }
            } else if !line.is_empty() {
                let sample = sample(line, times_per_ms).map_err(|error| fault(&error))?;
                let at = family_of(&places, &families, &sample.name)
                    .unwrap_or_else(|| place(&mut places, &mut families, &sample.name));
                families[at].samples.push(sample);
            }
        }
        Ok(Self { families })
    }

    /// Whether it has a series of an inference server that is known here.
    pub fn concerns_serving(&self) -> bool {
        self.samples().any(|(_, sample)| is_summarized(&sample.name, &sample.labels))
    }

    pub fn samples(&self) -> impl Iterator<Item = (&MetricFamily, &MetricSample)> {
        self.families.iter().flat_map(|family| family.samples.iter().map(move |sample| (family, sample)))
    }
}

/// Where the family of a name is; it is made if it is not there.
fn place(places: &mut BTreeMap<String, usize>, families: &mut Vec<MetricFamily>, name: &str) -> usize {
    *places.entry(name.to_owned()).or_insert_with(|| {
        families.push(MetricFamily { name: name.to_owned(), ..MetricFamily::default() });
        families.len() - 1
    })
}

/// Where the family is that a sample belongs to: a histogram's holds `_bucket`, `_sum` and `_count`; a summary's all
/// but the first; a counter's `_total`; each of them `_created`. Looked up, not searched for: a server may list any
/// number of families.
fn family_of(places: &BTreeMap<String, usize>, families: &[MetricFamily], name: &str) -> Option<usize> {
    let whole = |part: &str| {
        let at = *places.get(name.strip_suffix(part)?)?;
        let holds = match families[at].kind {
            MetricKind::Histogram => part != TOTAL,
            MetricKind::Summary => part != TOTAL && part != "_bucket",
            MetricKind::Counter => part == TOTAL || part == CREATED,
            MetricKind::Gauge | MetricKind::Untyped => false,
        };
        holds.then_some(at)
    };
    let parts = ["_bucket", "_sum", "_count", TOTAL, CREATED].into_iter().filter_map(whole);
    parts.chain(places.get(name).copied()).max()
}

/// `times_per_ms`: milliseconds of the unit in which times are written.
fn sample(line: &str, times_per_ms: f64) -> Result<MetricSample, ErrorText> {
    let no_value = || ErrorText::new("it has no value");
    let end = line.find(|c: char| c == '{' || c.is_whitespace()).ok_or_else(no_value)?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, "_:") {
        return Err(not_a("name", name));
    }
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = self::labels(inside, &mut labels)?;
    }
    // Behind it is an exemplar.
    let mut words = rest.split_whitespace().take_while(|word| *word != "#");
    let value = number(words.next().ok_or_else(no_value)?)?;
    let time = |word: &str| match word.parse::<f64>() {
        Ok(time) if time.is_finite() => Ok((time * times_per_ms).round() as i64),
        _ => Err(not_a("time", word)),
    };
    let timestamp = words.next().map(time).transpose()?;
    match words.next() {
        Some(more) => Err(ErrorText::new(format_args!("`{more}` is too much"))),
        None => Ok(MetricSample { name: with_colon(name).into_owned(), labels, value, timestamp }),
    }
}

fn not_a(kind: &str, text: &str) -> ErrorText {
    ErrorText::new(format_args!("`{text}` is not a {kind}"))
}

/// The name as its server has it: routers and collectors write `_` in place of the colon of vLLM's and SGLang's.
fn with_colon(name: &str) -> Cow<'_, str> {
    let mut servers = ["vllm", "sglang"].into_iter();
    let rest = servers.find_map(|server| Some((server, name.strip_prefix(server)?.strip_prefix('_')?)));
    rest.map_or(Cow::Borrowed(name), |(server, rest)| Cow::Owned(format!("{server}:{rest}")))
}

fn is_name(text: &str, marks: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
}

/// Reads up to the closing brace; what is left after it.
fn labels<'a>(mut text: &'a str, into: &mut BTreeMap<String, String>) -> Result<&'a str, ErrorText> {
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Ok(rest);
        }
        let (name, rest) = text.split_once('=').ok_or_else(|| ErrorText::new("its labels are not closed"))?;
        let name = name.trim();
        if !is_name(name, "_:.-") {
            return Err(not_a("name", name));
        }
        let value = rest.trim_start().strip_prefix('"');
        let rest = value.ok_or_else(|| ErrorText::new(format_args!("label `{name}` has no value")))?;
        let mut escaped = false;
        let end = rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let end = end.ok_or_else(|| ErrorText::new(format_args!("the value of label `{name}` is not closed")))?;
        into.insert(name.to_owned(), unescaped(&rest[..end]));
        text = &rest[end + 1..];
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

fn number(word: &str) -> Result<MetricValue, ErrorText> {
    let value = match word {
        "+Inf" | "Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" | "Nan" => f64::NAN,
        word => word.parse().map_err(|_| not_a("number", word))?,
    };
    Ok(MetricValue(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_underscore_in_place_of_the_colon_of_a_server_is_read_as_its_colon() {
        let text = "# TYPE sglang_num_running_reqs gauge\nsglang_num_running_reqs 2\nvllm_x_total 1\nvllmx_y 1\n";
        let parsed = Exposition::parse(text).unwrap();
        let names: Vec<&str> = parsed.samples().map(|(family, _)| family.name.as_str()).collect();
        assert_eq!(names, ["sglang:num_running_reqs", "vllm:x_total", "vllmx_y"]);
        assert!(parsed.concerns_serving());
    }

    #[test]
    fn families_with_their_help_type_and_samples() {
        let text = "# HELP nv_inference_request_failure Failed requests,\\nall batch sizes\n\
            # TYPE nv_inference_request_failure counter\n\
            nv_inference_request_failure{model=\"m\",reason=\"OTHER\",version=\"1\"} 3\n\
            nv_inference_request_failure{reason=\"BACKEND\", model=\"a \\\"b\\\\\\n\" , version=\"1\",} 4 \
            1700000000123\n\
            nv_cpu_utilization 2.5e-1\n\n# a comment\n";
        let exposition = Exposition::parse(text).unwrap();
        assert_eq!(exposition.families.len(), 2);
        let failures = &exposition.families[0];
        assert_eq!((failures.kind, failures.help.as_str()), (MetricKind::Counter, "Failed requests,\nall batch sizes"));
        assert_eq!(
            failures.samples[0].key(),
            "nv_inference_request_failure{model=\"m\",reason=\"OTHER\",version=\"1\"}"
        );
        assert_eq!(failures.samples[1].labels["model"], "a \"b\\\n");
        assert_eq!(failures.samples[1].timestamp, Some(1_700_000_000_123));
        assert_eq!(
            (exposition.families[1].kind, exposition.families[1].samples[0].value),
            (MetricKind::Untyped, MetricValue(0.25))
        );
        assert_eq!(exposition.families[1].samples[0].key(), "nv_cpu_utilization");
    }

    #[test]
    fn histograms_and_summaries_are_one_family_each() {
        let text = "# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4\nh_count 3\n\
            # TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_sum -Inf\ns_count 0\nh_other 1\n";
        let exposition = Exposition::parse(text).unwrap();
        let sizes: Vec<_> =
            exposition.families.iter().map(|family| (family.name.as_str(), family.samples.len())).collect();
        assert_eq!(sizes, [("h", 4), ("s", 3), ("h_other", 1)]);
        assert!(exposition.families[1].samples[0].value.0.is_nan());
        let shown = serde_json::to_string(&exposition.families[1].samples.iter().map(|s| s.value).collect::<Vec<_>>());
        assert_eq!(shown.unwrap(), r#"["NaN","-Inf",0.0]"#);
    }

    #[test]
    fn openmetrics_is_read_with_its_totals_times_and_exemplars() {
        let text = "# TYPE vllm:prompt_tokens counter\n# UNIT vllm:prompt_tokens tokens\n# HELP vllm:prompt_tokens \
            Tokens.\n\
            vllm:prompt_tokens_total{engine=\"0\"} 5 1700000000.25 # {trace_id=\"a # b\"} 1 1700000000.1\n\
            vllm:prompt_tokens_created{engine=\"0\"} 1.7e+09\n\
            # TYPE h histogram\nh_bucket{le=\"1.0\"} 2 # {id=\"x\"} 0.5\nh_bucket{le=\"+Inf\"} 3\nh_count 3\nh_sum \
            4.5\nh_created 1\n\
            # TYPE build info\nbuild_info{version=\"1\"} 1\n# TYPE g gauge\ng 2\n# EOF\n";
        let exposition = Exposition::parse(text).unwrap();
        let sizes: Vec<_> =
            exposition.families.iter().map(|it| (it.name.as_str(), it.kind, it.samples.len())).collect();
        let kinds = [MetricKind::Counter, MetricKind::Histogram, MetricKind::Untyped, MetricKind::Gauge];
        let expected = [("vllm:prompt_tokens", 2), ("h", 5), ("build", 0), ("g", 1)];
        for ((name, kind, samples), ((expected, of_family), expected_kind)) in
            sizes.iter().filter(|it| it.0 != "build_info").zip(expected.into_iter().zip(kinds))
        {
            assert_eq!((*name, *samples, *kind), (expected, of_family, expected_kind));
        }
        let tokens = &exposition.families[0].samples[0];
        assert_eq!(
            (tokens.name.as_str(), tokens.value, tokens.timestamp),
            ("vllm:prompt_tokens_total", MetricValue(5.0), Some(1_700_000_000_250))
        );
    }

    #[test]
    fn what_is_no_metric_says_why_and_where() {
        let reason = |text: &str| Exposition::parse(text).unwrap_err().to_string();
        assert_eq!(reason("a 1\nb x\n"), "line 2 is not a metric: `x` is not a number");
        assert_eq!(reason("a"), "line 1 is not a metric: it has no value");
        assert_eq!(reason("a{b=\"c\"\u{b},d=\"e\"} 1"), "line 1 is not a metric: `,d` is not a name");
        assert_eq!(reason("a{b=\"c} 1"), "line 1 is not a metric: the value of label `b` is not closed");
        assert_eq!(reason("<html> 1"), "line 1 is not a metric: `<html>` is not a name");
        assert_eq!(reason("a 1 2 3"), "line 1 is not a metric: `3` is too much");
    }

    #[test]
    fn an_answer_of_many_families_is_read_in_order_and_one_without_end_is_refused() {
        let text = |lines: usize| (0..lines).map(|line| format!("m{line} 1\n")).collect::<Vec<_>>().concat();
        let exposition = Exposition::parse(&text(MOST_LINES)).unwrap();
        assert_eq!(exposition.families.len(), MOST_LINES);
        assert_eq!(exposition.families[7].name, "m7");
        let error = Exposition::parse(&text(MOST_LINES + 1)).unwrap_err().to_string();
        assert_eq!(error, "line 200001 is not a metric: no more than 200000 lines are read");
    }

    proptest! {
        #[test]
        fn a_key_reads_back(value in ".*") {
            let sample = MetricSample {
                name: "m".to_owned(),
                labels: BTreeMap::from([("l".to_owned(), value)]),
                value: MetricValue(1.0),
                timestamp: None,
            };
            // Lines end at a line feed only; other separators are part of a value.
            let line = format!("{} 1", sample.key());
            if line.lines().count() == 1 && line.trim() == line {
                prop_assert_eq!(&Exposition::parse(&line).unwrap().families[0].samples[0], &sample);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[a-z{}\"\\\\=, #0-9\n]{0,60}") {
            let _ = Exposition::parse(&text);
        }
    }
}
