//! The command around a server in its stage's container, before anything runs: the one that [`super::planned_server::placed`] will
//! build, with placeholders for what is not known yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::container::{ContainerView, WrappedEngine, named_paths, wrap_in};
use exec::container::ContainerSpec;
use exec::process;
use plan::Task;
use plan::manifest::model::input_variable;
use triton::SpecProblem;
use triton::launch::{LaunchWorld, LaunchedServer};

/// The output folder of a task that has not run.
const OUT: &str = "<out>";

/// What the container of a task adds to a server.
pub(super) struct ContainerPreview<'a> {
    pub task: &'a Task,
    pub project: &'a Path,
    /// Its container, if it has one; the image as it is to be shown.
    pub spec: Option<ContainerSpec>,
    /// Inputs that are there already.
    pub inputs: BTreeMap<String, Vec<PathBuf>>,
    /// Further files that the server must have.
    pub named: Vec<PathBuf>,
}

impl ContainerPreview<'_> {
    /// The server inside, as number `index` of its task. A task without a container leaves it as it is.
    pub fn around(&self, server: LaunchedServer, index: usize) -> Result<LaunchedServer, Vec<SpecProblem>> {
        let Some(mut spec) = self.spec.clone() else { return Ok(server) };
        if spec.name.is_empty() {
            spec.name = container_name(self.task);
        }
        if index > 0 {
            spec.name = format!("{}-{index}", spec.name);
        }
        let command: Vec<String> = server.command.concat();
        let mut named = named_paths::in_arguments(command.iter().skip(1).map(String::as_str));
        named.extend(self.named.iter().cloned());
        let env = self.variables();
        let view = ContainerView {
            project: self.project,
            // The usual one is in the project.
            state: self.project,
            out: Path::new(OUT),
            inputs: &self.inputs,
            env: &env,
            secrets: &self.task.secrets,
            dir: Path::new(OUT),
            gpus: &server.gpus,
            named: &named,
        };
        let WrappedEngine { argv, env } =
            wrap_in(&spec, &view).map_err(|failure| vec![SpecProblem { message: failure.what, hint: failure.hint }])?;
        let own = |(name, value): (String, Option<OsString>)| Some((name, value?.to_string_lossy().into_owned()));
        let task_variables: Vec<String> = self.variables().into_iter().map(|(name, _)| name).collect();
        let world = if spec.engine.is_detached() {
            LaunchWorld::Container { program: spec.program().to_owned(), name: spec.safe_name() }
        } else {
            LaunchWorld::Process
        };
        Ok(LaunchedServer {
            command: std::iter::once(argv).chain(server.command).collect(),
            // Those of the task are passed by their names.
            env: env.into_iter().filter_map(own).filter(|(name, _)| !task_variables.contains(name)).collect(),
            world,
            ..server
        })
    }

    /// The variables of its commands.
    fn variables(&self) -> Vec<(String, Option<OsString>)> {
        let placeholder = |name: &str| (name.to_owned(), Some(OsString::from(format!("<{name}>"))));
        let own = self.task.env.iter().map(|(name, value)| (name.clone(), Some(OsString::from(value))));
        own.chain([("OUT".to_owned(), Some(OUT.into()))])
            .chain(self.task.inputs.keys().map(|name| placeholder(&input_variable(name))))
            .chain([process::HOME, process::RUN, process::TASK].map(placeholder))
            .collect()
    }
}

/// The name of a container that a task will start; the run's name is not known yet.
pub(super) fn container_name(task: &Task) -> String {
    format!("regatta-PID-{}", task.id)
}
