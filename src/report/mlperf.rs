//! Submissions: the findings of the submission check, the state of one, and two compared.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};
use serde::Serialize;
use serde_json::{Value, json};

use crate::document::{Block, Cell, Document, Item, Section, Table};
use crate::styler::{TextRole, clean, cut};
use base::units::{counted, csv_cell};
use harness::marked_verdict;
use mlperf::{
    ExaminedResult, FindingGrade, FindingWeight, JudgedRun, ResultDifference, SubmissionCheck, SubmissionFinding,
    SubmissionReport,
};

/// One result of a submission, as far as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultProgress {
    pub system: String,
    pub benchmark: String,
    pub scenario: String,
    pub performance: StepCell,
    pub accuracy: StepCell,
    pub audit: StepCell,
    pub package: StepCell,
}

/// One step of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepCell {
    pub state: StepState,
    /// What it reports, done or stale.
    pub outcome: Option<String>,
    /// Why it is not done.
    pub why: Option<String>,
    /// What brings it forward.
    pub command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    Done,
    /// It was done, with another key than a run would make now.
    Stale,
    Missing,
    /// The manifest has no such step.
    Absent,
}

impl StepState {
    const fn word(self) -> (TextRole, &'static str) {
        match self {
            Self::Done => (TextRole::Good, "done"),
            Self::Stale => (TextRole::Warning, "stale"),
            Self::Missing => (TextRole::Bad, "missing"),
            Self::Absent => (TextRole::Quiet, "–"),
        }
    }
}

/// A value with its unit, LoadGen's.
pub fn value(judged: &JudgedRun) -> String {
    match judged.value {
        Some(value) if value >= 1000.0 => format!("{value:.0} {}", judged.unit),
        Some(value) => format!("{value:.2} {}", judged.unit),
        None => "–".to_owned(),
    }
}

/// LoadGen's verdict, and what the run was beside a measurement: `VALID SIMULATED REHEARSAL`; `INFERRED` from another
/// scenario.
pub fn validity(judged: &JudgedRun) -> String {
    let verdict = judged.validity.as_deref().unwrap_or("not judged");
    let marked = marked_verdict(verdict, judged.simulated, judged.rehearsal);
    if judged.inferred { format!("{marked} INFERRED") } else { marked }
}

/// A table of results, what keeps them from being accepted, what a reviewer may object to: counted, or all of it.
pub fn examined(examined: &SubmissionReport, review: bool) -> Document {
    let row = |seen: &ExaminedResult| {
        let is_valid = seen.judged.validity.as_deref() == Some("VALID");
        [
            Cell::quiet(format!("{}/{}/{}", seen.division, seen.submitter, seen.system)),
            Cell::name(format!("{} {}", seen.benchmark, seen.scenario)),
            value(&seen.judged).into(),
            Cell::new(if is_valid { TextRole::Good } else { TextRole::Bad }, validity(&seen.judged)),
            Cell::new(TextRole::Warning, grades(examined.findings.iter().filter(|finding| seen.has(finding)))),
        ]
    };
    let power = |seen: &ExaminedResult| {
        let power = seen.power.as_ref()?;
        let per_watt = power.per_watt.map(|rate| format!(", {rate:.3} {} for each W", seen.judged.unit));
        Some(Block::plain(format!(
            "power of {} {} {}: {:.2} W on average of {} samples, {:.1} kJ in {:.1} s{}",
            seen.system,
            seen.benchmark,
            seen.scenario,
            power.watts,
            power.samples,
            power.joules / 1000.0,
            power.seconds,
            per_watt.unwrap_or_default()
        )))
    };
    let powers: Vec<Block> = examined.results.iter().filter_map(power).collect();
    let checker = "the Power WG's own checker also examines the meter's messages: also run that checker";
    let checker = (!powers.is_empty()).then(|| Block::plain(checker));
    let results = Section::default().with([Block::list(examined.results.iter().map(row))]);
    let refused = findings(examined.with_weight(FindingWeight::Refused));
    let reviewed = if review { findings(examined.with_weight(FindingWeight::Review)) } else { objections(examined) };
    let sections = [results.with(powers).with(checker)].into_iter().chain(refused).chain(reviewed);
    Document::of_sections(sections.chain(unexamined(examined)).chain([outcome(examined, review)]))
}

fn counted_grades<'a>(findings: impl Iterator<Item = &'a SubmissionFinding>) -> BTreeMap<FindingGrade, usize> {
    let mut counts = BTreeMap::new();
    findings.for_each(|finding| *counts.entry(finding.grade).or_default() += 1);
    counts
}

/// How many findings there are of each grade: `2 fraud-like, 1 style`.
fn grades<'a>(findings: impl Iterator<Item = &'a SubmissionFinding>) -> String {
    counted_grades(findings).iter().map(|(grade, count)| format!("{count} {grade}")).collect::<Vec<_>>().join(", ")
}

