//! From a data set's own form, or from none, to the files of a stage.

use std::fs::File;
use std::path::Path;

use super::columns::Columns;
use super::description::{DATASET_FILE, DatasetFile, DatasetFormat, SyntheticSpec};
use super::error::{DatasetError, SampleFileError};
use super::row::DatasetRow;
use super::synthetic::DatasetShape;
use super::writer::SampleWriter;
use super::{json, npy, parquet};
use crate::DatasetRecord;
use crate::accuracy::ScoringMethod;
use base::files::{Sha256Of, sha256_of_file};
use rules::{Benchmark, Round};

/// Which data set is wanted, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct DatasetRequest<'a> {
    pub round: &'a Round,
    pub benchmark: &'a str,
    /// A folder that exists.
    pub out: &'a Path,
}

/// Reads a processed data set: `.parquet`, `.json`, `.jsonl`, or a folder with `npy::FILES`.
pub fn read(wanted: &DatasetRequest<'_>, from: &Path) -> Result<DatasetFile, DatasetError> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let columns = Columns::of(recipe);
    let form = form(from, &columns)?;
    let mut writer = SampleWriter::new(wanted.out, &columns)?;
    let mut sink = |row: DatasetRow| writer.row(&row);
    let read = match form {
        DatasetFormat::Parquet => parquet::read(from, &columns, &mut sink),
        DatasetFormat::Npy => npy::read(from, &mut sink),
        DatasetFormat::Json | DatasetFormat::MadeUp => json::read(from, &columns, &mut sink),
    };
    read?;
    let (samples, references, input_tokens, _) = writer.end(&columns)?;
    let sizes = sizes(benchmark);
    if !sizes.iter().any(|(size, _)| *size == samples) {
        let (whole, others) = sizes.split_first().expect("a data set has a size");
        let others: Vec<String> = others.iter().map(|(size, of)| format!("{of}: {size}")).collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
        return Err(DatasetError::Count {
            path: from.to_owned(),
            found: samples,
            expected: format!("{}{others}", whole.0),
            round: wanted.round.name.clone(),
            benchmark: wanted.benchmark.to_owned(),
        });
    }
    let dataset_record = wanted.dataset_record(false, samples, digest(from, form)?);
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
) -> Result<DatasetFile, DatasetError> {
    let (benchmark, recipe) = wanted.benchmark()?;
    let shape = DatasetShape::of(recipe).of_part(part).map_err(|parts| DatasetError::Part {
        benchmark: wanted.benchmark.to_owned(),
        part: part.unwrap_or_default().to_owned(),
        known: parts.join(", "),
    })?;
    let columns = Columns::of(recipe);
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
    fn benchmark(&self) -> Result<(&Benchmark, ScoringMethod), DatasetError> {
        let found = self.round.benchmarks.get(self.benchmark).zip(ScoringMethod::of(self.benchmark));
        found.ok_or_else(|| DatasetError::Unknown {
            round: self.round.name.clone(),
            benchmark: self.benchmark.to_owned(),
            why: self.round.left_out(self.benchmark).map_or_else(String::new, |why| format!(": {why}")),
            known: self.round.benchmarks.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }

    fn dataset_record(&self, synthetic: bool, samples: u64, sha256: String) -> DatasetRecord {
        DatasetRecord { benchmark: self.benchmark.to_owned(), synthetic, samples, sha256 }
    }

    fn write(&self, file: DatasetFile) -> Result<DatasetFile, DatasetError> {
        let path = self.out.join(DATASET_FILE);
        let text = serde_json::to_string_pretty(&file).expect("it has only text keys");
        std::fs::write(&path, text + "\n").map_err(|source| DatasetError::Write { path, source })?;
        Ok(file)
    }
}

/// By what it is, not by what it is called.
fn form(from: &Path, columns: &Columns) -> Result<DatasetFormat, DatasetError> {
    let io_error = |source| SampleFileError::Io { path: from.to_owned(), source };
    if from.is_dir() {
        return Ok(DatasetFormat::Npy);
    }
    let mut head = [0; 4];
    let length = std::io::Read::read(&mut File::open(from).map_err(io_error)?, &mut head).map_err(io_error)?;
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
            Err(DatasetError::Pickle { path: from.to_owned(), command })
        }
        _ => Ok(DatasetFormat::Json),
    }
}

/// Of a folder: of its files' digests, as `sha256sum` prints them.
fn digest(from: &Path, form: DatasetFormat) -> Result<String, DatasetError> {
    let of = |path: &Path| {
        let unreadable = |source| SampleFileError::Io { path: path.to_owned(), source };
        sha256_of_file(path).map_err(|error| DatasetError::from(unreadable(error)))
    };
    if form != DatasetFormat::Npy {
        return of(from);
    }
    let mut both = Sha256Of::default();
    for name in npy::FILES {
        both.update(format!("{}  {name}\n", of(&from.join(name))?).as_bytes());
    }
    Ok(both.finish())
}
