//! Finding the answer in a text, and comparing it: the parts of exact match that need no program to be run.
//!
//! Each follows the reference script that is named with it. `LiveCodeBench` and MBXP run code, MATH-500 asks a computer
//! algebra system: those are not here.

use std::io::BufReader;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::{ScoringMethod, is_space, stripped};
use crate::dataset::synthetic_text;
use base::diag::{ErrorText, in_file};
use base::files::{RecordLines, Sha256Of, open_regular, read_bytes};
use tokenizer::{Tokenizer, TokenizerError};

/// A pattern that is right, because a test uses it.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

/// The number that a text of GSM8K ends up with (`mixtral-8x7b/evaluate-accuracy.py`). None: no number.
pub fn gsm8k(text: &str) -> Option<f64> {
    static NUMBERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"-?[\d,]*\.?\d+"));
    const DELIMITER: &str = "The answer is";
    let text = text.split("\nQ:").next().unwrap_or(text);
    let after = text.rsplit_once(DELIMITER).and_then(|(_, answer)| NUMBERS.find(answer));
    let number_match = after.or_else(|| NUMBERS.find_iter(text).last())?;
    number(&number_match.as_str().replace(',', ""))
}

/// As Python's `float` reads digits.
pub fn number(text: &str) -> Option<f64> {
    stripped(text).parse().ok()
}

/// How much of the identifiers of a needle-in-a-haystack answer is there, 0–100, rounded to two digits (`niah_em` of
/// `llama3.1-405b/evaluate-accuracy.py`; it compares letters of the expected identifier with the found one).
pub fn needle_score(label: &str, text: &str) -> f64 {
    static IDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}"));
    let answer_ids: Vec<&str> = IDS.find_iter(text).map(|id| id.as_str()).collect();
    if answer_ids.is_empty() {
        return 0.0;
    }
    let share = |(id, expected): (&&str, regex::Match<'_>)| {
        let (id, expected) = (id.to_lowercase(), expected.as_str());
        let there = expected.chars().filter(|c| id.contains(&c.to_lowercase().to_string())).count();
        there as f64 / expected.chars().count() as f64
    };
    let sum: f64 = answer_ids.iter().zip(IDS.find_iter(label)).map(share).sum();
    super::python_round(sum / answer_ids.len() as f64 * 100.0, 2)
}

/// Whether one of the expected answers, which `|` separates, is in the text (`qa_em` of the same script).
pub fn contains_answer(label: &str, text: &str) -> bool {
    const MARK: &str = "Answer: ";
    let answer = text.rfind(MARK).map_or(text, |at| &text[at + MARK.len()..]);
    let bare = |text: &str| text.chars().filter(|c| !is_space(*c)).collect::<String>().to_lowercase();
    let normal = bare(answer);
    label.contains(answer) || label.split('|').any(|entry| normal.contains(&bare(entry)))
}

/// Which reference script reads the answers: they look in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// `deepseek-r1/eval_accuracy.py`
    DeepSeek,
    /// `gpt-oss-120b/eval_accuracy.py`: the final channel first.
    GptOss,
}

/// How many letters there are to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choices {
    /// `A` to `D`.
    Four,
    /// `A` to `J`. Any letter that stands alone will do, then.
    Ten,
}

/// The patterns for one number of letters.
struct Patterns {
    /// A text that begins with the letter.
    lead: Regex,
    /// "Answer: X".
    answer: Regex,
    /// "ANSWER: (X)", "FINAL ANSWER = X".
    final_answer: Regex,
    alone: Option<Regex>,
}

impl Patterns {
    fn for_choices(choices: Choices) -> &'static Self {
        static FOUR: LazyLock<Patterns> = LazyLock::new(|| Patterns::new('D'));
        static TEN: LazyLock<Patterns> = LazyLock::new(|| Patterns::new('J'));
        match choices {
            Choices::Four => &FOUR,
            Choices::Ten => &TEN,
        }
    }

    fn new(last: char) -> Self {
        let last_answer = r"(?i)\b(?:ANSWER|FINAL\s*ANSWER)\b\s*[:=]?\s*(?:\(?\s*([A-LAST])\s*\)?)(?:\s*$|[^A-Za-z])";
        Self {
            lead: pattern(&format!("(?i)^[^a-zA-Z]*([A-{last}])(?:[^a-zA-Z]|$)")),
            answer: pattern(&format!(r"(?i)\b(?:Answer|ANSWER)\s*[:.]?\s*([A-{last}])\b")),
            final_answer: pattern(&last_answer.replace("LAST", &last.to_string())),
            alone: (last == 'J').then(|| pattern(r"(?i)\b([A-J])\b")),
        }
    }

    fn last_match<'t>(&self, text: &'t str) -> Option<regex::Captures<'t>> {
        self.final_answer.captures_iter(text).last()
    }

    fn last_alone<'t>(&self, text: &'t str) -> Option<regex::Captures<'t>> {
        self.alone.as_ref().and_then(|alone| alone.captures_iter(text).last())
    }
}

