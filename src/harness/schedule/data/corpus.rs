//! The records of a file, read once and kept, and the order in which they are taken.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jsonl::fault;
use super::record_reader::RecordRules;
use super::row::{OwnRequest, PromptPart};
use super::tokenizer::PromptTokenizer;
use super::{jsonl, npy};
use crate::schedule::arrivals::generator;
use crate::{DataKind, HarnessError, PromptFile};
use base::files::{Digest, open_regular};
use base::spec::RecordOrder;
use base::units::counted;

#[derive(Debug)]
pub(crate) struct Corpus {
    pub entries: Vec<CorpusRecord>,
    pub summary: DataSummary,
}

impl Corpus {
    pub fn load(
        data: &PromptFile,
        prompt_tokenizer: Option<&PromptTokenizer>,
        rules: &RecordRules,
    ) -> Result<Self, HarnessError> {
        let file = data.file.as_path();
        refuse_pickle(file)?;
        let room = MemoryBudget::new(file);
        let (mut entries, mut skipped) = match data.kind {
            DataKind::InputIds if has_end(file, "npy") => (npy::read(data, room)?, Vec::new()),
            DataKind::Jsonl | DataKind::Sharegpt | DataKind::Mooncake | DataKind::InputIds => {
                jsonl::read(data, prompt_tokenizer, rules, room)?
            }
            DataKind::Plan => return Err(fault(file, "a plan is not data")),
        };
        if entries.is_empty() {
            return Err(fault(file, "it has no record"));
        }
        let records = entries.len() as u64;
        if let Some(most) = data.max_input_tokens {
            let is_longer = |turn: &CorpusTurn| turn.tokens.is_some_and(|tokens| tokens > most);
            entries.retain(|record| !record.turns.iter().any(is_longer));
            let longer = records - entries.len() as u64;
            let unit =
                if prompt_tokenizer.is_some() || data.kind != DataKind::Jsonl { "tokens" } else { "words or tokens" };
            if entries.is_empty() {
                return Err(fault(
                    file,
                    format!("every prompt has more than {most} {unit}, the limit `max_input_tokens`"),
                ));
            }
            if longer > 0 {
                skipped.push(format!("{} with a prompt of more than {most} {unit}", counted(longer, "record")));
            }
        }
        let digest = digest(file)?;
        let data_summary =
            DataSummary { file: file.display().to_string(), digest, records, skipped, ..DataSummary::default() };
        Ok(Self { entries, summary: data_summary })
    }
}

pub(crate) fn digest(file: &Path) -> Result<String, HarnessError> {
    let digest = open_regular(file).and_then(|(open, metadata)| Digest::of_file(&open, metadata.len()));
    Ok(digest.map_err(|error| fault(file, error.to_string()))?.to_string())
}

pub(super) fn has_end(file: &Path, end: &str) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
}

/// A pickle is a program; it is never executed.
fn refuse_pickle(file: &Path) -> Result<(), HarnessError> {
    let mut head = [0u8; 2];
    let length = open_regular(file)
        .and_then(|(mut file, _)| file.read(&mut head))
        .map_err(|error| fault(file, error.to_string()))?;
    let is_pickle = length == 2 && head[0] == 0x80 && (2..=5).contains(&head[1]);
    if !is_pickle && !has_end(file, "pkl") && !has_end(file, "pickle") {
        return Ok(());
    }
    let name = file.display();
    let reason = format!(
        "it is a Python pickle, which can run any program, so it is not read. Convert it once, where you trust it \
         (the columns of MLPerf's data sets; without `tok_output` the records have no output lengths), and name the \
         new file as `jsonl`:\n  \
         python3 -c \"import json, pandas; [print(json.dumps({{'input_ids': [int(t) for t in r['tok_input']], \
         **({{'output_tokens': len(r['tok_output'])}} if 'tok_output' in r else {{}})}})) \
         for r in pandas.read_pickle('{name}').to_dict('records')]\" > {name}.jsonl"
    );
    Err(fault(file, reason))
}

/// The order of the records.
#[derive(Clone, Debug)]
pub(crate) struct CorpusOrder {
    count: u64,
    repeat: bool,
    selection: RecordSelection,
}

#[derive(Clone, Debug)]
enum RecordSelection {
    Given,
    Shuffled(Vec<u32>),
    Random { seed: u64 },
}

impl CorpusOrder {
    pub fn new(count: usize, data: &PromptFile, seed: u64) -> Self {
        let law = match data.order {
            RecordOrder::Given => RecordSelection::Given,
            RecordOrder::Shuffled => {
                let mut order: Vec<u32> = (0..count as u32).collect();
                order.shuffle(&mut generator("shuffle", seed, 0));
                RecordSelection::Shuffled(order)
            }
            RecordOrder::Random => RecordSelection::Random { seed },
        };
        Self { count: count as u64, repeat: data.repeat, selection: law }
    }

    /// The record of session `number`. None after the end.
    pub fn nth(&self, number: u64) -> Option<usize> {
        let place = number % self.count;
        match &self.selection {
            RecordSelection::Random { seed } => {
                Some(generator("record", *seed, number).random_range(0..self.count) as usize)
            }
            _ if number >= self.count && !self.repeat => None,
            RecordSelection::Given => Some(place as usize),
            RecordSelection::Shuffled(order) => Some(order[place as usize] as usize),
        }
    }
}

