//! `mlperf:` — the steps toward a submission.

mod checker;
mod dataset;
mod known_round;
mod library;
mod loadgen_process;
mod package;
mod score;
mod verify;

use std::path::Path;

use super::task_context::TaskContext;
use crate::Run;
use base::event::{Done, Failure};
use known_round::round;
pub use library::{LIBRARY, RECORD_FILE as LOADGEN_RECORD_FILE};
pub use loadgen_process::run as run_loadgen;
use plan::manifest::model::Mlperf;

impl Run for Mlperf {
    const FORMAT: Option<u32> = Some(1);

    async fn run(&self, context: TaskContext, program: Option<&Path>) -> Result<Done, Failure> {
        let context = &context;
        match self {
            Mlperf::Loadgen(step) => library::perform(context, step, program).await,
            Mlperf::Dataset(step) => dataset::perform(context, step),
            Mlperf::Score(step) => score::perform(context, step),
            Mlperf::Verify(step) => verify::perform(context, step),
            Mlperf::Package(step) => package::perform(context, step).await,
        }
    }
}