/// Whether it would be accepted.
fn outcome(examined: &SubmissionReport, review: bool) -> Section {
    let refused = examined.refusal_count();
    let (role, word) = if refused > 0 {
        let grades = grades(examined.with_weight(FindingWeight::Refused));
        (TextRole::Bad, format!("refused: {} ({grades})", counted(refused, "reason")))
    } else if examined.has_nothing_to_check() {
        let names = unexamined_names(examined);
        (TextRole::Warning, format!("nothing to check: {names} (run the official checker)"))
    } else if examined.results.iter().any(|seen| seen.judged.simulated) {
        (TextRole::Bad, "SIMULATED: MLCommons's checker would accept it, but nothing was measured".to_owned())
    } else if !examined.not_examined.is_empty() {
        let names = unexamined_names(examined);
        let word = format!("MLCommons would accept these; not examined: {names} (run the official checker)");
        (TextRole::Warning, word)
    } else {
        (TextRole::Good, "MLCommons would accept it".to_owned())
    };
    let grades = grades(examined.with_weight(FindingWeight::Review));
    let objections = match examined.with_weight(FindingWeight::Review).count() {
        0 => String::new(),
        some if review => format!(", {some} for review ({grades})"),
        some => format!(", {some} for review ({grades}; `--review` prints them)"),
    };
    let results = counted(examined.results.len(), "result");
    let text = format!("{results} for {}: {word}{objections}", examined.round);
    Section::default().with([Block::plain(""), Block::text(role, text)])
}

/// The results as a table for a spreadsheet, one in a line. What a submitter hands in is refused as a whole, so
/// `refused` is of all its results; `objections` are of the result, the gravest first.
pub fn results_csv(examined: &SubmissionReport) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let line = |one: &ExaminedResult| {
        let is_of = |finding: &SubmissionFinding| finding.place.split('/').nth(1) == Some(one.submitter.as_str());
        let is_refused = examined.with_weight(FindingWeight::Refused).any(is_of);
        let objections = examined.findings.iter().filter(|finding| one.has(finding));
        let objections: IndexSet<&str> = objections.map(|finding| finding.check.into()).collect();
        let accuracy: Vec<String> = one.accuracy.iter().map(|(metric, value)| format!("{metric} {value}")).collect();
        let (judged, power) = (&one.judged, one.power.as_ref());
        let names = [&examined.round, &one.division, &one.submitter, &one.system, &one.benchmark, &one.scenario];
        let values = [
            number(judged.value),
            judged.unit.clone(),
            judged.validity.clone().unwrap_or_default(),
            number(judged.ttft_p99_ms),
            number(judged.tpot_p99_ms),
            accuracy.join("; "),
            number(power.map(|power| power.watts)),
            number(power.map(|power| power.joules)),
        ];
        let flags = [judged.simulated, judged.rehearsal, is_refused].map(|flag| flag.to_string());
        let objections = [objections.into_iter().collect::<Vec<_>>().join("; ")];
        let cells = names.into_iter().cloned().chain(values).chain(flags).chain(objections).map(|cell| csv_cell(&cell));
        cells.collect::<Vec<_>>().join(",") + "\n"
    };
    let head = "round,division,submitter,system,benchmark,scenario,result,unit,validity,ttft_p99_ms,tpot_p99_ms,\
         accuracy,watts,joules,simulated,rehearsal,refused,objections\n";
    std::iter::once(head.to_owned()).chain(examined.results.iter().map(line)).collect()
}

/// Each finding with its place, its rule and what to do.
fn findings<'a>(found: impl Iterator<Item = &'a SubmissionFinding>) -> Vec<Section> {
    let item = |finding: &&SubmissionFinding| {
        let SubmissionFinding { weight, check, what, why, fix, .. } = finding;
        let (role, word) = match weight {
            FindingWeight::Refused => (TextRole::Bad, "refused"),
            FindingWeight::Review => (TextRole::Warning, "review"),
        };
        let below = vec![format!("why: {why}"), format!("do:  {fix}")];
        Item { role, text: format!("{word} {check}: {what}"), below, ..Item::default() }
    };
    let section = |found: &[&SubmissionFinding]| {
        Section::new(&found[0].place).with([Block::items(found.iter().map(item).collect())])
    };
    found.collect::<Vec<_>>().chunk_by(|a, b| a.place == b.place).map(section).collect()
}

/// What a reviewer may object to: how often each check found something, and the first of it.
fn objections(examined: &SubmissionReport) -> Vec<Section> {
    // Findings are in the order of their grades.
    let mut groups: IndexMap<SubmissionCheck, (usize, &SubmissionFinding)> = IndexMap::new();
    for finding in examined.with_weight(FindingWeight::Review) {
        groups.entry(finding.check).or_insert((0, finding)).0 += 1;
    }
    if groups.is_empty() {
        return Vec::new();
    }
    let row = |(check, (times, first)): (SubmissionCheck, (usize, &SubmissionFinding))| {
        let grade = Cell::quiet(check.grade().to_string());
        [times.to_string().into(), grade, Cell::name(check.to_string()), cut(&first.what, 70).into()]
    };
    vec![Section::new("a reviewer may object").with([Block::list(groups.into_iter().map(row))])]
}

