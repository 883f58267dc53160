//! The table of NVIDIA's MLPerf code, `nvidia-harness.toml`: benchmarks by the harness's names and by Regatta's,
//! targets of its Makefile, and the fields of RUN_ARGS and of configs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base::diag::{did_you_mean, nearest};
use serde::Deserialize;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessTable {
    /// Fields of a config that code reads.
    config_reads: Vec<String>,
    /// Fields of a config that always hold here, or are set elsewhere in the manifest.
    config_holds: Vec<String>,
    /// LoadGen's settings, which go from a config to user.conf unchanged.
    user_conf: Vec<String>,
    /// Fields of RUN_ARGS that code reads.
    line_reads: Vec<String>,
    /// Parameters of a line that measures, with what NVIDIA's code takes where the line does not set them.
    defaults: BTreeMap<String, String>,
    benchmark: Vec<HarnessBenchmark>,
    target: Vec<MakeTarget>,
    field: Vec<HarnessField>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HarnessBenchmark {
    name: String,
    names: Vec<String>,
    /// How the name of its model on Hugging Face begins.
    model: Option<String>,
}

/// A target of the Makefile.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MakeTarget {
    names: Vec<String>,
    /// Stages that a real system has and a simulated one does not.
    #[serde(default)]
    pub builds: Vec<String>,
    /// Stages that every system has.
    #[serde(default)]
    pub runs: Vec<String>,
    /// Nothing is left to do, or it is another command.
    pub elsewhere: Option<String>,
}

/// A field of RUN_ARGS or of a config that a row describes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessField {
    names: Vec<String>,
    /// Parameters of the manifest; the first that it declares is set.
    #[serde(default)]
    pub sets: Vec<String>,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub values: Vec<HarnessValue>,
    /// Why all other values are an error.
    pub error: Option<String>,
    reason: Option<String>,
    in_line: Option<String>,
    in_config: Option<String>,
}

/// Values of a field, and what they set, or why they have no place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HarnessValue {
    #[serde(default)]
    is: Vec<String>,
    begins: Option<String>,
    has: Option<String>,
    pub value: Option<String>,
    /// The stage that the run ends with.
    pub until: Option<String>,
    pub reason: Option<String>,
}

static TABLE: LazyLock<HarnessTable> =
    LazyLock::new(|| toml::from_str(include_str!("nvidia-harness.toml")).expect("a test reads the table"));

/// Regatta's name of a benchmark of the harness, or of the one with a model of Hugging Face:
/// `meta-llama/Llama-2-70b-chat-hf`.
pub(super) fn benchmark(name: &str) -> Option<&'static str> {
    let has_name = |benchmark: &&HarnessBenchmark| benchmark.names.iter().any(|other| other == name);
    let has_model = |benchmark: &&HarnessBenchmark| {
        let model = name.split_once('/').map(|(_, model)| model.to_lowercase()).unwrap_or_default();
        let model = model.strip_prefix("meta-").unwrap_or(&model);
        benchmark.model.as_ref().is_some_and(|begin| model.starts_with(begin))
    };
    let benchmarks = || TABLE.benchmark.iter();
    benchmarks().find(has_name).or_else(|| benchmarks().find(has_model)).map(|benchmark| benchmark.name.as_str())
}

/// What NVIDIA's code takes where a line that measures does not set it.
pub(super) fn defaults() -> impl Iterator<Item = (&'static str, String)> {
    TABLE.defaults.iter().map(|(name, value)| (name.as_str(), value.clone()))
}

/// A hint for a name that no benchmark has.
pub(super) fn benchmark_hint(name: &str) -> String {
    let names = TABLE.benchmark.iter().flat_map(|benchmark| &benchmark.names).map(String::as_str);
    did_you_mean(name, names).unwrap_or_default()
}

impl MakeTarget {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLE.target.iter().find(|target| target.names.iter().any(|other| other == name))
    }

    /// A hint for a name that no target has.
    pub fn hint(name: &str) -> String {
        let names = TABLE.target.iter().flat_map(|target| &target.names).map(String::as_str);
        did_you_mean(name, names.collect::<Vec<_>>()).unwrap_or_default()
    }
}

/// The meaning of a field of a config.
pub(super) enum ConfigField {
    UserConf,
    /// It is read by code, or holds here in any case.
    Read,
    /// It has no place; with the reason.
    Untranslated(String),
    Unknown(String),
}

impl ConfigField {
    /// The field of this name.
    pub fn named(name: &str) -> Self {
        let lists = [&TABLE.user_conf, &TABLE.config_reads, &TABLE.config_holds];
        let is_in = |list: &[String]| list.iter().any(|other| other == name);
        if is_in(&TABLE.user_conf) {
            return Self::UserConf;
        }
        if is_in(&TABLE.config_reads) || is_in(&TABLE.config_holds) {
            return Self::Read;
        }
        if let Some(reason) = HarnessField::named(name).and_then(HarnessField::reason_in_config) {
            return Self::Untranslated(reason.to_owned());
        }
        let described = TABLE.field.iter().filter(|field| field.reason_in_config().is_some());
        let names = described.flat_map(|field| &field.names).chain(lists.into_iter().flatten());
        let near = nearest(name, names.map(String::as_str).collect::<Vec<_>>());
        let hint = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Self::Unknown(format!("no field of language models that is known here{hint}"))
    }
}

impl HarnessField {
    /// The row of a field.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLE.field.iter().find(|field| field.names.iter().any(|other| other == name))
    }

    /// The sentence on a field of RUN_ARGS that is not known. `others` are read elsewhere.
    pub fn hint(name: &str, others: impl Iterator<Item = &'static str>) -> String {
        let described = TABLE.field.iter().filter(|field| field.is_of_line()).flat_map(|field| &field.names);
        let names = described.chain(&TABLE.line_reads).map(String::as_str).chain(others);
        did_you_mean(name, names.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Whether RUN_ARGS has the field.
    pub fn is_of_line(&self) -> bool {
        !self.sets.is_empty() || self.reason_in_line().is_some()
    }

    /// Why it has no place in RUN_ARGS.
    pub fn reason_in_line(&self) -> Option<&str> {
        self.in_line.as_deref().or(self.reason.as_deref())
    }

    fn reason_in_config(&self) -> Option<&str> {
        self.in_config.as_deref().or(self.reason.as_deref())
    }
}

impl HarnessValue {
    /// Whether a value is one of these.
    pub fn fits(&self, value: &str) -> bool {
        self.is.iter().any(|other| other == value)
            || self.begins.as_ref().is_some_and(|begin| value.starts_with(begin))
            || self.has.as_ref().is_some_and(|part| value.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_found_by_their_models() {
        for (name, ours) in [
            ("moe", Some("mixtral-8x7b")),
            ("meta-llama/Llama-2-70b-chat-hf", Some("llama2-70b")),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", Some("mixtral-8x7b")),
            ("meta-llama/Meta-Llama-3.1-405B-Instruct", Some("llama3.1-405b")),
            ("meta-llama/Llama-2-7b-hf", None),
            ("Llama-2-70b-chat-hf", None),
        ] {
            assert_eq!(benchmark(name), ours, "{name}");
        }
    }

    #[test]
    fn every_row_has_a_meaning() {
        let is_complete =
            |target: &MakeTarget| target.builds.is_empty() != target.runs.is_empty() || target.elsewhere.is_some();
        assert!(TABLE.target.iter().all(is_complete));
        for field in &TABLE.field {
            assert!(field.is_of_line() || field.reason_in_config().is_some(), "{:?}", field.names);
        }
    }
}
