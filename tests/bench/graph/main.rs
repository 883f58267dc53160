//! The layered graph of 10,000 stages, three inputs each, beside ninja in the same run.
//!
//! ```text
//! cargo bench --bench graph                 # 10,000 stages, a job for each core
//! cargo bench --bench graph -- 1000 5       # so many stages, so many repeats of the quick rows
//! cargo bench --bench graph -- 1000 5 2     # and so many jobs: with few of them the time for each stage shows, with many the throughput
//! cargo bench --bench graph -- 1000 5 2 PROGRAM    # of another build
//! ```
//!
//! Every stage is one `sh -c` that reads its inputs and writes one small file. Both tools run the same commands on the same machine,
//! alternately; printed are medians and ratios, never a verdict: seconds, the peak of resident memory, and the processor time of the
//! program itself without the commands that it starts, which the kernel counts in steps of 10 ms. Needs `ninja` in PATH; without it our
//! own columns are printed alone. Below it is what the system calls of a stage cost by themselves (`floor`). Then a folder of files is
//! hashed as an input, beside `b3sum` if that is in PATH.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark starts programs and prints a table")]

mod floor;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

const WIDTH: usize = 640;

/// The layered graph: stage `i` reads the three outputs above it and beside that, or a source file in the first layer. One leaf of
/// 10,000 stages has about 235 stages below it.
fn needs(i: usize) -> Vec<usize> {
    let (layer, at) = (i / WIDTH, i % WIDTH);
    if layer == 0 {
        return Vec::new();
    }
    let mut needs: Vec<usize> = [WIDTH - 1, 0, 1].iter().map(|k| (layer - 1) * WIDTH + (at + k) % WIDTH).collect();
    needs.sort_unstable();
    needs
}

/// One `sh -c` without further processes: reads a number from each input and writes their sum, so that a change travels on and
/// nothing grows.
fn script(inputs: &[String], out: &str) -> String {
    let mut text = String::new();
    for (input, name) in inputs.iter().zip(["a", "b", "c"]) {
        let _ = write!(text, "read {name} < {input}; ");
    }
    let _ = write!(text, "echo $(( (a + ${{b:-0}} + ${{c:-0}}) % 1000003 )) > {out}");
    text
}

/// A file of a manifest may have 16 MiB: larger plans are in several.
const STAGES_OF_A_FILE: usize = 50_000;

/// The files of the manifest, by name; the first one is the manifest.
fn manifest(n: usize) -> Vec<(String, String)> {
    let parts: Vec<_> = (0..n).step_by(STAGES_OF_A_FILE).map(|from| from..n.min(from + STAGES_OF_A_FILE)).collect();
    let name = |part: usize| if part == 0 { "graph.yaml".to_owned() } else { format!("graph-{part}.part") };
    let others: Vec<String> = (1..parts.len()).map(name).collect();
    let mut files = Vec::new();
    for (part, stages) in parts.into_iter().enumerate() {
        let head = match (part, others.is_empty()) {
            (0, true) => "regatta: 1\nname: graph\n".to_owned(),
            (0, false) => format!("regatta: 1\nname: graph\ninclude: [{}]\n", others.join(", ")),
            _ => String::new(),
        };
        files.push((name(part), head + &stage_texts(stages)));
    }
    files
}

fn stage_texts(stages: std::ops::Range<usize>) -> String {
    let mut text = "stages:\n".to_owned();
    for i in stages {
        let _ = writeln!(text, "  s{i}:");
        let from = needs(i);
        let inputs: Vec<String> = if from.is_empty() {
            let _ = writeln!(text, "    inputs: {{ source: src/{i}.txt }}");
            vec!["{{ inputs.source }}".to_owned()]
        } else {
            from.iter().map(|d| format!("{{{{ stages.s{d}.out }}}}/out")).collect()
        };
        let _ = writeln!(text, "    shell: {}", script(&inputs, "out"));
    }
    text
}

fn build_ninja(n: usize) -> String {
    let mut text = "rule r\n  command = $script\n".to_owned();
    for i in 0..n {
        let from = needs(i);
        let inputs: Vec<String> = if from.is_empty() {
            vec![format!("src/{i}.txt")]
        } else {
            from.iter().map(|d| format!("o/{d}")).collect()
        };
        let script = script(&inputs, &format!("o/{i}")).replace('$', "$$");
        let _ = writeln!(text, "build o/{i}: r {}\n  script = {script}", inputs.join(" "));
    }
    text
}

struct Side {
    name: &'static str,
    folder: PathBuf,
    command: Vec<String>,
    plan: Vec<String>,
}

