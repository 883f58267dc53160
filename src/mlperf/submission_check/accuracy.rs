//! An accuracy run: over the whole data set, good enough, with the hash of its log, of answers that a model can give.

use std::collections::BTreeSet;
use std::path::Path;

use indexmap::IndexMap;

use super::checks::{FindingWeight, REPACK, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::tree::ResultEntry;
use super::{loadgen, witness};
use crate::LockedRun;
use crate::truncate_accuracy_log::{self, LONGEST, cut};
use base::files::{Sha256Of, is_absence, read_bytes, read_text, sha256_of_file};
use rules::log::{ACCURACY_FILE, AnswerLog, DETAIL_FILE, Detail, LogError, LoggedAnswer, SUMMARY_FILE};
use rules::{Accuracy, Benchmark, MlperfScenario, needs_sentences, written_metric, written_name};

const SCORE: &str = "`mlperf: { score: … }` writes it from the accuracy run";
/// Scores above the round's minimum by more than this factor are for review, in Closed and in Open. Published results
/// of Closed are below 1.04; in Open another model may be better, and the factor is ours.
const MUCH_BETTER: [f64; 2] = [1.05, 1.25];
/// That stage leaves out what it cannot score.
const SENTENCES: &str = "`sentences=FOLDER` (`mlperf.score.sentences`) names NLTK's punkt_tab/english, with which \
    `score` writes it; else \
    `official_scores=FOLDER` (`official`) has what the reference's evaluator printed";
const OFFICIAL: &str = "`official_scores=FOLDER` (`mlperf.score.official`) has what the reference's evaluator \
    printed, and `score` writes it";

pub(super) struct AccuracyRun {
    pub detail: Option<Detail>,
    pub metrics: IndexMap<String, f64>,
}

pub(super) fn check(to: &mut SubmissionFindings, entry: &ResultEntry, locked: Option<&LockedRun>) -> AccuracyRun {
    let benchmark = entry.table;
    let folder = entry.accuracy();
    let detail = loadgen::read(to, &folder, entry.round, &loadgen::ACCURACY);
    if let Some(detail) = &detail {
        let at = folder.join(DETAIL_FILE);
        loadgen::scenario(to, &folder, detail, entry);
        let wanted = benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples);
        let count =
            detail.count("effective_accuracy_sample_count").or_else(|| detail.count("qsl_reported_total_count"));
        let issued = detail.count("generated_query_count").zip(detail.count("generated_samples_per_query"));
        let issued = issued.map(|(queries, samples)| queries.saturating_mul(samples));
        // In Offline, LoadGen 4 logs there how many samples a performance run would have.
        let is_planned = detail.is_of_version_4() && entry.titled == MlperfScenario::Offline;
        // The checkers until v5.1 say so, and take it.
        let newer = FindingWeight::of_newer_checker(entry.layout);
        let weight = if entry.is_closed() { Refused } else { newer };
        let summary = folder.join(SUMMARY_FILE);
        let printed = read_text(&summary).unwrap_or_default();
        findings! { to;
            weight, AccuracySamples, &at,
                (count != Some(wanted)).then(|| {
                    let count = count.map_or("not logged".to_owned(), |count| count.to_string());
                    format!("it covers {count} samples, the accuracy run has {wanted}")
                }),
                "accuracy is that of the whole data set", "run with the whole data set";
            Review, Counts, &at,
                issued.filter(|issued| !is_planned && count.is_some_and(|count| *issued != count))
                    .map(|issued| format!("LoadGen issued {issued} samples, the data set has {}", count.unwrap_or(0))),
                "an accuracy run issues each sample once", REPACK;
            Review, Counts, &at,
                detail.count("qsl_reported_total_count").filter(|library| count.is_some_and(|count| *library < count))
                    .map(|library| format!("the sample library has {library} samples, fewer than were issued")),
                "an accuracy run issues each sample once", REPACK;
            Review, LogsDisagree, &summary,
                printed.contains("Result is").then_some("it has a result, and an accuracy run has none"),
                "the summary and the detail log must come from the same run", REPACK;
            // All 1001 published summaries of accuracy runs have this line.
            Review, TornLog, &summary,
                (summary.is_file() && !printed.contains("encountered"))
                    .then_some("it has no line `No errors encountered during test.`"),
                "the run was interrupted, or the file is truncated", "run the test again";
        }
    }
    let samples = benchmark.accuracy_samples.unwrap_or(0).max(benchmark.dataset_samples);
    let samples = Some(samples).filter(|_| entry.is_closed());
    let at = folder.join("accuracy.txt");
    let rule = "it has the scores of the accuracy run";
    let mut metrics = IndexMap::new();
    match read_text(&at) {
        Ok(text) => {
            if text.trim().is_empty() {
                finding!(to; Refused, EmptyFile, &at, "it is empty", rule, SCORE);
            } else {
                metrics = scores(to, &at, &text, entry);
                plausibility(to, &at, &text, entry, &metrics);
            }
            log(to, &folder, &text, locked, samples);
        }
        Err(error) => {
            to.refuse_unread(&at, &error, rule, SCORE);
            if is_absence(&error) {
                log(to, &folder, "", locked, samples);
            }
        }
    }
    AccuracyRun { detail, metrics }
}

