//! The levels of a sweep, and which one it measures next.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sweep::point::SweepPoint;
use base::spec::{BenchSweep, SweepLevelsError};
use base::units::rounded_within;

/// Users at which saturation is looked for, in order.
const SATURATING: [u32; 4] = [64, 256, 1024, 4096];
/// More users that gain less than this share of throughput: the server is saturated.
const LEAST_GAIN: f64 = 0.05;

/// The points of a sweep: known from the beginning, or found from those that were measured.
#[derive(Clone, Debug, PartialEq)]
pub enum SweepPlan {
    Listed(Vec<SweepLevel>),
    /// Idle, saturation, and this many rates between.
    Auto(u32),
}

/// What to measure next.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepStep {
    pub level: SweepLevel,
    pub role: Option<PointRole>,
}

impl SweepPlan {
    /// # Errors
    /// The levels cannot be used.
    pub fn new(sweep: &BenchSweep) -> Result<Self, SweepLevelsError> {
        let listed = |level: fn(f64) -> SweepLevel| {
            let levels = sweep.levels().map(|levels| levels.ascending(sweep.is_whole())).transpose()?;
            Ok(Self::Listed(levels.unwrap_or_default().into_iter().map(level).collect()))
        };
        match sweep {
            BenchSweep::Concurrency(_) => listed(|users| SweepLevel::Users(users as u32)),
            BenchSweep::Rate(_) => listed(SweepLevel::Rate),
            BenchSweep::InputTokens(_) => listed(|tokens| SweepLevel::InputTokens(tokens as u32)),
            BenchSweep::OutputTokens(_) => listed(|tokens| SweepLevel::OutputTokens(tokens as u32)),
            BenchSweep::Auto(rates) => Ok(Self::Auto(*rates)),
        }
    }

    /// How many points there will be, as far as that is known.
    pub const fn point_count(&self) -> Option<usize> {
        match self {
            Self::Listed(levels) => Some(levels.len()),
            Self::Auto(_) => None,
        }
    }

    /// The next point after those that were measured, in the order in which they were. The same points give the same
    /// step, so a sweep that was cut off goes on where it was.
    pub fn next(&self, measured: &[SweepPoint]) -> Option<SweepStep> {
        match self {
            Self::Listed(levels) => {
                levels.get(measured.len()).map(|level| SweepStep { level: level.clone(), role: None })
            }
            Self::Auto(rates) => next_found(*rates, measured),
        }
    }
}

fn next_found(rates: u32, measured: &[SweepPoint]) -> Option<SweepStep> {
    let of_role = |role: PointRole| measured.iter().filter(move |point| point.role == Some(role));
    if measured.is_empty() {
        return Some(SweepStep { level: SweepLevel::Users(1), role: Some(PointRole::Idle) });
    }
    let saturating: Vec<&SweepPoint> = of_role(PointRole::Saturation).collect();
    if !is_saturated(&saturating) {
        let users = *SATURATING.get(saturating.len())?;
        return Some(SweepStep { level: SweepLevel::Users(users), role: Some(PointRole::Saturation) });
    }
    let idle = of_role(PointRole::Idle).find_map(|point| point.requests_per_s)?;
    let highest = saturating.iter().filter(|point| point.is_usable()).filter_map(|point| point.requests_per_s);
    let highest = highest.fold(0.0, f64::max);
    let at = of_role(PointRole::Between).count() as u32 + 1;
    if at > rates || highest <= idle {
        return None;
    }
    let distance = (highest - idle) / f64::from(rates + 1);
    let rate = rounded_within(idle + distance * f64::from(at), distance);
    Some(SweepStep { level: SweepLevel::Rate(rate), role: Some(PointRole::Between) })
}

/// The last step gained little, or was no measurement of the server, or was the last there is.
fn is_saturated(measured: &[&SweepPoint]) -> bool {
    match measured {
        [.., last] if !last.is_usable() || measured.len() == SATURATING.len() => true,
        [.., before, last] => match (before.output_tokens_per_s, last.output_tokens_per_s) {
            (Some(before), Some(last)) => last < before * (1.0 + LEAST_GAIN),
            _ => true,
        },
        _ => false,
    }
}

/// The level of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepLevel {
    /// Closed loop: this many users.
    Users(u32),
    /// Open loop: requests per second.
    Rate(f64),
    /// Open loop without pauses, and without a limit on requests in flight: more than any rate.
    #[default]
    AllAtOnce,
    InputTokens(u32),
    OutputTokens(u32),
    /// The value of a `foreach` variable, where the points are tasks of their own.
    Value {
        name: String,
        value: String,
    },
}

