//! Submissions: the findings of the submission check, the state of one, and two compared.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::json;

use crate::styler::{Styler, TextRole, clean, cut, table};
use base::units::{counted, csv_cell};
use harness::marked_verdict;
use mlperf::{FindingWeight, JudgedRun, ResultDifference, SubmissionCheck, SubmissionFinding, SubmissionReport};

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
pub fn examined(examined: &SubmissionReport, review: bool, styler: Styler) -> String {
    let mut out = String::new();
    let rows: Vec<_> = examined
        .results
        .iter()
        .map(|seen| {
            let validity = validity(&seen.judged);
            let tone = if seen.judged.validity.as_deref() == Some("VALID") { TextRole::Good } else { TextRole::Bad };
            vec![
                (TextRole::Quiet, clean(&format!("{}/{}/{}", seen.division, seen.submitter, seen.system))),
                (TextRole::Name, clean(&format!("{} {}", seen.benchmark, seen.scenario))),
                (TextRole::Plain, value(&seen.judged)),
                (tone, clean(&validity)),
            ]
        })
        .collect();
    out.push_str(&table(styler, "", &rows));
    for (seen, power) in examined.results.iter().filter_map(|seen| Some((seen, seen.power.as_ref()?))) {
        let result = format!("{} {} {}", seen.system, seen.benchmark, seen.scenario);
        let per_watt =
            power.per_watt.map_or_else(String::new, |rate| format!(", {rate:.3} {} for each W", seen.judged.unit));
        let (watts, kilojoules, seconds) = (power.watts, power.joules / 1000.0, power.seconds);
        let _ = writeln!(
            out,
            "power of {}: {watts:.2} W on average of {} samples, {kilojoules:.1} kJ in {seconds:.1} s{per_watt}",
            clean(&result),
            power.samples
        );
    }
    if examined.results.iter().any(|seen| seen.power.is_some()) {
        out.push_str("the Power WG's own checker looks at more, as the meter's messages: run it, too\n");
    }
    findings(&mut out, examined.with_weight(FindingWeight::Refused), styler);
    if review {
        findings(&mut out, examined.with_weight(FindingWeight::Review), styler);
    } else {
        objections(&mut out, examined, styler);
    }
    unexamined(&mut out, examined, styler);
    let refused = examined.refusal_count();
    let (tone, word) = if refused > 0 {
        (TextRole::Bad, format!("refused: {}", counted(refused, "reason")))
    } else if examined.results.iter().any(|seen| seen.judged.simulated) {
        (TextRole::Bad, "SIMULATED: MLCommons's checker would accept it, and it is no measurement".to_owned())
    } else if !examined.not_examined.is_empty() {
        let names = unexamined_names(examined);
        let word = format!("MLCommons would accept these; not examined: {names} (run the official checker)");
        (TextRole::Warning, word)
    } else {
        (TextRole::Good, "MLCommons would accept it".to_owned())
    };
    let objections = examined.with_weight(FindingWeight::Review).count();
    let objections = match objections {
        0 => String::new(),
        some if review => format!(", {some} for review"),
        some => format!(", {some} for review (`--review` prints them)"),
    };
    let results = counted(examined.results.len(), "result");
    let _ = writeln!(out, "\n{results} for {}: {}{objections}", examined.round, styler.tone(tone, word));
    out
}

