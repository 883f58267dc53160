//! `regatta.lock`: what a run writes down, and runs that hold to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::Value;

use crate::world::World;

const FILE: &str = "regatta.lock";

/// Three stages, one of them measured by nobody; `batch` and `model.txt` decide what they do.
const PLAIN: &str = "
params:
  batch: { int: {}, default: 8 }
stages:
  prepare: { shell: 'cat \"$INPUT_MODEL\" > $OUT/model', inputs: { model: model.txt } }
  build:
    shell: ['sh', '-c', 'echo {{ batch }} > $OUT/engine; echo ran >> ../../../ran', '{{ stages.prepare.out }}']
    env: { LEVEL: high }
  last: { shell: 'cat {{ stages.build.out }}/engine > $OUT/x' }
";

fn plain() -> World {
    let world = World::with(PLAIN);
    world.file("model.txt", "weights\n");
    world
}

/// The same project on another machine: nothing is built there.
fn elsewhere(world: &World) -> World {
    let other = World::new();
    for name in ["manifests/m.yaml", "model.txt", FILE] {
        if world.path(name).exists() {
            other.file(name, &world.read(name));
        }
    }
    other
}

/// A repository that is cloned by its path.
struct Origin(World);

impl Origin {
    fn new() -> Self {
        let origin = Self(World::new());
        origin.git(&["init", "-q", "-b", "main", "."]);
        origin.commit("one");
        origin
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).current_dir(self.0.path("."));
        let output = command.output().expect("git");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn commit(&self, text: &str) -> String {
        self.0.file(text, text);
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", text]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn url(&self) -> String {
        format!("file://{}", fs::canonicalize(self.0.path(".")).expect("there").display())
    }

    fn cloned(&self, more: &str) -> World {
        let url = self.url();
        World::with(&format!(
            "stages:\n  clone: {{ git: {{ url: '{url}', rev: main{more} }} }}\n  use: {{ shell: 'ls {{{{ stages.clone.out }}}} > $OUT/list' }}\n"
        ))
    }
}

fn lock(world: &World) -> Value {
    serde_yaml::from_str(&world.read(FILE)).expect("a lock file")
}

fn stage(world: &World, run: &str, task: &str) -> Value {
    lock(world)["runs"][run]["stages"][task].clone()
}

#[test]
fn a_good_run_writes_down_what_it_was_asked_for_and_what_became_of_it() {
    let world = plain();
    world.good(&["run", "m", "batch=16"]);
    let build = stage(&world, "m batch=16", "build");
    assert_eq!(build["kind"], "shell");
    assert_eq!(build["requested"]["env"]["LEVEL"], "high");
    assert_eq!(build["requested"]["needs"], serde_json::json!(["prepare"]));
    assert!(build["requested"]["action"]["shell"][2].as_str().unwrap().contains("echo 16"), "{build}");
    assert_eq!(build["resolved"]["output"].as_str().unwrap().len(), 64);
    assert_eq!(build["resolved"]["key"].as_str().unwrap().len(), 64);
    let whole = lock(&world);
    assert_eq!(whole["runs"]["m batch=16"]["params"]["batch"], "16");
    assert_eq!(whole["runs"]["m batch=16"]["machine"]["arch"], std::env::consts::ARCH);
    assert!(stage(&world, "m batch=16", "prepare")["requested"]["inputs"]["model"].is_string());
}

#[test]
fn the_same_again_is_the_same_bytes_here_and_on_another_machine() {
    let world = plain();
    world.good(&["run", "m"]);
    let first = world.read(FILE);
    world.good(&["run", "m", "--force"]);
    assert_eq!(world.read(FILE), first);
    let other = elsewhere(&world);
    fs::remove_file(other.path(FILE)).unwrap();
    other.good(&["run", "m"]);
    assert_eq!(other.read(FILE), first);
    // A run in which nothing has to be done writes it, too, if it is not there.
    fs::remove_file(world.path(FILE)).unwrap();
    world.good(&["run", "m"]);
    assert_eq!(world.read(FILE), first);
    // And when it was another run that left nothing to do.
    world.file("model.txt", "other weights\n");
    world.good(&["run", "m", "--no-lock"]);
    assert_eq!(world.read(FILE), first);
    world.good(&["run", "m", "--locked=warn"]);
    assert_eq!(world.read(FILE), first);
    world.good(&["run", "m"]);
    assert_ne!(world.read(FILE), first);
}

