//! Outputs that machines share: what the second machine runs, and what becomes of a run whose store is damaged, away, or
//! not ours. A machine is a project folder of its own, with a home of its own.

mod cut_connection;
pub mod s3;
mod signed_records;
mod store_faults;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pretty_assertions::{assert_eq, assert_ne};
use regatta::files::Digest;
use walkdir::WalkDir;

use crate::world::{Ended, World};
use cut_connection::CuttableConnection;
use s3::{S3, credentials};

/// `$W/ran` has a line for each stage that ran on this machine. `large` is more than one part.
const MANIFEST: &str = r#"
stages:
  source:
    shell: |
      echo source >> "$W/ran"
      mkdir -p a/empty
      echo one > a/one; cp a/one a/two; ln -s one a/link; : > nothing
      printf '#!/bin/sh\n' > run.sh; chmod 755 run.sh
  large:
    shell: |
      echo large >> "$W/ran"
      yes {{ stages.source.out }} | head -c 0 > large
      yes "no place is named here" | head -c 40000000 > large
  last:
    shell: |
      echo last >> "$W/ran"
      cat {{ stages.source.out }}/a/link > out
      wc -c < {{ stages.large.out }}/large >> out
"#;

/// A machine with this manifest; how deep its folder lies differs from machine to machine.
fn machine(manifest: &str) -> World {
    let mut world = World::with(manifest);
    let (folder, home) = (world.path(""), world.path("home"));
    world.env("W", folder).env("HOME", home);
    world
}

fn store() -> (tempfile::TempDir, String) {
    let folder = tempfile::Builder::new().prefix("regatta-store").tempdir().expect("a folder");
    let url = format!("file://{}", folder.path().display());
    (folder, url)
}

fn run(world: &World, url: &str) -> Ended {
    world.good(&["run", "m", "--store", url])
}

/// Stages that ran on this machine so far.
fn ran(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("ran")).unwrap_or_default();
    let mut ran: Vec<String> = text.lines().map(str::to_owned).collect();
    ran.sort();
    ran
}

/// Everything below a folder: path, what it is, mode's execute bit, content.
fn tree(root: &Path) -> Vec<(PathBuf, String, Vec<u8>)> {
    let root = fs::canonicalize(root).expect("a folder");
    let mut all = Vec::new();
    for item in WalkDir::new(&root).sort_by_file_name() {
        let item = item.expect("readable");
        let meta = fs::symlink_metadata(item.path()).expect("readable");
        let (kind, content) = if meta.is_symlink() {
            ("link", fs::read_link(item.path()).expect("a link").into_os_string().into_encoded_bytes())
        } else if meta.is_dir() {
            ("folder", Vec::new())
        } else {
            let program = meta.permissions().mode() & 0o100 != 0;
            (if program { "program" } else { "file" }, fs::read(item.path()).expect("readable"))
        };
        all.push((item.path().strip_prefix(&root).expect("below").to_owned(), kind.to_owned(), content));
    }
    all
}

/// Objects below a part of the store.
fn objects(root: &Path, part: &str) -> Vec<PathBuf> {
    let all = WalkDir::new(root).sort_by_file_name().into_iter().flatten().filter(|item| item.file_type().is_file());
    all.map(walkdir::DirEntry::into_path).filter(|path| path.to_string_lossy().contains(part)).collect()
}

fn the_second_machine_runs_nothing(one: &World, two: &World, url: &str) {
    run(one, url);
    assert_eq!(ran(one), ["large", "last", "source"]);
    let second = run(two, url);
    assert!(ran(two).is_empty(), "{}", second.stdout);
    second.shows("↓ source").shows("↓ large").shows("↓ last").shows("3 tasks from another machine");
    for stage in ["source", "large", "last"] {
        let folder = |world: &World| tree(&world.path(format!("latest/{stage}")));
        assert_eq!(folder(one), folder(two), "{stage}");
    }
    // As if made here: the next run has nothing to do, without the store, too.
    assert!(two.good(&["run", "m"]).ran().is_empty());
    assert!(two.will_run(&[]).is_empty());
    let records = two.read(".regatta/records");
    let shown = url.strip_prefix("file://").unwrap_or(url);
    assert_eq!(records.matches(&format!("\"from\":\"{shown}\"")).count(), 3, "{records}");
    one.good(&["store", "status", "m", "--verify", "--store", url]).shows("both     large");
}

