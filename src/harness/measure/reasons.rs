//! Reasons for a verdict other than VALID: a row for each, from which `explain`, the manual and the names in
//! `result.json` are derived. `verdict` decides which apply.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use base::event::Verdict;

/// Everything that is known of one reason before a run: its row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct VerdictReason {
    /// Its name in `result.json` and below a verdict.
    pub id: &'static str,
    /// What the finding means.
    pub about: &'static str,
    /// Up to where a run has no such finding.
    pub limit: &'static str,
    /// What the finding makes of the run.
    pub class: &'static str,
    /// What to do.
    pub cure: &'static str,
}

/// The check that made a finding, and its row: `Name "id": about; limit; class; cure.`
macro_rules! verdict_reasons {
    ($($check:ident $id:literal: $about:literal; $limit:literal; $class:literal; $cure:literal.)*) => {
        /// What a finding is about.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum VerdictCheck {
            $(#[doc = $about] $check,)*
            /// Of another version of this program.
            Other(String),
        }

        /// Every reason, in the order in which a run is checked.
        pub const VERDICT_REASONS: &[VerdictReason] =
            &[$(VerdictReason { id: $id, about: $about, limit: $limit, class: $class, cure: $cure }),*];

        impl VerdictCheck {
            /// Its name in `result.json` and below a verdict.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$check => $id,)*
                    Self::Other(name) => name,
                }
            }

            /// What to do against such a finding.
            pub(crate) const fn cure(&self) -> &'static str {
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
        "none"; "INVALID(server)"; "read the server's log".
    Failures "failures":
        "requests failed, answers broke off without an error, or no request was answered";
        "0, or the budget `limits.failures`"; "INVALID(server); within the budget a warning";
        "remove the cause that the first failure names, or allow some with `limits.failures`".
    Retries "retries":
        "requests were sent again: as `retries` sets, or because the server closed their kept connection";
        "0"; "warning"; "find out why the server refuses requests or closes connections".
    Conservation "conservation":
        "scheduled, sent and ended requests do not add up";
        "exact"; "INVALID(client)"; "report it as an error of Regatta".
    InFlight "in_flight":
        "requests were in flight at the end";
        "0"; "INVALID(client)"; "report it as an error of Regatta".
    SelfCheck "self_check":
        "sums that a run computes in different ways disagree";
        "equal"; "INVALID(client)"; "report it as an error of Regatta".
    Protocol "protocol":
        "answers contradict their protocol";
        "0"; "INVALID(server) where tokens or their request become doubtful, else a warning";
        "correct the server, or the proxy in front of it".
    Stopped "stopped":
        "the run was stopped before its end";
        "none"; "INVALID(load)"; "let the run end".
    HeldBack "held_back":
        "arrivals waited because `max_in_flight` requests were in flight";
        "0"; "warning"; "raise `max_in_flight`, or lower `rate`".
    Rate "rate":
        "requests were not issued at the rate of their schedule (`offered` and `admitted`)";
        "1 %; 5 % where every lag is below its second limit";
        "INVALID(client); INVALID(load) where `max_in_flight` held arrivals back or LoadGen's own load explains it";
        "measure from a machine with free cores, or lower `rate`".
    Ks "ks":
        "arrivals do not follow the law that they were drawn from (distance of Kolmogorov and Smirnov)";
        "the critical distance at 0.1 %"; "warning"; "measure from a machine with free cores".
    Lag "lag":
        "the client sent requests later than scheduled (`queue_client`)";
        "p99 of 1 ms or 1 % of TTFT p50; second limit 5 ms or 5 %";
        "warning; above the second limit INVALID(client). A warning where LoadGen's limits do not depend on it";
        "close other programs on this machine, or measure from another one".
    Cpu "cpu":
        "a load worker was busy for most of the time (`cpu_share_max`)";
        "85 % of a core";
        "INVALID(client); offline, in closed loops, and where LoadGen's latency limits are met a warning";
        "more connections or cores are needed".
    CoreWait "core_wait":
        "a load worker waited for a core (`cpu_share_max` is the time it had one)";
        "1 % of the time"; "warning"; "close other programs on this machine, or measure from another one".
    Backlog "backlog":
        "answers waited inside the client after they were read";
        "p99 of 1 ms"; "warning"; "give the client more cores".
    Streams "streams":
        "arrivals waited for a free stream of a connection";
        "0"; "warning"; "raise triton_num_clients_per_frontend".
    Reconnects "reconnects":
        "connections were lost";
        "0"; "warning"; "read the server's log, and that of the proxy in front of it".
    Limits "limits":
        "a limit of the stage was missed, or there is no number to check against it";
        "as given"; "INVALID(load)"; "lower the load, or raise the limit".
    Samples "samples":
        "too few requests: their p99 is their maximum";
        "more than 100 requests"; "warning"; "raise `stop`".
    Overload "overload":
        "more requests arrived than were served, so latencies grow with the length of the run";
        "as tested below"; "warning; where it is certain INVALID(load)"; "lower `rate`".
    ColdStart "cold_start":
        "the beginning was slower than the rest and is part of the headline";
        "10 % of the mean, 20 % of p99"; "warning"; "warm up longer (`warmup`, `warmup_time`)".
    Freeze "freeze":
        "no answer began, continued or ended for a while although requests waited";
        "0.5 s, and 30 times the usual gap"; "warning"; "read the server's log of that time".
    Concurrency "concurrency":
        "the users were not all busy for most of the window";
        "as many requests as users; 65 % of the window"; "INVALID(load); by the window a warning";
        "raise `stop.requests`".
    Ramp "ramp":
        "throughput is mostly filling and draining the server";
        "90 % of the throughput of the middle"; "warning"; "raise `stop`".
    Endpoint "endpoint":
        "one of several servers answered more slowly than the others, so the figures are a mixture";
        "1.5 times the median of the others and of their quickest tenth, 10 answers, and ranks at 0.1 %"; "warning";
        "compare its settings and its machine with the others', or measure it alone".
    Drift "drift":
        "at the same load the server answered slower or faster in the second half";
        "20 %, and 4 standard errors"; "warning"; "a longer warm-up; check clocks and caches".
    Lengths "lengths":
        "answers are longer or shorter than requested";
        "0"; "warning"; "let the server ignore end tokens, or compare rates of tokens and not of requests".
    Unary "unary":
        "answers did not stream, so TTFT is the time of the whole answer";
        "0"; "warning"; "request streams from a server that has them".
    Tokens "tokens":
        "output tokens were not counted, or how many each chunk has is not known";
        "0"; "warning"; "let the server report `usage`, or name a `tokenizer`".
    Coalesced "coalesced":
        "chunks came together, so times between tokens were not measured";
        "half of the chunks; 1 % of the gaps in answers of one read"; "warning";
        "let the server and proxies write each chunk at once".
    Outputs "outputs":
        "requested outputs were not received, or do not fit their request";
        "0"; "warning"; "check the model's configuration".
    RepeatedPrompts "repeated_prompts":
        "prompt tokens came from the server's prefix cache (`cached_tokens` of OpenAI's `usage`, or vLLM's metrics), \
         which has the prompts of earlier runs, too; where nothing reports that, prompts that had been sent before may \
         have";
        "5 %; 20 % by the servers' metrics"; "warning";
        "send more different prompts; give each run another `seed`, or start the server anew".
    CutPrompts "cut_prompts":
        "`usage.prompt_tokens` is far below what was sent (0.95 of the tokens with a tokenizer, else half of the \
         words): the server cuts prompts";
        "1 % of the answers"; "warning"; "raise the server's context length, or send shorter prompts".
    Loadgen "loadgen":
        "LoadGen reports no valid result, or errors";
        "none"; "INVALID(load)"; "follow its advice".
    OtherLoad "other_load":
        "the server counted more requests than were sent";
        "2 %"; "warning"; "keep other clients away".
    Lowered "lowered":
        "a server ran with less than the manifest sets, because memory ran out";
        "none"; "warning"; "set the lower value in the manifest".
    Identity "identity":
        "a server changed during the measurement, or between its runs";
        "none"; "INVALID(server); where only its start time differs a warning"; "keep the server as it is".
    Speed "speed":
        "the time of the simulator does not run with the clock";
        "1"; "INVALID(load); of LoadGen's rehearsals a warning"; "measure at `speed: 1`".
    Preflight "preflight":
        "before the measurement this machine could hardly generate the load";
        "those of `lag` and `cpu`"; "warning; far beyond INVALID(client)";
        "close other programs on this machine, or measure from another one".
}