/// The results as a table for a spreadsheet, one in a line. A submission is refused as a whole, so `refused` is of
/// all its results.
pub fn results_csv(examined: &SubmissionReport) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let mut out = String::from(
        "round,division,submitter,system,benchmark,scenario,result,unit,validity,ttft_p99_ms,tpot_p99_ms,\
         accuracy,watts,joules,simulated,rehearsal,refused\n",
    );
    for one in &examined.results {
        let accuracy: Vec<String> = one.accuracy.iter().map(|(metric, value)| format!("{metric} {value}")).collect();
        let names = [&examined.round, &one.division, &one.submitter, &one.system, &one.benchmark, &one.scenario];
        let names: Vec<String> = names.into_iter().map(|name| csv_cell(name)).collect();
        let judged = &one.judged;
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            names.join(","),
            number(judged.value),
            csv_cell(&judged.unit),
            judged.validity.as_deref().unwrap_or_default(),
            number(judged.ttft_p99_ms),
            number(judged.tpot_p99_ms),
            csv_cell(&accuracy.join("; ")),
            number(one.power.as_ref().map(|power| power.watts)),
            number(one.power.as_ref().map(|power| power.joules)),
            judged.simulated,
            judged.rehearsal,
            examined.refusal_count() > 0
        );
    }
    out
}

/// Each finding with its place, its rule and what to do.
fn findings<'a>(out: &mut String, found: impl Iterator<Item = &'a SubmissionFinding>, styler: Styler) {
    let mut last = "";
    for SubmissionFinding { weight, check, place, what, why, fix } in found {
        if place != last {
            let _ = writeln!(out, "\n{}", styler.tone(TextRole::Strong, clean(place)));
            last = place;
        }
        let (tone, word) = match weight {
            FindingWeight::Refused => (TextRole::Bad, "refused"),
            FindingWeight::Review => (TextRole::Warning, "review"),
        };
        let _ = writeln!(out, "  {} {}: {}", styler.tone(tone, word), check, clean(what));
        let _ = writeln!(out, "    why: {}", clean(why));
        let _ = writeln!(out, "    do:  {}", clean(fix));
    }
}

/// What a reviewer may object to: how often each check found something, and the first of it.
fn objections(out: &mut String, examined: &SubmissionReport, styler: Styler) {
    let mut groups: IndexMap<SubmissionCheck, (usize, &SubmissionFinding)> = IndexMap::new();
    for finding in examined.with_weight(FindingWeight::Review) {
        groups.entry(finding.check).or_insert((0, finding)).0 += 1;
    }
    if groups.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", styler.tone(TextRole::Warning, "a reviewer may object"));
    let rows: Vec<_> = groups
        .into_iter()
        .map(|(check, (times, first))| {
            vec![
                (TextRole::Plain, times.to_string()),
                (TextRole::Name, check.to_string()),
                (TextRole::Plain, cut(&clean(&first.what), 70)),
            ]
        })
        .collect();
    out.push_str(&table(styler, "  ", &rows));
}