#[test]
fn of_two_machines_with_one_folder_the_second_runs_nothing() {
    let (_folder, url) = store();
    the_second_machine_runs_nothing(&machine(MANIFEST), &machine(MANIFEST), &url);
}

#[test]
fn of_two_machines_with_one_bucket_the_second_runs_nothing() {
    let s3 = S3::start();
    let [one, two] = [(); 2].map(|()| {
        let mut world = machine(MANIFEST);
        credentials(&mut world, s3.address);
        world
    });
    the_second_machine_runs_nothing(&one, &two, "s3://bucket/a/prefix");
    // `a/one` and `a/two` are one object.
    assert_eq!(objects(&s3.bucket(), "/blobs/").len(), 5);
}

#[test]
fn what_is_here_already_is_not_fetched() {
    let s3 = S3::start();
    let line = CuttableConnection::to(s3.address);
    let mut one = machine(MANIFEST);
    credentials(&mut one, s3.address);
    run(&one, "s3://bucket");
    // The same large file was made by another stage of this machine before.
    let other =
        MANIFEST.replace("  last:", "  other:").replace("large:", "copy:").replace("stages.large", "stages.copy");
    let mut two = machine(&other.replace("yes {{ stages.source.out }} | head -c 0 > large\n", "\n"));
    credentials(&mut two, line.address);
    two.good(&["run", "m"]);
    two.manifest("m", MANIFEST);
    let before = line.down();
    run(&two, "s3://bucket").shows("↓ large");
    let fetched = line.down() - before;
    assert!(fetched < 1_000_000, "{fetched} bytes came, although the 40 MB were here");
}

#[test]
fn an_output_that_names_its_place_stays_where_it_is() {
    let manifest = r#"
stages:
  place: { shell: 'echo place >> "$W/ran"; echo "home = $OUT" > cfg' }
  clone: { shell: 'echo clone >> "$W/ran"; mkdir -p x/.git; : > x/.git/HEAD' }
  link: { shell: 'echo link >> "$W/ran"; ln -s /etc/hosts hosts' }
  token:
    secrets: [TOKEN_OF_OURS]
    shell: 'echo token >> "$W/ran"; echo "key: $(echo "$TOKEN_OF_OURS")" > key'
  mine: { share: false, shell: 'echo mine >> "$W/ran"; : > out' }
  never: { cache: false, shell: 'echo never >> "$W/ran"; : > out' }
"#;
    let (folder, url) = store();
    let [one, two] = [(); 2].map(|()| {
        let mut world = machine(manifest);
        // A file that a secret comes from often ends with a newline, which a shell strips.
        world.env("TOKEN_OF_OURS", "tok-verysecret-0815\n");
        world
    });
    let ended = run(&one, &url);
    ended.shows("place: its output is not shared: cfg holds the path of this project's folder");
    ended.shows("clone: its output is not shared: x/.git is in it");
    ended.shows("link: its output is not shared: hosts is a link that leads out of it, to /etc/hosts");
    ended.shows("token: its output is not shared: key holds the value of one of the stage's secrets");
    assert!(objects(folder.path(), "/records/").is_empty());
    for object in objects(folder.path(), "") {
        assert!(!String::from_utf8_lossy(&fs::read(object).unwrap()).contains("verysecret"));
    }
    run(&two, &url);
    assert_eq!(ran(&two), ["clone", "link", "mine", "never", "place", "token"]);
}