/// What was not looked at, and why.
fn unexamined(examined: &SubmissionReport) -> Vec<Section> {
    let (endpoints, others): (Vec<_>, Vec<_>) = examined.not_examined.iter().partition(|found| found.is_of_endpoints());
    let endpoints = endpoints.into_iter().map(|found| {
        let reason = Block::text(TextRole::Warning, mlperf::OWN_CHECKER);
        Section::new(format!("{}: {}", found.place, found.why)).with([reason])
    });
    let reasons: IndexMap<&str, &String> =
        others.into_iter().map(|found| (last_name(&found.place), &found.why)).collect();
    let reasons: Vec<String> = reasons.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let reasons = (!reasons.is_empty()).then(|| {
        let text = format!("not examined: {}", reasons.join("; "));
        Section::default().with([Block::plain(""), Block::text(TextRole::Quiet, text)])
    });
    endpoints.chain(reasons).collect()
}

/// How often each benchmark was not looked at: `1 × whisper`.
fn unexamined_names(examined: &SubmissionReport) -> String {
    let mut names: IndexMap<&str, usize> = IndexMap::new();
    for found in &examined.not_examined {
        let name = if found.is_of_endpoints() { "MLPerf Endpoints" } else { last_name(&found.place) };
        *names.entry(name).or_default() += 1;
    }
    let names: Vec<String> = names.iter().map(|(name, times)| format!("{times} × {}", clean(name))).collect();
    names.join(", ")
}

fn last_name(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or_default()
}

/// Both verdicts: `submittable`, which is null where a part was not examined and the rest is accepted, and the number
/// of findings that a reviewer may raise.
pub fn examined_json(examined: &SubmissionReport) -> Value {
    let is_known = examined.refusal_count() > 0 || examined.not_examined.is_empty();
    json!({
        "submittable": is_known.then_some(examined.refusal_count() == 0),
        "refused": examined.refusal_count(),
        "for_review": examined.with_weight(FindingWeight::Review).count(),
        "grades": counted_grades(examined.findings.iter()),
        "examined": examined,
    })
}

pub fn status(standing: &[ResultProgress]) -> Document {
    let mut commands: Vec<(String, &String)> = Vec::new();
    let mut rows = Vec::new();
    for one in standing {
        let cells = [
            ("performance", &one.performance),
            ("accuracy", &one.accuracy),
            ("audit", &one.audit),
            ("package", &one.package),
        ];
        let steps = cells.map(|(name, cell)| {
            if let Some(command) =
                cell.command.as_ref().filter(|command| commands.iter().all(|(_, listed)| listed != command))
            {
                // One package holds many results.
                let of_result = format!("{} {} {name}", one.benchmark, one.scenario);
                commands.push((if name == "package" { name.to_owned() } else { of_result }, command));
            }
            let (role, word) = cell.state.word();
            let outcome = cell.outcome.as_deref().map(|outcome| format!(" {}", cut(outcome, 40))).unwrap_or_default();
            Cell::new(role, format!("{word}{outcome}"))
        });
        let names = [(&one.system).into(), Cell::name(&one.benchmark), Cell::name(&one.scenario)];
        rows.push(names.into_iter().chain(steps));
    }
    let heads = ["system", "benchmark", "scenario", "performance", "accuracy", "audit", "package"];
    let table = Table::list(heads, rows);
    let forward = (!commands.is_empty()).then(|| {
        let commands = commands.iter().map(|(name, command)| [Cell::quiet(name), (*command).into()]);
        Section::new("forward:").with([Block::list(commands)])
    });
    Document::of_sections([Section::default().with([Block::table(table)])].into_iter().chain(forward))
}

/// Values side by side, then the settings that differ.
pub fn diff(names: &[String; 2], found: &[ResultDifference]) -> Document {
    let dash = || "–".to_owned();
    let row = |one: &ResultDifference| {
        let side = |run: &mlperf::DiffedRun| format!("{} {}", value(&run.judged), validity(&run.judged));
        let [a, b] = [&one.a, &one.b].map(|run| Cell::from(run.as_ref().map_or_else(dash, side)));
        let ratio = one.ratio.map_or_else(dash, |ratio| format!("{ratio:.3}"));
        [Cell::name(&one.name), a, b, Cell::new(TextRole::Strong, ratio)]
    };
    let changes = |one: &ResultDifference| {
        let rows = one.changes.iter().map(|change| {
            let [a, b] = [&change.a, &change.b].map(|side| side.as_ref().map_or_else(dash, |value| cut(value, 60)));
            [Cell::name(&change.what), a.into(), b.into()]
        });
        Section::new(&one.name).with([Block::list(rows)])
    };
    let table = Table::list(["", "A", "B", "B/A"], found.iter().filter(|one| !is_system(one)).map(row));
    let [a, b] = [("A", &names[0]), ("B", &names[1])].map(|(side, name)| Block::plain(format!("{side}  {name}")));
    let changed = found.iter().filter(|one| !one.changes.is_empty()).map(changes);
    let values = Section::default().with([a, b, Block::plain(""), Block::table(table)]);
    Document::of_sections([values].into_iter().chain(changed))
}

/// A system's own row has settings and no value.
fn is_system(one: &ResultDifference) -> bool {
    one.name == "system" || one.name.starts_with("system ")
}