/// The scores in `accuracy.txt`, against the round's bounds.
fn scores(to: &mut SubmissionFindings, at: &Path, text: &str, entry: &ResultEntry) -> IndexMap<String, f64> {
    let mut metrics = IndexMap::new();
    let (closed, scores) = (entry.is_closed(), written_scores(text, entry.table));
    for (name, bounds) in &entry.table.accuracy {
        let values = scores.get(name).map_or(&[][..], Vec::as_slice);
        let Some(last) = values.last() else {
            // A metric with an upper bound only may be missing: the official checker accepts that.
            if bounds.min.is_some() {
                let written = written_name(name);
                let finding = format!("there is no {name} (`'{written}': …`) in it");
                let weight = if closed { Refused } else { Review };
                let fix = match name.as_str() {
                    name if needs_sentences(name) => SENTENCES,
                    "exact_match" | "mbxp_accuracy" => OFFICIAL,
                    _ => SCORE,
                };
                finding!(to; weight, MissingScore, at, finding, "the round asks for it", fix);
            }
            continue;
        };
        metrics.insert(name.clone(), *last);
        if !closed {
            continue;
        }
        let rule = "a closed result keeps the reference's accuracy";
        let better = "check precision, calibration and the end token; then run accuracy and performance again";
        for value in values {
            if let Some(bound) = bounds.broken_by(*value) {
                finding!(to; Refused, Accuracy, at, format!("{name} is {value}, {bound}"), rule, better);
            }
        }
    }
    metrics
}

