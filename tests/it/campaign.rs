//! Kills at random instants and what must hold after each. Used by the `crash` chapter and, at full size, by `tests/bench/kill.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use regatta::event::{Event, RunId};
use regatta::harness::read_result;
use regatta::runner::store::{OutputCache, ReadJournal, StateFolder, last_run, read_journal, runs};

use crate::world::{Ended, World, alive_with, until};

/// What is run, killed and run again.
#[derive(Clone, Debug)]
pub struct Subject {
    /// A manifest of the subject's own, and its inputs; `None` for a shipped one.
    manifest: Option<String>,
    words: Vec<String>,
}

/// Fifty stages in five layers. Each writes its output in two halves and says outside that it ended; one has more files than
/// a record holds in its own line.
pub fn fifty() -> Subject {
    let mut text = "stages:\n".to_owned();
    for ix in 0..50 {
        let (layer, place) = (ix / 10, ix % 10);
        let _ = writeln!(text, "  s{ix}:");
        let read = if layer == 0 {
            let _ = writeln!(text, "    inputs: {{ source: sources/{place}.txt }}");
            "{{ inputs.source }}".to_owned()
        } else {
            let above = |k: usize| (layer - 1) * 10 + (place + k * 3) % 10;
            (0..3).map(|k| format!("{{{{ stages.s{}.out }}}}/out", above(k))).collect::<Vec<_>>().join(" ")
        };
        let many = if ix == 23 { "\n      for n in $(seq 100); do echo $n > file$n; done" } else { "" };
        let _ = write!(
            text,
            "    shell: |\n      echo s{ix} > out{many}\n      cat {read} | sort -u >> out\n      echo s{ix} >> \"$W/ended\"\n"
        );
    }
    Subject { manifest: Some(text), words: vec!["m".to_owned()] }
}

/// The shipped quickstart with these parameters.
pub fn quickstart(settings: &[String]) -> Subject {
    let mut words = vec!["quickstart".to_owned()];
    words.extend(settings.iter().cloned());
    Subject { manifest: None, words }
}

impl Subject {
    fn world(&self) -> World {
        let mut world = World::new();
        if let Some(manifest) = &self.manifest {
            world.manifest("m", manifest);
            for n in 0..10 {
                world.file(&format!("sources/{n}.txt"), &format!("source {n}\n"));
            }
        }
        let folder = world.path("");
        world.env("W", folder);
        world
    }

    fn words(&self) -> Vec<&str> {
        ["run"].into_iter().chain(self.words.iter().map(String::as_str)).collect()
    }

    /// A run that nobody disturbs: what comes out, and how long it takes.
    pub fn undisturbed(&self) -> Undisturbed {
        let world = self.world();
        let begun = Instant::now();
        world.good(&self.words());
        let seconds = begun.elapsed().as_secs_f64();
        Undisturbed { bytes: bytes(&world), seconds }
    }
}

pub struct Undisturbed {
    bytes: BTreeMap<String, blake3::Hash>,
    pub seconds: f64,
}

/// What one kill led to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Seconds after the start of the killed run.
    pub at: f64,
    /// What was going on then.
    pub phase: String,
    /// What the rerun took.
    pub rerun: f64,
    /// Reruns that a busy machine made invalid as measurements, and that were run once more.
    pub invalid: usize,
    /// Tasks that had a record when the kill came.
    pub kept: usize,
    /// What should not have been, in words.
    pub violations: Vec<String>,
}

/// Instants over a whole run, the same for the same seed.
pub fn instants(seed: u64, over: f64, n: usize) -> Vec<Vec<f64>> {
    let mut random = Pcg64::seed_from_u64(seed);
    (0..n)
        .map(|_| {
            // Every fourth time the rerun is killed, too.
            let kills = if random.random_range(0..4) == 0 { 2 } else { 1 };
            (0..kills).map(|_| random.random_range(0.0..over)).collect()
        })
        .collect()
}