/// What one command took.
#[derive(Clone, Copy, Default)]
struct Cost {
    seconds: f64,
    /// Seconds of the processor that the program itself took, without its children.
    own_cpu: f64,
    /// Bytes.
    peak: u64,
}

impl Cost {
    /// Each of its numbers by itself.
    fn medians(all: &[Self]) -> Self {
        let median = |number: &dyn Fn(&Self) -> f64| {
            let mut numbers: Vec<f64> = all.iter().map(number).collect();
            numbers.sort_by(f64::total_cmp);
            numbers[numbers.len() / 2]
        };
        Self {
            seconds: median(&|cost| cost.seconds),
            own_cpu: median(&|cost| cost.own_cpu),
            peak: median(&|cost| cost.peak as f64) as u64,
        }
    }
}

/// Waits for a program that was started at `begun`. Its peak is looked at every millisecond.
fn cost(mut child: Child, begun: Instant, name: &str) -> Cost {
    let pid = Pid::from_child(&child);
    let file = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default();
    let ended = AtomicBool::new(false);
    let (seconds, peak) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak = 0;
            while !ended.load(Ordering::Relaxed) {
                let status = file("status");
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
                peak = peak.max(kib.unwrap_or_default() << 10);
                std::thread::sleep(Duration::from_millis(1));
            }
            peak
        });
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        let seconds = begun.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        (seconds, watching.join().unwrap())
    });
    // It has ended and is still there.
    let own_cpu = cpu_seconds(&file("stat"));
    let status = child.wait().unwrap();
    assert!(status.success(), "{name}: {status}");
    Cost { seconds, own_cpu, peak }
}

/// From `/proc/PID/stat`. After the name: state, …, utime and stime as the 12th and 13th, in ticks of 10 ms.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

impl Side {
    fn run(&self, words: &[String]) -> Cost {
        let begun = Instant::now();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&self.folder)
            .env_remove("REGATTA_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", words[0]));
        cost(child, begun, self.name)
    }

    fn source(&self, i: usize) -> PathBuf {
        self.folder.join(format!("src/{i}.txt"))
    }
}

/// A row of the table, from the costs of both sides.
fn print_row(title: &str, sides: &[Cost]) {
    print!("| {title} |");
    for cost in sides {
        print!(" {:.3} | {:.0} | {:.2} |", cost.seconds, cost.peak as f64 / 1e6, cost.own_cpu);
    }
    match sides {
        [ours, theirs] => println!(" {:.2} |", ours.seconds / theirs.seconds),
        _ => println!(" - |"),
    }
}

/// The row for both sides: each repeat prepares, then times, one side after the other.
fn row(
    title: &str,
    sides: &mut [Side],
    repeats: usize,
    plan: bool,
    mut prepare: impl FnMut(&mut Side, usize),
) -> Vec<Cost> {
    let mut costs = vec![Vec::new(); sides.len()];
    for repeat in 0..repeats {
        for (side, costs) in sides.iter_mut().zip(&mut costs) {
            prepare(side, repeat);
            costs.push(side.run(if plan { &side.plan } else { &side.command }));
        }
    }
    let medians: Vec<Cost> = costs.iter().map(|costs| Cost::medians(costs)).collect();
    print_row(title, &medians);
    medians
}

/// A file of 256 MB and 2,000 of 64 KB as the inputs of one stage that was never hashed, and the same by `b3sum`.
fn hashing(root: &Path, regatta: &str) {
    let folder = root.join("hashing");
    fs::create_dir_all(folder.join("data")).unwrap();
    fs::create_dir_all(folder.join("manifests")).unwrap();
    let mut block: Vec<u8> = (0..64 << 10).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for n in 0_u32..2000 {
        block[..4].copy_from_slice(&n.to_le_bytes());
        fs::write(folder.join(format!("data/{n}")), &block).unwrap();
    }
    fs::write(folder.join("data/large"), block.repeat(4096)).unwrap();
    let text = "regatta: 1\nname: hash\nstages:\n  s:\n    inputs: { data: data }\n    shell: 'true'\n";
    fs::write(folder.join("manifests/hash.yaml"), text).unwrap();
    // A plan writes nothing, so that each hashes everything.
    let mut sides = vec![("regatta plan", regatta, vec!["plan".to_owned(), "hash".to_owned()])];
    if Command::new("b3sum").arg("--version").output().is_ok() {
        let files = fs::read_dir(folder.join("data")).unwrap();
        let files = files.map(|item| format!("data/{}", item.unwrap().file_name().to_string_lossy())).collect();
        sides.push(("b3sum", "b3sum", files));
    }
    let mut costs = vec![Vec::new(); sides.len()];
    for _ in 0..7 {
        for ((name, program, args), costs) in sides.iter().zip(&mut costs) {
            let mut command = Command::new(program);
            command.args(args).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null());
            let begun = Instant::now();
            costs.push(cost(command.spawn().unwrap(), begun, name));
        }
    }
    let medians: Vec<Cost> = costs.iter().map(|costs| Cost::medians(costs)).collect();
    println!("\n2,001 files, 400 MB, as an input\n");
    println!("| program | s | MB | own CPU s |\n|---|---|---|---|");
    for ((name, ..), cost) in sides.iter().zip(&medians) {
        println!("| {name} | {:.3} | {:.0} | {:.2} |", cost.seconds, cost.peak as f64 / 1e6, cost.own_cpu);
    }
    if let [ours, theirs] = medians.as_slice() {
        println!("\nb3sum's time / regatta's: {:.0} %", 100.0 * theirs.seconds / ours.seconds);
    }
}

