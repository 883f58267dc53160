//! The layered graph of 10,000 stages, three inputs each, beside ninja in the same run.
//!
//! ```text
//! cargo bench --bench graph                 # 10,000 stages
//! cargo bench --bench graph -- 1000 5       # so many stages, so many repeats of the quick rows
//! ```
//!
//! Every stage is one `sh -c` that reads its inputs and writes one small file. Both tools run the same commands on the same machine,
//! alternately; printed are medians and ratios, never a verdict. Needs `ninja` in PATH; without it our own column is printed alone.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark starts programs and prints a table")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

fn manifest(n: usize) -> String {
    let mut text = "regatta: 1\nname: graph\nstages:\n".to_owned();
    for i in 0..n {
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

impl Side {
    fn time(&self, words: &[String]) -> Duration {
        let begun = Instant::now();
        let output = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(&self.folder)
            .env_remove("REGATTA_HOME")
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}", words[0]));
        let took = begun.elapsed();
        assert!(output.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        took
    }

    fn source(&self, i: usize) -> PathBuf {
        self.folder.join(format!("src/{i}.txt"))
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The row for both sides: each repeat prepares, then times, one side after the other.
fn row(title: &str, sides: &mut [Side], repeats: usize, plan: bool, mut prepare: impl FnMut(&mut Side, usize)) {
    let mut times = vec![Vec::new(); sides.len()];
    for repeat in 0..repeats {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            prepare(side, repeat);
            times.push(side.time(if plan { &side.plan } else { &side.command }));
        }
    }
    let medians: Vec<f64> = times.into_iter().map(|t| median(t).as_secs_f64()).collect();
    print!("| {title} |");
    for m in &medians {
        print!(" {m:.3} |");
    }
    match medians.as_slice() {
        [ours, theirs] => println!(" {:.2} |", ours / theirs),
        _ => println!(" - |"),
    }
}

fn touch(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let n = numbers.first().copied().unwrap_or(10_000);
    let repeats = numbers.get(1).copied().unwrap_or(7);
    let root = tempfile::tempdir().unwrap();
    let regatta = env!("CARGO_BIN_EXE_regatta").to_owned();
    let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
    let mut sides = vec![Side {
        name: "regatta",
        folder: root.path().join("regatta"),
        command: words(&[&regatta, "run", "graph", "-j", "2"]),
        plan: words(&[&regatta, "plan", "graph", "--json"]),
    }];
    let ninja = Command::new("ninja").arg("--version").output();
    if let Ok(version) = ninja {
        println!("ninja {}", String::from_utf8_lossy(&version.stdout).trim());
        sides.push(Side {
            name: "ninja",
            folder: root.path().join("ninja"),
            command: words(&["ninja", "-j", "2"]),
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
        fs::write(side.folder.join("manifests/graph.yaml"), manifest(n)).unwrap();
        fs::write(side.folder.join("build.ninja"), build_ninja(n)).unwrap();
    };
    for side in &mut sides {
        prepare_all(side, 0);
    }
    println!("{n} stages, three inputs each, -j 2; seconds, medians\n");
    println!("| row | {} | ratio |", sides.iter().map(|s| s.name).collect::<Vec<_>>().join(" | "));
    println!("|---|{}---|", "---|".repeat(sides.len()));
    row("plan, cold (from text)", &mut sides, 3, true, |_, _| {});
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
}