#[test]
fn a_lock_file_that_is_not_as_the_last_run_left_it_gets_all_stages_although_nothing_has_changed() {
    let world = plain();
    let cached = |words: &[&str]| {
        world.good(words).shows("3 cached");
    };
    world.good(&["run", "m"]);
    let first = world.read(FILE);
    cached(&["run", "m"]);
    fs::remove_file(world.path(FILE)).unwrap();
    cached(&["run", "m"]);
    assert_eq!(world.read(FILE), first, "deleted");
    cached(&["run", "m", "--lock", "two.lock"]);
    assert_eq!(world.read("two.lock"), first, "another file");
    world.file(FILE, "lock: 1\nruns: {}\n");
    cached(&["run", "m"]);
    assert_eq!(world.read(FILE), first, "overwritten");
    world.good(&["run", "m", "--until", "build"]).shows("2 cached");
    fs::remove_file(world.path(FILE)).unwrap();
    world.good(&["run", "m", "--until", "build"]).shows("2 cached");
    let locked = lock(&world)["runs"]["m"]["stages"].clone();
    assert_eq!(locked.as_object().unwrap().keys().collect::<Vec<_>>(), ["build", "prepare"], "a part of the stages");

    let world = plain();
    for _ in 0..2 {
        world.good(&["run", "m", "--no-lock"]);
    }
    world.good(&["run", "m"]).shows("3 cached");
    assert_eq!(world.read(FILE), first, "the first lock file");
    world.good(&["run", "m", "--locked"]);
}

#[test]
fn a_lock_file_of_an_earlier_commit_gets_the_stages_of_now() {
    let world = plain();
    world.good(&["run", "m"]);
    let committed = world.read(FILE);
    world.manifest("m", &PLAIN.replace("LEVEL: high", "LEVEL: low"));
    world.good(&["run", "m"]);
    let now = world.read(FILE);
    assert_ne!(now, committed);
    world.file(FILE, &committed);
    world.good(&["run", "m"]).shows("3 cached");
    assert_eq!(world.read(FILE), now);
    world.good(&["run", "m", "--locked"]);
}

#[test]
fn two_manifests_with_one_name_each_write_their_stages_and_name_each_other() {
    let world = World::new();
    for (manifest, stage) in [("one", "a"), ("two", "b")] {
        let text = format!("regatta: 1\nname: both\nstages: {{ {stage}: {{ shell: 'true' }} }}\n");
        world.file(&format!("manifests/{manifest}.yaml"), &text);
    }
    for round in 0..3 {
        for (manifest, of, other) in [("one", "a", "two"), ("two", "b", "one")] {
            let ended = world.good(&["run", manifest]);
            let stages = lock(&world)["runs"]["both"]["stages"].clone();
            assert_eq!(stages.as_object().unwrap().keys().collect::<Vec<_>>(), [of]);
            let notice = format!("manifests/{other}.yaml has the same `name: both`");
            let is_first = round == 0 && manifest == "one";
            assert_eq!(format!("{}{}", ended.stdout, ended.stderr).contains(&notice), !is_first, "{ended:?}");
        }
    }
    let ended = world.regatta(&["run", "one", "--locked"]);
    assert_eq!(ended.code, 6);
    ended.shows("manifests/two.yaml has the same name");
}

#[test]
fn a_value_with_a_blank_is_not_two_parameters() {
    let world = World::new();
    let text = "params: { a: { text: {}, default: '' }, b: { text: {}, default: '' } }\nstages: { s: { shell: 'echo {{ a }} {{ b }}' } }\n";
    world.manifest("m", text);
    world.good(&["run", "m", "a=1 b=2"]);
    world.good(&["run", "m", "a=1", "b=2"]);
    let runs = lock(&world)["runs"].clone();
    assert_eq!(runs.as_object().unwrap().keys().collect::<Vec<_>>(), ["m 'a=1 b=2'", "m a=1 b=2"]);
    world.good(&["run", "m", "a=1 b=2", "--locked"]);
}

