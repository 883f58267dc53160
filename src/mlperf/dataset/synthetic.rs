//! A stand-in for a data set that cannot be had: its number of samples, its parts, and lengths like its.
//!
//! Lengths are log-normal around a mean and cut at the limits of the real set. Means and limits are published ones
//! where they exist; each names its source. No width of the distribution is published; ours is a choice.
//! References are synthetic words (one for each token id), so that scoring has something to score.

use std::borrow::Cow;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::row::DatasetRow;
use crate::accuracy::ScoringMethod;

/// Lengths of made-up samples: a log-normal distribution, cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthDistribution {
    pub mean: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    pub min: u32,
    pub max: u32,
    /// Where mean and limits are from.
    pub source: Cow<'static, str>,
}

const SIGMA: f64 = 0.7;

/// Lengths of inputs and of answers, tokens, where a benchmark's data set is not looked at. `None`: the benchmark is
/// unknown, or its stand-in has shorter answers than a model gives.
pub fn assumed_lengths(benchmark: &str) -> Option<(LengthDistribution, LengthDistribution)> {
    let shape = DatasetShape::for_method(ScoringMethod::for_benchmark(benchmark)?);
    shape.answers.is_none().then_some((shape.input, shape.words))
}

impl LengthDistribution {
    const fn new(mean: f64, sigma: f64, min: u32, max: u32, source: &'static str) -> Self {
        Self { mean, sigma, min, max, source: Cow::Borrowed(source) }
    }

    /// `libm`, so that all machines make the same bytes.
    fn draw(&self, rng: &mut Pcg64) -> u32 {
        let (u, v): (f64, f64) = (rng.random(), rng.random());
        let normal = libm::sqrt(-2.0 * libm::log(1.0 - u)) * libm::cos(std::f64::consts::TAU * v);
        let length = libm::exp(libm::log(self.mean) - self.sigma * self.sigma / 2.0 + self.sigma * normal);
        (libm::round(length) as u32).clamp(self.min, self.max)
    }
}

/// Lengths of a benchmark's inputs and of its references' words, and its token ids.
pub(super) struct DatasetShape {
    pub input: LengthDistribution,
    pub words: LengthDistribution,
    /// Of answers, where they are not as long as the references.
    answers: Option<LengthDistribution>,
    /// Ordinary ids, from and before.
    ids: (u32, u32),
    /// Parts, equally often, one after the other.
    tasks: &'static [&'static str],
}

impl DatasetShape {
    pub fn for_method(recipe: ScoringMethod) -> Self {
        let lengths = LengthDistribution::new;
        let few = || lengths(1.0, 0.0, 1, 1, "a short answer");
        // Means that are not published are a choice, and marked as one.
        let (input, words, ids, tasks): (_, _, _, &[&str]) = match recipe {
            ScoringMethod::OpenOrca => (
                lengths(220.0, SIGMA, 16, 1023, "limit: processorca.py, --seqlen_limit 1024; mean: a choice"),
                lengths(294.45, SIGMA, 3, 1023, "tokens per sample, submission rules; at least 3: processorca.py"),
                (259, 32_000),
                &[],
            ),
            ScoringMethod::CnnDailyMail => (
                lengths(870.0, 0.4, 64, 2540, "a choice: CNN/DailyMail articles with their prompt"),
                lengths(128.0, 0.0, 128, 128, "the most tokens of output; every published answer has as many"),
                (0, 128_000),
                &[],
            ),
            ScoringMethod::Mixed => (
                lengths(180.0, SIGMA, 16, 1023, "limit: dataset.py, max_length 1024; mean: a choice"),
                lengths(145.4, SIGMA, 3, 1023, "tokens per sample of the reference model, submission rules"),
                (259, 32_000),
                &["OpenOrca", "GSM8K", "MBXP"],
            ),
            ScoringMethod::LongContext => (
                lengths(9_400.0, 0.6, 256, 20_000, "a choice; limit: 22,000 of the model less 2,000 of output"),
                lengths(684.68, SIGMA, 8, 2_000, "tokens per sample of the reference model, README of llama3.1-405b"),
                (0, 128_000),
                &["rouge", "niah_em", "qa_em"],
            ),
            ScoringMethod::DeepSeek => (
                lengths(200.0, 0.6, 32, 3_140, "a choice: questions with their choices"),
                few(),
                (0, 128_000),
                &["gpqa", "mmlu_pro", "math500", "aime", "livecodebench"],
            ),
            ScoringMethod::GptOss => (
                lengths(1_000.0, SIGMA, 64, 8_192, "a choice: texts to summarize"),
                few(),
                (0, 199_998),
                &["aime25", "gpqa_diamond", "livecodebench_v6"],
            ),
        };
        // A letter or a number is the end of a long text.
        let answers = matches!(recipe, ScoringMethod::DeepSeek | ScoringMethod::GptOss)
            .then(|| lengths(24.0, 0.4, 8, 64, "a choice: short, so that a rehearsal is"));
        Self { input, words, answers, ids, tasks }
    }

