//! Checks rows and writes them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::columns::Columns;
use super::made::Shape;
use super::row::Row;
use super::told::{DATASET_FILE, DatasetFile, Form, Made, SAMPLES_FILE, Spread};
use super::{json, npy, parquet};
use crate::mlperf::accuracy::Recipe;
use crate::mlperf::sha256::{self, Sha256Of};
use crate::mlperf::{Benchmark, DatasetTold, Round};

/// What takes the rows of a data set.
pub(super) type Sink<'s> = dyn FnMut(Row) + 's;

/// Mistakes that are told one by one.
const MOST_MISTAKES: usize = 8;

/// Which data set is wanted, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub round: &'a Round,
    pub benchmark: &'a str,
    /// A folder that exists.
    pub out: &'a Path,
}

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("round {round} has no benchmark `{benchmark}` whose data set is read here; it has {known}")]
    Unknown { round: String, benchmark: String, known: String },
    /// With the command that converts it.
    #[error("{} is a pickle, which runs what is in it when it is read", path.display())]
    Pickle { path: PathBuf, command: String },
    #[error("{0}")]
    Read(String),
    #[error("{}", .told.join("\n"))]
    Rows { told: Vec<String> },
    #[error("{path} has {found} samples, and the {benchmark} of round {round} has {expected}", path = path.display())]
    Count { path: PathBuf, found: u64, expected: String, round: String, benchmark: String },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Reads a processed data set: `.parquet`, `.json`, `.jsonl`, or a folder with [`npy::FILES`].
pub fn read(wanted: &Wanted<'_>, from: &Path) -> Result<DatasetFile, DatasetError> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let columns = Columns::of(recipe);
    let form = form(from, &columns)?;
    let mut writer = Writer::new(wanted.out, &columns)?;
    let mut sink = |row| writer.row(row);
    let read = match form {
        Form::Parquet => parquet::read(from, &columns, &mut sink),
        Form::Npy => npy::read(from, &mut sink),
        Form::Json | Form::MadeUp => json::read(from, &columns, &mut sink),
    };
    read.map_err(DatasetError::Read)?;
    let (samples, references, input_tokens, _) = writer.end(&columns)?;
    let all = [Some(benchmark.dataset_samples), benchmark.accuracy_samples];
    if !all.contains(&Some(samples)) {
        let numbers: Vec<String> = all.iter().flatten().map(ToString::to_string).collect();
        return Err(DatasetError::Count {
            path: from.to_owned(),
            found: samples,
            expected: numbers.join(" (of accuracy runs: ") + if numbers.len() > 1 { ")" } else { "" },
            round: wanted.round.name.clone(),
            benchmark: wanted.benchmark.to_owned(),
        });
    }
    let told = wanted.told(false, samples, digest(from, form)?);
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
    wanted.write(DatasetFile {
        told,
        round: wanted.round.name.clone(),
        form,
        from: name,
        input_tokens,
        references,
        made: None,
    })
}

/// Makes one up. `samples`: so many in place of the round's.
pub fn make(wanted: &Wanted<'_>, seed: u64, samples: Option<u64>) -> Result<DatasetFile, DatasetError> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let shape = Shape::of(recipe);
    let columns = Columns::of(recipe);
    let mut writer = Writer::new(wanted.out, &columns)?;
    for index in 0..samples.unwrap_or(benchmark.dataset_samples) {
        writer.row(shape.row(recipe, seed, index));
    }
    let (samples, references, input_tokens, sha256) = writer.end(&columns)?;
    wanted.write(DatasetFile {
        told: wanted.told(true, samples, sha256),
        round: wanted.round.name.clone(),
        form: Form::MadeUp,
        from: None,
        input_tokens,
        references,
        made: Some(Made { seed, input_tokens: shape.input, reference_words: shape.words }),
    })
}

