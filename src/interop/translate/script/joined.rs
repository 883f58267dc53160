//! Commands of a script that become one thing here: files that are filled are one repository, and runs of one manifest
//! are one run.

use serde_json::{Value, json};

use super::Script;
use crate::command_line::{RunLine, RunSetting, UnknownValue, is_in_container, mounts, replace_path};
use crate::triton_backend::fill_template;
use base::units::unquoted;

impl Script {
    /// The stage of the repository goes in front of the server's.
    pub(super) fn repository(&mut self) {
        let tree = self.filled.first().map(|file| file.tree.trim_end_matches('/').to_owned());
        let mut repository = fill_template::repository(&self.filled, &mut self.builder);
        if let (Some(Value::Object(stage)), Some(tree)) = (&mut repository, &tree) {
            if let Some(at) = self.copied.iter().position(|(_, to)| to == tree) {
                let from = self.copied.remove(at).0;
                stage.insert("files".to_owned(), json!(self.on_the_host(from)));
            }
        } else if tree.is_some() {
            self.builder.push_error("no line of fill_template.py sets `engine_dir`: there is no engine to serve");
        }
        for (from, to) in std::mem::take(&mut self.copied) {
            self.count += 1;
            let reason = "files of a checkpoint or a repository are inputs of their stage, by path; other copying is a \
                `shell` stage";
            self.without.push((format!("cp {from} {to}"), format!("cannot translate `cp`: {reason}")));
        }
        if let (Some(repository), Some(tree)) = (repository, tree) {
            const NAME: &str = "generate_triton_config";
            let stages = std::mem::take(&mut self.whole.stages);
            let at = stages.values().position(|stage| stage.get("serve").is_some()).unwrap_or(stages.len());
            for (index, (name, stage)) in stages.into_iter().enumerate() {
                if index == at {
                    self.whole.stages.insert(NAME.to_owned(), json!({"repository": repository}));
                }
                self.whole.stages.insert(name, stage);
            }
            self.whole.stages.entry(NAME).or_insert_with(|| json!({"repository": repository}));
            self.builder.produces(&tree, format!("{{{{ stages.{NAME}.out }}}}"));
        }
    }

    /// A path of the container that later commands run in, as it is on the host, or a parameter for it.
    fn on_the_host(&mut self, path: String) -> String {
        let Some(container) = self.container.as_ref().filter(|_| path.starts_with('/')) else { return path };
        let mut mounted = json!(path);
        for (host, inside) in mounts(container) {
            replace_path(&mut mounted, &inside, &host);
        }
        if mounted != json!(path) {
            return unquoted(&mounted);
        }
        let value = UnknownValue::of_path(&path);
        self.builder.note(is_in_container(&value));
        let marker = value.marker();
        self.variables.unknown.push(value);
        marker
    }

    /// A run of the same manifest goes on with the one before it.
    pub(super) fn run(&mut self, run: RunLine) {
        let Some(last) = self.whole.runs.last_mut().filter(|last| last.manifests == run.manifests) else {
            return self.whole.runs.push(run);
        };
        let is_same = |one: &RunSetting, other: &RunSetting| one.names == other.names;
        let contradicts = run
            .settings
            .iter()
            .any(|one| last.settings.iter().any(|other| is_same(one, other) && one.value != other.value));
        let beside = |run: &RunLine| {
            (
                run.env.clone(),
                run.scale.clone(),
                run.slurm.clone(),
                run.options.clone(),
                run.copy_results_to.clone(),
                run.system,
            )
        };
        if contradicts || beside(&run) != beside(last) {
            return self.whole.runs.push(run);
        }
        for setting in run.settings {
            if !last.settings.iter().any(|other| is_same(&setting, other)) {
                last.settings.push(setting);
            }
        }
        for default in run.tool_defaults {
            if !last.tool_defaults.contains(&default) {
                last.tool_defaults.push(default);
            }
        }
        last.serves |= run.serves;
        if run.until.is_empty() || last.until.is_empty() {
            last.until.clear();
        } else {
            last.until.extend(run.until);
        }
    }
}
