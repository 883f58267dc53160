//! Turns a command and what it may see into a command line of docker, podman, enroot or apptainer. Pure data in, pure
//! data out.
//!
//! One entry point for all code that starts something in a container: servers of Triton with all their ranks, and the
//! commands of any other stage. Nothing here looks at the machine or starts anything; the caller stops the container by
//! the name that it was given, where its engine keeps it apart ([`base::spec::ContainerEngine::is_detached`]).

use base::event::GpuId;
use base::spec::{Container, ContainerEngine, ContainerGpus};

// The request: an engine, an image, limits, and what the command inside must see.

/// A container to be: its settings, with what they may leave open decided.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    pub settings: Container,
    pub engine: ContainerEngine,
    /// Unique on the host.
    pub name: String,
}

impl ContainerSpec {
    /// The engine's program, as it is called.
    pub fn program(&self) -> &str {
        self.settings.program.as_deref().unwrap_or_else(|| self.engine.as_str())
    }

    /// Its name with everything replaced that no engine takes.
    pub fn safe_name(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        self.name.chars().map(safe).collect()
    }
}

/// What the command inside must see, whatever the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerAccess {
    /// `/from:/to`, `/from:/to:ro`; those of the container come after them.
    pub mounts: Vec<String>,
    /// Variables with their values; those of the container come after them.
    pub set: Vec<(String, String)>,
    /// Names of variables: the engine takes their values from its own environment, so that no command line shows them.
    pub pass: Vec<String>,
    /// GPUs as the machine counts them; empty: none is leased.
    pub gpus: Vec<GpuId>,
    /// Where it starts; not given: the image decides.
    pub dir: Option<String>,
    /// How long `docker stop` waits until it kills, seconds.
    pub stop_after: u32,
}

/// A request that the engine does not support: the feature, and what to do about it.
pub fn contradictions(container: &ContainerSpec) -> Vec<(String, &'static str)> {
    let mut arguments = Vec::new();
    let word = container.engine.as_str();
    if container.settings.image.trim().is_empty() {
        arguments.push(("a container needs an `image`".to_owned(), ""));
    }
    if !container.engine.is_detached() {
        for (key, given, why) in [
            ("shm_size", container.settings.shm_size.is_some(), "uses the host's /dev/shm"),
            ("ulimits", container.settings.ulimits.is_some(), "has the limits of the user that starts it"),
            ("network", container.settings.network.is_some(), "uses the host's network"),
            ("user", container.settings.user.is_some(), "runs as the user that starts it"),
        ] {
            if given {
                arguments.push((format!("`container.{key}`: {word} {why}"), "remove it"));
            }
        }
    }
    arguments
}

// The arguments of each engine, up to the image; the command inside follows them.

const SHM: &str = "2g";
const ULIMITS: [(&str, i64); 2] = [("memlock", -1), ("stack", 67_108_864)];

/// How an engine is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineCommand {
    /// Program and arguments; the command inside comes after them.
    pub argv: Vec<String>,
    /// What the engine's own environment must have.
    pub env: Vec<(String, String)>,
}

/// The arguments of a container's engine.
pub fn engine_command(container: &ContainerSpec, sees: &ContainerAccess) -> EngineCommand {
    let mut variables = sees.set.clone();
    let mut added: Vec<_> = container.settings.env.clone().into_iter().collect();
    added.sort();
    variables.extend(added);
    match container.engine {
        ContainerEngine::Docker | ContainerEngine::Podman => {
            EngineCommand { argv: detached(container, sees, variables), env: Vec::new() }
        }
        ContainerEngine::Enroot => enroot(container, sees, variables),
        ContainerEngine::Apptainer => apptainer(container, sees, variables),
    }
}

