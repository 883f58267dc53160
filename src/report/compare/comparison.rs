//! Two results beside each other: which rows are subtracted, which are tested together, and how each is judged.

use serde::Serialize;

use super::compared_result::{FOUND_RATE, SearchedRate};
use super::run_set::{self, Pairing, PlanGroups, RunSet, RunSetRow};
use base::stats::{self, ComparedSamples, Conclusion, Percents, RunValues};
use harness::IdentityDifference;

/// The judgement of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    Better,
    Worse,
    /// The difference is smaller than the smallest effect that matters.
    Equivalent,
    /// The runs differ too much from each other for either judgement.
    CannotTell,
    /// One run on a side: how much runs differ is not known.
    NotJudged,
}

impl Judgement {
    pub const fn as_text(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::CannotTell => "cannot tell",
            Self::NotJudged => "not judged",
        }
    }

    pub(super) const fn new(conclusion: Conclusion, is_better: bool) -> Self {
        match conclusion {
            Conclusion::Different if is_better => Self::Better,
            Conclusion::Different => Self::Worse,
            Conclusion::Equivalent => Self::Equivalent,
            Conclusion::CannotTell => Self::CannotTell,
            Conclusion::OneRun => Self::NotJudged,
        }
    }
}

/// Rows whose tests are corrected together, so that at most one comparison in twenty of identical servers has a row
/// of the family that is called better or worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowFamily {
    /// The few rows that a comparison is made for.
    Primary,
    /// All others: a difference here is a reason to look closer, and to measure again.
    #[default]
    Exploratory,
}

/// How the rows of a metric are tested. What the metric is decides, not its values: a rule that looked at them first
/// would find differences that are not there.
#[derive(Clone, Copy)]
struct MetricRule {
    metric: &'static str,
    /// Its statistics in the primary family, that of a rate without a name; and their weights where requests arrive at
    /// times of their own, and where users wait for answers. Arrivals set the rates, and make TTFT vary most.
    primary: &'static [(&'static str, [f64; 2])],
    /// Where requests arrive, and where users wait: runs differ in it mostly by what their seeds draw, because requests
    /// meet in a queue, or because arrivals or lengths set it. In runs with the same arrivals and prompts that part is
    /// the same, so these are tested in pairs. Where the noise is the server's own, pairs would only halve the degrees
    /// of freedom.
    paired: [bool; 2],
}

const METRIC_RULES: [MetricRule; 5] = [
    MetricRule { metric: "ttft", primary: &[("mean", [6.0, 3.0]), ("p99", [2.0, 2.0])], paired: [true, true] },
    MetricRule { metric: "tpot", primary: &[("mean", [3.0, 3.0])], paired: [false, false] },
    MetricRule { metric: "output_tokens", primary: &[("", [0.5, 3.0])], paired: [true, false] },
    MetricRule { metric: "requests_full", primary: &[("", [0.5, 1.0])], paired: [true, true] },
    MetricRule { metric: FOUND_RATE, primary: &[("", [3.0, 3.0])], paired: [false, false] },
];

/// Exploratory metrics that are tested in pairs.
const PAIRED: [&str; 6] =
    ["ttft_sent", "ttft_adjusted", "e2e", "e2e_sent", "e2e_adjusted", "requests_loadgen_completed"];

impl MetricRule {
    fn find(metric: &str) -> Self {
        let exploratory = Self { metric: "", primary: &[], paired: [PAIRED.contains(&metric); 2] };
        METRIC_RULES.into_iter().find(|rule| rule.metric == metric).unwrap_or(exploratory)
    }

    /// With arrivals, and without; `None`: the statistic is exploratory.
    fn weights(&self, stat: &str) -> Option<[f64; 2]> {
        self.primary.iter().find(|(primary, _)| *primary == stat).map(|(_, weights)| *weights)
    }
}