#[test]
fn a_run_has_one_name_however_its_parameters_were_given() {
    let mut world = World::new();
    world.manifest("m", "params: { users: { list: any, default: [1], env: USERS } }\nstages:\n  a: { foreach: { user: '{{ users }}' }, shell: 'true' }\n");
    world.good(&["run", "m", "users=2,4"]);
    world.env("USERS", "2,4");
    world.good(&["run", "m", "--locked"]).shows("2 cached");
    world.env("USERS", "2,8");
    assert_ne!(world.regatta(&["run", "m", "--locked"]).code, 0, "of that nothing is locked");
}

#[test]
fn each_manifest_with_its_parameters_has_a_part_of_its_own() {
    let world = plain();
    world.manifest("other", "stages: { one: { shell: 'true' } }\n");
    world.good(&["run", "m", "batch=2"]);
    world.good(&["run", "other"]);
    let before = lock(&world);
    world.good(&["run", "m"]);
    let after = lock(&world);
    for run in ["m batch=2", "other"] {
        assert_eq!(after["runs"][run], before["runs"][run]);
    }
    assert_eq!(after["runs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["m", "m batch=2", "other"]);
}

#[test]
fn nothing_secret_and_nothing_of_the_machine_gets_in() {
    let mut world = World::with(
        "params: { engine_dir: { path: optional } }\nstages:\n  a:\n    shell: ['sh', '-c', 'true', '{{ engine_dir }}', 'token=open-sesame']\n    secrets: [SECRET_OF_OURS]\n    env: { URL: 'https://me:hunter2@host/x' }\n",
    );
    world.env("SECRET_OF_OURS", "open-sesame");
    let engine = world.path("engines/llama");
    fs::create_dir_all(&engine).unwrap();
    world.good(&["run", "m", &format!("engine_dir={}", engine.display())]);
    let text = world.read(FILE);
    let folder = world.path("");
    for hidden in ["open-sesame", "hunter2", folder.to_str().unwrap().trim_end_matches('/')] {
        assert!(!text.contains(hidden), "{hidden} in\n{text}");
    }
    assert!(text.contains("m engine_dir=./engines/llama:") && text.contains("SECRET_OF_OURS"), "{text}");
    world.good(&["run", "m", &format!("engine_dir={}", engine.display()), "--locked"]);
}

#[test]
fn an_absolute_path_in_a_manifest_is_the_same_in_every_folder_and_for_every_user() {
    let mut world = World::new();
    let folder = world.path("").canonicalize().unwrap().display().to_string();
    let text = format!(
        "params: {{ cache: {{ text: {{}}, default: /home/one/cache }} }}\nstages:\n  clone: {{ shell: 'true > $OUT/x' }}\n  use:\n    shell: ': -v /var/hf:/home/one/.cache/hf \"{{{{ stages.clone.out }}}}{folder}/f\" /opt{folder}/include {{{{ cache }}}}'\n    env: {{ DATA: /home/one/data, INCLUDE: '-I{folder}/include' }}\n"
    );
    world.manifest("m", &text);
    world.env("HOME", "/home/one");
    world.good(&["run", "m"]);
    let locked = world.read(FILE);
    let whole = ["/var/hf:/home/one/.cache/hf".to_owned(), format!("⟦out:clone⟧{folder}/f"), format!("/opt{folder}/")];
    for path in whole {
        assert!(locked.contains(&path), "{path} in\n{locked}");
    }
    let mut other = elsewhere(&world);
    other.env("HOME", "/home/two");
    other.good(&["run", "m", "--locked"]);
    fs::remove_file(other.path(FILE)).unwrap();
    other.good(&["run", "m"]);
    assert_eq!(other.read(FILE), locked);
}

#[test]
fn a_run_that_does_not_end_well_leaves_the_lock_as_it_was() {
    let world = World::with("stages:\n  a: { shell: 'true' }\n  b: { shell: 'exit 3', needs: [a] }\n");
    assert_eq!(world.regatta(&["run", "m"]).code, 1);
    assert!(!world.path(FILE).exists());
    world.good(&["run", "m", "--until", "a", "--no-lock"]);
    assert!(!world.path(FILE).exists());
    for _ in 0..2 {
        let ended = world.regatta(&["run", "m", "--until", "a", "--lock", "locks/mine.lock", "-q"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        ended.shows("the lock file locks/mine.lock was not written");
    }
    world.file("locks/.keep", "");
    world.good(&["run", "m", "--until", "a", "--lock", "locks/mine.lock"]);
    assert!(world.path("locks/mine.lock").exists() && !world.path(FILE).exists());
}

#[test]
fn a_part_of_a_run_writes_its_part() {
    let world = plain();
    world.good(&["run", "m"]);
    let whole = lock(&world);
    world.good(&["run", "m", "--until", "prepare"]);
    assert_eq!(lock(&world), whole);
    world.file("model.txt", "other weights\n");
    world.good(&["run", "m", "--until", "prepare"]);
    let after = lock(&world);
    let stages = |lock: &Value, task: &str| lock["runs"]["m"]["stages"][task].clone();
    assert_ne!(stages(&after, "prepare"), stages(&whole, "prepare"));
    assert_eq!(stages(&after, "build"), stages(&whole, "build"));
    // What is held to is what is run.
    world.good(&["run", "m", "--until", "prepare", "--locked"]);
}

#[test]
fn everything_that_differs_is_reported_before_anything_starts() {
    let world = plain();
    world.good(&["run", "m"]);
    let other = elsewhere(&world);
    other.good(&["run", "m", "--locked"]);
    assert_eq!(other.count("ran"), 1);

    let other = elsewhere(&world);
    other.file("model.txt", "another checkpoint\n");
    let changed =
        PLAIN.replace("LEVEL: high", "LEVEL: low").replace("default: 8", "default: 9").replace("last:", "final:");
    other.manifest("m", &changed);
    let ended = other.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 6, "{}{}", ended.stdout, ended.stderr);
    ended.shows("not match regatta.lock for `m`; nothing was started");
    let rows = ["parameters", "batch", "8", "9", "env.LEVEL", "high", "low", "inputs.model", "shell", "final", "last"];
    for word in rows {
        ended.shows(word);
    }
    ended
        .shows("give the parameter as it was")
        .shows("restore the locked version of the file")
        .shows("undo the change");
    assert_eq!(other.count("ran"), 0);
    assert!(!other.path(".regatta/runs").exists(), "no run has begun");
    // An input that is gone is one more of them.
    fs::remove_file(other.path("model.txt")).unwrap();
    let ended = other.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 6);
    ended.shows("model.txt does not exist");
}

#[test]
fn without_a_lock_of_this_run_there_is_nothing_to_hold_to() {
    let world = plain();
    let ended = world.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 2);
    ended.shows("regatta.lock cannot be read").shows("a successful run without --locked writes it");
    world.good(&["run", "m"]);
    let ended = world.regatta(&["run", "m", "batch=3", "--locked"]);
    assert_eq!(ended.code, 6);
    ended.shows("regatta.lock has no run `m batch=3`").shows("it has: m");
    // A default that is given is the run without it.
    world.good(&["run", "m", "batch=8", "--locked"]);
    world.good(&["run", "m", "batch=8"]);
    assert!(!world.read(FILE).contains("batch=8"), "{}", world.read(FILE));
    world.file(FILE, "lock: 1\n<<<<<<< ours\n");
    let ended = world.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 2);
    ended.shows("conflict markers of an unfinished merge");
    // Who does not hold to it goes on, and is told that it was left alone.
    world
        .good(&["run", "m", "--force"])
        .shows("regatta.lock was not written")
        .shows("conflict markers of an unfinished merge");
    assert_eq!(world.read(FILE), "lock: 1\n<<<<<<< ours\n");
}

