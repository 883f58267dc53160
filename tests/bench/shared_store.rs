//! One large output put into a shared store and fetched from it, beside `cp` of the same file in the same run.
//!
//! ```text
//! cargo bench --bench shared_store                 # 4 GB, three rounds, a folder and an S3 server on loopback
//! cargo bench --bench shared_store -- 1 5          # so many GB, so many rounds
//! ```
//!
//! Printed are medians over the rounds in MB/s (10^6 bytes of the file, by the wall time of the whole command) and the ratio to
//! `cp` of the same round; never a verdict. `cp+sync` is the fairer neighbor of a store in a folder, which syncs what it publishes. Everything
//! lies on one disk, and the S3 server is a part of this program.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark starts programs and prints a table")]

#[path = "../it/shared_store/s3.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod s3;
#[path = "../it/world.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Instant;

use s3::{S3, credentials};
use world::World;

fn main() {
    let words: Vec<f64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let bytes = (words.first().copied().unwrap_or(4.0) * 1e9) as u64;
    let rounds = words.get(1).map_or(3, |rounds| *rounds as usize).max(1);
    let manifest = format!("stages:\n  engine: {{ shell: 'head -c {bytes} /dev/urandom > engine' }}\n");
    let one = World::with(&manifest);
    one.good(&["run", "m"]);
    let mut all: BTreeMap<usize, (&str, Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for _ in 0..rounds {
        let mut row = 0;
        let mut cp = 0.0;
        let mut note = |name: &'static str, seconds: f64| {
            let rate = bytes as f64 / 1e6 / seconds;
            if row == 0 {
                cp = rate;
            }
            let (_, rates, ratios) = all.entry(row).or_insert_with(|| (name, Vec::new(), Vec::new()));
            rates.push(rate);
            ratios.push(rate / cp);
            row += 1;
        };
        let copy = one.path("copy");
        let from = one.path("latest/engine/engine");
        note("cp", timed(|| succeed(Command::new("cp").arg(&from).arg(&copy))));
        fs::remove_file(&copy).expect("a copy");
        note(
            "cp+sync",
            timed(|| {
                succeed(Command::new("cp").arg(&from).arg(&copy));
                succeed(Command::new("sync").arg(&copy));
            }),
        );
        fs::remove_file(&copy).expect("a copy");
        let folder = tempfile::tempdir().expect("a folder");
        let url = folder.path().display().to_string();
        through(&one, None, &url, &manifest, ["push, folder", "pull, folder"], &mut note);
        drop(folder);
        let server = S3::start();
        through(&one, Some(&server), "s3://bucket", &manifest, ["push, S3", "pull, S3"], &mut note);
    }
    println!("{:.2} GB, {rounds} rounds, medians", bytes as f64 / 1e9);
    println!("{:<14} {:>9} {:>9}", "", "MB/s", "of cp");
    for (name, mut rates, mut ratios) in all.into_values() {
        println!("{name:<14} {:>9.0} {:>8.2}x", median(&mut rates), median(&mut ratios));
    }
}

/// From the first machine into a store, and from there to a second machine.
fn through(
    one: &World,
    server: Option<&S3>,
    url: &str,
    manifest: &str,
    names: [&'static str; 2],
    note: &mut impl FnMut(&'static str, f64),
) {
    let mut two = World::with(manifest);
    let mut sender = World::with(manifest);
    if let Some(server) = server {
        credentials(&mut two, server.address);
        credentials(&mut sender, server.address);
    }
    // The first machine's state, with the environment of this store.
    let home = one.path(".regatta").display().to_string();
    note(names[0], timed(|| drop(sender.good(&["--home", &home, "store", "push", "m", "--store", url]))));
    note(names[1], timed(|| drop(two.good(&["store", "pull", "m", "--store", url]))));
    let [sent, came] =
        [one, &two].map(|world| fs::metadata(world.path("latest/engine/engine")).expect("an engine").len());
    assert_eq!(sent, came);
}

fn timed(what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    begun.elapsed().as_secs_f64()
}

fn succeed(command: &mut Command) {
    assert!(command.status().expect("a program").success(), "{command:?}");
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
