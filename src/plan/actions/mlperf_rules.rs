//! A package checked against the runs that it is made of: what the round can never accept is reported before hours are
//! spent.
//!
//! Speculative decoding of the servers that LoadGen's tests run on. Closed allows it in few scenarios, with a fixed
//! number of drafts.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::Value;

use super::StageChecker;
use crate::loadgen::test_request;
use crate::manifest::Node;
use crate::manifest::model::{
    Action, Bench, Engine, Mlperf, MlperfDataset, MlperfEntry, MlperfPackage, MlperfResults, Serve,
};
use crate::{PlanReference, Task};
use base::diag::{Diagnostic, Diagnostics};
use base::event::TaskId;
use base::spec::{Division, TestMode};
use rules::{Benchmark, MlperfScenario, Round, TestRequest, audit_test, conf, wrong_values};

/// A task of the plan with its rendered stage and its action.
struct PlannedTask<'a> {
    task: &'a Task,
    node: &'a Node,
    action: &'a Action,
}

type PlannedTasks<'a> = IndexMap<TaskId, PlannedTask<'a>>;

/// Looks at every package whose runs are in the same plan. Each task comes with its rendered stage.
pub fn packages<'a>(tasks: impl Iterator<Item = (&'a Task, &'a Node)>, found: &mut Diagnostics) {
    let planned =
        |(task, node): (&'a Task, _)| Some((task.id.clone(), PlannedTask { task, node, action: task.action()? }));
    let planned: PlannedTasks<'a> = tasks.filter_map(planned).collect();
    for PlannedTask { task, node, action } in planned.values() {
        let Action::Mlperf(Mlperf::Package(step)) = action else { continue };
        let Some(round) = Round::named(&step.round) else { continue };
        let mut checker = PackageChecker { task, node, step, round: &round, planned: &planned, found };
        checker.description();
        if !step.rehearse {
            checker.check();
        }
    }
}

struct PackageChecker<'a> {
    task: &'a Task,
    node: &'a Node,
    step: &'a MlperfPackage,
    round: &'a Round,
    planned: &'a PlannedTasks<'a>,
    found: &'a mut Diagnostics,
}

/// Where a result stands in the package, and what it is.
struct PackedResult<'a> {
    index: String,
    entry: &'a MlperfEntry,
    scenario: MlperfScenario,
}

impl<'a> PackageChecker<'a> {
    /// Values of the system's description that no package may have, a rehearsal neither.
    fn description(&mut self) {
        for wrong in wrong_values(&self.step.system_json) {
            self.refuse(&["system_json", wrong.field], &wrong.what, wrong.why, wrong.fix, None);
        }
    }

    fn check(&mut self) {
        if self.step.also_99 && !self.step.results.iter().any(|one| self.round.lower_accuracy(&one.benchmark).is_some())
        {
            let names: Vec<&str> = self.step.results.iter().map(|one| one.benchmark.as_str()).collect();
            let message = format!("{} has no benchmark for 99 % beside {}", self.round.name, names.join(", "));
            let hint = "remove it; llama2-70b-99 was in the rounds until v6.0";
            self.refuse(&["also_99"], &message, "there is nothing to copy", hint, None);
        }
        for (index, results) in self.step.results.iter().enumerate() {
            let index = index.to_string();
            self.tests(&index, results);
            let Ok(entries) = results.entries() else { continue };
            for entry in &entries {
                let Some(scenario) = MlperfScenario::from_scenario(entry.scenario) else {
                    let message = format!("{:?} is not a scenario of MLPerf", entry.scenario).to_lowercase();
                    let hint = "offline, server, interactive or single_stream";
                    self.refuse(&["results", &index, "scenario"], &message, "no result can be of it", hint, None);
                    continue;
                };
                self.result(&PackedResult { index: index.clone(), entry, scenario });
            }
        }
    }