/// The chosen letter, upper case.
pub fn choice(text: &str, choices: Choices, reader: Reader) -> Option<char> {
    let patterns = Patterns::for_choices(choices);
    let letter = |found: regex::Captures<'_>| found[1].chars().next().map(|letter| letter.to_ascii_uppercase());
    let text = stripped(text);
    if reader == Reader::DeepSeek {
        let text = artifacts(text);
        return patterns.last_match(&text).or_else(|| patterns.last_alone(&text)).and_then(letter);
    }
    let section = artifacts(&without_bold(final_section(text)));
    let lead = patterns.lead.captures(stripped(&section)).or_else(|| patterns.answer.captures(&section));
    lead.and_then(letter)
        .or_else(|| patterns.last_match(&unescaped(text)).and_then(letter))
        .or_else(|| patterns.last_alone(&section).and_then(letter))
}

/// A text that was the only element of a Python list, and its escapes.
fn artifacts(text: &str) -> String {
    let opened = text.strip_prefix("['").or_else(|| text.strip_prefix("[\""));
    let bare = opened.and_then(|text| text.strip_suffix("']").or_else(|| text.strip_suffix("\"]")));
    unescaped(stripped(bare.unwrap_or(text)))
}

fn unescaped(text: &str) -> String {
    text.replace(r"\n", "\n").replace(r"\'", "'")
}

/// What follows the marker of the final channel.
fn final_section(text: &str) -> &str {
    static FINAL: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?s)<\|channel\|>final[^<]*<\|message\|>(.*?)(?:<\|return\|>|$)"));
    FINAL.captures(text).and_then(|found| found.get(1)).map_or(text, |section| stripped(section.as_str()))
}

fn without_bold(text: &str) -> String {
    static BOLD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\*\*([^*]+)\*\*"));
    BOLD.replace_all(text, "$1").into_owned()
}

/// The last `\boxed{n}`, else the last "Answer: n", from 0 to 999.
pub fn aime(text: &str) -> Option<u32> {
    static BOXED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\boxed\{\s*(\d+)\s*\}"));
    static SAID: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)Answer:\s*(\d+)"));
    let text = stripped(text);
    let ends_well = |end: usize| !text[end..].starts_with(|c: char| c == '.' || c.is_alphanumeric() || c == '_');
    let digits = BOXED.captures_iter(text).last().or_else(|| {
        SAID.captures_iter(text).filter(|found| found.get(1).is_some_and(|digits| ends_well(digits.end()))).last()
    })?;
    digits[1].parse().ok().filter(|answer| *answer <= 999)
}

// From token ids to text.

/// Spells token ids.
pub struct TokenDecoder {
    /// None: the stand-in, one synthetic word for each id.
    tokenizer: Option<Tokenizer>,
    /// Removes spaces before punctuation again, as the model's `tokenizer_config.json` requires.
    cleans: bool,
    skips_special: bool,
    /// As the reference's slow tokenizer spells them.
    is_slow: bool,
    /// Of `tokenizer.json`.
    pub sha256: Option<String>,
}

impl TokenDecoder {
    /// For synthetic data without a tokenizer: `words::word`.
    pub fn synthetic() -> Self {
        Self { tokenizer: None, cleans: false, skips_special: true, is_slow: false, sha256: None }
    }

    /// Reads `tokenizer.json` and, if it exists, `tokenizer_config.json` in the same folder.
    pub fn load(file: &Path, method: ScoringMethod) -> Result<Self, ErrorText> {
        let file = if file.is_dir() { file.join("tokenizer.json") } else { file.to_owned() };
        let bytes = read_bytes(&file).map_err(in_file(&file))?;
        let tokenizer = Tokenizer::from_bytes(&bytes).map_err(in_file(&file))?;
        let config = file.with_file_name("tokenizer_config.json");
        let cleans = match read_bytes(&config) {
            Err(_) => false,
            Ok(text) => {
                let config: serde_json::Value = serde_json::from_slice(&text).map_err(in_file(&config))?;
                config["clean_up_tokenization_spaces"].as_bool().unwrap_or(false)
            }
        };
        let mut digest = Sha256Of::default();
        digest.update(&bytes);
        let (skips_special, is_slow) = (method.skips_special(), method.has_slow_tokenizer());
        Ok(Self { tokenizer: Some(tokenizer), cleans, skips_special, is_slow, sha256: Some(digest.finish()) })
    }

