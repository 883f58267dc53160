//! The GPUs that a run may lease.

use std::env;
use std::path::Path;

use crate::cli::GpuSelection;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::GpuId;

/// Those of `--gpus`, or all of this machine.
///
/// # Errors
/// `CUDA_VISIBLE_DEVICES` names a GPU in a form that is not known.
pub(super) fn leasable_gpus(selection: Option<&GpuSelection>) -> Result<Vec<GpuId>, CommandError> {
    Ok(match selection {
        None => gpus_here()?,
        Some(GpuSelection::Count(count)) => first_gpus(gpus_here()?, *count as usize),
        Some(GpuSelection::Ids(ids)) => ids.clone(),
    })
}

/// The GPUs that this process may use: those of `CUDA_VISIBLE_DEVICES`, or every device file of the driver.
fn gpus_here() -> Result<Vec<GpuId>, CommandError> {
    match env::var("CUDA_VISIBLE_DEVICES") {
        Ok(list) => GpuId::visible(&list).map_err(|error| {
            CommandError::usage(
                ErrorText::new(format!("CUDA_VISIBLE_DEVICES={list}: {error}"))
                    .hint("write whole UUIDs, or name the GPUs of this run with `--gpus`"),
            )
        }),
        Err(_) => Ok((0..64).filter(|n| Path::new(&format!("/dev/nvidia{n}")).exists()).map(GpuId::Index).collect()),
    }
}

/// This many: those that are here, and then numbers that are not among them. To a UUID no number is added, which could be the same GPU.
fn first_gpus(here: Vec<GpuId>, count: usize) -> Vec<GpuId> {
    let has_numbers_only = here.iter().all(|gpu| matches!(gpu, GpuId::Index(_)));
    let missing = if has_numbers_only { count.saturating_sub(here.len()) } else { 0 };
    let more: Vec<GpuId> = (0..).map(GpuId::Index).filter(|gpu| !here.contains(gpu)).take(missing).collect();
    here.into_iter().chain(more).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_gpus_names_each_once() {
        const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
        let first = |here: &str, count| GpuId::list(&first_gpus(GpuId::visible(here).unwrap(), count));
        assert_eq!(first("0,1", 4), "0,1,2,3");
        assert_eq!(first("2,5", 4), "2,5,0,1");
        assert_eq!(first("3,4", 1), "3");
        assert_eq!(first("", 2), "0,1");
        assert_eq!(first(WHOLE, 2), WHOLE);
    }
}