impl VerdictReason {
    /// The row of this name.
    pub fn find(id: &str) -> Option<&'static Self> {
        VERDICT_REASONS.iter().find(|reason| reason.id == id)
    }
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

    /// Fewer users were at work, or fewer requests sent, than the measurement is called after.
    pub fn is_load_not_reached(&self) -> bool {
        self.severity == ReasonSeverity::InvalidLoad
            && matches!(self.check, VerdictCheck::Concurrency | VerdictCheck::Rate)
    }
}

/// What a finding makes of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSeverity {
    InvalidServer,
    InvalidClient,
    InvalidLoad,
    Warning,
}

/// The findings so far.
#[derive(Default)]
pub(crate) struct VerdictReasons(Vec<Reason>);

impl VerdictReasons {
    pub fn add(&mut self, check: VerdictCheck, severity: ReasonSeverity, text: impl Into<String>) {
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
        match self.0.iter().map(|reason| reason.severity).min() {
            None => Verdict::Valid,
            Some(ReasonSeverity::Warning) => Verdict::ValidWithWarnings,
            Some(ReasonSeverity::InvalidLoad) => Verdict::InvalidLoad,
            Some(ReasonSeverity::InvalidClient) => Verdict::InvalidClient,
            Some(ReasonSeverity::InvalidServer) => Verdict::InvalidServer,
        }
    }
}