/// Reports scores that no answers can have, whatever the round's bounds are.
fn plausibility(
    to: &mut SubmissionFindings,
    at: &Path,
    text: &str,
    entry: &ResultEntry,
    metrics: &IndexMap<String, f64>,
) {
    let (benchmark, better) = (entry.table, MUCH_BETTER[usize::from(!entry.is_closed())]);
    let rule = "accuracy.txt is written by the evaluator of the benchmark, from the answers of the whole data set";
    let fix = "score the accuracy run again";
    let is_share = |name: &str| name.starts_with("ROUGE") || ["exact_match", "gsm8k_accuracy"].contains(&name);
    for (name, value) in metrics.iter().filter(|(name, _)| is_share(name)) {
        let min = benchmark.accuracy.get(name).and_then(|bounds| bounds.min);
        findings! { to;
            Refused, Plausibility, at, (*value > 100.0).then(|| format!("{name} is {value}, and 100 is the most")),
                rule, fix;
            Review, Plausibility, at,
                min.filter(|min| *value > min * better && *value <= 100.0)
                    .map(|min| {
                        let above = (value / min - 1.0) * 100.0;
                        format!("{name} is {value}, {above:.0} % above the round's minimum of {min}")
                    }),
                rule, fix;
        }
    }
    // Several evaluators write how many answers they scored, and how many tokens these had. That of llama3.1-405b
    // counts the answers of one task of three.
    let written = |name: &str| numbers(text, &format!("'{name}':")).pop();
    let scored = written("gen_num").filter(|_| metrics.contains_key("ROUGE1"));
    let evaluated = scored.or_else(|| numbers(text, "Total samples evaluated:").pop());
    let samples = benchmark.accuracy_samples.unwrap_or(benchmark.dataset_samples) as f64;
    // gpt-oss-120b's evaluator prints how it comes to the score: `Score:   = 196/8 + 750/5 + 2691/3`.
    let sum = |name: &str| {
        let terms = text.rsplit_once(name)?.1.lines().next()?.split('+');
        terms.map(|term| Some(numbers(term, "").first()? / numbers(term, "/").first()?)).sum::<Option<f64>>()
    };
    let by_sum = sum("Score:   =").zip(sum("Max:     =")).map(|(score, most)| score / most * 100.0);
    let mut printed = [numbers(text, "FINAL SCORE:").pop(), by_sum].into_iter().flatten();
    let exact = metrics
        .get("exact_match")
        .and_then(|exact| Some((exact, printed.find(|share| (share - exact).abs() > 0.011)?)));
    let mean = scored.and_then(|scored| Some((written("gen_tok_len")? / scored, written("tokens_per_sample")?)));
    let rouge = [("rougeL", "rouge1"), ("rouge2", "rouge1"), ("rougeL", "rougeLsum")]
        .map(|(part, whole)| Some(((part, written(part)?), (whole, written(whole)?))));
    let rouge = rouge.into_iter().flatten().find(|((_, part), (_, whole))| part > whole);
    let several = metrics.keys().find_map(|name| {
        let mut values = text.lines().filter_map(|line| written_metric(line, name));
        let first = values.next()?;
        Some(format!("{name} is {first} and, further down, {}", values.find(|value| value.total_cmp(&first).is_ne())?))
    });
    let characters = scored.and_then(|scored| Some(written("gen_len")? / scored));
    let tokens = scored.and_then(|scored| Some(written("gen_tok_len")? / scored)).unwrap_or(0.0);
    findings! { to;
        Review, Plausibility, at,
            rouge.map(|((part, less), (whole, more))| format!("{part} is {less}, and never more than {whole}, {more}")),
            rule, fix;
        Review, Plausibility, at, several, rule, fix;
        Review, Plausibility, at, text.lines().find_map(miscounted), rule, fix;
        // Published texts have at least 275 characters, and 1.9 to 4.3 per token.
        Review, Plausibility, at,
            characters.filter(|each| *each < (1.5 * tokens).max(30.0) || tokens > 0.0 && *each > 6.0 * tokens)
                .map(|characters| format!("its texts have {characters:.2} characters each")), rule, fix;
        Review, Plausibility, at,
            evaluated.filter(|scored| (*scored - samples).abs() > 0.5)
                .map(|scored| format!("it covers {scored} answers, but the accuracy run has {samples}")), rule, fix;
        Review, Plausibility, at,
            mean.filter(|(mean, written)| (mean - written).abs() > 0.06)
                .map(|(mean, written)| format!("its tokens by its answers are {mean:.1}, it has {written}")), rule, fix;
        Review, Plausibility, at,
            exact.map(|(exact, share)| format!("exact_match is {exact}, and its calculation gives {share:.3}")),
            rule, fix;
    }
}

/// A row of gpt-oss-120b's evaluator, name, correct, total, repeats, score, percent, of which the percent is another.
pub(super) fn miscounted(line: &str) -> Option<String> {
    let [name, correct, total, _, _, percent] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let number = |text: &str| text.parse::<f64>().ok();
    let (share, printed) = (number(correct)? / number(total)? * 100.0, number(percent.strip_suffix('%')?)?);
    ((share - printed).abs() > 0.011).then(|| format!("{name} has {correct} of {total}, which is not {percent}"))
}

/// The numbers that follow a name.
pub(super) fn numbers(text: &str, name: &str) -> Vec<f64> {
    let after = text.match_indices(name).map(|(at, _)| text[at + name.len()..].trim_start());
    let digits = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    after.filter_map(digits).collect()
}

/// Metric → its values, line by line, until all that must be there and the hash were read: the official checker stops
/// there.
fn written_scores(text: &str, benchmark: &Benchmark) -> IndexMap<String, Vec<f64>> {
    let mut written: IndexMap<String, Vec<f64>> = IndexMap::new();
    let mut hash = false;
    for line in text.lines() {
        for name in benchmark.accuracy.keys() {
            if let Some(value) = written_metric(line, name) {
                written.entry(name.clone()).or_default().push(value);
            }
        }
        hash |= !truncate_accuracy_log::hashes(line).is_empty();
        let is_there = |(name, bounds): (&String, &Accuracy)| bounds.min.is_none() || written.contains_key(name);
        if hash && benchmark.accuracy.iter().all(is_there) {
            break;
        }
    }
    written
}