impl Wanted<'_> {
    fn benchmark(&self) -> Result<(&Benchmark, Recipe), DatasetError> {
        let found = self.round.benchmarks.get(self.benchmark).zip(Recipe::of(self.benchmark));
        found.ok_or_else(|| DatasetError::Unknown {
            round: self.round.name.clone(),
            benchmark: self.benchmark.to_owned(),
            known: self.round.benchmarks.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    fn told(&self, synthetic: bool, samples: u64, sha256: String) -> DatasetTold {
        DatasetTold { benchmark: self.benchmark.to_owned(), synthetic, samples, sha256 }
    }

    fn write(&self, file: DatasetFile) -> Result<DatasetFile, DatasetError> {
        let path = self.out.join(DATASET_FILE);
        let text = serde_json::to_string_pretty(&file).expect("it has only text keys");
        std::fs::write(&path, text + "\n").map_err(|source| DatasetError::Write { path, source })?;
        Ok(file)
    }
}

/// By what it is, not by what it is called.
fn form(from: &Path, columns: &Columns) -> Result<Form, DatasetError> {
    let said = |error: std::io::Error| DatasetError::Read(format!("{}: {error}", from.display()));
    if from.is_dir() {
        return Ok(Form::Npy);
    }
    let mut head = [0; 4];
    let length = std::io::Read::read(&mut File::open(from).map_err(said)?, &mut head).map_err(said)?;
    match &head[..length] {
        b"PAR1" => Ok(Form::Parquet),
        // A pickle of protocol 2 and later, or something compressed: what is published so is a pickle.
        [0x80, 2..=5, ..] | [0x1f, 0x8b, ..] => {
            let texts: Vec<String> = columns.texts().iter().map(|name| format!("'{name}'")).collect();
            let tokens: Vec<String> = columns.tokens.iter().map(|name| format!("'{name}'")).collect();
            let path = from.display();
            let command = format!(
                "python3 -c \"import pandas; d = pandas.read_pickle('{path}'); t = d.filter([{texts}]).astype(str); \
                 d.filter([{tokens}]).join(t).to_parquet('{path}.parquet', compression='snappy')\"",
                texts = texts.join(", "),
                tokens = tokens.join(", "),
            );
            Err(DatasetError::Pickle { path: from.to_owned(), command })
        }
        _ => Ok(Form::Json),
    }
}

/// Of a folder: of its files' digests, as `sha256sum` prints them.
fn digest(from: &Path, form: Form) -> Result<String, DatasetError> {
    let of =
        |path: &Path| sha256::of_file(path).map_err(|error| DatasetError::Read(format!("{}: {error}", path.display())));
    if form != Form::Npy {
        return of(from);
    }
    let mut both = Sha256Of::default();
    for name in npy::FILES {
        both.update(format!("{}  {name}\n", of(&from.join(name))?).as_bytes());
    }
    Ok(both.finish())
}

#[derive(Serialize)]
struct Sample<'a> {
    input_ids: &'a [u32],
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Writes [`SAMPLES_FILE`], a row at a time.
struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    digest: Sha256Of,
    /// Parts are compared in different ways.
    needs_task: bool,
    samples: u64,
    references: u64,
    /// Least, sum and most.
    tokens: (u64, u64, u64),
    mistakes: Vec<String>,
    more_mistakes: u64,
    line: Vec<u8>,
    failed: Option<std::io::Error>,
}

impl Writer {
    fn new(out: &Path, columns: &Columns) -> Result<Self, DatasetError> {
        let path = out.join(SAMPLES_FILE);
        let file = File::create(&path).map_err(|source| DatasetError::Write { path: path.clone(), source })?;
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            digest: Sha256Of::default(),
            needs_task: !columns.task.is_empty(),
            samples: 0,
            references: 0,
            tokens: (u64::MAX, 0, 0),
            mistakes: Vec::new(),
            more_mistakes: 0,
            line: Vec::new(),
            failed: None,
        })
    }

    fn row(&mut self, row: Row) {
        let index = self.samples;
        self.samples += 1;
        let ids = match row.ids.as_deref() {
            None => return self.mistake(format!("row {index} has no token ids")),
            Some([]) => return self.mistake(format!("row {index} has an empty list of token ids")),
            Some(ids) => ids,
        };
        if self.needs_task && row.reference.is_some() && row.task.is_none() {
            return self.mistake(format!("row {index} does not say which part of the data set it belongs to"));
        }
        let checked: Result<Vec<u32>, i64> =
            ids.iter().map(|id| i32::try_from(*id).ok().and_then(|id| u32::try_from(id).ok()).ok_or(*id)).collect();
        let ids = match checked {
            Ok(ids) => ids,
            Err(id) => return self.mistake(format!("row {index}: {id} is no token id")),
        };
        let length = ids.len() as u64;
        self.tokens = (self.tokens.0.min(length), self.tokens.1 + length, self.tokens.2.max(length));
        self.references += u64::from(row.reference.is_some());
        let sample = Sample {
            input_ids: &ids,
            reference: row.reference.as_deref(),
            task: row.task.as_deref(),
            id: row.id.as_deref(),
        };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &sample).expect("it has only text keys");
        self.line.push(b'\n');
        self.digest.update(&self.line);
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.line).err();
        }
    }

    fn mistake(&mut self, what: String) {
        if self.mistakes.len() < MOST_MISTAKES {
            self.mistakes.push(what);
        } else {
            self.more_mistakes += 1;
        }
    }

    /// Samples, those with a reference, tokens of the inputs, and the digest of what was written.
    fn end(mut self, columns: &Columns) -> Result<(u64, u64, Spread, String), DatasetError> {
        let written = self.failed.take().map_or_else(|| self.file.flush(), Err);
        written.map_err(|source| DatasetError::Write { path: self.path.clone(), source })?;
        if self.more_mistakes > 0 {
            self.mistakes.push(format!("… and {} more", self.more_mistakes));
        }
        if self.mistakes.iter().any(|mistake| mistake.ends_with("has no token ids")) {
            self.mistakes.push(format!("token ids are looked for in the columns {}", columns.tokens.join(", ")));
        }
        if self.mistakes.iter().any(|mistake| mistake.ends_with("it belongs to")) {
            self.mistakes.push(format!("parts are looked for in the columns {}", columns.task.join(", ")));
        }
        if !self.mistakes.is_empty() {
            return Err(DatasetError::Rows { told: self.mistakes });
        }
        let (min, sum, max) = self.tokens;
        let mean = sum as f64 / self.samples.max(1) as f64;
        let spread = Spread { min: min.min(max), mean, max };
        Ok((self.samples, self.references, spread, self.digest.finish()))
    }
}
