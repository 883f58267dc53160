//! A server in a real container: it outlives the program that started it, and is stopped and removed by its name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::campaign::no_process_left;
use crate::services::{LONG_USER, USER, and_then_it_works, long_bench, world};
use crate::supervision::{await_end, kept_as_invalid, measuring, send};
use crate::world::{World, until};

/// What podman needs to work in a bare machine: no network of its own, no systemd, a storage that is only ours.
pub struct Podman {
    pub config: PathBuf,
    pub storage: PathBuf,
}

pub const IMAGE: &str = "localhost/regatta-test:1";

impl Podman {
    /// With the image imported, once for all tests.
    pub fn here() -> &'static Self {
        static PODMAN: OnceLock<Podman> = OnceLock::new();
        PODMAN.get_or_init(|| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("podman");
            fs::create_dir_all(&folder).unwrap();
            let podman = Self { config: folder.join("containers.conf"), storage: folder.join("storage.conf") };
            fs::write(
                &podman.config,
                "[containers]\ndefault_ulimits=[\"nofile=1024:1024\",\"nproc=1024:1024\"]\nnetns=\"host\"\n\
                 [engine]\nruntime=\"runc\"\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"file\"\n",
            )
            .unwrap();
            let [graph, run] = ["storage", "run"].map(|name| folder.join(name).display().to_string());
            fs::write(
                &podman.storage,
                format!("[storage]\ndriver=\"vfs\"\ngraphroot=\"{graph}\"\nrunroot=\"{run}\"\n"),
            )
            .unwrap();
            podman.import(&folder);
            podman
        })
    }

    /// An image of a busybox and of the libraries that our program needs; the program itself is mounted.
    fn import(&self, folder: &Path) {
        let root = folder.join("rootfs");
        let busybox = "/bin/busybox";
        assert!(Path::new(busybox).exists(), "{busybox} is not here: apt-get install busybox-static");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::copy(busybox, root.join("bin/busybox")).unwrap();
        for name in ["sh", "cat", "cp", "echo", "env", "id", "kill", "ls", "sleep", "touch"] {
            fs::copy(busybox, root.join("bin").join(name)).unwrap();
        }
        let libraries = Command::new("ldd").arg(env!("CARGO_BIN_EXE_regatta")).output().expect("ldd");
        for word in String::from_utf8_lossy(&libraries.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.join(word.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(word, to).unwrap();
        }
        let tar = Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).stdout(Stdio::piped()).spawn();
        let mut tar = tar.expect("tar");
        let done = self.command(&["import", "-q", "-", IMAGE]).stdin(tar.stdout.take().unwrap()).output();
        let done = done.expect("podman is not here: apt-get install podman runc");
        tar.wait().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.args(words).env("CONTAINERS_CONF", &self.config).env("CONTAINERS_STORAGE_CONF", &self.storage);
        command
    }

    /// Names of all containers that belong to a world's runs, running or not.
    pub fn containers(&self, world: &World) -> Vec<String> {
        // It fails when a container of another test goes away under its hands.
        let mut listed = String::new();
        until("podman to list containers", || {
            let answer = self.command(&["ps", "-a", "--format", "{{.Names}}"]).output().expect("podman");
            listed = String::from_utf8_lossy(&answer.stdout).into_owned();
            answer.status.success()
        });
        let runs = fs::read_dir(world.path(".regatta/runs")).expect("runs");
        let runs: Vec<String> = runs.map(|run| run.unwrap().file_name().to_string_lossy().into_owned()).collect();
        listed.lines().map(str::to_owned).filter(|name| runs.iter().any(|run| name.contains(run.as_str()))).collect()
    }

    #[track_caller]
    pub fn nothing_left(&self, world: &World) {
        no_process_left(world);
        until("the container to be gone", || self.containers(world).is_empty());
    }
}

