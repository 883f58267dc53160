//! From a data set's own form, or from none, to the files of a stage.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::row::{
    Columns, DATASET_FILE, DatasetFile, DatasetFormat, DatasetRow, LengthSpread, RowSink, SAMPLES_FILE, SyntheticSpec,
};
use super::synthetic::DatasetShape;
use super::{parquet, row};
use crate::DatasetRecord;
use crate::accuracy::{FirstErrors, ScoringMethod};
use base::diag::{ErrorText, in_file};
use base::event::Failure;
use base::files::{Sha256Of, open_regular, sha256_of_file};
use harness::NpyIntegers;
use rules::{Benchmark, Round};

/// Which data set is wanted, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct DatasetRequest<'a> {
    pub round: &'a Round,
    pub benchmark: &'a str,
    /// A folder that exists.
    pub out: &'a Path,
}

/// Reads a processed data set: `.parquet`, `.json`, `.jsonl`, or a folder with `NPY_FILES`.
pub fn read(wanted: &DatasetRequest<'_>, from: &Path) -> Result<DatasetFile, Failure> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let columns = Columns::for_method(recipe);
    let form = form(from, &columns)?;
    let mut writer = SampleWriter::new(wanted.out, &columns)?;
    let mut sink = |row: DatasetRow| writer.row(&row);
    let read = match form {
        DatasetFormat::Parquet => parquet::read(from, &columns, &mut sink),
        DatasetFormat::Npy => read_npy(from, &mut sink),
        DatasetFormat::Json | DatasetFormat::MadeUp => row::read(from, &columns, &mut sink),
    };
    read.map_err(Failure::files)?;
    let (samples, references, input_tokens, _) = writer.end(&columns)?;
    let sizes = sizes(benchmark);
    if !sizes.iter().any(|(size, _)| *size == samples) {
        let (whole, others) = sizes.split_first().expect("a data set has a size");
        let others: Vec<String> = others.iter().map(|(size, of)| format!("{of}: {size}")).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        let (path, benchmark, round, whole) = (from.display(), wanted.benchmark, &wanted.round.name, whole.0);
        let text = format!("{path} has {samples} samples, but {benchmark} of round {round} has {whole}{others}");
        let hint = "the whole data set is needed; for a rehearsal there is `synthetic: { samples: N }`";
        return Err(Failure::refused(text).hint(hint));
    }
    let dataset_record = wanted.dataset_record(false, samples, digest(from, form).map_err(Failure::files)?);
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
    wanted.write(DatasetFile {
        record: dataset_record,
        round: wanted.round.name.clone(),
        form,
        from: name,
        input_tokens,
        references,
        made: None,
    })
}

/// How many samples its data sets have, and of which runs; the whole one first.
fn sizes(benchmark: &Benchmark) -> Vec<(u64, String)> {
    let mut sizes = vec![(benchmark.dataset_samples, "performance".to_owned())];
    sizes.extend(benchmark.accuracy_samples.map(|samples| (samples, "accuracy".to_owned())));
    sizes.extend(benchmark.audits.iter().map(|(test, audit)| (audit.samples, test.as_str().to_uppercase())));
    sizes.dedup_by_key(|(size, _)| *size);
    sizes
}

/// Makes one up. `samples`: this many in place of the round's. `part`: of this part only.
pub fn make(
    wanted: &DatasetRequest<'_>,
    seed: u64,
    samples: Option<u64>,
    part: Option<&str>,
) -> Result<DatasetFile, Failure> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let shape = DatasetShape::for_method(recipe).of_part(part).map_err(|parts| {
        let (benchmark, part, known) = (wanted.benchmark, part.unwrap_or_default(), parts.join(", "));
        Failure::refused(format!("{benchmark} has no part `{part}`; its parts are: {known}"))
    })?;
    let columns = Columns::for_method(recipe);
    let mut writer = SampleWriter::new(wanted.out, &columns)?;
    for index in 0..samples.unwrap_or(benchmark.dataset_samples) {
        writer.row(&shape.row(recipe, seed, index));
    }
    let (samples, references, input_tokens, sha256) = writer.end(&columns)?;
    wanted.write(DatasetFile {
        record: wanted.dataset_record(true, samples, sha256),
        round: wanted.round.name.clone(),
        form: DatasetFormat::MadeUp,
        from: None,
        input_tokens,
        references,
        made: Some(SyntheticSpec { seed, input_tokens: shape.input, reference_words: shape.words }),
    })
}

