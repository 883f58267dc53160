//! Images that come from a registry: a real one, whose tags move.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::TempDir;

use crate::server_containers::{IMAGE, Podman};
use crate::world::World;

/// A registry on a port that the system chose. What is pushed goes with it.
struct Registry {
    child: Child,
    address: String,
    _folder: TempDir,
}

impl Registry {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config.yml");
        let data = folder.path().join("data");
        let text = format!(
            "version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: '127.0.0.1:0' }}\n",
            data.display()
        );
        fs::write(&config, text).expect("written");
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("docker-registry is not here: apt-get install docker-registry");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let address = lines
            .find_map(|line| {
                let line = line.expect("text");
                let (_, rest) = line.split_once("listening on ")?;
                Some(rest.split('"').next()?.to_owned())
            })
            .expect("it listens");
        // It goes on talking, and must not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, _folder: folder }
    }

    /// Pushes the common image with one more file, and forgets it here.
    fn push(&self, name: &str, text: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("mark"), text).expect("a file");
        fs::write(folder.path().join("Dockerfile"), format!("FROM {IMAGE}\nCOPY mark /mark\n")).expect("a file");
        let name = self.name(name);
        podman(&["build", "-q", "-t", &name, &folder.path().display().to_string()]);
        podman(&["push", "-q", "--tls-verify=false", &name]);
        podman(&["rmi", "-f", &name]);
    }

    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn podman(words: &[&str]) -> String {
    let output = Podman::here().command(words).output().expect("podman");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A machine that fetches the image and asks it what it is.
fn machine(name: &str) -> World {
    let podman = Podman::here();
    let mut world = World::with(&format!(
        "stages:
  prebuild: {{ image: {{ engine: podman, pull: '{name}', args: [--tls-verify=false] }} }}
  ask:
    container: {{ engine: podman, image: '{{{{ stages.prebuild.image }}}}', ulimits: {{}} }}
    shell: cat /mark > mark
"
    ));
    world.env("CONTAINERS_CONF", &podman.config).env("CONTAINERS_STORAGE_CONF", &podman.storage);
    world
}

fn digests(world: &World) -> Vec<String> {
    let image: Value = serde_json::from_str(&world.read("latest/prebuild/image.json")).expect("JSON");
    let digests = image["digests"].as_array().expect("digests").iter();
    digests.map(|one| one.as_str().expect("a digest").to_owned()).collect()
}

#[test]
#[ignore = "needs podman"]
fn a_tag_that_has_moved_on_is_what_it_was_in_a_locked_run() {
    let registry = Registry::start();
    let name = registry.name("regatta/serving:1");
    registry.push("regatta/serving:1", "one");
    let first = machine(&name);
    first.good(&["run", "m"]);
    first.good(&["run", "m"]).shows(&format!("the tag `pull: {name}` is taken from the cache at sha256:"));
    assert_eq!(first.read("latest/ask/mark"), "one");
    let was = digests(&first);
    assert!(first.read("regatta.lock").contains(&was[0]), "{was:?}");

    // Whoever asks for the tag now gets something else.
    podman(&["rmi", "-f", &name]);
    registry.push("regatta/serving:1", "two");
    let unlocked = machine(&name);
    unlocked.good(&["run", "m"]);
    assert_eq!(unlocked.read("latest/ask/mark"), "two");
    podman(&["rmi", "-f", &name]);

    // With the first one's lock it is what was meant then.
    let locked = machine(&name);
    locked.file("regatta.lock", &first.read("regatta.lock"));
    locked.good(&["run", "m", "--locked"]).shows(&format!("`pull: {name}` was {} when it was locked", was[0]));
    assert_eq!(locked.read("latest/ask/mark"), "one");
    assert_eq!(locked.read("regatta.lock"), first.read("regatta.lock"), "a locked run changes no lock");

    // And the two that ran without one differ in it.
    let other = unlocked.path("regatta.lock").display().to_string();
    let differ = first.regatta(&["lock", "diff", "regatta.lock", &other]);
    assert_eq!(differ.code, 1, "{differ:?}");
    differ.shows("prebuild");
    Podman::here().nothing_left(&locked);
}

#[test]
#[ignore = "needs podman"]
fn an_image_that_no_registry_has_is_reported_with_the_message_of_podman() {
    let registry = Registry::start();
    let world = machine(&registry.name("regatta/nobody:1"));
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("✗ prebuild failed").shows("podman pull --tls-verify=false").shows("manifest unknown");
}