impl Extend<Reason> for VerdictReasons {
    fn extend<Reasons: IntoIterator<Item = Reason>>(&mut self, reasons: Reasons) {
        self.0.extend(reasons);
    }
}

impl FromIterator<Reason> for VerdictReasons {
    fn from_iter<Reasons: IntoIterator<Item = Reason>>(reasons: Reasons) -> Self {
        Self(reasons.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_also_those_of_other_versions() {
        for reason in VERDICT_REASONS {
            let check = VerdictCheck::from(reason.id.to_owned());
            assert_eq!((check.as_str(), check.cure()), (reason.id, reason.cure));
            assert!(!matches!(check, VerdictCheck::Other(_)), "{check:?}");
        }
        let other: VerdictCheck = serde_json::from_str("\"moon\"").unwrap();
        assert_eq!(other, VerdictCheck::Other("moon".to_owned()));
        assert_eq!(serde_json::to_string(&other).unwrap(), "\"moon\"");
    }

    /// `UPDATE=1 cargo test` writes it anew.
    #[test]
    fn the_table_of_the_manual_is_that_of_the_rows() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/manual/08-numbers.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let head = "| check | what it means | limit | what it makes of the run | what to do |\n|---|---|---|---|---|\n";
        let (before, rest) = text.split_once(head).unwrap();
        let rest: String = rest.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
        let row = |VerdictReason { id, about, limit, class, cure }: &VerdictReason| {
            format!("| `{id}` | {about} | {limit} | {class} | {cure} |\n")
        };
        let rows = VERDICT_REASONS.iter().map(row).collect::<Vec<_>>().concat();
        let now = format!("{before}{head}{rows}{rest}");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        assert!(text == now || std::env::var_os("UPDATE").is_some(), "regenerate with UPDATE=1");
    }
}
