//! `--gpus`: a count, or ids.

use clap::error::ErrorKind;

use super::argument_error::ArgumentError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSelection {
    /// Any so many.
    Count(u32),
    /// These ids, each once, as given.
    Ids(Vec<u32>),
}

pub(super) fn gpus(text: &str) -> Result<GpuSelection, ArgumentError> {
    let mistake = |what: String| {
        let hint = "a count (`--gpus 2`), or ids with commas (`--gpus 0,2`; `--gpus 3,` is GPU 3 alone)";
        (ErrorKind::InvalidValue, format!("`--gpus {text}`: {what}\n  hint: {hint}"))
    };
    let number = |word: &str| word.trim().parse::<u32>().map_err(|_| mistake(format!("`{word}` is not a number")));
    if !text.contains(',') {
        return Ok(GpuSelection::Count(number(text)?));
    }
    let mut ids = Vec::new();
    for word in text.strip_suffix(',').unwrap_or(text).split(',') {
        let id = number(word)?;
        if ids.contains(&id) {
            return Err(mistake(format!("GPU {id} is there twice")));
        }
        ids.push(id);
    }
    Ok(GpuSelection::Ids(ids))
}