fn detached(container: &ContainerSpec, sees: &ContainerAccess, mut variables: Vec<(String, String)>) -> Vec<String> {
    let docker = container.engine == ContainerEngine::Docker;
    let visible = gpu_list(sees);
    let mut words = vec![container.program().to_owned(), "run".to_owned(), "--rm".to_owned()];
    if docker {
        // As process 1 a server that is still loading would not receive SIGTERM. podman has no init of its own.
        words.push("--init".to_owned());
    }
    words.push(format!("--name={}", container.safe_name()));
    words.push(format!("--stop-timeout={}", sees.stop_after));
    words.push(format!("--network={}", container.settings.network.as_deref().unwrap_or("host")));
    words.push(format!("--shm-size={}", container.settings.shm_size.as_deref().unwrap_or(SHM)));
    let ulimits = container.settings.ulimits.clone();
    let ulimits = ulimits.unwrap_or_else(|| ULIMITS.map(|(name, limit)| (name.to_owned(), limit)).into());
    words.extend(ulimits.iter().map(|(name, limit)| format!("--ulimit={name}={limit}")));
    match container.settings.gpus {
        ContainerGpus::None => {}
        ContainerGpus::Leased if sees.gpus.is_empty() => {}
        ContainerGpus::Leased if docker => words.push(format!("--gpus=\"device={visible}\"")),
        ContainerGpus::Leased => {
            words.extend(sees.gpus.iter().map(|gpu| format!("--device=nvidia.com/gpu={gpu}")));
        }
        ContainerGpus::All => {
            words.push(if docker { "--gpus=all".to_owned() } else { "--device=nvidia.com/gpu=all".to_owned() });
            variables.push(("CUDA_VISIBLE_DEVICES".to_owned(), visible));
        }
    }
    words.extend(container.settings.user.iter().map(|user| format!("--user={user}")));
    words.extend(sees.dir.iter().map(|dir| format!("--workdir={dir}")));
    words.extend(mounts(container, sees).into_iter().map(|mount| format!("--volume={mount}")));
    variables.retain(|(_, value)| !value.is_empty());
    words.extend(variables.into_iter().map(|(name, value)| format!("--env={name}={value}")));
    words.extend(sees.pass.iter().map(|name| format!("--env={name}")));
    words.extend(container.settings.args.iter().cloned());
    words.push(container.settings.image.clone());
    words
}

fn enroot(container: &ContainerSpec, sees: &ContainerAccess, variables: Vec<(String, String)>) -> EngineCommand {
    let mut words = vec![container.program().to_owned(), "start".to_owned()];
    for mount in mounts(container, sees) {
        let (paths, kind) = mount.strip_suffix(":ro").map_or((mount.as_str(), "rw"), |paths| (paths, "ro"));
        words.extend(["--mount".to_owned(), format!("{paths}:none:x-create=auto,bind,{kind}")]);
    }
    let variables = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
    words.extend(variables.chain(sees.pass.iter().cloned()).flat_map(|variable| ["--env".to_owned(), variable]));
    // Its hook shows the container these devices, which are counted from 0 inside.
    let visible = gpu_list(sees);
    let seen = match container.settings.gpus {
        ContainerGpus::Leased => visible.clone(),
        ContainerGpus::All => "all".to_owned(),
        ContainerGpus::None => "void".to_owned(),
    };
    if container.settings.gpus == ContainerGpus::All && !visible.is_empty() {
        words.extend(["--env".to_owned(), format!("CUDA_VISIBLE_DEVICES={visible}")]);
    }
    words.extend(container.settings.args.iter().cloned());
    words.push(container.settings.image.clone());
    if let Some(dir) = &sees.dir {
        // It has no option for this.
        words.extend(["/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", dir].map(str::to_owned));
    }
    EngineCommand { argv: words, env: vec![("NVIDIA_VISIBLE_DEVICES".to_owned(), seen)] }
}

fn apptainer(container: &ContainerSpec, sees: &ContainerAccess, mut variables: Vec<(String, String)>) -> EngineCommand {
    let mut words = vec![container.program().to_owned(), "exec".to_owned()];
    if container.settings.gpus != ContainerGpus::None {
        words.push("--nv".to_owned());
        variables.push(("CUDA_VISIBLE_DEVICES".to_owned(), gpu_list(sees)));
    }
    words.extend(sees.dir.iter().map(|dir| format!("--pwd={dir}")));
    words.extend(mounts(container, sees).into_iter().map(|mount| format!("--bind={mount}")));
    words.extend(container.settings.args.iter().cloned());
    words.push(container.settings.image.clone());
    // `--env` splits its value at commas, which a list of GPUs has. Everything else of its environment it passes on
    // itself.
    let env = variables.into_iter().map(|(name, value)| (format!("APPTAINERENV_{name}"), value)).collect();
    EngineCommand { argv: words, env }
}