/// What was not looked at, and why.
fn unexamined(out: &mut String, examined: &SubmissionReport, styler: Styler) {
    for found in examined.not_examined.iter().filter(|found| found.is_of_endpoints()) {
        let text = format!("{}: {}\n  {}", clean(&found.place), found.why, mlperf::OWN_CHECKER);
        let _ = writeln!(out, "\n{}", styler.tone(TextRole::Warning, text));
    }
    let mut reasons: IndexMap<&str, &str> = IndexMap::new();
    for found in examined.not_examined.iter().filter(|found| !found.is_of_endpoints()) {
        reasons.insert(last_name(&found.place), &found.why);
    }
    if !reasons.is_empty() {
        let reasons: Vec<String> = reasons.iter().map(|(name, why)| format!("{}: {why}", clean(name))).collect();
        let text = format!("not examined: {}", reasons.join("; "));
        let _ = writeln!(out, "\n{}", styler.tone(TextRole::Quiet, text));
    }
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
pub fn examined_json(examined: &SubmissionReport) -> String {
    let is_known = examined.refusal_count() > 0 || examined.not_examined.is_empty();
    let report = json!({
        "submittable": is_known.then_some(examined.refusal_count() == 0),
        "refused": examined.refusal_count(),
        "for_review": examined.with_weight(FindingWeight::Review).count(),
        "examined": examined,
    });
    format!("{report:#}\n")
}

pub fn status(standing: &[ResultProgress], paint: Styler) -> String {
    let header = ["system", "benchmark", "scenario", "performance", "accuracy", "audit", "package"];
    let mut rows: Vec<Vec<(TextRole, String)>> =
        vec![header.iter().map(|word| (TextRole::Quiet, (*word).to_owned())).collect()];
    let mut commands: Vec<(String, String)> = Vec::new();
    for one in standing {
        let mut row = vec![
            (TextRole::Plain, clean(&one.system)),
            (TextRole::Name, clean(&one.benchmark)),
            (TextRole::Name, clean(&one.scenario)),
        ];
        let cells = [
            ("performance", &one.performance),
            ("accuracy", &one.accuracy),
            ("audit", &one.audit),
            ("package", &one.package),
        ];
        for (name, cell) in cells {
            let (tone, word) = cell.state.word();
            let text = cell.outcome.as_deref().map(|outcome| format!(" {}", cut(outcome, 40))).unwrap_or_default();
            row.push((tone, clean(&format!("{word}{text}"))));
            if let Some(command) = &cell.command
                && !commands.iter().any(|(_, known)| known == command)
            {
                // One package holds many results.
                let step = if name == "package" {
                    name.to_owned()
                } else {
                    format!("{} {} {name}", one.benchmark, one.scenario)
                };
                commands.push((step, command.clone()));
            }
        }
        rows.push(row);
    }
    let mut out = table(paint, "", &rows);
    if !commands.is_empty() {
        out.push_str("\nforward:\n");
        let rows: Vec<_> = commands
            .into_iter()
            .map(|(name, command)| vec![(TextRole::Quiet, clean(&name)), (TextRole::Plain, clean(&command))])
            .collect();
        out.push_str(&table(paint, "  ", &rows));
    }
    out
}

pub fn status_json(standing: &[ResultProgress]) -> String {
    format!("{:#}\n", json!({ "results": standing }))
}

/// Values side by side, then the settings that differ.
pub fn diff(names: &[String; 2], found: &[ResultDifference], paint: Styler) -> String {
    let mut rows: Vec<Vec<(TextRole, String)>> =
        vec![["", "A", "B", "B/A"].iter().map(|word| (TextRole::Quiet, (*word).to_owned())).collect()];
    for one in found.iter().filter(|one| !is_system(one)) {
        let side = |run: Option<&mlperf::DiffedRun>| match run {
            Some(run) => clean(&format!("{} {}", value(&run.judged), validity(&run.judged))),
            None => "–".to_owned(),
        };
        rows.push(vec![
            (TextRole::Name, clean(&one.name)),
            (TextRole::Plain, side(one.a.as_ref())),
            (TextRole::Plain, side(one.b.as_ref())),
            (TextRole::Strong, one.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}"))),
        ]);
    }
    let mut out = format!("A  {}\nB  {}\n\n", clean(&names[0]), clean(&names[1]));
    out.push_str(&table(paint, "", &rows));
    for one in found.iter().filter(|one| !one.changes.is_empty()) {
        let _ = writeln!(out, "\n{}", paint.tone(TextRole::Strong, clean(&one.name)));
        let rows: Vec<_> = one
            .changes
            .iter()
            .map(|change| {
                let side = |value: Option<&String>| value.map_or("–".to_owned(), |value| cut(&clean(value), 60));
                vec![
                    (TextRole::Name, clean(&change.what)),
                    (TextRole::Plain, side(change.a.as_ref())),
                    (TextRole::Plain, side(change.b.as_ref())),
                ]
            })
            .collect();
        out.push_str(&table(paint, "  ", &rows));
    }
    out
}

pub fn diff_json(names: &[String; 2], found: &[ResultDifference]) -> String {
    format!("{:#}\n", json!({ "a": names[0], "b": names[1], "results": found }))
}

/// A system's own row has settings and no value.
fn is_system(one: &ResultDifference) -> bool {
    one.name == "system" || one.name.starts_with("system ")
}
