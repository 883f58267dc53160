//! `search.json`: what a search for the highest rate found, by the limits of the stage or by LoadGen's rules.
//!
//! Fields that files of earlier versions lack have defaults.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{FoundRate, RateBounds, RateProbe, Reason};
use base::event::Verdict;
use base::files::Digest;
use base::stats::{ProbeOutcome, RateEstimate};

/// The content of `search.json`. `J` is what decided about its probes; a reader does not know which it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchReport<J = ProbeJudgement> {
    #[serde(flatten)]
    pub rules: SearchRules,
    #[serde(default)]
    pub bounds: RateBounds,
    pub ttft_p99_limit_ms: Option<f64>,
    pub tpot_p99_limit_ms: Option<f64>,
    /// Probes in the order in which they ran.
    #[serde(default = "Vec::new")]
    pub probes: Vec<SearchProbe<J>>,
    /// Per second: the interval of the highest rate at which all limits hold, within the rates that may be tried.
    pub found: FoundRate,
}

/// What a rate had to meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a report has one of them")]
pub enum SearchRules {
    /// LoadGen's; the limits are those of the round.
    Loadgen {
        judge: SearchJudge,
        #[serde(default)]
        rehearsal: bool,
    },
    /// The limits of the stage.
    Limits(LimitSearch),
}

/// What decides whether a probe holds, where the limits of the stage do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchJudge {
    Loadgen,
}

/// What only a search by the limits of the stage has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitSearch {
    /// `None`: the file is of a version that did not write it.
    #[serde(flatten)]
    pub goal: Option<SearchGoal>,
    /// The earlier search that set the first rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_from: Option<EarlierSearch>,
    /// The rate and its 95 % interval, requests per second. Null where the limits held at the highest rate, and where
    /// the probes only bracket the rate: `found` has the bracket.
    #[serde(default, deserialize_with = "of_probes")]
    pub estimate: Option<RateEstimate>,
}

/// Earlier versions wrote the middle between two far rates as an estimate of no probes.
fn of_probes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateEstimate>, D::Error> {
    let estimate = Option::<RateEstimate>::deserialize(deserializer)?;
    Ok(estimate.filter(|estimate| estimate.probes > 0))
}

/// What a search is for: with another model or other limits there is another rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchGoal {
    pub model: String,
    /// As they are shown: `TTFT p99 ≤ 400ms`.
    pub limits: Vec<String>,
}

/// The search that another began from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierSearch {
    /// As given.
    pub path: String,
    pub digest: Digest,
    /// What was found there, requests per second.
    pub found: FoundRate,
    /// Null where that search has none.
    #[serde(default, deserialize_with = "of_probes")]
    pub estimate: Option<RateEstimate>,
}

impl EarlierSearch {
    /// Its rate, requests per second: the estimate, or the highest one that held.
    pub fn rate(&self) -> f64 {
        self.estimate.map_or(self.found.at_least, |estimate| estimate.rate)
    }
}

/// One rate that was tried, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchProbe<J = ProbeJudgement> {
    #[serde(flatten)]
    pub probe: RateProbe,
    #[serde(flatten)]
    pub judgement: J,
    pub ttft_p99_ms: Option<f64>,
    pub tpot_p99_ms: Option<f64>,
    pub output_tokens_per_s: Option<f64>,
    /// Why it missed.
    pub why: Option<String>,
    /// Relative to the stage's output.
    #[serde(default)]
    pub folder: PathBuf,
}

/// What decided about a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProbeJudgement {
    Loadgen(LoadgenJudgement),
    Limits(LimitJudgement),
    /// Of a version that wrote other fields.
    Unknown {},
}

/// By LoadGen's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadgenJudgement {
    /// As long as the rules require.
    pub is_whole: bool,
}

/// By the limits of the stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitJudgement {
    pub margin: ProbeOutcome,
    pub verdict: Verdict,
    /// Why a first measurement at this rate does not count. It is kept beside this one, whose folder ends in `-again`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_invalid: Option<String>,
    /// What qualifies its figures.
    #[serde(default)]
    pub warnings: Vec<Reason>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_are_read_as_they_were_written() {
        let interval = FoundRate { at_least: 110.0, below: Some(121.0) };
        let probe = |judgement| SearchProbe {
            probe: RateProbe { rate: 110.0, met: true },
            judgement,
            ttft_p99_ms: Some(300.0),
            tpot_p99_ms: None,
            output_tokens_per_s: None,
            why: None,
            folder: "probes/01-110".into(),
        };
        let report = |rules, judgement| SearchReport {
            rules,
            bounds: RateBounds { low: 10.0, high: 160.0, precision: 0.02 },
            ttft_p99_limit_ms: Some(400.0),
            tpot_p99_limit_ms: None,
            probes: vec![probe(judgement)],
            found: interval,
        };
        let goal = SearchGoal { model: "tiny".to_owned(), limits: vec!["TTFT p99 ≤ 400ms".to_owned()] };
        let limits = SearchRules::Limits(LimitSearch { goal: Some(goal), started_from: None, estimate: None });
        let margin = ProbeOutcome { rate: 110.0, whole: -0.1, first_half: -0.2, capacity: None };
        let judgement = LimitJudgement { margin, verdict: Verdict::Valid, first_invalid: None, warnings: Vec::new() };
        let loadgen = SearchRules::Loadgen { judge: SearchJudge::Loadgen, rehearsal: true };
        for written in [
            report(limits, ProbeJudgement::Limits(judgement)),
            report(loadgen, ProbeJudgement::Loadgen(LoadgenJudgement { is_whole: true })),
        ] {
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<SearchReport>(&text).unwrap(), written, "{text}");
        }
    }

    #[test]
    fn a_file_of_an_earlier_version_lacks_some_fields() {
        let old = json!({ "found": { "at_least": 5.0, "below": null }, "probes": [{ "rate": 5.0, "met": true }] });
        let old: SearchReport = serde_json::from_value(old).unwrap();
        assert!(matches!(&old.rules, SearchRules::Limits(LimitSearch { goal: None, .. })), "{old:?}");
        assert_eq!(old.probes[0].judgement, ProbeJudgement::Unknown {});
        assert!(serde_json::from_str::<SearchReport>(r#"{"verdict": "valid"}"#).is_err());
    }
}