/// One number of two results.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delta {
    /// `ttft`, `e2e_sent`, `output_tokens`, …
    pub metric: String,
    /// `mean`, `p50`, `p90`, `p95`, `p99`; empty for a rate.
    pub stat: &'static str,
    pub unit: &'static str,
    /// Means over the runs of each side; where several runs had one plan, over the means of the plans.
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// Standard deviations between the runs, or the means of the plans; absent for one.
    pub a_stddev: Option<f64>,
    pub b_stddev: Option<f64>,
    /// (b − a) / a of the means, or where `paired` the geometric mean of the pairs' ratios, less 1; absent where the
    /// two mean different things.
    pub percent: Option<f64>,
    /// 95 % interval of the percentage, from the differences between runs; of this row alone.
    pub interval: Option<Percents>,
    /// With which rows it is corrected for being one of several.
    pub family: RowFamily,
    /// Of no difference, after Holm's correction for all rows of its family.
    pub p: Option<f64>,
    pub judgement: Option<Judgement>,
    /// This many runs on each side, each with a plan of its own, would show a change of 5 % in nine of ten cases;
    /// absent where these runs do, and where a thousand do not.
    pub runs_needed: Option<u32>,
    /// The smallest change in percent that runs like these detect with 90 % power; absent if no row is judged.
    pub detectable_percent: Option<f64>,
    /// In what the two meanings differ.
    pub unlike: Vec<String>,
    /// The row was judged by the differences within pairs of runs.
    pub paired: bool,
    #[serde(skip)]
    pub(super) sides: Option<ComparedSamples>,
}

/// How results are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareRules {
    /// Subtracts unlike numbers, too; the differences in meaning are printed beside them.
    pub force: bool,
    /// The smallest effect that matters, percent.
    pub smallest_percent: f64,
}

impl Default for CompareRules {
    fn default() -> Self {
        Self { force: false, smallest_percent: 1.0 }
    }
}

/// One side against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub a: String,
    pub b: String,
    pub a_runs: usize,
    pub b_runs: usize,
    /// How many distinct plans (arrivals, lengths and prompts) the runs of each side had; absent where that is not
    /// known.
    pub a_plans: Option<usize>,
    pub b_plans: Option<usize>,
    /// Why no row is judged, although each side has several runs: they are of too few plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_few_plans: Option<String>,
    /// The smallest effect that matters, percent.
    pub smallest_effect: f64,
    /// Why nothing at all may be subtracted: the load was not the same.
    pub unlike_load: Vec<String>,
    /// What could not be looked at.
    pub notes: Vec<String>,
    /// Run by run both had the same arrivals and prompts.
    pub same_plan: bool,
    /// Whether runs have partners, with which the rows that say `paired` are judged.
    pub pairing: Pairing,
    /// How servers, GPUs, engines, clients and manifests differ, including what was varied.
    pub identity: Vec<IdentityDifference>,
    pub deltas: Vec<Delta>,
    /// Of two searches: the rates that they found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_rates: Option<[SearchedRate; 2]>,
    /// Of what only a condition looks at.
    #[serde(skip)]
    gate_deltas: Vec<Delta>,
}