fn touch(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let n = numbers.first().copied().unwrap_or(10_000);
    let repeats = numbers.get(1).copied().unwrap_or(7);
    let jobs =
        numbers.get(2).copied().unwrap_or_else(|| std::thread::available_parallelism().unwrap().get()).to_string();
    let root = tempfile::tempdir().unwrap();
    // An argument that is a file: another build of the program.
    let other = std::env::args().skip(1).find(|word| Path::new(word).is_file());
    let regatta = other.unwrap_or_else(|| env!("CARGO_BIN_EXE_regatta").to_owned());
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
    let mut sides = vec![Side {
        name: "regatta",
        folder: root.path().join("regatta"),
        command: words(&[&regatta, "run", "graph", "-j", &jobs]),
        plan: words(&[&regatta, "plan", "graph", "--json"]),
    }];
    let ninja = Command::new("ninja").arg("--version").output();
    if let Ok(version) = ninja {
        println!("ninja {}", String::from_utf8_lossy(&version.stdout).trim());
        sides.push(Side {
            name: "ninja",
            folder: root.path().join("ninja"),
            command: words(&["ninja", "-j", &jobs]),
            plan: words(&["ninja", "-n"]),
        });
    }
    // A new folder each time: ext4 looks at every inode that was deleted in the last seconds before it gives one out, so a
    // cold run right after a removal would measure that.
    let prepare_all = |side: &mut Side, repeat: usize| {
        side.folder.set_file_name(format!("{}-{repeat}", side.name));
        fs::create_dir_all(side.folder.join("src")).unwrap();
        fs::create_dir_all(side.folder.join("manifests")).unwrap();
        fs::create_dir_all(side.folder.join("o")).unwrap();
        for i in 0..WIDTH.min(n) {
            fs::write(side.source(i), format!("{i}\n")).unwrap();
        }
        for (name, text) in manifest(n) {
            fs::write(side.folder.join("manifests").join(name), text).unwrap();
        }
        fs::write(side.folder.join("build.ninja"), build_ninja(n)).unwrap();
    };
    for side in &mut sides {
        prepare_all(side, 0);
    }
    println!("{n} stages, three inputs each, -j {jobs}; medians\n");
    let columns: Vec<_> = sides.iter().map(|s| format!("{} s | MB | own CPU s", s.name)).collect();
    println!("| row | {} | ratio of s |", columns.join(" | "));
    println!("|---|{}---|", "---|---|---|".repeat(sides.len()));
    row("plan, cold (from text)", &mut sides, 3, true, |_, _| {});
    let cold =
        row("cold", &mut sides, if n > 2000 { 2 } else { 3 }, false, |side, repeat| prepare_all(side, repeat + 1));
    row("no-op", &mut sides, repeats, false, |_, _| {});
    row("plan, nothing to do", &mut sides, repeats, true, |_, _| {});
    row("one leaf touched, same content", &mut sides, repeats, false, |side, _| {
        std::thread::sleep(Duration::from_millis(30));
        touch(&side.source(3));
    });
    row("one leaf changed", &mut sides, repeats, false, |side, repeat| {
        std::thread::sleep(Duration::from_millis(30));
        fs::write(side.source(3), format!("{}\n", 1000 + repeat)).unwrap();
    });
    row("no-op after it", &mut sides, repeats, false, |_, _| {});
    for (side, cost) in sides.iter().zip(&cold) {
        println!("\n{}: {:.0} µs of its own CPU a stage, cold", side.name, cost.own_cpu * 1e6 / n as f64);
    }
    let floor_folder = root.path().join("floor");
    fs::create_dir_all(&floor_folder).unwrap();
    fs::write(floor_folder.join("source"), "1\n").unwrap();
    let floor = floor::cost(n.min(10_000), &floor_folder).unwrap();
    println!("the system calls of a stage alone: {:.0} µs", floor * 1e6);
    hashing(root.path(), &regatta);
}