#[test]
#[ignore = "needs Python"]
fn a_measurement_of_another_machine_stands_for_none_of_this_one() {
    let manifest = r#"
stages:
  server:
    serve: { command: { words: [python3, -m, http.server, "{port}", --bind, 127.0.0.1], ready: { by: port } } }
  asked: { shell: 'echo asked >> "$W/ran"; echo {{ stages.server }} | cut -d: -f1 > out' }
"#;
    let (folder, url) = store();
    let [one, two] = [machine(manifest), machine(manifest)];
    run(&one, &url);
    run(&two, &url);
    assert_eq!(ran(&two), ["asked"]);
    assert!(objects(folder.path(), "").is_empty());
}

/// The store has one output of their key.
#[test]
fn of_commands_that_are_repeated_one_comes_from_the_store() {
    let manifest =
        "stages:\n  measure: { foreach: { i: [1, 2, 3] }, shell: 'cat /proc/sys/kernel/random/uuid > out' }\n";
    let (_folder, url) = store();
    let [one, two, three] = [machine(manifest), machine(manifest), machine(manifest)];
    let made = |world: &World| {
        run(world, &url);
        BTreeSet::from([1, 2, 3].map(|i| world.read(format!("latest/measure/{i}/out"))))
    };
    let first = made(&one);
    assert_eq!(first.len(), 3);
    let second = made(&two);
    assert_eq!(second.len(), 3);
    // None comes from there if another one ends first.
    assert!(second.intersection(&first).count() <= 1);
    fs::write(two.path("latest/measure/2/out"), "tampered").unwrap();
    assert_eq!(made(&two).len(), 3);
    two.good(&["clean", "--yes"]);
    assert_eq!(made(&two).len(), 3);
    three.good(&["store", "pull", "m", "--store", &url]).shows("1 fetched").shows("2 to be made");
    assert_eq!(made(&three).len(), 3);
}