base::named! {
    /// Why a sweep that finds its own levels measured a point.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum PointRole {
        /// One user alone: the latency of a server without load.
        Idle = "idle",
        /// Users until the throughput stops growing.
        Saturation = "saturation",
        /// A rate between that of an idle and that of a saturated server.
        Between = "between",
    }
}

impl SweepLevel {
    /// Whether it is how much load a server has, and not what a request or a setting is.
    pub const fn is_load(&self) -> bool {
        matches!(self, Self::Users(_) | Self::Rate(_) | Self::AllAtOnce)
    }

    /// Its number; none where a value is a name, and of all at once.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::AllAtOnce => None,
            Self::Users(count) | Self::InputTokens(count) | Self::OutputTokens(count) => Some(f64::from(*count)),
            Self::Rate(rate) => Some(*rate),
            Self::Value { value, .. } => value.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }

    /// Its name in the folder of the point: `c8`, `r2.5`.
    pub fn short(&self) -> String {
        match self {
            Self::Users(users) => format!("c{users}"),
            Self::Rate(rate) => format!("r{rate}"),
            Self::AllAtOnce => "all-at-once".to_owned(),
            Self::InputTokens(tokens) => format!("in{tokens}"),
            Self::OutputTokens(tokens) => format!("out{tokens}"),
            Self::Value { value, .. } => value.clone(),
        }
    }

    /// The unit of its number: `users`, `req/s`.
    pub fn unit(&self) -> &str {
        match self {
            Self::Users(_) => "users",
            Self::Rate(_) | Self::AllAtOnce => "req/s",
            Self::InputTokens(_) => "input tokens",
            Self::OutputTokens(_) => "output tokens",
            Self::Value { name, .. } => name,
        }
    }

    /// What heads a column of levels: `users`, `rate`.
    pub fn heading(&self) -> &str {
        match self {
            Self::Rate(_) | Self::AllAtOnce => "rate",
            other => other.unit(),
        }
    }

    /// Its value without the unit, as text.
    pub fn amount(&self) -> String {
        match self {
            Self::Users(count) | Self::InputTokens(count) | Self::OutputTokens(count) => count.to_string(),
            Self::Rate(rate) => rate.to_string(),
            Self::AllAtOnce => "all at once".to_owned(),
            Self::Value { value, .. } => value.clone(),
        }
    }
}

impl fmt::Display for SweepLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users(1) => f.write_str("1 user"),
            Self::AllAtOnce => f.write_str(&self.amount()),
            Self::Value { name, value } => write!(f, "{name}={value}"),
            other => write!(f, "{} {}", other.amount(), other.unit()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers `limit` requests per second at most, each in a second; one that is lost above `lost`
    /// users.
    fn sweep(rates: u32, limit: f64, lost: u32) -> Vec<SweepPoint> {
        let plan = SweepPlan::new(&BenchSweep::Auto(rates)).unwrap();
        let mut points: Vec<SweepPoint> = Vec::new();
        while let Some(step) = plan.next(&points) {
            assert!(points.len() < 50);
            let offered = step.level.number().unwrap();
            let is_lost = matches!(step.level, SweepLevel::Users(users) if users > lost);
            points.push(SweepPoint {
                verdict: Some(if is_lost { base::event::Verdict::InvalidServer } else { base::event::Verdict::Valid }),
                requests_per_s: Some(offered.min(limit)),
                output_tokens_per_s: Some(offered.min(limit) * 100.0),
                ..SweepPoint::empty(step.level, step.role)
            });
        }
        points
    }

    fn names(points: &[SweepPoint]) -> String {
        points.iter().map(|point| point.level.short()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rates_lie_evenly_between_an_idle_and_a_saturated_server() {
        assert_eq!(names(&sweep(4, 101.0, 9999)), "c1 c64 c256 c1024 r20 r40 r60 r80");
        assert_eq!(names(&sweep(1, 51.0, 9999)), "c1 c64 c256 r30");
    }

    #[test]
    fn a_server_that_is_lost_or_never_saturated_ends_the_search_for_saturation() {
        assert_eq!(names(&sweep(1, 1e9, 9999)), "c1 c64 c256 c1024 c4096 r2000");
        assert_eq!(names(&sweep(2, 1e9, 100)), "c1 c64 c256 r20 r40");
        assert_eq!(names(&sweep(2, 1.0, 9999)), "c1 c64 c256", "nothing lies between");
        assert_eq!(names(&sweep(2, 10.0, 1)), "c1 c64", "no measurement of the saturated server");
    }
}
