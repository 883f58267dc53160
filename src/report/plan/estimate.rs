//! What the benchmarks of a plan are expected to take, by the twin of their servers.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use base::units::{grouped, three_digits};
use rules::time;

/// One benchmark, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchEstimate {
    /// Of all of its measurements, seconds.
    pub seconds: f64,
    /// It may end earlier: a search.
    pub is_at_most: bool,
    /// GPUs of its servers; 0 where they are simulated ones.
    pub gpus: u32,
    /// Of all measurements. `None` for a search.
    pub load: Option<EstimatedLoad>,
}

/// What goes through the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedLoad {
    pub requests: f64,
    /// While requests are sent and answered.
    pub requests_per_second: f64,
    pub tokens_per_second: f64,
    /// Requests come faster than the servers answer them.
    pub falls_behind: bool,
}

impl BenchEstimate {
    pub fn gpu_hours(&self) -> f64 {
        f64::from(self.gpus) * self.seconds / 3600.0
    }

    pub(super) fn json(&self) -> Value {
        let mut value = json!({"simulated": true, "seconds": self.seconds, "at_most": self.is_at_most,
            "gpus": self.gpus, "gpu_hours": self.gpu_hours()});
        if let Some(load) = &self.load {
            value["requests"] = json!(load.requests);
            value["requests_per_second"] = json!(load.requests_per_second);
            value["output_tokens_per_second"] = json!(load.tokens_per_second);
            value["falls_behind"] = json!(load.falls_behind);
        }
        value
    }
}

/// `model: about 3 min 36 s, 0.48 GPU-hours: 24,576 requests, 114 req/s, 33,680 tok/s`
impl fmt::Display for BenchEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_at_most { "at most" } else { "about" };
        write!(f, "model: {about} {}", time(self.seconds))?;
        if self.gpus > 0 {
            write!(f, ", {} GPU-hours", three_digits(self.gpu_hours()))?;
        }
        let Some(load) = &self.load else { return Ok(()) };
        let [requests, tokens] = [load.requests, load.tokens_per_second].map(|number| grouped(number, 0));
        write!(f, ": {requests} requests, {} req/s, {tokens} tok/s", three_digits(load.requests_per_second))?;
        if load.falls_behind {
            write!(f, "; requests come faster than the servers answer them")?;
        }
        Ok(())
    }
}

/// What all estimates of a plan rest on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EstimateBasis {
    /// Names of models and of GPUs, and what their step times were fitted to.
    pub servers: BTreeSet<(String, String, String)>,
    /// The simulated system that stands for a real one.
    pub twin: Option<String>,
    /// Lengths are those of the stand-in for a benchmark's data set.
    pub has_assumed_lengths: bool,
    /// Of a load were simulated this many requests at most; 0: all.
    pub sample: usize,
}

/// The sum of all estimates, and lines with what they rest on. Empty: there is no estimate.
pub fn estimates_note(estimates: &[BenchEstimate], basis: &EstimateBasis) -> String {
    if estimates.is_empty() {
        return String::new();
    }
    let seconds: f64 = estimates.iter().map(|one| one.seconds).sum();
    let hours: f64 = estimates.iter().map(BenchEstimate::gpu_hours).sum();
    let gpus = estimates.iter().map(|one| one.gpus).max().unwrap_or_default();
    let at_most = if estimates.iter().any(|one| one.is_at_most) { "at most " } else { "" };
    let mut out = format!("model, not a measurement: the benchmarks take {at_most}{}", time(seconds));
    let _ = match gpus {
        0 => write!(out, " on simulated servers, which use no GPU"),
        1 => write!(out, ", {} GPU-hours", three_digits(hours)),
        _ => write!(out, ", {} GPU-hours on {gpus} GPUs", three_digits(hours)),
    };
    if let Some(twin) = &basis.twin {
        let _ = write!(out, ", by the twin {twin}");
    }
    for (model, gpu, source) in &basis.servers {
        let fitted = if source.is_empty() { "assumed, not fitted".to_owned() } else { format!("fitted to {source}") };
        let _ = write!(out, "\n  step times of {model} on {gpu}: {fitted}");
    }
    if basis.has_assumed_lengths {
        out.push_str("\n  lengths: those of the benchmark's stand-in data set");
    }
    if basis.sample > 0 {
        let sample = grouped(basis.sample as f64, 0);
        let _ = write!(out, "\n  {sample} requests of a load were simulated, more are in proportion");
    }
    out.push_str("\n  builds and starts of servers are not counted");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offline() -> BenchEstimate {
        let load = EstimatedLoad {
            requests: 24_576.0,
            requests_per_second: 114.2,
            tokens_per_second: 33_680.4,
            falls_behind: false,
        };
        BenchEstimate { seconds: 216.0, is_at_most: false, gpus: 8, load: Some(load) }
    }

    #[test]
    fn an_estimate_has_time_and_cost_and_what_it_is_of() {
        let text = "model: about 3 min 36 s, 0.48 GPU-hours: 24,576 requests, 114 req/s, 33,680 tok/s";
        assert_eq!(offline().to_string(), text);
        let search = BenchEstimate { is_at_most: true, gpus: 0, load: None, ..offline() };
        assert_eq!(search.to_string(), "model: at most 3 min 36 s");
        let mut late = offline();
        late.load.as_mut().unwrap().falls_behind = true;
        assert!(late.to_string().ends_with("; requests come faster than the servers answer them"));
    }

    #[test]
    fn the_note_says_what_the_numbers_rest_on() {
        let mut basis = EstimateBasis { twin: Some("sim-h200-x8".into()), sample: 4000, ..EstimateBasis::default() };
        basis.servers.insert(("llama2-70b".into(), "H200".into(), "rows of v5.1".into()));
        assert_eq!(
            estimates_note(&[offline(), offline()], &basis),
            "model, not a measurement: the benchmarks take 7 min 12 s, 0.96 GPU-hours on 8 GPUs, by the twin sim-h200-x8\n  \
             step times of llama2-70b on H200: fitted to rows of v5.1\n  \
             4,000 requests of a load were simulated, more are in proportion\n  \
             builds and starts of servers are not counted"
        );
        assert_eq!(estimates_note(&[], &basis), "");
    }
}