#[test]
fn what_is_made_with_gpus_is_good_for_machines_with_the_same_ones() {
    let manifest = "stages:\n  build: { gpus: 1, shell: 'echo build >> \"$W/ran\"; echo engine > engine' }\n";
    let (_folder, url) = store();
    let with_gpu = |script: &str| {
        let mut world = machine(manifest);
        world.file("bin/nvidia-smi", &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(world.path("bin/nvidia-smi"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
        world.env("PATH", path);
        world
    };
    let run = |world: &World| world.good(&["run", "m", "--gpus", "1", "--store", &url]);
    let [h200, a100, h200_too, mute] = [
        "echo 'NVIDIA H200, 9.0'; echo 'NVIDIA H200, 9.0'",
        "echo 'NVIDIA A100-SXM4-80GB, 8.0'",
        "echo 'NVIDIA H200, 9.0'",
        "echo 'No devices were found' >&2; exit 6",
    ]
    .map(with_gpu);
    for world in [&h200, &a100, &h200_too] {
        run(world);
    }
    assert_eq!((ran(&h200), ran(&a100)), (vec!["build".to_owned()], vec!["build".to_owned()]));
    assert!(ran(&h200_too).is_empty());
    run(&mute).shows("its output is not shared").shows("No devices were found");
    assert_eq!(ran(&mute), ["build"]);
}

#[test]
fn pull_brings_all_of_it_and_runs_nothing_and_push_puts_it_there() {
    let (folder, url) = store();
    let [mut one, two] = [machine(MANIFEST), machine(MANIFEST)];
    one.env("REGATTA_STORE", &url);
    one.good(&["plan", "m"]).shows(&format!("{} was not queried", folder.path().display()));
    one.good(&["run", "m", "--store", "off"]);
    one.good(&["cache", "status", "m"]).shows("0 outputs, 0 files, 0 B").shows("here     source");
    one.good(&["cache", "push", "m", "--only", "source"]).shows("↑ source").shows("1 put into");
    two.good(&["cache", "status", "m", "--store", &url]).shows("there    source").shows("missing  last");
    two.good(&["cache", "pull", "m", "--store", &url]).shows("↓ source").shows("1 of 3 outputs here, 2 to be made");
    one.good(&["cache", "push", "m"]).shows("2 put into").shows("1 there before");
    one.good(&["cache", "push", "m"]).shows("0 put into").shows("3 there before");
    two.good(&["cache", "pull", "m", "--store", &url]).shows("2 fetched").shows("3 of 3 outputs here, 0 to be made");
    assert!(two.good(&["run", "m", "--store", "off"]).ran().is_empty());
    assert!(ran(&two).is_empty());
    let status: serde_json::Value =
        serde_json::from_str(&two.good(&["store", "status", "m", "--json", "--store", &url]).stdout).unwrap();
    assert_eq!((&status["outputs"], &status["tasks"][2]["state"]), (&3.into(), &"both".into()));
    assert_eq!(status["tasks"][2]["from"], folder.path().display().to_string());
}

/// The run begins and ends while `pull` finds out about the GPUs: after it was planned, before it has the lock.
#[test]
fn pull_leaves_the_records_of_a_run_that_ended_before_it_had_the_lock() {
    let manifest = |word: &str| format!("stages:\n  build: {{ gpus: 1, shell: 'echo {word} > engine' }}\n");
    let (_folder, url) = store();
    let world = machine(&manifest("one"));
    let run = || world.good(&["run", "m", "--gpus", "1"]);
    run();
    let records = || fs::read(world.path(".regatta/records")).unwrap();
    fs::write(world.path(".regatta/records"), [&records()[..], b"torn"].concat()).unwrap();
    world.file(
        "bin/nvidia-smi",
        "#!/bin/sh\ntouch \"$W/asked\"; while [ ! -e \"$W/gate\" ]; do sleep 0.02; done; echo 'NVIDIA H200, 9.0'\n",
    );
    fs::set_permissions(world.path("bin/nvidia-smi"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    let mut pull = world.command(&["store", "pull", "m", "--store", &url]);
    let pull = pull.env("PATH", path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.await_file("asked");
    world.manifest("m", &manifest("two"));
    run();
    let before = records();
    world.file("gate", "");
    let ended = Ended::of(pull);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(records().starts_with(&before), "{}", String::from_utf8_lossy(&records()));
}

#[test]
fn a_push_of_nothing_gives_the_reason() {
    let (_folder, url) = store();
    let kept = MANIFEST.replacen("  source:\n", "  source:\n    share: false\n", 1);
    assert_ne!(kept, MANIFEST);
    let world = machine(&kept);
    let push = || world.good(&["store", "push", "m", "--only", "source", "--store", &url]);
    push().shows("0 put into").shows("source is not shared: share is false");
    let world = machine(MANIFEST);
    let push = world.good(&["store", "push", "m", "--store", &url]);
    push.shows("0 put into").shows("not in the cache of this folder: source").shows("`regatta run m` makes them");
}

#[test]
fn a_command_about_no_store_says_how_to_name_one() {
    let world = machine(MANIFEST);
    for name in ["store", "cache"] {
        let ended = world.regatta(&[name, "status"]);
        assert_eq!(ended.code, 2);
        ended.shows("no shared store was named").shows("REGATTA_STORE");
    }
    let ended = world.regatta(&["run", "m", "--store", "s3://KEY:verysecret@bucket"]);
    assert_eq!(ended.code, 2);
    ended.shows("credentials belong in the environment");
    assert!(!ended.stderr.contains("verysecret"));
    assert!(!world.path("ran").exists());
    let ended = world.regatta(&["store", "gc", "--yes", "--store", "/nowhere"]);
    assert_eq!(ended.code, 2);
    ended.shows("no outputs are selected");
}

#[test]
fn making_room_leaves_what_an_output_names_and_what_is_young() {
    let (folder, url) = store();
    let one = machine(MANIFEST);
    run(&one, &url);
    let blobs = objects(folder.path(), "/blobs/");
    let idle = folder.path().join("regatta-1/blobs/00/".to_owned() + &"0".repeat(64));
    let left = folder.path().join("regatta-1/tmp/dead-writer-1-0");
    for path in [&idle, &left] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "of a writer that was killed").unwrap();
    }
    let gc = |words: &[&str]| one.good(&[&["store", "gc", "--store", &url], words].concat());
    // Young: its record may be on its way.
    gc(&["--older-than", "1d", "--yes"]).shows("0 outputs and 0 files removed");
    for path in [&idle, &left] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    gc(&[]).shows("0 outputs and 1 file would be removed").shows("`--yes` removes them");
    assert!(idle.exists());
    gc(&["--older-than", "1d", "--yes"]).shows("0 outputs and 1 file removed").shows("3 outputs with");
    assert!(!idle.exists() && !left.exists());
    assert_eq!(objects(folder.path(), "/blobs/"), blobs);
    // The oldest output goes, with the file that no other one names.
    let large = objects(folder.path(), "/records/")
        .into_iter()
        .find(|r| fs::read_to_string(r).unwrap().contains("\"task\":\"large\""));
    std::fs::File::options().write(true).open(large.unwrap()).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    gc(&["--older-than", "30d", "--grace", "0s", "--yes"]).shows("1 output and 1 file removed, 40.0 MB");
    one.good(&["cache", "status", "m", "--verify", "--store", &url]).shows("both     source").shows("here     large");
}

/// The record as a newer program could have written it: with the version after this one, and fields that this one does not know.
fn make_newer(record: &Path) {
    let text = fs::read_to_string(record).unwrap();
    let (json, _) = text.split_once('\n').unwrap();
    let newer = json.replacen("{\"version\":1,\"task\":", "{\"version\":2,\"name\":", 1);
    assert_ne!(newer, json);
    fs::write(record, format!("{newer}\n{}\n", Digest::hash(newer.as_bytes()))).unwrap();
}

#[test]
fn what_a_newer_regatta_put_there_stays() {
    let (folder, url) = store();
    let [one, two] = [(); 2].map(|()| machine(MANIFEST));
    run(&one, &url);
    let records = objects(folder.path(), "/records/");
    for record in &records {
        make_newer(record);
    }
    let contents = || -> Vec<(PathBuf, Vec<u8>)> {
        let all = objects(folder.path(), "/records/").into_iter().chain(objects(folder.path(), "/blobs/"));
        all.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = contents();
    let gc = one.regatta(&["store", "gc", "--store", &url, "--older-than", "0s", "--grace", "0s", "--yes"]);
    assert_eq!(gc.code, 1);
    gc.shows("was written by a newer Regatta");
    assert!(contents() == before, "nothing was removed");
    run(&two, &url).shows("was written by a newer Regatta");
    assert_eq!(ran(&two), ["large", "last", "source"]);
    one.good(&["store", "push", "m", "--verify", "--store", &url]);
    assert!(contents() == before, "nothing was replaced");
    one.good(&["store", "status", "m", "--verify", "--store", &url]).shows("newer    source");
}

#[test]
fn a_record_with_the_name_of_a_newer_regatta_stays_even_where_it_is_damaged() {
    let (folder, url) = store();
    let [one, two, three] = [(); 3].map(|()| machine(MANIFEST));
    run(&one, &url);
    let newer: Vec<PathBuf> =
        objects(folder.path(), "/records/").iter().map(|record| record.with_extension("v2")).collect();
    for name in &newer {
        fs::remove_file(name.with_extension("")).unwrap();
        fs::write(name, "damaged").unwrap();
    }
    let blobs = objects(folder.path(), "/blobs/");
    let gc = one.regatta(&["store", "gc", "--store", &url, "--older-than", "0s", "--grace", "0s", "--yes"]);
    assert_eq!(gc.code, 1);
    gc.shows("was written by a newer Regatta");
    assert_eq!(objects(folder.path(), "/blobs/"), blobs);
    run(&two, &url);
    assert_eq!(ran(&two), ["large", "last", "source"]);
    run(&three, &url);
    assert!(ran(&three).is_empty(), "records of this program are there, too");
    assert!(newer.iter().all(|name| fs::read_to_string(name).unwrap() == "damaged"));
}
