//! Real sshd on several hosts, each a network and a process space of its own, for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::kept_part::{KeptPart, script};
use crate::world::World;

/// Hosts that are gone when this is dropped.
pub struct Lab {
    _part: KeptPart,
    folder: PathBuf,
    prefix: String,
}

impl Lab {
    pub fn up(hosts: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("regatta-hosts-{id}-{n}"));
        // The name of a network device has fifteen bytes.
        let prefix = format!("h{id}x{n}n");
        let part = KeptPart::up(script("hosts.sh").arg("keep").arg(&folder).args([&prefix, &hosts.to_string()]));
        Self { _part: part, folder, prefix }
    }

    /// The name of a host; the first is 1.
    pub fn host(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }

    pub fn address(&self, number: u32) -> String {
        format!("{}.{number}", fs::read_to_string(self.folder.join("net")).expect("the network").trim())
    }

    /// A project whose `ssh` finds the hosts. `{h1}`, `{h2}`, … in the manifest are their names.
    pub fn world(&self, manifest: &str) -> World {
        let mut world = World::with(&self.named(manifest));
        let folder = world.path("");
        world.env("W", folder);
        world.env("PATH", format!("{}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap()));
        world
    }

    pub fn named(&self, manifest: &str) -> String {
        (1..=9).fold(manifest.to_owned(), |text, n| text.replace(&format!("{{h{n}}}"), &self.host(n)))
    }

    /// The one process of a host whose command holds this.
    #[track_caller]
    pub fn the_one(&self, number: u32, command: &str) -> i32 {
        let running = self.running(number);
        let found: Vec<&String> = running.iter().filter(|line| line.contains(command)).collect();
        assert_eq!(found.len(), 1, "{command}: {running:?}");
        found[0].split(' ').next().and_then(|pid| pid.parse().ok()).expect("a process id")
    }

    /// `cut`, `heal`, `crash`, `boot`.
    pub fn does(&self, what: &str, number: u32) -> &Self {
        let done = script("hosts.sh").arg(what).arg(&self.folder).arg(self.host(number)).status().expect("hosts.sh");
        assert!(done.success(), "{what} {number}");
        self
    }

    /// What goes to a host takes its time from now on: 32 kB come in a second.
    pub fn slow(&self, number: u32) {
        let mut command = Command::new("tc");
        command.args(["qdisc", "add", "dev", &self.host(number), "root", "tbf"]);
        let done = command.args(["rate", "256kbit", "burst", "4kb", "latency", "500ms"]).status();
        assert!(done.expect("`tc`: apt-get install iproute2").success());
    }

    /// An empty folder lies over this one on a host.
    pub fn hide(&self, number: u32, folder: &Path) {
        let mut command = script("hosts.sh");
        let done = command.arg("hide").arg(&self.folder).arg(self.host(number)).arg(folder).status().expect("hosts.sh");
        assert!(done.success());
    }

    /// Commands of the processes of a host that are this program's, or its servers'.
    pub fn running(&self, number: u32) -> Vec<String> {
        let output =
            script("hosts.sh").arg("pids").arg(&self.folder).arg(self.host(number)).output().expect("hosts.sh");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter(|line| line.contains("/regatta ")).map(str::to_owned).collect()
    }

    /// Every call of ssh: its words.
    pub fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }
}