    /// The audit tests of Closed are there, and no others.
    fn tests(&mut self, index: &str, results: &MlperfResults) {
        let Some(benchmark) = self.round.benchmarks.get(&results.benchmark) else { return };
        let needed: Vec<&str> = benchmark.tests.iter().map(|test| test.as_str()).collect();
        let benchmark = format!("{} of {}", results.benchmark, self.round.name);
        for name in results.audits.keys().chain(results.verified.keys()) {
            if !needed.contains(&name.to_lowercase().as_str()) {
                let key = if results.audits.contains_key(name) { "audits" } else { "verified" };
                let message = format!("`{name}` is not an audit test of {benchmark}");
                let hint = if needed.is_empty() {
                    "it has no audit tests: remove it".to_owned()
                } else {
                    format!("it has {}", needed.join(", "))
                };
                self.refuse(&["results", index, key, name], &message, "not one of its tests", &hint, None);
            }
        }
        if self.step.division != Division::Closed {
            return;
        }
        for (key, tests) in [("audits", &results.audits), ("verified", &results.verified)] {
            for test in needed.iter().filter(|test| !tests.keys().any(|name| name.eq_ignore_ascii_case(test))) {
                let message =
                    format!("a closed result of {benchmark} has passed {}, and `{key}` has none", test.to_uppercase());
                let hint = match key {
                    "audits" => {
                        format!("`audits: {{ {test}: … }}`, the output of a bench with `loadgen: {{ mode: {test} }}`")
                    }
                    _ => format!("`verified: {{ {test}: … }}`, the output of a stage with `mlperf: {{ verify: … }}`"),
                };
                self.refuse(&["results", index, key], &message, "the round refuses it without", &hint, None);
            }
        }
    }

    fn result(&mut self, result: &PackedResult<'_>) {
        let (index, entry) = (&result.index, result.entry);
        if self.step.division == Division::Closed
            && let Some(benchmark) = self.round.benchmarks.get(&entry.benchmark)
            && !benchmark.scenarios().any(|scenario| scenario == result.scenario)
        {
            let title = result.scenario.title();
            let message = format!("{title} is not a scenario of {} in {}", entry.benchmark, self.round.name);
            let allowed: Vec<&str> = benchmark.scenarios().map(MlperfScenario::title).collect();
            let hint = format!("it is run as {}", allowed.join(", "));
            self.refuse(&["results", index, "scenario"], &message, "a closed result cannot use it", &hint, None);
        }
        self.run(result, &["performance"], &entry.performance, TestMode::Performance);
        self.run(result, &["accuracy"], &entry.accuracy, TestMode::Accuracy);
        for (name, output) in &entry.audits {
            if let Some(test) = audit_test(name) {
                self.run(result, &["audits", name], output, test);
            }
        }
    }

    /// A run of a result: that it is of this result, and that it may be submitted.
    fn run(&mut self, result: &PackedResult<'_>, key: &[&str], output: &str, mode: TestMode) {
        let Some(planned) = self.planned_for(output) else { return };
        let mut path = vec!["results", result.index.as_str()];
        path.extend(key);
        let id = &planned.task.id;
        let Action::Bench(bench) = planned.action else {
            let message = format!("{id} is not a LoadGen run");
            let hint = format!("the output of a bench with `loadgen: {{ mode: {} }}`", mode.as_str());
            self.refuse(&path, &message, "it has no logs to pack", &hint, None);
            return;
        };
        let Some(request) = test_request(bench) else {
            let message = format!("{id} is measured without LoadGen");
            let hint = "add `loadgen` to its `bench`".to_owned();
            self.refuse(&path, &message, "only LoadGen's logs are a result", &hint, Some((planned, &["bench"])));
            return;
        };
        if request.rehearsal {
            let message = format!("{id} is a rehearsal");
            let hint = "remove `rehearse` there, or pack for practice: `rehearse: true` under `package`";
            let related = (planned, &["bench", "loadgen", "rehearse"][..]);
            self.refuse(&path, &message, "the round cannot accept it", hint, Some(related));
        }
        let is = (request.round, request.benchmark, request.scenario, request.mode);
        let needed = (self.round.name.as_str(), result.entry.benchmark.as_str(), result.scenario, mode);
        if is != needed {
            let run = |(round, benchmark, scenario, mode): (&str, &str, MlperfScenario, TestMode)| {
                format!("{benchmark} {} in {round}, mode {}", scenario.title(), mode.as_str())
            };
            let message = format!("{id} is a run of {}", run(is));
            let label = format!("this needs {}", run(needed));
            let hint = "each scenario has its own performance, accuracy and audit runs: the rules require an accuracy \
                run for each \
                        performance result";
            self.refuse(&path, &message, &label, hint, Some((planned, &["bench", "loadgen"])));
        }
        if self.step.division == Division::Closed && request.division != Division::Closed {
            // Its settings are those of Closed, or they are reported.
            let closed = rules::TestRequest { division: Division::Closed, ..request.clone() };
            for wrong in conf::check(&closed) {
                let message = format!("{id} is for the open division: its `{}` {}", wrong.at.join("."), wrong.what);
                let related = (planned, &["bench", "loadgen"][..]);
                self.refuse(&path, &message, &wrong.rule, "run it with `division: closed`", Some(related));
            }
        }
        self.data(&path, bench);
    }