impl DatasetRequest<'_> {
    fn benchmark(&self) -> Result<(&Benchmark, ScoringMethod), Failure> {
        let benchmark = self.round.benchmarks.get(self.benchmark).zip(ScoringMethod::for_benchmark(self.benchmark));
        benchmark.ok_or_else(|| {
            let reason = self.round.left_out(self.benchmark).map_or_else(String::new, |why| format!(": {why}"));
            let names = self.round.benchmarks.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            Failure::refused(format!(
                "round {} has no benchmark `{}` whose data set Regatta can read{reason}; it can read {names}",
                self.round.name, self.benchmark
            ))
        })
    }

    fn dataset_record(&self, synthetic: bool, samples: u64, sha256: String) -> DatasetRecord {
        DatasetRecord { benchmark: self.benchmark.to_owned(), synthetic, samples, sha256 }
    }

    fn write(&self, file: DatasetFile) -> Result<DatasetFile, Failure> {
        let path = self.out.join(DATASET_FILE);
        let text = serde_json::to_string_pretty(&file).expect("it has only text keys");
        std::fs::write(&path, text + "\n").map_err(in_file(&path)).map_err(Failure::system)?;
        Ok(file)
    }
}

/// By what it is, not by what it is called.
fn form(from: &Path, columns: &Columns) -> Result<DatasetFormat, Failure> {
    let io_error = |error: std::io::Error| Failure::files(in_file(from)(error));
    if from.is_dir() {
        return Ok(DatasetFormat::Npy);
    }
    let mut head = [0; 4];
    let length = std::io::Read::read(&mut open_regular(from).map_err(io_error)?.0, &mut head).map_err(io_error)?;
    match &head[..length] {
        b"PAR1" => Ok(DatasetFormat::Parquet),
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
            let failure = Failure::refused(format!("{path} is a pickle, which runs what is in it when it is read"));
            Err(failure.hint(format!("convert it, and name the result: {command}")))
        }
        _ => Ok(DatasetFormat::Json),
    }
}

/// Of a folder: of its files' digests, as `sha256sum` prints them.
fn digest(from: &Path, form: DatasetFormat) -> Result<String, ErrorText> {
    let file_digest = |path: &Path| sha256_of_file(path).map_err(in_file(path));
    if form != DatasetFormat::Npy {
        return file_digest(from);
    }
    let mut both = Sha256Of::default();
    for name in NPY_FILES {
        both.update(format!("{}  {name}\n", file_digest(&from.join(name))?).as_bytes());
    }
    Ok(both.finish())
}

// Checks rows and writes them, one at a time.

#[base::omit_empty]
#[derive(Serialize)]
struct Sample<'a> {
    input_ids: &'a [u32],
    reference: Option<&'a str>,
    task: Option<&'a str>,
    id: Option<&'a str>,
    output_tokens: Option<u32>,
}

/// Writes [`SAMPLES_FILE`], a row at a time.
pub(super) struct SampleWriter {
    path: PathBuf,
    file: BufWriter<File>,
    digest: Sha256Of,
    /// Parts are compared in different ways.
    needs_task: bool,
    samples: u64,
    references: u64,
    /// Least, sum and most.
    tokens: (u64, u64, u64),
    errors: FirstErrors,
    line: Vec<u8>,
    failed: Option<std::io::Error>,
}

impl SampleWriter {
    pub fn new(out: &Path, columns: &Columns) -> Result<Self, Failure> {
        let path = out.join(SAMPLES_FILE);
        let file = File::create(&path).map_err(in_file(&path)).map_err(Failure::system)?;
        Ok(Self {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            digest: Sha256Of::default(),
            needs_task: !columns.task.is_empty(),
            samples: 0,
            references: 0,
            tokens: (u64::MAX, 0, 0),
            errors: FirstErrors::default(),
            line: Vec::new(),
            failed: None,
        })
    }

