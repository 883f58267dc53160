//! Reasons for a verdict other than VALID: a row for each, from which `explain`, the manual and the names in
//! `result.json` are derived. `verdict` decides which apply, and the worst makes the verdict.

use std::fmt;

use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::measure::course::{FAR_SLOWER, LEAST_OF_RUN, LEAST_SLOW, MEAN_ABOVE, P99_ABOVE, STALL_MS};
use crate::measure::freeze::{LEAST_HELD_UP, LEAST_S, SEVERAL, SINGLE_S, TIMES_GAP};
use crate::measure::latency::{COALESCED, NEGLIGIBLE};
use crate::measure::load_conditions::{BUSY, FULL_SHARE};
use crate::measure::subsets::{LEAST_OF_SERVER, SLOWER, SLOWER_ERRORS};
use crate::measure::token_counts::{OF_TOKENS, OF_WORDS};
use crate::verdict::lateness::{LAG, LAG_HARD, LATE_SHARE};
use crate::verdict::servers::{COUNTED, OF_A_TEMPLATE, OF_A_WORD};
use crate::verdict::{BACKLOG_MS, CACHED, CORE_WAIT, CPU, RATE, RATE_IN_TIME, REPEATED};
use base::event::Verdict;
use base::stats::{SHIFT_ERRORS, SHIFT_SHARE};

/// Everything that is known of one reason before a run: its row.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictReason {
    /// Its name in `result.json` and below a verdict.
    pub id: &'static str,
    /// What the finding means.
    pub about: &'static str,
    /// Up to where a run has no such finding.
    pub limit: String,
    /// What the finding makes of the run.
    pub class: String,
    /// What to do.
    pub cure: &'static str,
}

/// The check that made a finding, and its row: `Name "id": about; (limit); [classes, each with its condition]; cure.`
macro_rules! verdict_reasons {
    ($($check:ident $id:literal: $about:literal; ($($limit:tt)*); [$($class:ident $($when:literal)?),+];
        $cure:literal.)*) => {
        /// What a finding is about.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum VerdictCheck {
            $(#[doc = $about] $check,)*
            /// Of another version of this program.
            Other(String),
        }

        /// Every reason, in the order in which a run is checked.
        pub fn verdict_reasons() -> Vec<VerdictReason> {
            vec![$(VerdictReason {
                id: $id,
                about: $about,
                limit: format!($($limit)*),
                class: class_text(VerdictCheck::$check.classes()),
                cure: $cure,
            }),*]
        }

        impl VerdictCheck {
            /// Its name in `result.json` and below a verdict.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$check => $id,)*
                    Self::Other(name) => name,
                }
            }

            /// The verdicts that this finding can cause, and when.
            const fn classes(&self) -> &'static [(ReasonSeverity, &'static str)] {
                match self {
                    $(Self::$check => &[$((ReasonSeverity::$class, concat!("" $(, $when)?))),+],)*
                    Self::Other(_) => &[],
                }
            }

            /// What to do against such a finding.
            pub const fn cure(&self) -> &'static str {
                match self {
                    $(Self::$check => $cure,)*
                    Self::Other(_) => "",
                }
            }
        }

        impl From<String> for VerdictCheck {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($id => Self::$check,)*
                    _ => Self::Other(name),
                }
            }
        }
    };
}

