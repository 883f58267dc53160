//! Fills a tree of templates (TensorRT-LLM's `all_models/inflight_batcher_llm`) into a new folder.
//!
//! The texts come out as `fill_template.py` makes them: the same substitution, and `max_queue_size` and
//! `max_queue_delay_microseconds` 0 unless they are given. Unlike there, a key that is in no template, and a
//! placeholder that stays, are errors; the tree itself is not changed, so it can be filled again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::LARGEST_CONFIG;
use crate::pbtxt::{PbtxtDocument, PbtxtPlace, place_in};
use base::diag::{Diagnostic, Diagnostics, SourceText, did_you_mean};
use base::files::{read_bytes_up_to, text_of};
use base::units::size;

/// What `fill_template.py` fills by default.
const PRESETS: [(&str, &str); 2] = [("max_queue_size", "0"), ("max_queue_delay_microseconds", "0")];

/// The values of a fill.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// For every model that has the placeholder.
    pub all: BTreeMap<String, String>,
    /// For one model; they take precedence.
    pub of: BTreeMap<String, BTreeMap<String, String>>,
    /// Placeholders inside quotes may stay: a backend handles some of them.
    pub allow_unfilled: bool,
}

/// One model's config after the fill.
#[derive(Clone, Debug)]
pub struct FilledModel {
    /// The folder's name.
    pub model: String,
    /// Where it was written.
    pub path: PathBuf,
    /// Names that were replaced, and with what.
    pub replaced: BTreeMap<String, String>,
    /// Names that stayed.
    pub unfilled: BTreeSet<String>,
}

/// Why a tree cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("{0}")]
    Diagnostics(Diagnostics),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}", .0)]
    Refused(String),
}

/// Fills every config.pbtxt below `templates` and copies every other file. Nothing is written if anything is wrong.
pub fn fill_tree(templates: &Path, out: &Path, values: &Values) -> Result<Vec<FilledModel>, TreeError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| TreeError::Io { path, source }
    };
    let from = fs::canonicalize(templates).map_err(io(templates))?;
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(TreeError::Refused(format!("{} already exists and is not empty", out.display())));
    }
    let mut errors = Diagnostics::new();
    let (mut configs, mut others, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for entry in walkdir::WalkDir::new(&from).sort_by_file_name() {
        let entry = entry.map_err(|error| TreeError::Refused(error.to_string()))?;
        let relative = entry.path().strip_prefix(&from).unwrap_or(entry.path()).to_owned();
        if entry.file_name() == "config.pbtxt" && entry.file_type().is_file() {
            let bytes = read_bytes_up_to(entry.path(), LARGEST_CONFIG).map_err(io(entry.path()))?;
            let shown = templates.join(&relative);
            let Ok(text) = text_of(bytes) else {
                errors.push(Diagnostic::error(format!("{} is not UTF-8", shown.display())));
                continue;
            };
            // Python reads every kind of line end as one line feed.
            let text = text.replace("\r\n", "\n").replace('\r', "\n");
            let source = SourceText::new(shown.display().to_string(), text);
            let model = entry.path().parent().and_then(Path::file_name).unwrap_or_default();
            let (text, filled) =
                fill_model(&model.to_string_lossy(), out.join(&relative), &source, values, &mut errors);
            configs.push((relative, text));
            models.push(filled);
        } else {
            others.push((relative, entry.file_type().is_dir()));
        }
    }
    if models.is_empty() {
        let message = format!("{} holds no config.pbtxt", templates.display());
        errors.push(
            Diagnostic::error(message).hint("name a folder whose folders are models: all_models/inflight_batcher_llm"),
        );
    } else {
        unknown(values, &models, &mut errors);
    }
    if errors.has_errors() {
        return Err(TreeError::Diagnostics(errors));
    }
    for (relative, is_folder) in others {
        let target = out.join(&relative);
        if is_folder {
            fs::create_dir_all(&target).map_err(io(&target))?;
        } else {
            fs::copy(from.join(&relative), &target).map(drop).map_err(io(&target))?;
        }
    }
    for (relative, text) in configs {
        let target = out.join(relative);
        fs::write(&target, text).map_err(io(&target))?;
    }
    Ok(models)
}

fn fill_model(
    model: &str,
    path: PathBuf,
    source: &SourceText,
    values: &Values,
    errors: &mut Diagnostics,
) -> (String, FilledModel) {
    let preset = |name: &str| PRESETS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let model_values = values.of.get(model);
    let value = |name: &str| {
        model_values
            .and_then(|model_values| model_values.get(name))
            .or_else(|| values.all.get(name))
            .cloned()
            .or_else(|| preset(name))
    };
    let (text, placeholders) = substitute(source.text(), &value);
    if text.len() as u64 > LARGEST_CONFIG {
        let message = format!("{} becomes larger than {}", source.name(), size(LARGEST_CONFIG));
        errors.push(Diagnostic::error(message));
    }
    let mut filled =
        FilledModel { model: model.to_owned(), path, replaced: BTreeMap::new(), unfilled: BTreeSet::new() };
    for Placeholder { name, bytes, is_filled } in placeholders {
        if is_filled {
            let value = value(&name).unwrap_or_default();
            filled.replaced.insert(name, value);
            continue;
        }
        let place = place_in(source.text(), bytes.start);
        if place == PbtxtPlace::Comment {
            continue;
        }
        if place == PbtxtPlace::Unquoted || !values.allow_unfilled {
            let fate = if place == PbtxtPlace::Unquoted {
                "the server cannot read the file with it".to_owned()
            } else {
                "inside quotes it reaches the backend unchanged; `--allow-unfilled` accepts it".to_owned()
            };
            let sentence = format!("`{name}` of {model} has no value");
            let hint = format!("give one: `{name}=…`");
            errors.push(Diagnostic::error(sentence).at(source.span(bytes), fate).hint(hint));
        }
        filled.unfilled.insert(name);
    }
    if !errors.has_errors() {
        readable(source, &text, errors);
    }
    (text, filled)
}

