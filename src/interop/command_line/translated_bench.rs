//! One measurement of a translated line: the arguments of `regatta bench`, and what has no option there.

use serde_json::{Map, Value, json};

use super::load::option_of;
use super::translation::number;
use base::units::unquoted;

/// Keys of `bench:` that are one number for every request.
const LEVELS: [&str; 4] = ["concurrency", "rate", "input_tokens", "output_tokens"];

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TranslatedBench {
    /// Behind `regatta bench`.
    pub args: Vec<String>,
    /// Keys of the manifest's `bench:` for which the line has no option.
    pub keys: Map<String, Value>,
    /// Levels that the manifest has as a `foreach`: of a key that `bench.sweep` does not have, or with several runs
    /// of each.
    pub sweep: Option<Sweep>,
}

/// A key of `bench:` that takes one value after the other, each a measurement of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The option that the key has in a line of `regatta bench`.
    pub option: Option<&'static str>,
    pub key: &'static str,
    pub values: Vec<Value>,
    /// What to write under `key`: a template in which `{{ key }}` stands for the value of the sweep.
    pub template: Value,
}

impl Sweep {
    pub(super) fn new(key: &'static str, values: Vec<Value>) -> Self {
        let expression = json!(format!("{{{{ {key} }}}}"));
        let template = if key.ends_with("_tokens") { json!({ "fixed": expression }) } else { expression };
        Self { option: option_of(key), key, values, template }
    }
}

