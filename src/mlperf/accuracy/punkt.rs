//! The trained model of [`super::sentences`]: NLTK's `punkt_tab/english`, four small tables, read from where the user has
//! them. They are not shipped here: they are NLTK's data.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::characters::is_end;
use super::punkt_token::{PunktToken, words};
use base::files::read_text;

/// The files of a model, in the order in which they are digested.
pub const FILES: [&str; 4] = ["abbrev_types.txt", "collocations.tab", "sent_starters.txt", "ortho_context.tab"];

/// How words were seen in training.
mod seen {
    pub const BEGINNING_UPPER: u16 = 1 << 1;
    pub const INSIDE_UPPER: u16 = 1 << 2;
    pub const UNKNOWN_UPPER: u16 = 1 << 3;
    pub const BEGINNING_LOWER: u16 = 1 << 4;
    pub const INSIDE_LOWER: u16 = 1 << 5;
    pub const UNKNOWN_LOWER: u16 = 1 << 6;
    pub const UPPER: u16 = BEGINNING_UPPER | INSIDE_UPPER | UNKNOWN_UPPER;
    pub const LOWER: u16 = BEGINNING_LOWER | INSIDE_LOWER | UNKNOWN_LOWER;
}

/// The abbreviations and first words of one language, learned from a text.
#[derive(Debug, Default)]
pub struct PunktModel {
    abbreviations: HashSet<String>,
    /// Pairs around a period that is part of a name: `S.` `Bach`.
    collocations: HashSet<(String, String)>,
    starters: HashSet<String>,
    seen: HashMap<String, u16>,
    /// SHA-256 of the four files, one after the other.
    pub sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {what}", path.display())]
    Line { path: PathBuf, line: usize, what: &'static str },
}

impl PunktModel {
    /// Reads a folder with [`FILES`].
    pub fn load(folder: &Path) -> Result<Self, ModelError> {
        let mut digest = base::files::Sha256Of::default();
        let mut read = |name: &str| -> Result<(PathBuf, String), ModelError> {
            let path = folder.join(name);
            let text = read_text(&path).map_err(|source| ModelError::Read { path: path.clone(), source })?;
            digest.update(text.as_bytes());
            Ok((path, text))
        };
        let set = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let mut model = Self { abbreviations: set(&read(FILES[0])?.1), ..Self::default() };
        for (path, line, left, right) in rows(&read(FILES[1])?)? {
            let _ = (path, line);
            model.collocations.insert((left.to_owned(), right.to_owned()));
        }
        model.starters = set(&read(FILES[2])?.1);
        for (path, line, word, flags) in rows(&read(FILES[3])?)? {
            let what = "the second column is no number";
            let flags = flags.parse().map_err(|_| ModelError::Line { path: path.to_owned(), line, what })?;
            model.seen.insert(word.to_owned(), flags);
        }
        model.sha256 = digest.finish();
        Ok(model)
    }

    /// Whether a sentence ends before the last word of this piece of text.
    pub(super) fn breaks(&self, context: &str) -> bool {
        let mut words = words(context);
        for word in &mut words {
            self.annotate_alone(word);
        }
        for at in 0..words.len().saturating_sub(1) {
            let (left, right) = words.split_at_mut(at + 1);
            self.annotate_with_next(&mut left[at], &right[0]);
            if left[at].ends {
                return true;
            }
        }
        false
    }

    /// By itself: a mark or a word with a period ends a sentence, unless it is an abbreviation or an ellipsis.
    fn annotate_alone(&self, word: &mut PunktToken) {
        let mut letters = word.text.chars();
        if let (Some(only), None) = (letters.next(), letters.next())
            && is_end(only)
        {
            word.ends = true;
        } else if word.text.len() > 1 && word.text.bytes().all(|byte| byte == b'.') {
            word.is_ellipsis = true;
        } else if let Some(before) = word.text.strip_suffix('.').filter(|before| !before.ends_with('.')) {
            let before = before.to_lowercase();
            let after_hyphen = before.rsplit('-').next().unwrap_or(&before);
            if self.abbreviations.contains(&before) || self.abbreviations.contains(after_hyphen) {
                word.is_abbreviation = true;
            } else {
                word.ends = true;
            }
        }
    }

    /// With the word that follows.
    fn annotate_with_next(&self, word: &mut PunktToken, next: &PunktToken) {
        if !word.text.ends_with('.') {
            return;
        }
        let kind = word.kind_without_period().to_owned();
        let next_kind = next.kind_in_sentence();
        let is_initial = word.is_initial();
        // A set of borrowed pairs cannot be searched with two borrowed words; there are few.
        if self.collocations.contains(&(kind.clone(), next_kind.to_owned())) {
            word.ends = false;
            word.is_abbreviation = true;
            return;
        }
        let starts = self.starts(next);
        if (word.is_abbreviation || word.is_ellipsis)
            && !is_initial
            && (starts == Some(true) || (next.is_upper() && self.starters.contains(next_kind)))
        {
            word.ends = true;
            return;
        }
        let unlikely = starts == Some(false)
            || (starts.is_none() && is_initial && next.is_upper() && self.seen(next_kind) & seen::LOWER == 0);
        if (is_initial || kind == PunktToken::NUMBER) && unlikely {
            word.ends = false;
            word.is_abbreviation = true;
        }
    }

    /// Whether a word begins a sentence, by the case of its first letter. None: undecided.
    fn starts(&self, word: &PunktToken) -> Option<bool> {
        if matches!(word.text.as_str(), ";" | ":" | "," | "." | "!" | "?") {
            return Some(false);
        }
        let how = self.seen(word.kind_in_sentence());
        if word.is_upper() && how & seen::LOWER != 0 && how & seen::INSIDE_UPPER == 0 {
            return Some(true);
        }
        let is_odd = how & seen::UPPER != 0 || how & seen::BEGINNING_LOWER == 0;
        (word.is_lower() && is_odd).then_some(false)
    }

    fn seen(&self, kind: &str) -> u16 {
        self.seen.get(kind).copied().unwrap_or(0)
    }
}

type Row<'a> = (&'a Path, usize, &'a str, &'a str);

/// Lines of two columns.
fn rows((path, text): &(PathBuf, String)) -> Result<Vec<Row<'_>>, ModelError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(at, line)| {
            let what = "two columns with a tab between are expected";
            let (left, right) =
                line.split_once('\t').ok_or_else(|| ModelError::Line { path: path.clone(), line: at + 1, what })?;
            Ok((path.as_path(), at + 1, left, right))
        })
        .collect()
}