/// A fresh project; kill -9 after each of these times; a rerun; and the look at everything that must hold.
pub fn kill_and_rerun(subject: &Subject, undisturbed: &Undisturbed, at: &[f64]) -> Outcome {
    let world = subject.world();
    let home = home(&world);
    let mut outcome = Outcome { at: at[0], ..Outcome::default() };
    let mut done = BTreeSet::new();
    let mut ended = BTreeMap::new();
    let mut killed = Vec::new();
    for (nth, at) in at.iter().enumerate() {
        let before = runs(&home).unwrap().len();
        let mut run = world.start(&subject.words());
        std::thread::sleep(Duration::from_secs_f64(*at));
        run.kill().expect("a kill");
        run.wait().expect("an end");
        // Records are only written by the one that is dead now.
        let output_cache = OutputCache::open(&home).expect("the records");
        let journal = if runs(&home).unwrap().len() > before { last_run(&home).unwrap() } else { None };
        if nth == 0 {
            outcome.phase = phase(&home, journal.as_ref());
        }
        outcome.check_not_twice(&home, journal.as_ref(), &done, "a killed rerun");
        killed.extend(journal);
        done = output_cache.records().iter().map(|record| record.task.to_string()).collect();
        ended = count(&world);
    }
    outcome.kept = done.len();

    let begun = Instant::now();
    let mut again = world.regatta(&subject.words());
    // Measurements beside other work on the machine may be refused by their own checks: that is no fault of the rerun's.
    while matches!(again.code, 3 | 4) && outcome.invalid < 5 {
        outcome.invalid += 1;
        again = world.regatta(&subject.words());
    }
    outcome.rerun = begun.elapsed().as_secs_f64();
    outcome.check_rerun(&world, &again, undisturbed);
    let rerun = last_run(&home).unwrap();
    if outcome.invalid == 0 {
        // When everything was done before, the rerun writes no journal.
        let rerun = rerun.filter(|run| !killed.contains(run));
        outcome.check_not_twice(&home, rerun.as_ref(), &done, "the rerun");
    }
    let ended_now = count(&world);
    for (task, times) in ended.iter().filter(|(task, _)| done.contains(*task)) {
        if ended_now.get(task) != Some(times) {
            outcome.violations.push(format!("{task} was done and its command ran again"));
        }
    }
    outcome.check_left_behind(&world, &home);
    outcome.check_journals(&home, &killed);
    outcome
}

impl Outcome {
    fn check_rerun(&mut self, world: &World, again: &Ended, undisturbed: &Undisturbed) {
        if again.code != 0 {
            let mut lines: Vec<&str> = again.stdout.lines().chain(again.stderr.lines()).collect();
            lines.drain(..lines.len().saturating_sub(30));
            self.violations.push(format!("the rerun ended with {}: {}", again.code, lines.join("\n")));
            return;
        }
        let bytes = bytes(world);
        for (path, digest) in &undisturbed.bytes {
            match bytes.get(path) {
                None => self.violations.push(format!("{path} is missing")),
                Some(now) if now != digest => self.violations.push(format!("{path} has other bytes")),
                Some(_) => {}
            }
        }
        let more = bytes.keys().filter(|path| !undisturbed.bytes.contains_key(*path));
        self.violations.extend(more.map(|path| format!("{path} is there and should not be")));
    }

    fn check_not_twice(&mut self, home: &StateFolder, run: Option<&RunId>, done: &BTreeSet<String>, which: &str) {
        let Some(run) = run else { return };
        for event in journal(home, run).events {
            if let Event::TaskStarted { task, .. } = event
                && done.contains(task.as_str())
            {
                self.violations.push(format!("{task} was done and started again in {which}"));
            }
        }
    }

    fn check_left_behind(&mut self, world: &World, home: &StateFolder) {
        let mark = format!("REGATTA_HOME={}", home.state().display());
        self.violations.extend(alive_with(&mark).iter().map(|(pid, command)| format!("{pid} is alive: {command}")));
        let named = OutputCache::open(home).expect("the records").named_folders();
        for name in names(&home.outputs()) {
            if !named.contains(name.strip_suffix(".files").unwrap_or(&name)) {
                self.violations.push(format!("out/{name} is there and no record names it"));
            }
        }
        for path in links_and_files(&home.latest()) {
            let target = fs::canonicalize(&path).unwrap_or_default();
            let is_output = target.parent().is_some_and(|parent| parent.ends_with(".regatta/out"));
            if !is_output && !path.ends_with("report.html") {
                self.violations.push(format!("{} leads nowhere", path.display()));
            }
        }
        let all = walkdir::WalkDir::new(world.path("")).into_iter().flatten();
        for item in all.filter(|item| item.path().extension().is_some_and(|e| e.to_string_lossy().starts_with("tmp"))) {
            self.violations.push(format!("{} is half written", item.path().display()));
        }
    }