verdict_reasons! {
    Server "server":
        "a server was lost during the measurement";
        ("none");
        [InvalidServer];
        "read the server's log".
    Failures "failures":
        "requests failed, answers broke off without an error, or no request was answered";
        ("0, or the budget `limits.failures`");
        [InvalidServer, InvalidClient "where this machine had no local port left", Warning "within the budget"];
        "remove the cause that the first failure names, or allow some with `limits.failures`".
    Retries "retries":
        "requests were sent again: as `retries` sets, or because the server closed their kept connection";
        ("0");
        [Warning];
        "find out why the server refuses requests or closes connections".
    Conservation "conservation":
        "scheduled, sent and ended requests do not add up";
        ("exact");
        [InvalidClient];
        "report it as a bug in Regatta".
    InFlight "in_flight":
        "requests were in flight at the end";
        ("0");
        [InvalidClient];
        "report it as a bug in Regatta".
    SelfCheck "self_check":
        "totals that Regatta computes in two different ways do not match";
        ("equal");
        [InvalidClient];
        "report it as a bug in Regatta".
    Protocol "protocol":
        "answers violate their protocol";
        ("0");
        [Warning, InvalidServer "where tokens or their request become doubtful"];
        "fix the server, or the proxy in front of it".
    Stopped "stopped":
        "the run was stopped before its end";
        ("none");
        [InvalidClient];
        "let the run end".
    HeldBack "held_back":
        "arrivals waited because `max_in_flight` requests were in flight";
        ("0");
        [Warning];
        "raise `max_in_flight`, or lower `rate`".
    Rate "rate":
        "requests were not sent at the scheduled rate (`offered` and `admitted`)";
        ("{}; {} for LoadGen with a client in time", percent(RATE), percent(RATE_IN_TIME));
        [InvalidClient, Overloaded "where `max_in_flight` held arrivals back",
            LimitMissed "where LoadGen's own load is the cause"];
        "measure from a machine with free cores, or lower `rate`".
    Ks "ks":
        "arrivals deviate from their intended distribution (Kolmogorov-Smirnov distance)";
        ("the critical distance at 0.1 %");
        [Warning];
        "measure from a machine with free cores".
    Lag "lag":
        "the client sent requests later than scheduled (`queue_client`)";
        (
            "{} of the requests, beyond chance, by {} of TTFT p50; {} of TTFT mean; second limits {} and {}",
            percent(LATE_SHARE), LAG.request, LAG.mean, LAG_HARD.request, LAG_HARD.mean
        );
        [Warning, InvalidClient "above a second limit, unless LoadGen's limits do not depend on it"];
        "close other programs on this machine, or measure from another one".
    Cpu "cpu":
        "a load worker was busy for most of the time (`cpu_share_max`)";
        ("{} of a core", percent(CPU));
        [InvalidClient, Warning "offline, in closed loops, and where LoadGen's latency limits are met"];
        "use more connections or cores".
    CoreWait "core_wait":
        "a load worker waited for a core (`cpu_share_max` is the time it had one)";
        ("{} of the time", percent(CORE_WAIT));
        [Warning];
        "close other programs on this machine, or measure from another one".
    Backlog "backlog":
        "answers waited inside the client after they were read";
        ("p99 of {BACKLOG_MS} ms");
        [Warning];
        "give the client more cores".
    Streams "streams":
        "arrivals waited for a free stream of a connection";
        ("0");
        [Warning];
        "raise `triton_num_clients_per_frontend`".
    Reconnects "reconnects":
        "connections were lost";
        ("0");
        [Warning];
        "read the logs of the server and its proxies".
    Limits "limits":
        "a limit was missed, or there is no number to check it against";
        ("as given");
        [LimitMissed];
        "lower the load, or raise the limit".
    Samples "samples":
        "too few requests: their p99 is their maximum";
        ("more than 100 requests");
        [Warning];
        "raise `stop`".
    Overload "overload":
        "more requests arrived than were served, so latencies grow with the length of the run";
        ("arrivals exceed completions beyond chance");
        [Overloaded];
        "lower `rate`".
    Filling "filling":
        "arrivals ended before the server was full, so it is unknown whether it keeps up";
        ("4 times as long as a request takes"); [Warning]; "let requests arrive for longer (`stop`)".
    ColdStart "cold_start":
        "the beginning was slower than the rest, and headline numbers include it";
        (
            "{LEAST_SLOW} requests; {} of the mean, {} of p99; or one {FAR_SLOWER} times as long as any later one, of \
             at least {LEAST_OF_RUN}",
            percent(MEAN_ABOVE - 1.0),
            percent(P99_ABOVE - 1.0)
        );
        [Warning];
        "warm up longer (`warmup`, `warmup_time`)".
    Freeze "freeze":
        "no answer began, continued or ended for a while although requests waited";
        (
            "{TIMES_GAP} times the usual gap, more for a long answer, with {LEAST_HELD_UP} requests held up, or both \
             of two users; {SINGLE_S} s, or {SEVERAL} times {LEAST_S} s"
        );
        [Warning];
        "check the server's log for that period".
    Concurrency "concurrency":
        "not all users were busy for most of the window";
        ("at least as many requests as users, and all of them busy for {} of the window", percent(BUSY));
        [InvalidClient, Warning "by the window"];
        "raise `stop.requests`".
    Ramp "ramp":
        "throughput is mostly filling and draining the server";
        ("overall throughput at least {} of the throughput in the middle of the run", percent(FULL_SHARE));
        [Warning];
        "raise `stop`".
    Endpoint "endpoint":
        "one of several servers answered more slowly than the others";
        (
            "{} times the others' median and their fastest tenth; {} answers of each; {} standard errors",
            SLOWER, LEAST_OF_SERVER, SLOWER_ERRORS
        );
        [Warning];
        "compare its settings and machine with the others, or measure it alone".
    Drift "drift":
        "TTFT, TPOT or the longest stall drifted during the run, which the load does not explain";
        ("{}, of stalls {STALL_MS} ms, too, and {SHIFT_ERRORS} standard errors", percent(SHIFT_SHARE));
        [Warning];
        "a longer warm-up; check clocks and caches".
    Lengths "lengths":
        "answers are longer or shorter than requested, or drawn prompts longer";
        ("0; prompts: {OF_A_WORD} tokens for a word and {OF_A_TEMPLATE} for a request");
        [Warning];
        "let the server ignore end tokens, or compare token rates".
    Unary "unary":
        "answers did not stream, so TTFT is the time of the whole answer";
        ("0");
        [Warning];
        "request streams, if the server has them".
    Tokens "tokens":
        "output tokens, or tokens of each chunk, are not counted";
        ("0");
        [Warning];
        "let the server report `usage`, or name a `tokenizer`".
    Coalesced "coalesced":
        "chunks came together, so times between tokens were not measured";
        ("{} of the chunks; {} of the gaps in answers of one read", percent(COALESCED), percent(NEGLIGIBLE));
        [Warning];
        "let the server and proxies write each chunk at once".
    Outputs "outputs":
        "requested outputs are missing, or do not match their request";
        ("0");
        [Warning];
        "check the model's configuration".
    RepeatedPrompts "repeated_prompts":
        "prompt tokens came from the server's prefix cache, which also has prompts of earlier runs (by `cached_tokens` \
         of OpenAI's `usage` or metrics of vLLM and SGLang; without these, prompts were sent twice)";
        ("{}; {} by the servers' metrics", percent(REPEATED), percent(CACHED));
        [Warning];
        "send more different prompts; give each run another `seed`, or start the server anew".
    CutPrompts "cut_prompts":
        "`usage.prompt_tokens` is far below what was sent: the server cuts prompts, or uses another tokenizer";
        (
            "{} of the answers; {} of the tokens with a tokenizer, else {} of the words",
            percent(NEGLIGIBLE),
            percent(OF_TOKENS),
            percent(OF_WORDS)
        );
        [Warning];
        "raise the server's context length, send shorter prompts, or give the tokenizer of the server's model".
    Loadgen "loadgen":
        "LoadGen reports no valid result, or errors";
        ("none");
        [LimitMissed, InvalidClient "without a result"];
        "follow its advice".
    OtherLoad "other_load":
        "the server counted more requests than were sent";
        ("{}", percent(COUNTED));
        [Warning];
        "keep other clients away".
    Lowered "lowered":
        "a server ran with less than the manifest sets, because memory ran out";
        ("none");
        [Warning];
        "set the lower value in the manifest".
    Identity "identity":
        "a server changed during the measurement, or between its runs";
        ("none");
        [InvalidServer, Warning "where only its start time differs"];
        "keep the server as it is".
    Speed "speed":
        "simulated time runs faster or slower than real time";
        ("1");
        [InvalidServer, Warning "of LoadGen's rehearsals"];
        "run the simulator at speed 1".
    Preflight "preflight":
        "in the test before the measurement this machine barely generated the load";
        ("those of `lag` and `cpu`");
        [Warning, InvalidClient "far beyond"];
        "close other programs on this machine, or measure from another one".
}