/// Checks that the accuracy log is present, truncated, and the one whose hash is in `accuracy.txt`.
fn log(to: &mut SubmissionFindings, folder: &Path, scores: &str, locked: Option<&LockedRun>, samples: Option<u64>) {
    let at = folder.join(ACCURACY_FILE);
    let hashes = truncate_accuracy_log::hashes(scores);
    let score = "`mlperf: { score: … }` writes it, and so does `truncate_accuracy_log` of mlcommons/inference";
    let text_at = folder.join("accuracy.txt");
    let rule = "the hash identifies its accuracy log";
    let hash = hashes.last().copied();
    let is_sha256 = |hash: &str| hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit());
    findings! { to;
        Refused, Hash, &text_at, hash.is_none().then_some("it has no line `hash=…`"), rule, score;
        Review, Hash, &text_at, (hashes.len() > 1).then_some("it has several lines `hash=…`"), rule, score;
        Refused, Hash, &text_at,
            hash.filter(|hash| !is_sha256(hash)).map(|hash| format!("its hash is not a SHA-256: {hash:?}")),
            rule, score;
        Review, Hash, &text_at,
            hash.filter(|hash| **hash == Sha256Of::default().finish()).map(|_| "its hash is that of an empty file"),
            rule, score;
    }
    let Some(hash) = hash.filter(|hash| is_sha256(hash)) else { return };
    let (goes_with, pack) = ("the accuracy log goes with the result, truncated", "pack it again");
    let size = match std::fs::metadata(&at).map(|meta| meta.len()) {
        Ok(0) => return finding!(to; Refused, EmptyFile, &at, "it is empty", goes_with, pack),
        Ok(size) => size,
        Err(error) => return to.refuse_unread(&at, &error, goes_with, pack),
    };
    let read = sha256_of_file(&at).and_then(|hash| Ok((hash, truncate_accuracy_log::is_truncated(&at)?)));
    let (actual, cut) = match read {
        Ok(read) => read,
        Err(error) => return to.refuse_unread(&at, &error, goes_with, pack),
    };
    check_answers(to, &at, samples);
    if size > LONGEST {
        finding!(to; Refused, NotTruncated, &at, format!("it is not truncated: {size} bytes (limit {LONGEST})"),
            "whole accuracy logs are not submitted", "pack again; keep the whole log at home");
    }
    let locked_digest = locked.and_then(|run| run.files.get(ACCURACY_FILE));
    let expected = if cut { locked_digest } else { Some(&actual) };
    if let Some(expected) = expected.filter(|expected| expected.as_str() != hash) {
        let finding =
            format!("its SHA-256 is {}…, accuracy.txt names {}…", &expected[..12.min(expected.len())], &hash[..12]);
        // A lock knows the whole log; without one, published results have another log's hash.
        let weight = if locked_digest.is_some() { Refused } else { Review };
        finding!(to; weight, Hash, &at, finding,
            "accuracy.txt must belong to this log; the official checker does not recompute it",
            "score the accuracy run again, then pack again");
    }
}

const ONE_SYSTEM: &str = "all runs of a result are measured with the same system";
const RUN_AGAIN: &str = "run the older one of the two again";
/// Between the runs of one result; published ones are 12 days apart at most.
const MOST_DAYS: f64 = 60.0;

/// Another run is of the system and the LoadGen of the performance run.
pub(super) fn same_system(to: &mut SubmissionFindings, at: &Path, performance: &Detail, other: &Detail) {
    let names =
        [("loadgen_version", "LoadGen"), ("sut_name", "the system under test"), ("qsl_name", "the sample library")];
    for (key, name) in names {
        let (a, b) = (performance.text(key).unwrap_or("not logged"), other.text(key).unwrap_or("not logged"));
        findings! { to;
            Review, TwoSystems, at, (a != b).then(|| format!("{name} is {b:?} here and {a:?} in the performance run")),
                ONE_SYSTEM, RUN_AGAIN;
        }
    }
    let [a, b] = [performance, other].map(|detail| detail.text("power_begin").and_then(witness::seconds));
    // The seed decides in which order a whole data set is loaded.
    let loaded = |detail: &Detail| detail.get("loaded_qsl_set").and_then(|loaded| loaded.as_array().cloned());
    let seeds = [performance, other].map(|detail| detail.count("effective_qsl_rng_seed"));
    let order = match (loaded(performance), loaded(other)) {
        (Some(a), Some(b)) => (seeds[0] == seeds[1] && a.len() == b.len() && a != b)
            .then_some("has another order than in the performance run"),
        (a, b) => (a.is_some() != b.is_some()).then_some("is logged in one of the two runs only"),
    };
    let days = a.zip(b).map(|(a, b)| ((b - a) / 86_400.0).abs()).filter(|days| *days > MOST_DAYS);
    findings! { to;
        Review, TwoSystems, at, days.map(|days| format!("it was made {days:.0} days from the performance run")),
            ONE_SYSTEM, RUN_AGAIN;
        Review, Counts, at,
            order.map(|order| format!("`loaded_qsl_set` {order}")),
            "LoadGen shuffles the data set by a seed, which both have", REPACK;
    }
    if let Some(folder) = at.parent() {
        witness::check_dates(to, folder, other);
    }
    // Another version of LoadGen has other source files.
    if performance.text("loadgen_version") == other.text("loadgen_version") {
        witness::same_files(to, at, other, performance);
    }
}