#[test]
fn a_branch_that_has_moved_on_is_what_it_was() {
    let origin = Origin::new();
    let world = origin.cloned("");
    world.good(&["run", "m"]);
    let first = origin.git(&["rev-parse", "HEAD"]);
    assert_eq!(stage(&world, "m", "clone")["resolved"]["commit"], Value::from(first.clone()));
    let second = origin.commit("two");

    let other = elsewhere(&world);
    let ended = other.good(&["run", "m", "--locked"]);
    ended.shows(&format!("`rev: main` was {first} when it was locked"));
    assert_eq!(other.read("latest/clone/.regatta-revision").trim(), first);
    assert_eq!(other.read("latest/use/list"), world.read("latest/use/list"));
    assert_eq!(other.read(FILE), world.read(FILE), "who holds to it does not write it");

    // Without the lock it is the branch of today, and the two files say so.
    let today = elsewhere(&world);
    today.good(&["run", "m"]);
    assert_eq!(stage(&today, "m", "clone")["resolved"]["commit"], Value::from(second.clone()));
    today.file("old.lock", &world.read(FILE));
    let ended = today.regatta(&["lock", "diff", "old.lock", FILE]);
    assert_eq!(ended.code, 1);
    ended.shows("clone").shows("commit").shows(&first[..12]).shows(&second[..12]);
    // What is in the cache there is the wrong one: the locked one is fetched all the same.
    today.good(&["run", "m", "--locked", "--lock", "old.lock"]);
    assert_eq!(today.read("latest/clone/.regatta-revision").trim(), first);
    // And then the next run without it is not taken for done.
    today.good(&["run", "m"]);
    assert_eq!(today.read("latest/clone/.regatta-revision").trim(), second);
}

