//! A real Slurm for one test: a controller and four virtual nodes.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::kept_part::{KeptPart, script};
use crate::world::{World, alive_with, until};

/// A cluster that is gone when this is dropped.
pub struct Cluster {
    _part: KeptPart,
    folder: PathBuf,
    prefix: String,
}

impl Cluster {
    pub fn up() -> Self {
        Self::with(false, "")
    }

    /// With further lines in its configuration.
    pub fn configured(lines: &str) -> Self {
        Self::with(false, lines)
    }

    /// Each node has a network of its own, whose link can be cut.
    pub fn with_links() -> Self {
        Self::with(true, "")
    }

    fn with(links: bool, lines: &str) -> Self {
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("regatta-slurm-{id}-{n}"));
        // Below the ephemeral ports, twenty for each cluster. Another process of the same tests begins somewhere else.
        let rows = (id % 20) as u16 * 40 + n..;
        let mut free = rows.take(800).map(|row| 12_000 + row % 800 * 20).filter(|first| are_free(*first..first + 20));
        let port = free.next().expect("twenty free ports");
        let prefix = format!("t{id}x{n}n");
        let part = KeptPart::up(
            script("slurm.sh")
                .arg("keep")
                .arg(&folder)
                .args(["4", &port.to_string(), &prefix])
                .args(links.then(|| format!("10.{}.{}", 80 + id % 100, n)))
                .env("CONFIGURATION", lines),
        );
        Self { _part: part, folder, prefix }
    }

    /// A project that submits to this cluster.
    pub fn world(&self, manifest: &str) -> World {
        let mut world = World::with(manifest);
        let folder = world.path("");
        world.env("W", folder);
        world.env("PATH", self.path());
        world
    }

    /// `PATH` with its programs in front.
    pub fn path(&self) -> String {
        format!("{}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap())
    }

    /// One of Slurm's programs, for this cluster.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// What one of Slurm's programs prints; the calls of tests are not counted.
    pub fn query(&self, words: &[&str]) -> String {
        let output = Command::new(format!("/usr/bin/{}", words[0]))
            .args(&words[1..])
            .env("SLURM_CONF", self.folder.join("etc/slurm.conf"))
            .output()
            .expect("Slurm's program");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `state reason node` of every job that there ever was, oldest first.
    pub fn jobs(&self) -> Vec<String> {
        self.query(&["squeue", "-h", "-r", "-t", "all", "-S", "i", "-o", "%T %N"])
            .lines()
            .map(|line| line.trim().to_owned())
            .collect()
    }

    /// How many times the run asked one of Slurm's programs.
    pub fn calls(&self, program: &str) -> usize {
        self.lines(program).len()
    }

    /// These calls: when, the program, its words.
    pub fn lines(&self, program: &str) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.join("log/calls")).unwrap_or_default();
        calls.lines().filter(|line| line.split(' ').nth(1) == Some(program)).map(str::to_owned).collect()
    }

    /// A job for all nodes that nobody else may stay beside; its number.
    pub fn urgent(&self) -> String {
        let words = [
            "sbatch",
            "--parsable",
            "--partition=urgent",
            "--nodes=4",
            "--exclusive",
            "--chdir=/",
            "--output=/dev/null",
        ];
        self.query(&[&words[..], &["--wrap=sleep 1000"]].concat()).trim().to_owned()
    }

    /// `cut` or `heal`: a node's link.
    pub fn link(what: &str, node: &str) {
        assert!(script("slurm.sh").args([what, node]).status().expect("slurm.sh").success());
    }

    pub fn pid(&self, daemon: &str) -> i32 {
        let file = self.folder.join(format!("run/{daemon}.pid"));
        fs::read_to_string(&file).expect("its process id").trim().parse().expect("a number")
    }

    /// The node that a stage wrote down.
    pub fn node(&self, world: &World, file: &str) -> String {
        // A file is there a moment before its first line.
        until("the name of a node", || world.count(file) > 0);
        let node = world.read(file).trim().to_owned();
        assert!(node.starts_with(&self.prefix), "{node} is not one of ours");
        node
    }

    /// Ends everything of a node at once, as a power cut would.
    pub fn kill(&self, node: &str) {
        let kill =
            |pid: i32| drop(Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status());
        kill(self.pid(&format!("slurmd.{node}")));
        let of_the_node = alive_with(format!("SLURMD_NODENAME={node}"));
        // The daemons of its steps first: they would tell the controller how the rest ended. Only its own: the jobs of other
        // nodes would run for minutes in Slurm's eyes.
        for (pid, _) in &of_the_node {
            let parent = parent(*pid);
            if fs::read(format!("/proc/{parent}/cmdline")).is_ok_and(|command| command.starts_with(b"slurmstepd")) {
                kill(parent);
            }
        }
        for (pid, _) in of_the_node {
            kill(pid);
        }
    }
}

/// The process that started it; 0 when it is gone.
fn parent(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|pid| pid.trim().parse().ok()).unwrap_or(0)
}

impl Drop for Cluster {
    #[expect(clippy::print_stderr, reason = "it is for the reader of a failed test")]
    fn drop(&mut self) {
        // A test that waited in vain leaves what Slurm itself knew: the cluster is gone a moment later.
        if std::thread::panicking() {
            for words in [&["squeue", "-r", "-t", "all", "-o", "%i %T %r %N %S %M"][..], &["sinfo", "-N", "-l"]] {
                eprintln!("$ {}\n{}", words.join(" "), self.query(words));
            }
            // What the run requested from Slurm, the many looks at the queue apart; then what Slurm did.
            for (name, without) in [("calls", " squeue "), ("slurmctld.log", "debug")] {
                let log = fs::read_to_string(self.folder.join("log").join(name)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().filter(|line| !line.contains(without)).collect();
                eprintln!("{name}:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}

fn are_free(mut ports: Range<u16>) -> bool {
    ports.all(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok())
}
