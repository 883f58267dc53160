//! `--gpus`: a count, or ids: numbers and UUIDs.

use clap::error::ErrorKind;

use super::argument_error::ArgumentError;
use base::diag::ErrorText;
use base::event::{GpuId, GpuIdError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSelection {
    /// Any N of them.
    Count(u32),
    /// These ids, each once, as given.
    Ids(Vec<GpuId>),
}

pub(super) fn gpus(text: &str) -> Result<GpuSelection, ArgumentError> {
    let invalid = |what: String| {
        let hint = "a count (`--gpus 2`; `--gpus 0` is none), ids with commas (`--gpus 0,2`; `--gpus 0,` is GPU 0 alone), or UUIDs of GPUs or MIG instances (`--gpus GPU-<uuid>`, `--gpus MIG-<uuid>`, as `nvidia-smi -L` prints them)";
        (ErrorKind::InvalidValue, ErrorText::new(format!("`--gpus {text}`: {what}")).hint(hint).to_string())
    };
    let number = |word: &str| word.trim().parse::<u32>().map_err(|_| invalid(format!("`{word}` is not a number")));
    if !text.contains(',') && !GpuId::is_uuid(text) {
        return Ok(GpuSelection::Count(number(text)?));
    }
    let mut ids = Vec::new();
    for word in text.strip_suffix(',').unwrap_or(text).split(',') {
        let id: GpuId = word.trim().parse().map_err(|error: GpuIdError| invalid(error.to_string()))?;
        if ids.contains(&id) {
            return Err(invalid(format!("GPU {id} is there twice")));
        }
        ids.push(id);
    }
    Ok(GpuSelection::Ids(ids))
}