#[test]
fn a_commit_that_is_gone_is_reported() {
    let origin = Origin::new();
    let world = origin.cloned("");
    world.good(&["run", "m"]);
    let gone = Origin::new();
    let other = elsewhere(&world);
    let manifest = world.read("manifests/m.yaml").replace(&origin.url(), &gone.url());
    other.file("manifests/m.yaml", &manifest);
    other.file(FILE, &world.read(FILE).replace(&origin.url(), &gone.url()));
    let lost = "0123456789abcdef0123456789abcdef01234567";
    let commit = origin.git(&["rev-parse", "HEAD"]);
    other.file(FILE, &other.read(FILE).replace(&commit, lost));
    let ended = other.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 1);
    ended.shows(&format!("there is no commit `{lost}`"));
}

#[test]
fn what_only_the_run_shows_stops_it_there() {
    let origin = Origin::new();
    origin.git(&["checkout", "-q", "-b", "side"]);
    let pick = origin.commit("pick");
    origin.git(&["checkout", "-q", "main"]);
    let world = origin.cloned(&format!(", cherry_picks: ['{pick}']"));
    world.good(&["run", "m"]);
    let clone = stage(&world, "m", "clone");
    let head = clone["resolved"]["head"].as_str().unwrap();
    assert_eq!(clone["resolved"]["commit"], Value::from(origin.git(&["rev-parse", "main"])));
    assert_ne!(clone["resolved"]["head"], clone["resolved"]["commit"]);

    let other = elsewhere(&world);
    other.good(&["run", "m", "--locked"]);
    let other = elsewhere(&world);
    let wrong = "0123456789abcdef0123456789abcdef01234567";
    other.file(FILE, &world.read(FILE).replace(head, wrong));
    let ended = other.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 6, "{}{}", ended.stdout, ended.stderr);
    ended.shows("it does not match regatta.lock: head: 0123456789ab → ").shows(&head[..12]);
    assert!(!other.path("latest/use").exists(), "nothing is built on it");
    // Made is made: whoever does not hold to the lock finds it done. Held to, it is stopped again.
    let ended = other.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 6);
    other.good(&["run", "m", "--locked=warn"]).shows("differs from regatta.lock: head");
    assert!(other.path("latest/use").exists());
}

