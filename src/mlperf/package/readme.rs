//! The texts of a package: how to make each result again, as it was made.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use indexmap::IndexMap;

use super::{PackageEntry, PackageRequest};
use crate::mlperf::layout::test_folder;
use crate::mlperf::{LockedRun, ProvenanceStage};
use crate::spec::TestMode;

pub(super) const REHEARSAL: &str = "# Rehearsal\n\nThis package is for practice: durations were shortened, or the data set was made up.\nIt must not be submitted.\n";

/// Of one result.
pub(super) fn result(order: &PackageRequest, entry: &PackageEntry, runs: &IndexMap<TestMode, LockedRun>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# {} {} on {}\n", entry.benchmark, entry.scenario.title(), order.system);
    if order.rehearse {
        text.push_str("**A rehearsal: not for submission.**\n\n");
    }
    let version = runs.values().find_map(|run| run.test.as_ref()).map(|test| test.loadgen_version.as_str());
    let _ = writeln!(
        text,
        "MLPerf Inference {}, mlcommons-loadgen {}, Regatta {}.\n",
        order.round.name,
        version.unwrap_or(&order.round.loadgen.version),
        order.version
    );
    let _ = writeln!(text, "## All of it\n\n```\n{}\n```\n", order.command);
    text.push_str("## One by one\n\n");
    for (mode, run) in runs {
        let command = match &run.task {
            Some(task) => format!("{} --until {task}", order.command),
            None => order.command.clone(),
        };
        let _ = writeln!(text, "{}:\n\n```\n{command}\n```\n", test_folder(*mode));
    }
    let stages = upstream(order, runs);
    if !stages.is_empty() {
        text.push_str("## What was run\n\nIn this order; keys and digests are in `documentation/regatta.lock`.\n\n");
        for stage in stages {
            write_stage(&mut text, stage);
        }
    }
    text
}

/// Of the source folder, where the manifest is all the source there is.
pub(super) fn source(order: &PackageRequest) -> String {
    let mut text =
        format!("# What made these results\n\nRegatta {}:\n\n```\n{}\n```\n\n", order.version, order.command);
    for made in &order.upstream_tasks {
        write_stage(&mut text, &made.stage);
    }
    text
}

fn upstream<'a>(order: &'a PackageRequest, runs: &IndexMap<TestMode, LockedRun>) -> Vec<&'a ProvenanceStage> {
    let stage = |task: &str| order.upstream_tasks.iter().map(|made| &made.stage).find(|stage| stage.task == task);
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&ProvenanceStage> = runs.values().filter_map(|run| stage(run.task.as_deref()?)).collect();
    while let Some(next) = open.pop() {
        if wanted.insert(&next.task) {
            open.extend(next.upstream.keys().filter_map(|task| stage(task)));
        }
    }
    order.upstream_tasks.iter().map(|made| &made.stage).filter(|stage| wanted.contains(stage.task.as_str())).collect()
}

/// One stage as the manifest meant it. A script is shown as it was typed.
fn write_stage(text: &mut String, stage: &ProvenanceStage) {
    let commit = stage.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let key = stage.key.as_ref().map(|key| format!(", key {}", key.get(..12).unwrap_or(key))).unwrap_or_default();
    let _ = writeln!(text, "### {} ({}{key}{commit})\n", stage.task, stage.kind);
    let yaml = serde_yaml::to_string(&stage.action).unwrap_or_default();
    let _ = writeln!(text, "```yaml\n{}\n```\n", yaml.trim_end());
}