    /// The data set of a run is not made up.
    fn data(&mut self, path: &[&str], bench: &Bench) {
        let Some(loadgen) = bench.loadgen.as_deref() else { return };
        let Some(planned) = self.planned_for(&loadgen.dataset) else { return };
        let Action::Mlperf(Mlperf::Dataset(MlperfDataset { synthetic: Some(_), .. })) = planned.action else { return };
        let message = format!("the data of {} is synthetic", planned.task.id);
        let hint = "read the data set there, `from: PATH`; `rehearse: true` under `package` packs for practice";
        let related = (planned, &["mlperf", "dataset", "synthetic"][..]);
        self.refuse(path, &message, "the round accepts no result for it", hint, Some(related));
    }

    fn planned_for(&self, output: &str) -> Option<&'a PlannedTask<'a>> {
        let reference = PlanReference::all_in(output).into_iter().next()?;
        let PlanReference::OutputFolder(id) = reference else { return None };
        self.planned.get(&id)
    }

    fn refuse(
        &mut self,
        path: &[&str],
        what: &str,
        label: &str,
        hint: &str,
        related: Option<(&PlannedTask<'_>, &[&str])>,
    ) {
        let whole: Vec<&str> = ["mlperf", "package"].into_iter().chain(path.iter().copied()).collect();
        let message = format!("`{}` cannot be packed: {what}", self.task.id);
        let mut diagnostic = Diagnostic::error(message).at(self.node.place(&whole), label).hint(hint);
        if let Some((planned, path)) = related {
            diagnostic = diagnostic.related(planned.node.place(path), "this");
        }
        self.found.push(diagnostic);
    }
}

/// Looks at every LoadGen test whose servers are started in the same plan. Each task comes with its rendered stage.
pub fn speculative_decoding<'a>(tasks: impl Iterator<Item = (&'a Task, &'a Node)> + Clone, found: &mut Diagnostics) {
    let drafting: Vec<(&Task, &Node, DraftSetting)> =
        tasks.clone().filter_map(|(task, node)| Some((task, node, DraftSetting::parse(task.action()?)?))).collect();
    if drafting.is_empty() {
        return;
    }
    let by_id: HashMap<&TaskId, &Task> = tasks.clone().map(|(task, _)| (&task.id, task)).collect();
    for (task, _) in tasks {
        let Some(request) = task.bench().and_then(test_request).filter(|test| test.division == Division::Closed) else {
            continue;
        };
        let Ok(test) = request.find() else { continue };
        let servers = servers_of(task, &by_id);
        for (server, node, setting) in &drafting {
            if servers.iter().any(|one| one.id == server.id) {
                StageChecker::new(node, &server.stage, found).drafts(setting, &request, &test.benchmark);
            }
        }
    }
}

/// The servers of a benchmark, and what they are made of.
fn servers_of<'a>(bench: &'a Task, by_id: &HashMap<&TaskId, &'a Task>) -> Vec<&'a Task> {
    let mut reached: Vec<&Task> = Vec::new();
    let mut open = vec![bench];
    while let Some(task) = open.pop() {
        for reference in PlanReference::all_in(task.action_text()) {
            let (PlanReference::Service(id) | PlanReference::OutputFolder(id)) = reference else { continue };
            let next = by_id.get(&id).copied().filter(|next| next.kind.facts().is_of_server);
            if let Some(next) = next.filter(|next| reached.iter().all(|one| one.id != next.id)) {
                reached.push(next);
                open.push(next);
            }
        }
    }
    reached
}

/// Speculative decoding as a stage sets it.
struct DraftSetting {
    /// The key that sets it, below the stage.
    path: Vec<String>,
    /// The key of the number of drafts.
    count_key: &'static str,
    /// Tokens drafted in each step. None: that key is not given.
    count: Option<u64>,
}

impl DraftSetting {
    /// None: nothing is drafted.
    fn parse(action: &Action) -> Option<Self> {
        let setting = match action {
            Action::Serve(Serve::TrtllmServe(server)) => {
                let config = server.options.get("speculative_config").filter(|config| !config.is_null())?;
                let keys: &[&str] = match config.get("decoding_type").and_then(Value::as_str) {
                    Some("MTP") => &["num_nextn_predict_layers", "max_draft_len"],
                    _ => &["max_draft_len"],
                };
                Self::new(&["serve", "trtllm_serve", "options", "speculative_config"], config, keys)
            }
            Action::Serve(Serve::Vllm(server)) => {
                let is_it = |(name, _): &(&String, &Value)| name.replace('_', "-") == "speculative-config";
                let (name, config) = server.options.iter().find(is_it)?;
                // A text is JSON, as vLLM takes it.
                let parsed = config.as_str().and_then(|text| serde_json::from_str(text).ok());
                let config = parsed.as_ref().unwrap_or(config);
                Self::new(&["serve", "vllm", "options", name], config, &["num_speculative_tokens"])
            }
            Action::Engine(engine) => Self::of_engine(engine)?,
            _ => return None,
        };
        (setting.count != Some(0)).then_some(setting)
    }

