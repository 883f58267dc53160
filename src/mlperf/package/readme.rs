//! The texts of a package: how to make each result again, as it was made.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use indexmap::IndexMap;

use super::{PackageEntry, PackageRequest};
use crate::accuracy::ScoringMethod;
use crate::layout::test_folder;
use crate::{LockedRun, ProvenanceStage};
use base::spec::TestMode;
use rules::log::Width;

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
    let test06 = runs.contains_key(&TestMode::Test06).then(|| entry.audit_token_ids(TestMode::Test06)).flatten();
    text.push_str(&official_scripts(&entry.benchmark, entry.token_ids(), test06));
    let stages = upstream(order, runs);
    if !stages.is_empty() {
        text.push_str("## What was run\n\nIn this order; keys and digests are in `documentation/regatta.lock`.\n\n");
        for stage in stages {
            write_stage(&mut text, stage);
        }
    }
    text
}

/// How the scripts of mlcommons/inference read the logs: they differ in the type of token ids that they expect. The runs
/// may have been made by different versions of Regatta, so the log of TEST06 has a type of its own.
fn official_scripts(benchmark: &str, token_ids: Width, test06: Option<Width>) -> String {
    let scorer = ScoringMethod::of(benchmark).map(|method| (method.script(), token_ids, method.has_dtype_option()));
    let test06 = test06.map(|width| ("compliance/TEST06/run_verification.py", width, true));
    let mut text = format!(
        "## Scripts of mlcommons/inference\n\nToken ids in the accuracy log are {}, lowest byte first:\n\n",
        token_ids.dtype()
    );
    for (script, token_ids, has_option) in scorer.into_iter().chain(test06) {
        let how = if has_option {
            format!("`--dtype {}`", token_ids.dtype())
        } else if token_ids == Width::Int32 {
            "its own type, without an option".to_owned()
        } else {
            "it reads int32 alone, and misreads these".to_owned()
        };
        let _ = writeln!(text, "- `{script}`: {how}");
    }
    text + "\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_that_official_scripts_need_are_those_of_the_log() {
        let text = official_scripts("llama3.1-8b", Width::Int64, Some(Width::Int32));
        assert!(text.contains("- `language/llama3.1-8b/evaluation.py`: `--dtype int64`\n"), "{text}");
        assert!(text.contains("- `compliance/TEST06/run_verification.py`: `--dtype int32`\n"), "{text}");
        let text = official_scripts("llama2-70b-99.9", Width::Int64, None);
        assert!(text.ends_with("- `language/llama2-70b/evaluate-accuracy.py`: `--dtype int64`\n\n"), "{text}");
        let text = official_scripts("gpt-oss-120b", Width::Int32, None);
        assert!(text.ends_with("eval_mlperf_accuracy.py`: its own type, without an option\n\n"), "{text}");
        let text = official_scripts("gpt-oss-120b", Width::Int64, None);
        assert!(text.contains("it reads int32 alone"), "{text}");
    }
}
