//! `regatta sim serve`: the simulated Triton as a process of its own.

use super::Trouble;
use crate::cli::{Exit, Simulate};

pub(super) fn serve(_request: &Simulate) -> Result<Exit, Trouble> {
    Ok(Exit::Done)
}