    /// With one part only. `Err`: the names of all parts, if it is not one of them.
    pub fn of_part(mut self, part: Option<&str>) -> Result<Self, &'static [&'static str]> {
        if let Some(part) = part {
            let at = self.tasks.iter().position(|task| *task == part).ok_or(self.tasks)?;
            self.tasks = &self.tasks[at..=at];
        }
        Ok(self)
    }

    /// Sample number `index`. Each has a generator of its own: fewer samples are the first of more.
    pub fn row(&self, recipe: ScoringMethod, seed: u64, index: u64) -> DatasetRow {
        let mut rng = Pcg64::seed_from_u64(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        let length = self.input.draw(&mut rng);
        let ids = (0..length).map(|_| i64::from(rng.random_range(self.ids.0..self.ids.1))).collect();
        let task = (!self.tasks.is_empty()).then(|| self.tasks[index as usize % self.tasks.len()]);
        let mut row = DatasetRow::new(ids);
        row.reference = Some(self.reference(recipe, task.unwrap_or(""), &mut rng));
        row.task = task.map(str::to_owned);
        row.id = Some(format!("made-up.{index}"));
        row.output_tokens = self.answers.as_ref().map(|answers| answers.draw(&mut rng));
        row
    }

    fn reference(&self, recipe: ScoringMethod, task: &str, rng: &mut Pcg64) -> String {
        match (recipe, task) {
            (ScoringMethod::Mixed, "GSM8K") => rng.random_range(0..2_000).to_string(),
            (ScoringMethod::LongContext, "niah_em") => {
                let mut hex = |digits: usize| -> String {
                    (0..digits).map(|_| char::from(b"0123456789abcdef"[rng.random_range(0..16)])).collect()
                };
                [8, 4, 4, 4, 12].map(&mut hex).join("-")
            }
            (ScoringMethod::LongContext, "qa_em") => synthetic_word(rng.random_range(self.ids.0..self.ids.1)),
            (ScoringMethod::DeepSeek | ScoringMethod::GptOss, task) if task.starts_with("aime") => {
                rng.random_range(0..1_000).to_string()
            }
            (ScoringMethod::DeepSeek | ScoringMethod::GptOss, task) if task.starts_with("gpqa") => {
                ["A", "B", "C", "D"][rng.random_range(0..4)].to_owned()
            }
            (ScoringMethod::DeepSeek, "mmlu_pro") => char::from(b"ABCDEFGHIJ"[rng.random_range(0..10)]).to_string(),
            _ => self.prose(rng),
        }
    }

    /// Sentences of about twelve words. Small ids come often, as frequent words do.
    fn prose(&self, rng: &mut Pcg64) -> String {
        let mut text = String::new();
        let length = self.words.draw(rng);
        for at in 0..length {
            let uniform: f64 = rng.random();
            let rare = libm::exp(uniform * libm::log(f64::from(self.ids.1 - self.ids.0))) - 1.0;
            let word = synthetic_word(self.ids.0 + rare as u32);
            let begins = text.is_empty() || text.ends_with(". ");
            let (first, rest) = word.split_at(1);
            text.push_str(&if begins { first.to_uppercase() } else { first.to_owned() });
            text.push_str(rest);
            let ends = at + 1 == length || rng.random_range(0..12) == 0;
            text.push_str(if ends { ". " } else { " " });
        }
        text.trim_end().to_owned()
    }
}

// Words without a real tokenizer: one for each token id.

const CONSONANTS: [char; 16] = ['b', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'z'];
const VOWELS: [char; 4] = ['a', 'i', 'o', 'u'];

/// Syllables of a consonant and a vowel, at least two: another word for every id.
fn synthetic_word(id: u32) -> String {
    let mut rest = id;
    let mut word = String::new();
    while rest > 0 || word.len() < 4 {
        word.push(CONSONANTS[(rest % 16) as usize]);
        word.push(VOWELS[(rest / 16 % 4) as usize]);
        rest /= 64;
    }
    word
}

/// The words of token ids, with spaces between.
pub fn synthetic_text(ids: &[u32]) -> String {
    let words: Vec<String> = ids.iter().map(|id| synthetic_word(*id)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_id_has_its_own_word() {
        let words: std::collections::BTreeSet<String> = (0..200_000).map(super::synthetic_word).collect();
        assert_eq!(words.len(), 200_000);
    }
}