impl TranslatedBench {
    /// The value of an option.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.args.get(self.at(option)? + 1).map(String::as_str)
    }

    fn at(&self, option: &str) -> Option<usize> {
        self.args.iter().position(|word| word == option)
    }

    /// These arguments in place of its users or its rate.
    pub(crate) fn replace_load(&mut self, load: &[String]) {
        self.sweep = None;
        for option in ["--concurrency", "--rate"] {
            if let Some(at) = self.at(option) {
                self.args.drain(at..(at + 2).min(self.args.len()));
            }
        }
        self.args.retain(|word| word != "--offline" && !word.starts_with("--trace"));
        self.args.splice(1.min(self.args.len()).., load.iter().cloned().chain(self.args[1..].to_vec()));
    }

    /// Its levels as `bench.sweep`, where that has them.
    pub(super) fn put_sweep(&mut self) {
        let is_repeated = self.value("--repeat").is_some_and(|runs| runs != "1");
        self.spread_lengths();
        let is_one_number = |sweep: &Sweep| !sweep.key.ends_with("_tokens") || sweep.template.get("fixed").is_some();
        let is_sweep = |sweep: &mut Sweep| sweep.option.is_some() && !is_repeated && is_one_number(sweep);
        let Some(sweep) = self.sweep.take_if(is_sweep) else { return };
        let at = sweep.option.and_then(|option| self.at(option));
        match at.and_then(|at| self.args.get_mut(at + 1)) {
            Some(value) if ["concurrency", "rate"].contains(&sweep.key) => {
                *value = sweep.values.iter().map(unquoted).collect::<Vec<_>>().join(",");
            }
            _ => {
                // The value of each point stands in place of the key's own.
                self.keys.insert(sweep.key.to_owned(), Value::Null);
                self.keys.insert("sweep".to_owned(), json!({ sweep.key: sweep.values }));
            }
        }
    }

    /// Lengths around the mean that changes, where they have a deviation: `bench.sweep` has lengths of one number
    /// only.
    fn spread_lengths(&mut self) {
        let Some(key) = self.sweep.as_ref().map(|sweep| sweep.key).filter(|key| key.ends_with("_tokens")) else {
            return;
        };
        let option = format!("--{}-stddev", key.replace('_', "-"));
        let deviation = self.value(&option).and_then(|text| text.parse::<f64>().ok());
        if let (Some(sweep), Some(deviation)) = (&mut self.sweep, deviation) {
            // As far above the mean as `--input-tokens-stddev` goes.
            let most = number((4.0 * deviation).ceil());
            sweep.template = json!({"normal": {
                "mean": format!("{{{{ {key} }}}}"),
                "stddev": number(deviation),
                "min": 1,
                "max": format!("{{{{ {key} + {most} }}}}"),
            }});
        }
    }

    /// Each of its measurements is made this many times. `bench.sweep` has no such thing: then its levels are a
    /// `foreach`.
    pub(crate) fn repeat(&mut self, runs: u32) {
        if runs < 2 {
            return;
        }
        for key in LEVELS {
            let Some(option) = option_of(key) else { continue };
            let levels = self.keys.get("sweep").and_then(|sweep| sweep.get(key)).and_then(Value::as_array).cloned();
            let listed = || {
                let list = self.value(option).filter(|value| value.contains(','))?;
                list.split(',').map(|level| level.parse().ok().map(number)).collect::<Option<Vec<_>>>()
            };
            let Some(values) = levels.or_else(listed) else { continue };
            if self.keys.shift_remove("sweep").is_some() {
                self.keys.shift_remove(key);
            }
            if let (Some(at), Some(first)) = (self.at(option), values.first().map(unquoted)) {
                self.args[at + 1] = first;
            }
            self.sweep = Some(Sweep::new(key, values));
        }
        self.args.extend(["--repeat".to_owned(), runs.to_string()]);
    }

    /// Measurements that differ in one level only are one sweep.
    pub(crate) fn gathered(all: Vec<Self>) -> Vec<Self> {
        let [first, others @ ..] = all.as_slice() else { return all };
        let place = |key: &'static str| {
            let at = first.at(option_of(key)?)? + 1;
            let same = |other: &Self| {
                let args = |bench: &Self| {
                    (bench.args.get(..at).map(<[_]>::to_vec), bench.args.get(at + 1..).map(<[_]>::to_vec))
                };
                other.keys == first.keys && other.sweep == first.sweep && args(other) == args(first)
            };
            let value = |bench: &Self| bench.args.get(at)?.parse::<f64>().ok().map(number);
            let values = all.iter().map(value).collect::<Option<Vec<_>>>()?;
            (first.sweep.is_none() && !first.keys.contains_key("sweep") && others.iter().all(same))
                .then_some((key, values))
        };
        match LEVELS.into_iter().find_map(place) {
            Some((key, mut values)) if !others.is_empty() => {
                let mut sweep = first.clone();
                values.sort_by(|low, high| low.as_f64().unwrap_or(0.0).total_cmp(&high.as_f64().unwrap_or(0.0)));
                sweep.sweep = Some(Sweep::new(key, values));
                sweep.put_sweep();
                vec![sweep]
            }
            _ => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(args: &str) -> TranslatedBench {
        TranslatedBench { args: args.split(' ').map(str::to_owned).collect(), ..TranslatedBench::default() }
    }

    #[test]
    fn measurements_that_differ_in_one_level_are_a_sweep() {
        let gathered = |lines: &[&str]| TranslatedBench::gathered(lines.iter().map(|line| bench(line)).collect());
        assert_eq!(gathered(&["h --rate 1 -n 5", "h --rate 4 -n 5"]), [bench("h --rate 1,4 -n 5")]);
        assert_eq!(gathered(&["h --rate 1 -n 5", "h --rate 4 -n 6"]).len(), 2);
        assert_eq!(gathered(&["h --rate 1"]), [bench("h --rate 1")]);
        let lengths = gathered(&["h --input-tokens 8", "h --input-tokens 16"]);
        assert_eq!(lengths[0].keys["sweep"], json!({"input_tokens": [8, 16]}));
        assert_eq!(lengths[0].keys["input_tokens"], Value::Null);
    }

    #[test]
    fn several_runs_of_each_level_are_a_foreach() {
        let mut line = bench("h --rate 1,4.5 -n 5");
        line.repeat(3);
        assert_eq!(line.args.join(" "), "h --rate 1 -n 5 --repeat 3");
        assert_eq!(
            line.sweep.as_ref().map(|sweep| (sweep.key, sweep.values.clone())),
            Some(("rate", vec![json!(1), json!(4.5)]))
        );
        let mut lengths =
            TranslatedBench::gathered(vec![bench("h --input-tokens 8"), bench("h --input-tokens 16")]).remove(0);
        lengths.repeat(2);
        assert!(
            lengths.keys.is_empty()
                && lengths.sweep.is_some_and(|sweep| sweep.template["fixed"] == "{{ input_tokens }}")
        );
    }

    #[test]
    fn lengths_that_spread_around_a_changing_mean_are_a_foreach() {
        let mut line = bench("h --input-tokens 100 --input-tokens-stddev 10");
        line.sweep = Some(Sweep::new("input_tokens", vec![json!(100), json!(200)]));
        line.put_sweep();
        let sweep = line.sweep.expect("a foreach");
        assert_eq!(sweep.template["normal"]["mean"], "{{ input_tokens }}");
        assert_eq!(sweep.template["normal"]["max"], "{{ input_tokens + 40 }}");
        assert!(line.keys.is_empty(), "{:?}", line.keys);
    }

    #[test]
    fn another_load_stands_behind_the_target() {
        let mut line = bench("h --model m --rate 4 -n 5");
        line.replace_load(&["--sweep=8".to_owned()]);
        assert_eq!(line.args.join(" "), "h --sweep=8 --model m -n 5");
    }
}