    fn of_engine(engine: &Engine) -> Option<Self> {
        if let Some(config) = &engine.speculative_config {
            let (path, count) = (["engine", "speculative_config"], config.drafting().ok()?.draft_len);
            let count_key = if config.max_draft_len.is_some() { "max_draft_len" } else { "num_speculative_tokens" };
            return Some(Self { path: path.map(str::to_owned).into(), count_key, count: Some(count.into()) });
        }
        let mode = engine.build_flags.get("speculative_decoding_mode")?.as_str()?;
        let count_key = "max_draft_len";
        let count = engine.build_flags.get(count_key).and_then(whole);
        let path = ["engine", "build_flags", "speculative_decoding_mode"].map(str::to_owned).into();
        (mode != "none").then_some(Self { path, count_key, count })
    }

    /// With the number under the first of `keys` that `config` has.
    fn new(path: &[&str], config: &Value, keys: &[&'static str]) -> Self {
        let count_key = keys.iter().copied().find(|key| config.get(*key).is_some()).unwrap_or(keys[0]);
        let count = config.get(count_key).and_then(whole);
        Self { path: path.iter().map(|&key| key.to_owned()).collect(), count_key, count }
    }
}

/// A whole number, also as a text.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

impl StageChecker<'_> {
    /// The servers of a closed test draft what the round allows.
    fn drafts(&mut self, setting: &DraftSetting, request: &TestRequest<'_>, benchmark: &Benchmark) {
        let path: Vec<&str> = setting.path.iter().map(String::as_str).collect();
        let test = format!("{} {} of {}", request.benchmark, request.scenario.title(), request.round);
        let Some(&drafts) = benchmark.speculative_tokens.get(&request.scenario) else {
            let allowed: Vec<&str> = benchmark.speculative_tokens.keys().copied().map(MlperfScenario::title).collect();
            let label = match allowed.as_slice() {
                [] => "closed: the round does not allow it for this benchmark".to_owned(),
                allowed => format!("closed: the rules allow it in {} only", allowed.join(", ")),
            };
            self.fault(&path, &format!("cannot be set for {test}"), &label).hint("remove it, or `division: open`");
            return;
        };
        if setting.count != Some(drafts) {
            let key = setting.count_key;
            let label = match setting.count {
                Some(count) => format!("closed: the rules fix speculative-num-steps={drafts}; this run drafts {count}"),
                None => format!("closed: the rules fix speculative-num-steps={drafts}, and `{key}` is not given"),
            };
            self.fault(&path, &format!("must draft {drafts} tokens in each step for {test}"), &label)
                .hint(format!("`{key}: {drafts}`, or `division: open`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(action: &str) -> Option<(String, &'static str, Option<u64>)> {
        let action: Value = serde_yaml::from_str(action).unwrap();
        let setting = DraftSetting::parse(&serde_json::from_value(action).unwrap())?;
        Some((setting.path.join("."), setting.count_key, setting.count))
    }

    #[test]
    fn the_drafts_of_each_kind_of_server_are_read() {
        let trtllm = |config: &str| {
            setting(&format!("serve: {{ trtllm_serve: {{ model: m, options: {{ speculative_config: {config} }} }} }}"))
        };
        let path = "serve.trtllm_serve.options.speculative_config".to_owned();
        let drafts_at = |key, count| Some((path.clone(), key, count));
        assert_eq!(
            trtllm("{ decoding_type: MTP, num_nextn_predict_layers: 3 }"),
            drafts_at("num_nextn_predict_layers", Some(3))
        );
        assert_eq!(trtllm("{ decoding_type: MTP }"), drafts_at("num_nextn_predict_layers", None));
        assert_eq!(trtllm("{ decoding_type: Eagle, max_draft_len: 4 }"), drafts_at("max_draft_len", Some(4)));
        assert_eq!((trtllm("null"), trtllm("{ decoding_type: NGram, max_draft_len: 0 }")), (None, None));
        let vllm = |config: &str| {
            setting(&format!("serve: {{ vllm: {{ model: m, options: {{ speculative_config: {config} }} }} }}"))
        };
        let of_vllm = Some(("serve.vllm.options.speculative_config".to_owned(), "num_speculative_tokens", Some(2)));
        assert_eq!(vllm("{ method: mtp, num_speculative_tokens: 2 }"), of_vllm);
        assert_eq!(vllm("'{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'"), of_vllm);
    }
}
