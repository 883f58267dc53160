//! `regatta plan`: what a run would do, and why. Writes nothing.

use super::project::{Project, gpus_here, options};
use super::{Trouble, say};
use crate::cli::{Exit, Global, PlanAs, PlanRequest};
use crate::event::RunId;
use crate::report::{self, Choice, Paint};
use crate::runner::{self, predict};
use crate::stage::Stages;
use crate::store::{Digests, Shelf};

pub(super) fn plan(global: &Global, request: &PlanRequest) -> Result<Exit, Trouble> {
    let project = Project::here(global)?;
    let compiler = project.compiler(&request.manifest, &request.settings, &request.select);
    let plan = project.plan(&request.manifest, &request.settings, &compiler, false)?;
    match request.show {
        PlanAs::Dot => say(&report::graph::dot(&plan)),
        PlanAs::Mermaid => say(&report::graph::mermaid(&plan)),
        as_what @ (PlanAs::Text | PlanAs::Json) => {
            let options = options(&plan, &request.select, 1, gpus_here(), false)?;
            let shelf = Shelf::open(&project.home)?;
            let digests = Digests::load(&project.home);
            let stages = Stages::new(project.home.state(), RunId::new("plan"));
            let decisions: Vec<_> = predict(&plan, &stages, &shelf, &digests, &options).into_iter().map(told).collect();
            say(&match as_what {
                PlanAs::Json => report::decisions::json(&decisions),
                _ => report::decisions::text(&decisions, Paint::chosen(global.color.choice())),
            });
        }
    }
    Ok(Exit::Done)
}

fn told(decision: runner::Decision) -> report::Decision {
    report::Decision {
        id: decision.id,
        stage: decision.stage,
        decision: match decision.verdict {
            runner::Verdict::Run => Choice::Run,
            runner::Verdict::Cached => Choice::Cached,
            runner::Verdict::Skipped => Choice::Skipped,
        },
        reasons: decision.reasons,
    }
}