    fn check_journals(&mut self, home: &StateFolder, killed: &[RunId]) {
        for run in runs(home).expect("the runs") {
            let read = journal(home, &run);
            if let Some(line) = read.corrupt {
                self.violations.push(format!("line {line} of the journal of {run} is corrupt"));
            }
            if read.torn && !killed.contains(&run) {
                self.violations.push(format!("the journal of {run} is torn, and nobody killed that run"));
            }
        }
    }
}

/// Waits until nothing of a killed run lives any more.
pub fn no_process_left(world: &World) {
    let mark = format!("REGATTA_HOME={}", world.path(".regatta").display());
    until("all processes to be gone", || alive_with(&mark).is_empty());
}

pub fn home(world: &World) -> StateFolder {
    StateFolder::new(world.path(""), world.path(".regatta"))
}

fn journal(home: &StateFolder, run: &RunId) -> ReadJournal {
    read_journal(&home.run(run).join("journal.jsonl")).expect("a journal")
}

/// What went on when the journal ends.
fn phase(home: &StateFolder, run: Option<&RunId>) -> String {
    let Some(run) = run else { return "before the journal".to_owned() };
    let mut open = BTreeSet::new();
    let mut settled = 0;
    for event in journal(home, run).events {
        match event {
            Event::TaskStarted { task, .. } => drop(open.insert(task.to_string())),
            Event::TaskFinished { task, .. } | Event::ServiceStopped { task, .. } => {
                settled += 1;
                open.remove(task.as_str());
            }
            Event::ServiceReady { task, .. } => {
                open.remove(task.as_str());
            }
            Event::RunFinished { .. } => return "after the end".to_owned(),
            _ => {}
        }
    }
    match open.pop_last() {
        Some(task) => format!("during {}", task.split('/').next().unwrap_or_default()),
        None if settled == 0 => "before the first stage".to_owned(),
        None => "between stages".to_owned(),
    }
}

/// How often each stage that says so has ended.
fn count(world: &World) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for line in fs::read_to_string(world.path("ended")).unwrap_or_default().lines() {
        *count.entry(line.to_owned()).or_default() += 1;
    }
    count
}

/// Every file that the project offers in `latest`, by its path there. Folders of outputs have names of their own in every
/// project, so inside of files they are replaced by the task they belong to. Measurements cannot have the same bytes: of them
/// only this is said, that they are whole and have a verdict. `.git` holds times and is no part of an output.
fn bytes(world: &World) -> BTreeMap<String, blake3::Hash> {
    let home = home(world);
    let output_cache = OutputCache::open(&home).expect("the records");
    let folders: Vec<(String, String)> = output_cache
        .records()
        .iter()
        .map(|record| (output_cache.folder(record).display().to_string(), format!("<output of {}>", record.task)))
        .collect();
    let mut found = BTreeMap::new();
    let latest = home.latest();
    for link in links_and_files(&latest).into_iter().filter(|link| !link.ends_with("report.html")) {
        let task = link.strip_prefix(&latest).expect("a link in latest").display().to_string();
        if link.join("result.json").exists() {
            let result = read_result(&link.join("result.json")).expect("a whole result");
            found.insert(task, blake3::hash(if result.verdict().is_valid() { b"valid" } else { b"invalid" }));
            continue;
        }
        let inside = walkdir::WalkDir::new(link.join("")).into_iter().filter_entry(|item| item.file_name() != ".git");
        for item in inside.map(|item| item.expect("a readable output")).filter(|item| !item.file_type().is_dir()) {
            let bytes = fs::read(item.path()).expect("a readable file");
            let bytes = String::from_utf8(bytes).map_or_else(std::string::FromUtf8Error::into_bytes, |text| {
                folders.iter().fold(text, |text, (folder, task)| text.replace(folder, task)).into_bytes()
            });
            let name = item.path().strip_prefix(&link).expect("a file of it").display();
            found.insert(format!("{task}/{name}"), blake3::hash(&bytes));
        }
    }
    assert!(!found.is_empty(), "nothing in {}", latest.display());
    found
}

/// Whatever is in `latest`, folders for `foreach` looked into.
fn links_and_files(folder: &Path) -> Vec<PathBuf> {
    // The folder itself is a link.
    let items = walkdir::WalkDir::new(folder).min_depth(1).sort_by_file_name().into_iter().flatten();
    items.filter(|item| !item.file_type().is_dir()).map(walkdir::DirEntry::into_path).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    items.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
}
