//! Checks the answers in an accuracy log. A truncated log has those of its beginning and of its end.

use std::collections::BTreeSet;
use std::path::Path;

use super::checks::{Review, SubmissionCheck, SubmissionFindings, findings};
use crate::truncate_accuracy_log::{LONGEST, cut};
use base::files::read_bytes;
use rules::log::{AnswerLog, LogError, LoggedAnswer};

/// Fewer answers may be alike by chance.
const FEWEST_ANSWERS: usize = 8;
const FIX: &str = "pack the log of the run again, as LoadGen wrote it";

/// Looks at each answer. `samples`: of the data set, where it is the benchmark's.
pub(super) fn check(to: &mut SubmissionFindings, at: &Path, samples: Option<u64>) {
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