/// A value can break a text: a quote in it ends the surrounding text.
fn readable(template: &SourceText, text: &str, errors: &mut Diagnostics) {
    let source = SourceText::new(format!("{} (filled)", template.name()), text);
    let wrong = match PbtxtDocument::parse(text) {
        Ok(document) => document.config().1,
        Err(wrong) => vec![wrong],
    };
    for wrong in wrong {
        errors.push(Diagnostic::error(wrong.message).at(source.span(wrong.bytes), "").maybe_hint(wrong.hint));
    }
}

/// Every key that was given must be a placeholder somewhere.
fn unknown(values: &Values, models: &[FilledModel], errors: &mut Diagnostics) {
    let names =
        |filled: &FilledModel| filled.replaced.keys().chain(&filled.unfilled).cloned().collect::<BTreeSet<String>>();
    let everywhere: BTreeSet<String> = models.iter().flat_map(names).collect();
    for key in values.all.keys().filter(|key| !everywhere.contains(*key)) {
        let message = format!("no template has a placeholder `{key}`: nothing would be replaced");
        errors.push(Diagnostic::error(message).maybe_hint(did_you_mean(key, everywhere.iter().map(String::as_str))));
    }
    for (model, own) in &values.of {
        let Some(filled) = models.iter().find(|filled| filled.model == *model) else {
            let hint = did_you_mean(model, models.iter().map(|filled| filled.model.as_str()));
            errors.push(Diagnostic::error(format!("there is no model `{model}`")).maybe_hint(hint));
            continue;
        };
        let here = names(filled);
        for key in own.keys().filter(|key| !here.contains(*key)) {
            let sentence = format!("the template of `{model}` has no placeholder `{key}`: nothing would be replaced");
            errors.push(Diagnostic::error(sentence).maybe_hint(did_you_mean(key, here.iter().map(String::as_str))));
        }
    }
}

// `${name}` and `$name` replaced as Python's `string.Template.safe_substitute` does it, which `fill_template.py` uses.

/// A pair of `key:value,key:value` without exactly one colon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pair}` has {colons} colons where one belongs (`key:value`; in a value, `\\,` and `\\:`)")]
pub struct PairError {
    pair: String,
    colons: usize,
}

/// A placeholder as written in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    pub name: String,
    pub bytes: Range<usize>,
    /// Whether there was a value.
    pub is_filled: bool,
}

/// The text with every known name replaced. `$$` becomes `$`; a `$` before anything else, and an unknown name, stay.
pub fn substitute(text: &str, value: &dyn Fn(&str) -> Option<String>) -> (String, Vec<Placeholder>) {
    let mut out = String::with_capacity(text.len());
    let mut actual = Vec::new();
    let mut from = 0;
    // A text that became too large is not made any larger.
    while let Some(at) = text[from..].find('$').map(|at| from + at).filter(|_| out.len() as u64 <= LARGEST_CONFIG) {
        out.push_str(&text[from..at]);
        let rest = &text[at + 1..];
        let (name, length) = match rest.strip_prefix('{') {
            Some(inner) => {
                let name = identifier(inner);
                if inner[name.len()..].starts_with('}') { (name, name.len() + 3) } else { ("", 1) }
            }
            None => (identifier(rest), identifier(rest).len() + 1),
        };
        let end = at + length;
        if rest.starts_with('$') {
            out.push('$');
            from = at + 2;
            continue;
        }
        let value = if name.is_empty() { None } else { value(name) };
        if !name.is_empty() {
            actual.push(Placeholder { name: name.to_owned(), bytes: at..end, is_filled: value.is_some() });
        }
        match value {
            Some(value) => out.push_str(&value),
            None => out.push_str(&text[at..end]),
        }
        from = end;
    }
    out.push_str(&text[from..]);
    (out, actual)
}

/// A letter or `_`, then digits too; ASCII only.
fn identifier(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_alphabetic() || *c == '_' || *at > 0 && c.is_ascii_digit()))
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// The pairs of `key:value,key:value` as `fill_template.py` splits them: a backslash takes the next character as it is,
/// once for the commas and once more for the colons.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, PairError> {
    let mut pairs = Vec::new();
    for pair in split(text, ',') {
        match split(&pair, ':').as_slice() {
            [key, value] => pairs.push((key.clone(), value.clone())),
            parts => {
                let colons = parts.len() - 1;
                return Err(PairError { pair, colons });
            }
        }
    }
    Ok(pairs)
}

fn split(text: &str, delimiter: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        if c == delimiter {
            parts.push(String::new());
        } else if c == '\\' {
            parts[last].extend(chars.next());
        } else {
            parts[last].push(c);
        }
    }
    parts
}