impl VerdictReason {
    /// The row of this name.
    pub fn find(id: &str) -> Option<Self> {
        verdict_reasons().into_iter().find(|reason| reason.id == id)
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `warning; INVALID(client) above the second limit`
fn class_text(classes: &[(ReasonSeverity, &str)]) -> String {
    let text = |(class, condition): &(ReasonSeverity, &str)| {
        let class = if *class == ReasonSeverity::Warning { "warning" } else { class.verdict().as_str() };
        format!("{class} {condition}").trim_end().to_owned()
    };
    classes.iter().map(text).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for VerdictCheck {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl From<VerdictCheck> for String {
    fn from(check: VerdictCheck) -> Self {
        check.as_str().to_owned()
    }
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reason {
    /// Which check: `failures`, `lag`, `rate`, `limits`, …
    #[schemars(with = "String")]
    pub check: VerdictCheck,
    pub severity: ReasonSeverity,
    pub text: String,
}

impl Reason {
    /// `check: text`, as it stands below a verdict.
    pub fn line(&self) -> String {
        format!("{}: {}", self.check, self.text)
    }
}

/// Whether a measurement with this verdict is lost because the machine of the client had too little time for it.
pub fn is_of_busy_machine(verdict: Verdict, reasons: &[Reason]) -> bool {
    let is_busy = |reason: &Reason| {
        matches!(reason.check, VerdictCheck::Lag | VerdictCheck::Cpu | VerdictCheck::CoreWait)
            || (reason.check == VerdictCheck::Rate && reason.severity == ReasonSeverity::InvalidClient)
    };
    verdict == Verdict::InvalidClient && reasons.iter().any(is_busy)
}

/// A file of an earlier version may have `invalid_load`, which was one class for three things.
impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Stored {
            check: VerdictCheck,
            severity: String,
            text: String,
        }
        let Stored { check, severity, text } = Stored::deserialize(deserializer)?;
        let severity = match (severity.as_str(), &check) {
            ("invalid_load", VerdictCheck::Overload | VerdictCheck::Rate) => ReasonSeverity::Overloaded,
            ("invalid_load", VerdictCheck::Limits | VerdictCheck::Loadgen) => ReasonSeverity::LimitMissed,
            ("invalid_load", _) => ReasonSeverity::InvalidClient,
            (name, _) => ReasonSeverity::deserialize(name.into_deserializer())?,
        };
        Ok(Self { check, severity, text })
    }
}

/// The verdict of a file, which may be of a version that had one for OVERLOADED and LIMIT MISSED.
pub(crate) fn verdict_of_file(verdict: Verdict, reasons: &[Reason]) -> Verdict {
    let of_reasons = || worst(reasons.iter().map(|reason| reason.severity));
    if verdict == Verdict::LimitMissed && !reasons.is_empty() { of_reasons() } else { verdict }
}

fn worst(severities: impl Iterator<Item = ReasonSeverity>) -> Verdict {
    severities.min().map_or(Verdict::Valid, ReasonSeverity::verdict)
}

/// What a finding makes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSeverity {
    InvalidServer,
    InvalidClient,
    Overloaded,
    LimitMissed,
    Warning,
}

impl ReasonSeverity {
    /// The verdict of a run that has nothing worse.
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::InvalidServer => Verdict::InvalidServer,
            Self::InvalidClient => Verdict::InvalidClient,
            Self::Overloaded => Verdict::Overloaded,
            Self::LimitMissed => Verdict::LimitMissed,
            Self::Warning => Verdict::ValidWithWarnings,
        }
    }
}