/// `0,1,3`
fn gpu_list(sees: &ContainerAccess) -> String {
    GpuId::list(&sees.gpus)
}

/// What the command needs, then what was requested; each once.
fn mounts(container: &ContainerSpec, sees: &ContainerAccess) -> Vec<String> {
    let mut mounts: Vec<String> = Vec::new();
    for mount in sees.mounts.iter().chain(&container.settings.mounts) {
        if !mounts.contains(mount) {
            mounts.push(mount.clone());
        }
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(engine: ContainerEngine, gpus: ContainerGpus) -> ContainerSpec {
        let user = engine.is_detached().then_some("1000:1000");
        let settings = serde_json::from_value(serde_json::json!({
            "image": "img",
            "mounts": ["/m:/m", "/p:/p:ro"],
            "gpus": gpus,
            "user": user,
            "env": {"A": "1 2"},
            "args": ["--extra"],
        }));
        ContainerSpec { settings: settings.unwrap(), engine, name: "run/task".to_owned() }
    }

    fn line(engine: ContainerEngine, gpus: ContainerGpus) -> String {
        let sees = ContainerAccess {
            mounts: vec!["/p:/p:ro".to_owned(), "/p/out:/p/out".to_owned()],
            set: Vec::new(),
            pass: vec!["OUT".to_owned(), "HF_TOKEN".to_owned()],
            gpus: vec![GpuId::Index(2), GpuId::Index(3)],
            dir: Some("/p/out".to_owned()),
            stop_after: 10,
        };
        let EngineCommand { argv, env } = engine_command(&container(engine, gpus), &sees);
        let env = env.into_iter().map(|(name, value)| format!("{name}={value}"));
        env.chain(argv).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn docker_is_given_devices_names_of_variables_and_a_name() {
        insta::assert_snapshot!(line(ContainerEngine::Docker, ContainerGpus::Leased), @"docker run --rm \
            --init --name=run-task --stop-timeout=10 --network=host --shm-size=2g --ulimit=memlock=-1 \
            --ulimit=stack=67108864 --gpus=\"device=2,3\" --user=1000:1000 --workdir=/p/out --volume=/p:/p:ro \
            --volume=/p/out:/p/out --volume=/m:/m --env=A=1 2 --env=OUT --env=HF_TOKEN --extra img");
        let with_all_gpus = line(ContainerEngine::Docker, ContainerGpus::All);
        assert!(
            with_all_gpus.contains("--gpus=all") && with_all_gpus.contains("--env=CUDA_VISIBLE_DEVICES=2,3"),
            "{with_all_gpus}"
        );
    }

    #[test]
    fn podman_is_given_devices_of_the_container_device_interface() {
        insta::assert_snapshot!(line(ContainerEngine::Podman, ContainerGpus::Leased), @"podman run --rm \
            --name=run-task --stop-timeout=10 --network=host --shm-size=2g --ulimit=memlock=-1 \
            --ulimit=stack=67108864 --device=nvidia.com/gpu=2 --device=nvidia.com/gpu=3 --user=1000:1000 \
            --workdir=/p/out --volume=/p:/p:ro --volume=/p/out:/p/out --volume=/m:/m --env=A=1 2 --env=OUT \
            --env=HF_TOKEN --extra img");
        assert!(!line(ContainerEngine::Podman, ContainerGpus::None).contains("nvidia"));
    }

    #[test]
    fn enroot_and_apptainer_run_as_child_processes() {
        insta::assert_snapshot!(line(ContainerEngine::Enroot, ContainerGpus::Leased), @"NVIDIA_VISIBLE_DEVICES=2,3 \
            enroot start --mount /p:/p:none:x-create=auto,bind,ro --mount /p/out:/p/out:none:x-create=auto,bind,rw \
            --mount /m:/m:none:x-create=auto,bind,rw --env A=1 2 --env OUT --env HF_TOKEN --extra img /bin/sh -c cd \
            \"$0\" && exec \"$@\" /p/out");
        insta::assert_snapshot!(line(ContainerEngine::Apptainer, ContainerGpus::Leased), @"APPTAINERENV_A=1 2 \
            APPTAINERENV_CUDA_VISIBLE_DEVICES=2,3 apptainer exec --nv --pwd=/p/out --bind=/p:/p:ro \
            --bind=/p/out:/p/out --bind=/m:/m --extra img");
    }
}