// The content of a file of prompts: its records, the memory that they may occupy, and what is reported of them.

/// The most memory for the content of a file; more is refused and not swapped.
const MOST_CONTENT_BYTES: usize = 4 << 30;

/// One record: a session, most often of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CorpusRecord {
    /// Time stamp, ns; counted from the first record's.
    pub at_ns: Option<u64>,
    pub turns: Vec<CorpusTurn>,
    /// Its turns are one conversation: the first one is sent, unless sessions are requested.
    pub is_conversation: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CorpusTurn {
    /// Empty: a prompt of `tokens` is drawn.
    pub parts: Arc<[PromptPart]>,
    pub tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    /// A recorded answer.
    pub answer: Option<Arc<str>>,
    /// Between the answer before and this turn, ns.
    pub pause_ns: Option<u64>,
    /// Time stamp of a later turn, ns.
    pub at_ns: Option<u64>,
    /// The prompt holds all turns before.
    pub is_whole: bool,
    /// What its record sets of its request.
    pub own: Option<Arc<OwnRequest>>,
}

/// The memory that is left.
pub(super) struct MemoryBudget<'a> {
    left: usize,
    file: &'a Path,
}

impl<'a> MemoryBudget<'a> {
    pub const fn new(file: &'a Path) -> Self {
        Self { left: MOST_CONTENT_BYTES, file }
    }

    pub fn take(&mut self, bytes: usize) -> Result<(), HarnessError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let gib = MOST_CONTENT_BYTES >> 30;
            fault(self.file, format!("more than {gib} GiB of prompts would be kept: take fewer with `first: 10000`"))
        })?;
        Ok(())
    }
}

/// What a file gave, for the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSummary {
    pub file: String,
    /// BLAKE3 of its bytes.
    pub digest: String,
    /// Records read from the file so far.
    pub records: u64,
    /// Left out, with why.
    pub skipped: Vec<String>,
    /// How many sessions or requests were planned from it.
    pub taken: u64,
    /// Records that were taken more than once, or again after the end.
    pub repeated: bool,
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use base::spec::DelayPlace;

    fn data(order: RecordOrder, repeat: bool) -> PromptFile {
        PromptFile {
            kind: DataKind::Jsonl,
            file: PathBuf::new(),
            lengths: None,
            output_lengths: None,
            first: None,
            max_input_tokens: None,
            order,
            repeat,
            block_tokens: 512,
            delay: DelayPlace::BeforeTurn,
        }
    }

    #[test]
    fn records_come_in_their_order_and_end_unless_they_are_repeated() {
        let taken = |order, repeat| -> Vec<Option<usize>> {
            let order = CorpusOrder::new(4, &data(order, repeat), 7);
            (0..8).map(|number| order.nth(number)).collect()
        };
        assert_eq!(taken(RecordOrder::Given, false), [Some(0), Some(1), Some(2), Some(3), None, None, None, None]);
        assert_eq!(taken(RecordOrder::Given, true)[4..], taken(RecordOrder::Given, true)[..4]);
        let mut shuffled = taken(RecordOrder::Shuffled, false);
        assert_eq!(shuffled, taken(RecordOrder::Shuffled, false));
        shuffled.sort_unstable();
        assert_eq!(shuffled[4..], [Some(0), Some(1), Some(2), Some(3)]);
        assert!(taken(RecordOrder::Random, false).iter().all(|record| record.is_some_and(|record| record < 4)));
    }

    #[test]
    fn a_pickle_is_refused_with_the_command_that_converts_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("open_orca.bin");
        std::fs::write(&file, [0x80, 4, 0x95, 0]).unwrap();
        let reason = Corpus::load(
            &PromptFile { file: file.clone(), ..data(RecordOrder::Given, false) },
            None,
            &RecordRules::default(),
        )
        .unwrap_err()
        .to_string();
        assert!(reason.contains("Python pickle") && reason.contains("pandas.read_pickle("), "{reason}");
        let gone = PromptFile { file: folder.path().join("gone.jsonl"), ..data(RecordOrder::Given, false) };
        assert!(Corpus::load(&gone, None, &RecordRules::default()).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn longer_prompts_are_left_out_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("d.jsonl");
        std::fs::write(&file, "{\"prompt\": \"a b\"}\n{\"prompt\": \"a b c d\"}\n{\"input_ids\": [1, 2, 3]}\n")
            .unwrap();
        let load = |most| {
            let data =
                PromptFile { file: file.clone(), max_input_tokens: Some(most), ..data(RecordOrder::Given, false) };
            Corpus::load(&data, None, &RecordRules::default())
        };
        let kept = load(3).unwrap();
        assert_eq!((kept.entries.len(), kept.summary.records), (2, 3));
        assert_eq!(kept.summary.skipped, ["1 record with a prompt of more than 3 words or tokens"]);
        assert!(load(4).unwrap().summary.skipped.is_empty());
        assert!(load(1).unwrap_err().to_string().contains("the limit `max_input_tokens`"));
    }
}