    pub fn row(&mut self, row: &DatasetRow) {
        let index = self.samples;
        self.samples += 1;
        let ids = match row.ids.as_deref() {
            None => return self.errors.push(index, format!("row {index} has no token ids")),
            Some([]) => return self.errors.push(index, format!("row {index} has an empty list of token ids")),
            Some(ids) => ids,
        };
        if self.needs_task && row.reference.is_some() && row.task.is_none() {
            let error = format!("row {index} does not say which part of the data set it belongs to");
            return self.errors.push(index, error);
        }
        let checked: Result<Vec<u32>, i64> =
            ids.iter().map(|id| i32::try_from(*id).ok().and_then(|id| u32::try_from(id).ok()).ok_or(*id)).collect();
        let ids = match checked {
            Ok(ids) => ids,
            Err(id) => return self.errors.push(index, format!("row {index}: {id} is not a token id")),
        };
        let length = ids.len() as u64;
        self.tokens = (self.tokens.0.min(length), self.tokens.1 + length, self.tokens.2.max(length));
        self.references += u64::from(row.reference.is_some());
        let sample = Sample {
            input_ids: &ids,
            reference: row.reference.as_deref(),
            task: row.task.as_deref(),
            id: row.id.as_deref(),
            output_tokens: row.output_tokens,
        };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &sample).expect("it has only text keys");
        self.line.push(b'\n');
        self.digest.update(&self.line);
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.line).err();
        }
    }

    /// Samples, those with a reference, tokens of the inputs, and the digest of what was written.
    pub fn end(mut self, columns: &Columns) -> Result<(u64, u64, LengthSpread, String), Failure> {
        let written = self.failed.take().map_or_else(|| self.file.flush(), Err);
        written.map_err(in_file(&self.path)).map_err(Failure::system)?;
        let mut errors = self.errors.lines();
        if errors.iter().any(|error| error.ends_with("has no token ids")) {
            errors.push(format!("token ids are looked for in the columns {}", columns.tokens.join(", ")));
        }
        if errors.iter().any(|error| error.ends_with("it belongs to")) {
            errors.push(format!("parts are read from the columns {}", columns.task.join(", ")));
        }
        if !errors.is_empty() {
            return Err(Failure::refused(errors.join("\n")));
        }
        let (min, sum, max) = self.tokens;
        let mean = sum as f64 / self.samples.max(1) as f64;
        let spread = LengthSpread { min: min.min(max), mean, max };
        Ok((self.samples, self.references, spread, self.digest.finish()))
    }
}

// NVIDIA's processed form: a folder with `input_ids_padded.npy` and `input_lens.npy`. It has no references.

/// Rows of padded ids, and the length of each.
const NPY_FILES: [&str; 2] = ["input_ids_padded.npy", "input_lens.npy"];

/// Gives each row to `sink`, cut to its length.
fn read_npy(folder: &Path, sink: &mut RowSink<'_>) -> Result<(), ErrorText> {
    let [ids_file, lengths_file] = NPY_FILES.map(|name| folder.join(name));
    let (no_ids, no_lengths) = (in_file(&ids_file), in_file(&lengths_file));
    let mut ids = NpyIntegers::open(&ids_file).map_err(no_ids)?;
    let mut lengths = NpyIntegers::open(&lengths_file).map_err(no_lengths)?;
    let [rows, columns] = ids.shape()[..] else {
        return Err(in_file(&ids_file)(format!("expected a matrix; its shape is {:?}", ids.shape())));
    };
    if lengths.shape().iter().product::<usize>() != rows {
        let (ids, shape, lengths) = (ids_file.display(), lengths.shape(), lengths_file.display());
        let text = format!("{ids} has {rows} rows, and {lengths} lengths of shape {shape:?}");
        return Err(ErrorText::new(text));
    }
    for row in 0..rows {
        let mut tokens = ids.take(columns).map_err(no_ids)?;
        let length = lengths.take(1).map_err(no_lengths)?[0];
        if length < 1 || length > columns as i64 {
            let problem = format!("row {row} has length {length}, and rows have {columns} ids");
            return Err(in_file(&lengths_file)(problem));
        }
        tokens.truncate(length as usize);
        sink(DatasetRow::new(tokens));
    }
    Ok(())
}