/// The findings so far.
#[derive(Default)]
pub(crate) struct VerdictReasons(Vec<Reason>);

impl VerdictReasons {
    pub fn add(&mut self, check: VerdictCheck, severity: ReasonSeverity, text: impl Into<String>) {
        debug_assert!(check.classes().iter().any(|(class, _)| *class == severity), "{check} cannot be {severity:?}");
        self.0.push(Reason { check, severity, text: text.into() });
    }

    pub fn warn(&mut self, check: VerdictCheck, text: impl Into<String>) {
        self.add(check, ReasonSeverity::Warning, text);
    }

    /// Worst first; of equally bad ones the first found.
    pub fn into_reasons(mut self) -> Vec<Reason> {
        self.0.sort_by_key(|reason| reason.severity);
        self.0
    }

    /// The verdict of the worst finding.
    pub fn verdict(&self) -> Verdict {
        worst(self.0.iter().map(|reason| reason.severity))
    }
}

impl Extend<Reason> for VerdictReasons {
    fn extend<Reasons: IntoIterator<Item = Reason>>(&mut self, reasons: Reasons) {
        self.0.extend(reasons);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_also_those_of_other_versions() {
        for reason in verdict_reasons() {
            let check = VerdictCheck::from(reason.id.to_owned());
            assert_eq!((check.as_str(), check.cure()), (reason.id, reason.cure));
            assert!(!matches!(check, VerdictCheck::Other(_)), "{check:?}");
        }
        let other: VerdictCheck = serde_json::from_str("\"moon\"").unwrap();
        assert_eq!(other, VerdictCheck::Other("moon".to_owned()));
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"moon\"");
    }