impl Comparison {
    pub fn new(a: &RunSet, b: &RunSet, rules: CompareRules) -> Self {
        let (mut unlike_load, mut notes) = a.first().unlike_load(b.first());
        notes.extend(cached_shares(a, b));
        let is_simulated = run_set::simulated_and_real(a.first(), b.first());
        // Also where `--force` subtracts them, nothing is claimed of one that was simulated and one that was not.
        let is_claimed = is_simulated.is_none();
        unlike_load.extend(is_simulated);
        let pairing = Pairing::new(a, b, &unlike_load);
        // The rate of a search is what it found, and no load.
        let is_load = |difference: &&String| !difference.starts_with("load: request_rate ");
        let mut unlike_rates: Vec<String> = unlike_load.iter().filter(is_load).cloned().collect();
        unlike_rates.extend(lower_bounds(a).chain(lower_bounds(b)));
        let differences = |of_a: Vec<RunSetRow<'_>>, of_b: Vec<RunSetRow<'_>>| -> Vec<Delta> {
            let of = |one: RunSetRow<'_>| {
                let same = |other: &&RunSetRow<'_>| other.measure.key == one.measure.key && other.stat == one.stat;
                let unlike = if one.measure.key == FOUND_RATE { &unlike_rates } else { &unlike_load };
                difference(&one, of_b.iter().find(same)?, unlike, &pairing, rules.force)
            };
            of_a.into_iter().filter_map(of).collect()
        };
        let mut deltas = differences(a.rows().collect(), b.rows().collect());
        let gate_deltas = differences(a.gate_rows().collect(), b.gate_rows().collect());
        set_judgements(&mut deltas, a, rules.smallest_percent);
        let too_few_plans = too_few_plans([a, b], &pairing);
        if too_few_plans.is_some() {
            for delta in deltas.iter_mut().filter(|delta| delta.judgement == Some(Judgement::NotJudged)) {
                delta.judgement = Some(Judgement::CannotTell);
            }
        }
        let are_single = a.runs().len() == 1 && b.runs().len() == 1;
        let found_rates = a.first().searched.zip(b.first().searched).filter(|_| are_single).map(<[_; 2]>::from);
        for delta in deltas.iter_mut().filter(|delta| delta.percent.is_some()) {
            let searched = found_rates.filter(|_| delta.metric == FOUND_RATE).and_then(judge_found_rates);
            delta.judgement = searched.or(delta.judgement).filter(|_| is_claimed);
        }
        Self {
            a: a.name.clone(),
            b: b.name.clone(),
            a_runs: a.runs().len(),
            b_runs: b.runs().len(),
            a_plans: PlanGroups::new(a.runs()).map(|plans| plans.count()),
            b_plans: PlanGroups::new(b.runs()).map(|plans| plans.count()),
            too_few_plans,
            smallest_effect: rules.smallest_percent,
            unlike_load,
            notes,
            same_plan: a.runs().len() == b.runs().len()
                && a.runs().iter().zip(b.runs()).all(|(a, b)| a.digest.is_some() && a.digest == b.digest),
            pairing,
            identity: run_set::differences(a.first(), b.first()).into_iter().chain(seed_difference(a, b)).collect(),
            deltas,
            found_rates,
            gate_deltas,
        }
    }

    /// Whether anything was subtracted.
    pub fn has_any(&self) -> bool {
        self.deltas.iter().any(|delta| delta.percent.is_some())
    }

    /// Both sides have the two runs or more that a judgement needs.
    pub const fn is_judged(&self) -> bool {
        self.a_runs > 1 && self.b_runs > 1
    }

    pub fn find(&self, metric: &str, stat: &str) -> Option<&Delta> {
        self.checkable().find(|delta| delta.metric == metric && delta.stat == stat)
    }

    /// All rows that a condition may name.
    pub(super) fn checkable(&self) -> impl Iterator<Item = &Delta> {
        self.deltas.iter().chain(&self.gate_deltas)
    }
}

/// `None`: both sides have the plans that a judgement needs, or too few runs for one anyway.
fn too_few_plans(sides: [&RunSet; 2], pairing: &Pairing) -> Option<String> {
    if sides.iter().any(|side| side.runs().len() < 2) {
        return None;
    }
    let side = pairing.side_of_one_plan()?;
    let (one, other) = if side == 0 { ("first", "other") } else { ("other", "first") };
    Some(format!(
        "all {} runs of the {one} side had the same arrivals and prompts, but not all runs of the {other} side are \
         known to have had them, so the effect of arrivals and prompts is unknown; measure both sides with the same \
         seeds, or each with several (`--repeat 5`)",
        sides[side].runs().len()
    ))
}

/// A share of prompts from a prefix cache that differs by more than this explains a difference between two sides.
const CACHED: f64 = 0.05;

/// Where one side had more of its prompts in the servers' prefix cache than the other, on average over its runs.
fn cached_shares(a: &RunSet, b: &RunSet) -> Option<String> {
    let share = |set: &RunSet| {
        let shares: Vec<f64> = set.runs().iter().filter_map(|run| run.cached_share).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    };
    let (a, b) = (share(a)?, share(b)?);
    ((a - b).abs() > CACHED).then(|| {
        format!(
            "{:.0} % / {:.0} % of the prompt tokens came from the servers' prefix cache: the difference is in part \
                that of the cache; a run \
             after another one with the same seed, on the same server, finds its prompts there",
            100.0 * a,
            100.0 * b
        )
    })
}

/// The seeds of the two sides, where both are known and differ.
fn seed_difference(a: &RunSet, b: &RunSet) -> Option<IdentityDifference> {
    let (a, b) = (a.seeds()?, b.seeds()?);
    let text = |seeds: &[String]| Some(seeds.join(", "));
    (a != b).then(|| IdentityDifference { name: "seed".to_owned(), a: text(&a), b: text(&b) })
}

/// Searches are judged by the intervals that they have themselves: two that overlap may have found the same rate.
fn judge_found_rates([a, b]: [SearchedRate; 2]) -> Option<Judgement> {
    let (a_low, a_high, b_low, b_high) = (a.low?, a.high?, b.low?, b.high?);
    Some(match () {
        () if b_low > a_high => Judgement::Better,
        () if b_high < a_low => Judgement::Worse,
        () => Judgement::CannotTell,
    })
}