// Checks the answers in an accuracy log. A truncated log has those of its beginning and of its end.

/// Fewer answers may be alike by chance.
const FEWEST_ANSWERS: usize = 8;
const FIX: &str = "pack the log of the run again, as LoadGen wrote it";

/// Looks at each answer. `samples`: of the data set, where it is the benchmark's.
fn check_answers(to: &mut SubmissionFindings, at: &Path, samples: Option<u64>) {
    let Ok(bytes) = read_bytes(at) else { return };
    let (mut answers, error) = read(&bytes);
    let limit = samples.unwrap_or(u64::MAX);
    answers.sort_by_key(|answer| answer.qsl_idx);
    let outside = answers.iter().find(|answer| answer.qsl_idx >= limit || answer.seq_id >= limit);
    // Four or eight bytes a token.
    let miscounted = answers.iter().find_map(|answer| {
        let (tokens, bytes) = (answer.token_count?, answer.data.len() as i64);
        (bytes != 4 * tokens && bytes != 8 * tokens).then(|| format!("{bytes} bytes are counted as {tokens} tokens"))
    });
    let twice = answers.windows(2).find(|pair| pair[0].qsl_idx == pair[1].qsl_idx);
    let queries = answers.iter().map(|answer| answer.seq_id).collect::<BTreeSet<_>>().len();
    let largest = answers.iter().filter_map(|answer| answer.tokens().ok()?.into_iter().max()).max();
    findings! { to;
        Review, Unreadable, at, error.map(|error| error.to_string()),
            "the answers are what the accuracy is computed from; LoadGen writes them as hexadecimal digits", FIX;
        Review, SampleIndex, at,
            outside.map(|answer| {
                format!("sample {} (query {}): the data set has {limit}", answer.qsl_idx, answer.seq_id)
            }),
            "samples are counted from 0", FIX;
        Review, SampleIndex, at,
            twice.map(|pair| format!("sample {} is answered twice", pair[0].qsl_idx))
                .or((queries < answers.len())
                    .then(|| format!("{} answers belong to only {queries} queries", answers.len()))),
            "an accuracy run issues each sample once", FIX;
        Review, Lengths, at, miscounted, "LoadGen logs the ids of an answer and their number", FIX;
    }
    let different = answers.iter().map(|answer| &answer.data).collect::<BTreeSet<_>>().len();
    implausible(to, at, [answers.len(), different], largest);
}

/// Reports answers of which more than one in twenty, and one more, are copies, and a token that is in no model's
/// vocabulary, of which the largest has 201,088. In published logs of Closed one answer of TEST06 is a copy at most,
/// and two of the about 30 that a truncated log holds.
pub(super) fn implausible(to: &mut SubmissionFindings, at: &Path, counts: [usize; 2], largest: Option<u32>) {
    let [answers, different] = counts;
    findings! { to;
        Review, RepeatedAnswers, at,
            (answers >= FEWEST_ANSWERS && (answers - different) * 20 > answers + 20)
                .then(|| format!("{} of {answers} answers are copies of others", answers - different)),
            "each sample is another prompt, and has an answer of its own",
            "check whether the system generates its answers; run again";
        Review, Plausibility, at,
            largest.filter(|id| *id >= 1 << 18).map(|id| format!("no model has a token {id}")),
            "an answer consists of the ids of the tokens that the model generated", FIX;
    }
}

/// The answers at the beginning and at the end, and the first that is not LoadGen's.
fn read(bytes: &[u8]) -> (Vec<LoggedAnswer>, Option<LogError>) {
    let cut = cut(bytes).filter(|_| bytes.len() as u64 <= LONGEST);
    let (head, tail) = cut.clone().map_or((bytes, &bytes[..0]), |cut| (&bytes[..cut.start], &bytes[cut.end..]));
    // The tail begins in the middle of an answer.
    let tail = tail.iter().position(|byte| *byte == b'{').map(|at| [&b"["[..], &tail[at..]].concat());
    let mut answers = Vec::new();
    for (log, is_cut) in [(Some(head), cut.is_some()), (tail.as_deref(), false)] {
        for answer in log.into_iter().flat_map(AnswerLog::new) {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(LogError::Truncated { .. }) if is_cut => break,
                Err(error) => return (answers, Some(error)),
            }
        }
    }
    (answers, None)
}