    #[test]
    fn a_class_of_an_earlier_version_is_read_by_its_check() {
        let read = |check: &str| -> Reason {
            let text = format!(r#"{{"check": "{check}", "severity": "invalid_load", "text": ""}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let verdicts = ["overload", "limits", "concurrency"].map(|check| {
            let verdict: Verdict = serde_json::from_str("\"invalid_load\"").unwrap();
            verdict_of_file(verdict, &[read(check)])
        });
        assert_eq!(verdicts, [Verdict::Overloaded, Verdict::LimitMissed, Verdict::InvalidClient]);
        assert!(serde_json::from_str::<Reason>(r#"{"check": "lag", "severity": "bad", "text": ""}"#).is_err());
    }

    #[test]
    fn the_manual_has_every_verdict_with_its_cure() {
        let manual = include_str!("../../../tests/manual/reference/verdicts.md");
        for verdict in Verdict::ALL {
            let row = format!("| {} | {} | {} |", verdict.as_str(), verdict.about(), verdict.cure());
            assert!(manual.contains(&row), "{row}");
        }
    }

    /// `UPDATE=1 cargo test` writes it anew.
    #[test]
    fn the_table_of_the_manual_is_that_of_the_rows() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manual/reference/verdicts.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let head = "| check | what it means | limit | what it makes of the run | what to do |\n|---|---|---|---|---|\n";
        let (before, rest) = text.split_once(head).unwrap();
        let rest: String = rest.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
        let row = |VerdictReason { id, about, limit, class, cure }: &VerdictReason| {
            format!("| `{id}` | {about} | {limit} | {class} | {cure} |\n")
        };
        let rows = verdict_reasons().iter().map(row).collect::<Vec<_>>().concat();
        let now = format!("{before}{head}{rows}{rest}");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        assert!(text == now || std::env::var_os("UPDATE").is_some(), "regenerate with UPDATE=1");
    }
}