/// The rates of searches that are lower bounds: nothing can be subtracted from what is not known.
fn lower_bounds(set: &RunSet) -> impl Iterator<Item = String> {
    set.runs().iter().filter_map(|run| {
        let searched = run.searched.filter(|searched| searched.is_lower_bound)?;
        Some(format!(
            "found rate: that of {} is {} requests/s, the highest that was tried",
            run.name,
            searched.describe()
        ))
    })
}

/// `None`: a value is not a number. `unlike`: why nothing of the metric may be subtracted.
fn difference(
    a: &RunSetRow<'_>,
    b: &RunSetRow<'_>,
    unlike: &[String],
    pairing: &Pairing,
    force: bool,
) -> Option<Delta> {
    let mut unlike = unlike.to_vec();
    unlike.extend(a.measure.meaning.differences(&b.measure.meaning));
    let rules = [&a.measure.meaning.percentile_rule, &b.measure.meaning.percentile_rule];
    if a.stat.starts_with('p') && rules[0] != rules[1] {
        unlike.push(format!("percentile rule: {} / {}", rules[0], rules[1]));
    }
    let is_subtracted = unlike.is_empty() || force;
    let rule = MetricRule::find(&a.measure.key);
    let (metric, weights) = (a.measure.key.clone(), rule.weights(a.stat));
    let family = weights.map_or(RowFamily::Exploratory, |_| RowFamily::Primary);
    let is_closed = usize::from(!pairing.has_arrivals);
    let row = Delta { metric, stat: a.stat, unit: a.measure.unit, family, unlike, ..Delta::default() };
    if a.values.iter().chain(&b.values).any(|value| value.is_infinite()) {
        let [a, b] = [a, b].map(|row| row.values.iter().sum::<f64>() / row.values.len() as f64);
        let percent = is_subtracted.then(|| infinite_percent(a, b));
        return Some(Delta { a: Some(a), b: Some(b), percent, ..row });
    }
    let [of_a, of_b] = pairing.values(&a.values, &b.values);
    let is_paired = pairing.is_paired() && rule.paired[is_closed];
    let samples = if is_paired { ComparedSamples::paired } else { ComparedSamples::unpaired };
    let weight = weights.map_or(1.0, |weights| weights[is_closed]);
    let mut sides = samples(&of_a, &of_b)?;
    sides.weight = weight;
    let percent = sides.percent().filter(|_| is_subtracted);
    let stddev = |values: &RunValues| (values.n > 1).then(|| values.variance.sqrt());
    Some(Delta {
        a: Some(sides.a.mean),
        b: Some(sides.b.mean),
        a_stddev: stddev(&sides.a),
        b_stddev: stddev(&sides.b),
        percent,
        paired: percent.is_some() && sides.is_paired(),
        sides: percent.map(|_| sides),
        ..row
    })
}

/// The percentage shown if a value is infinite; such a difference cannot be tested.
const fn infinite_percent(a: f64, b: f64) -> f64 {
    match (a.is_infinite(), b.is_infinite()) {
        (true, true) => 0.0,
        (true, false) => -100.0,
        (false, _) => f64::INFINITY,
    }
}

/// The rows that were subtracted, each family for itself.
fn set_judgements(deltas: &mut [Delta], a: &RunSet, smallest_percent: f64) {
    for family in [RowFamily::Primary, RowFamily::Exploratory] {
        let mut rows: Vec<&mut Delta> = deltas.iter_mut().filter(|delta| delta.family == family).collect();
        rows.retain(|delta| delta.sides.is_some());
        let sides: Vec<ComparedSamples> = rows.iter().filter_map(|delta| delta.sides.clone()).collect();
        for (delta, judged) in rows.into_iter().zip(stats::compare_rows(&sides, smallest_percent)) {
            let more_is_better =
                a.first().measures.iter().any(|measure| measure.key == delta.metric && measure.more_is_better);
            let is_better = delta.percent.is_some_and(|percent| (percent > 0.0) == more_is_better);
            delta.interval = judged.interval;
            delta.p = judged.p;
            delta.detectable_percent = judged.detectable_percent;
            delta.runs_needed = judged.runs_needed;
            delta.judgement = Some(Judgement::new(judged.conclusion, is_better));
        }
    }
}