#[test]
fn bytes_that_a_command_need_not_repeat_are_reported_and_checked_only_exactly() {
    let manifest =
        "stages:\n  a: { shell: 'cat ../../../mood > $OUT/x' }\n  b: { shell: 'cat {{ stages.a.out }}/x > $OUT/y' }\n";
    let world = World::with(manifest);
    world.file("mood", "good");
    world.good(&["run", "m"]);
    let other = elsewhere(&world);
    other.file("mood", "bad");
    let ended = other.regatta(&["run", "m", "--locked=exact"]);
    assert_eq!(ended.code, 6);
    ended.shows("it does not match regatta.lock: output: ");
    assert!(!other.path("latest/b").exists());
    other.good(&["run", "m", "--locked"]).shows("differs from regatta.lock: output: ");
    assert!(other.path("latest/b").exists());
}

#[test]
fn a_path_that_the_lock_has_only_in_part_is_reported_and_exactly_an_error() {
    let world = World::new();
    let folder = tempfile::tempdir().unwrap();
    let with = |version: &str| {
        let tool = folder.path().join(version).join("tool");
        fs::create_dir_all(tool.parent().unwrap()).unwrap();
        fs::write(&tool, "#!/bin/sh\necho same > $OUT/x\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let use_it = "use: { shell: 'cat \"{{ stages.make.out }}/x\" > $OUT/y' }";
        world.manifest("m", &format!("stages:\n  make: {{ shell: ['{}'] }}\n  {use_it}\n", tool.display()));
    };
    with("v1");
    world.good(&["run", "m"]);
    world.good(&["run", "m", "--locked=exact"]).shows("2 cached");
    world.good(&["lock", "diff", FILE, "m"]).shows("1 run is the same");
    with("v2");
    let ended = world.regatta(&["run", "m", "--locked=exact"]);
    assert_eq!(ended.code, 6, "{ended:?}");
    ended.shows("make").shows("key").shows("only a part of an absolute path");
    assert!(!ended.stderr.contains("use  "), "what is built on it has the locked output: {}", ended.stderr);
    assert_eq!(world.regatta(&["lock", "diff", FILE, "m"]).code, 1);
    world
        .good(&["run", "m", "--locked"])
        .shows("make: key: ")
        .shows("(a path or a secret that the lock does not hold, or other outputs below it)");
}

#[test]
fn tools_tell_their_versions_and_another_one_stops() {
    let mut world = World::with("stages:\n  a: { shell: ['cmake', '--build', '.'] }\n");
    let bin = world.path("bin");
    world.file("bin/cmake", "#!/bin/sh\ncat \"$(dirname \"$0\")\"/version\n");
    fs::set_permissions(bin.join("cmake"), fs::Permissions::from_mode(0o755)).unwrap();
    world.file("bin/version", "cmake version 3.30.1 from /opt/cmake\n");
    let path = std::env::var("PATH").unwrap();
    world.env("PATH", format!("{}:{path}", bin.display()));
    world.good(&["run", "m"]);
    assert_eq!(lock(&world)["runs"]["m"]["tools"]["cmake"], "cmake version 3.30.1");
    world.good(&["run", "m", "--locked"]);
    world.file("bin/version", "cmake version 3.22.0\n");
    let ended = world.regatta(&["run", "m", "--locked"]);
    assert_eq!(ended.code, 6);
    ended.shows("tools").shows("cmake version 3.30.1").shows("cmake version 3.22.0").shows("install that version");
    world.good(&["run", "m", "--locked=warn"]).shows("cmake: cmake version 3.30.1 → cmake version 3.22.0");
}

#[test]
fn an_output_from_the_cache_keeps_the_tool_that_made_it() {
    let text = "stages:\n  a: { shell: ['cmake', '--build', '.'] }\n  b: { shell: ['ninja', '-v'] }\n";
    let mut world = World::with(text);
    for tool in ["cmake", "ninja"] {
        world.file(&format!("bin/{tool}"), "#!/bin/sh\ncat \"$(dirname \"$0\")\"/version\n");
        fs::set_permissions(world.path("bin").join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    world.file("bin/version", "version 1\n");
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    world.env("PATH", path);
    let tools = |world: &World| {
        let tools = lock(world)["runs"]["m"]["tools"].clone();
        ["cmake", "ninja"].map(|tool| tools[tool].as_str().unwrap_or_default().to_owned())
    };
    world.good(&["run", "m"]);
    assert_eq!(tools(&world), ["version 1", "version 1"]);
    world.file("bin/version", "version 2\n");
    world.manifest("m", &format!("# upgraded\n{text}"));
    world.good(&["run", "m"]).shows("2 cached");
    assert_eq!(tools(&world), ["version 1", "version 1"]);
    // Only what is made again has the version of today.
    world.manifest("m", &text.replace("-v", "-d"));
    world.good(&["run", "m"]).shows("1 cached");
    assert_eq!(tools(&world), ["version 1", "version 2"]);
    world.good(&["run", "m", "--force"]);
    assert_eq!(tools(&world), ["version 2", "version 2"]);
}

#[test]
fn a_lock_is_held_against_what_a_run_would_be_now() {
    let world = plain();
    world.good(&["run", "m"]);
    world.good(&["lock", "diff", FILE, "m"]).shows("1 run is the same");
    world.file("model.txt", "other\n");
    let ended = world.regatta(&["lock", "diff", FILE, "m", "--json"]);
    assert_eq!(ended.code, 1);
    let difference: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(difference["same"], false);
    let found = difference["runs"]["m"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["task"], &found[0]["field"]), (&"prepare".into(), &"inputs.model".into()));
    assert_eq!(world.regatta(&["lock", "diff", "none.lock", FILE]).code, 2);
    assert_eq!(world.regatta(&["lock", "diff", FILE, FILE, "a=1"]).code, 2);
}

#[test]
fn two_runs_of_one_file_are_put_beside_each_other() {
    let world = plain();
    world.good(&["run", "m"]);
    world.good(&["run", "m", "batch=2"]);
    world.good(&["lock", "diff", FILE, FILE]).shows("2 runs are the same");
    let ended = world.regatta(&["lock", "diff", "regatta.lock#m", "regatta.lock#m batch=2"]);
    assert_eq!(ended.code, 1);
    ended.shows("m | m batch=2").shows("batch").shows("build");
    let shown = world.good(&["lock", "show", "regatta.lock#m"]);
    shown.shows("prepare").shows("output ").shows("batch");
    let printed: Value = serde_json::from_str(&world.good(&["lock", "show", "--json"]).stdout).unwrap();
    assert_eq!(printed, lock(&world));
}

#[test]
fn gpus_and_their_driver_are_part_of_what_is_held_to() {
    let mut world = World::with("stages:\n  a: { shell: 'true', gpus: 1 }\n  b: { shell: 'true' }\n");
    let smi = |driver: &str| {
        format!(
            "#!/bin/sh\ncase \"$1\" in\n--query-gpu=*) echo '0, NVIDIA H200, 143771, {driver}, 9.0' ;;\n*) echo 'CUDA Version: 12.8' ;;\nesac\n"
        )
    };
    world.file("bin/nvidia-smi", &smi("570.86.15"));
    fs::set_permissions(world.path("bin/nvidia-smi"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", world.path("bin").display(), std::env::var("PATH").unwrap());
    world.env("PATH", path);
    world.good(&["run", "m", "--gpus", "1"]);
    let machine = &lock(&world)["runs"]["m"]["machine"];
    assert_eq!(machine["GPUs"], "1 × NVIDIA H200, 151 GB, compute 9.0");
    assert_eq!((&machine["driver"], &machine["CUDA"]), (&"570.86.15".into(), &"12.8".into()));
    world.good(&["run", "m", "--gpus", "1", "--locked"]);
    world.file("bin/nvidia-smi", &smi("560.1"));
    let ended = world.regatta(&["run", "m", "--gpus", "1", "--locked"]);
    assert_eq!(ended.code, 6);
    ended.shows("machine").shows("driver").shows("570.86.15").shows("560.1").shows("a machine like that one");
    // An output from the cache was made with the driver of then.
    world.file("manifests/m.yaml", &format!("{}# a comment\n", world.read("manifests/m.yaml")));
    world.good(&["run", "m", "--gpus", "1"]).shows("2 cached");
    assert_eq!(lock(&world)["runs"]["m"]["machine"]["driver"], "570.86.15");
    // Who leases none does not ask for them.
    world.good(&["run", "m", "--until", "b", "--locked"]);
}