/// The simulator in a container, in the project's own folder.
fn contained(words: &str, user: &str) -> World {
    let podman = Podman::here();
    let program = env!("CARGO_BIN_EXE_regatta");
    let server = format!(
        "  server:\n    serve:\n      command:\n        words: [podman, run, --rm, --name, \"{{name}}\", --network, host, -v, \"{program}:/regatta:ro\", -v, \"{{{{ stages.models.out }}}}:/models:ro\", -v, \"{{{{ stages.engine.out }}}}:{{{{ stages.engine.out }}}}:ro\", {IMAGE}, /regatta, sim, serve, --repository, /models/triton_model_repo_0, --grpc-port, \"{{port}}\"{words}]\n"
    );
    let mut world = world(&[&server, user]);
    world.env("CONTAINERS_CONF", &podman.config).env("CONTAINERS_STORAGE_CONF", &podman.storage);
    world
}

#[test]
#[ignore = "needs podman"]
fn a_server_in_a_container_comes_up_and_is_stopped_in_order() {
    let world = contained("", USER);
    let ended = world.good(&["run", "m"]);
    ended.shows("▲ server").shows("▼ server");
    assert!(!ended.stdout.contains("was killed"), "{}", ended.stdout);
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn a_container_that_is_killed_mid_run_makes_the_measurement_invalid() {
    let world = contained("", &long_bench());
    let run = measuring(&world);
    let podman = Podman::here();
    let names = podman.containers(&world);
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(podman.command(&["kill", &names[0]]).output().unwrap().status.success());
    let ended = await_end(&world, run);
    ended.code(1).shows("the server ended with exit code 137 while it was needed");
    kept_as_invalid(&world, "the server ended with exit code 137");
    podman.nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn a_container_outlives_the_program_that_started_it_and_is_removed_all_the_same() {
    let world = contained("", &long_bench());
    let run = measuring(&world);
    let client = crate::supervision::the_one(&world, "podman run --rm");
    send(client, "KILL");
    let ended = await_end(&world, run);
    ended.code(1).shows("the server ended by SIGKILL (9) while it was needed");
    kept_as_invalid(&world, "the server ended by SIGKILL (9)");
    Podman::here().nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn kill9_of_the_run_leaves_no_container() {
    let world = contained("", LONG_USER);
    let mut run = world.start(&["run", "m"]);
    world.await_file("using");
    let podman = Podman::here();
    assert_eq!(podman.containers(&world).len(), 1);
    run.kill().unwrap();
    run.wait().unwrap();
    podman.nothing_left(&world);
    and_then_it_works(&world);
}

#[test]
#[ignore = "needs podman"]
fn what_a_killed_run_and_its_watchdog_left_is_removed_by_the_next_run() {
    let world = contained("", LONG_USER);
    let mut run = world.start(&["run", "m"]);
    world.await_file("using");
    let watchdog = crate::crash::watchdog_of(run.id());
    // A runner that stands still cannot see its watchdog go.
    send(run.id() as i32, "STOP");
    send(watchdog, "KILL");
    run.kill().unwrap();
    run.wait().unwrap();
    let podman = Podman::here();
    let names = podman.containers(&world);
    assert_eq!(names.len(), 1, "nobody was left to remove it: {names:?}");
    world.file("gate", "");
    let again = world.good(&["run", "m"]);
    again.shows(&format!("removed the container {}, which an earlier run left behind", names[0]));
    podman.nothing_left(&world);
}

#[test]
#[ignore = "needs podman"]
fn a_container_of_somebody_else_is_never_touched() {
    let podman = Podman::here();
    let theirs = format!("theirs-{}", std::process::id());
    let started = podman.command(&["run", "-d", "--rm", "--name", &theirs, IMAGE, "busybox", "sleep", "1000"]).output();
    assert!(started.unwrap().status.success());
    let world = contained("", USER);
    // The same name on purpose: podman refuses, and what is there stays there.
    let manifest = world.read("manifests/m.yaml").replace("{name}", &theirs);
    world.file("manifests/m.yaml", &manifest);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let listed = podman.command(&["ps", "--format", "{{.Names}}"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let _ = podman.command(&["kill", &theirs]).output();
    assert!(listed.lines().any(|name| name == theirs), "{listed}");
    no_process_left(&world);
}