    /// How many ids the tokenizer has no token for: they spell nothing, as in the reference's scoring.
    pub fn unknown(&self, ids: &[u32]) -> u64 {
        let Some(tokenizer) = &self.tokenizer else { return 0 };
        ids.iter().filter(|id| !tokenizer.has_token(**id)).count() as u64
    }

    pub fn spell(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let Some(tokenizer) = &self.tokenizer else { return Ok(synthetic_text(ids)) };
        let decode = if self.is_slow { Tokenizer::decode_slowly } else { Tokenizer::decode };
        let text = decode(tokenizer, ids, self.skips_special)?;
        Ok(if self.cleans { cleaned(&text) } else { text })
    }
}

/// What `transformers` does for `clean_up_tokenization_spaces`, in its order.
fn cleaned(text: &str) -> String {
    let rules = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    rules
        .into_iter()
        .fold(text.to_owned(), |text, (from, to)| if text.contains(from) { text.replace(from, to) } else { text })
}

// What was expected: the references of a data set, in the order of its samples.

/// One sample's reference.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReferenceAnswer {
    /// None: the form that the data set came in has none.
    pub reference: Option<String>,
    /// The part of the data set: `GSM8K`, `niah_em`, `gpqa`.
    #[serde(default)]
    pub task: String,
}

/// Reads `dataset.jsonl`; its token ids are passed over. Err: with the line.
pub(super) fn read(file: &Path) -> Result<Vec<ReferenceAnswer>, ErrorText> {
    let unreadable = in_file(file);
    let (opened, _) = open_regular(file).map_err(unreadable)?;
    let (mut lines, mut answers) = (RecordLines::new(BufReader::with_capacity(1 << 20, opened)), Vec::new());
    while let Some((line, text)) = lines.next_line().map_err(unreadable)? {
        let invalid = |error| ErrorText::new(format_args!("{}:{line}: {error}", file.display()));
        answers.push(serde_json::from_slice(text).map_err(invalid)?);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::{Choices, Reader, aime, choice, cleaned, contains_answer, gsm8k, needle_score};

    #[test]
    fn the_number_of_gsm8k_is_the_one_after_the_phrase_else_the_last() {
        assert_eq!(gsm8k("3 + 4 = 7. The answer is $1,234.50 or 9"), Some(1234.5));
        assert_eq!(gsm8k("so 3 and then -4\nQ: next 5"), Some(-4.0));
        assert_eq!(gsm8k("The answer is unknown, 12"), Some(12.0));
        assert_eq!(gsm8k("none"), None);
    }

    #[test]
    fn letters_are_found_where_each_script_looks() {
        let text = "ANSWER: (b)\nFINAL ANSWER = C.";
        assert_eq!(choice(text, Choices::Four, Reader::DeepSeek), Some('C'));
        assert_eq!(choice("It is E", Choices::Four, Reader::DeepSeek), None);
        assert_eq!(choice("It is E", Choices::Ten, Reader::DeepSeek), Some('E'));
        let channels = "<|channel|>analysis<|message|>Answer: A<|end|><|channel|>final 1<|message|>**D**<|return|>";
        assert_eq!(choice(channels, Choices::Four, Reader::GptOss), Some('D'));
        assert_eq!(choice("The answer: b", Choices::Four, Reader::GptOss), Some('B'));
    }

    #[test]
    fn integers_of_aime() {
        assert_eq!(aime(r"\boxed{12} then \boxed{ 034 }"), Some(34));
        assert_eq!(aime("Answer: 7\nanswer: 8"), Some(8));
        assert_eq!((aime("Answer: 7.5"), aime("Answer: 7th"), aime("Answer: 1000")), (None, None, None));
    }

    #[test]
    fn long_context_answers() {
        let id = "8e4f4b6c-1d2a-4b3c-9d8e-7f6a5b4c3d2e";
        assert!((needle_score(id, &format!("it is {id}.")) - 100.0).abs() < 1e-9);
        assert!(needle_score(id, "none").abs() < 1e-9);
        assert!(contains_answer("Paris|the city of Paris", "Thinking. Answer: PARIS, France"));
        assert!(!contains_answer("Paris", "Answer: London"));
        assert!(contains_answer("anything", "Answer: "));
    }

    #[test]
    fn spaces_before_punctuation_go() {
        assert_eq!(cleaned("I 'm here , am n't I ? It ' s"), "I'm here, amn't I? It's");
    }
}
