//! Signed records: what is taken from a store by whom, and that the key is nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pretty_assertions::assert_eq;
use rcgen::{KeyPair, PKCS_ED25519};

use super::{machine, objects, ran, run, store};
use crate::world::World;

const MANIFEST: &str = r#"
stages:
  first: { shell: 'echo first >> "$W/ran"; echo one > out' }
  second: { shell: 'echo second >> "$W/ran"; cat {{ stages.first.out }}/out > out' }
"#;

/// A key pair as PEM texts, private and public.
fn keys() -> (String, String) {
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    (pair.serialize_pem(), pair.public_key_pem())
}

/// A machine that signs with this key.
fn signing(private: &str) -> World {
    let mut world = machine(MANIFEST);
    world.file("keys/key.pem", private);
    let path = world.path("keys/key.pem");
    world.env("REGATTA_SIGN_KEY", path);
    world
}

/// A machine that takes only what these keys have signed.
fn trusting(public: &str) -> World {
    let mut world = machine(MANIFEST);
    world.file("keys/trusted.pub", public);
    let path = world.path("keys/trusted.pub");
    world.env("REGATTA_TRUSTED_KEYS", path);
    world
}

#[test]
fn a_reader_with_the_public_key_takes_what_is_signed_and_makes_the_rest() {
    let (private, public) = keys();
    let (folder, url) = store();
    let writer = signing(&private);
    run(&writer, &url);
    let reader = trusting(&public);
    run(&reader, &url).shows("first  from another machine");
    assert!(ran(&reader).is_empty());
    reader
        .good(&["store", "status", "m", "--store", &url])
        .shows("signatures: of ")
        .shows("nothing is sent")
        .shows("both");
    // A machine without keys reads signed records, too.
    let plain = machine(MANIFEST);
    run(&plain, &url);
    assert!(ran(&plain).is_empty());

    // Another key, and a store without signatures: refused, with the reason, and made here.
    let (other_private, other_public) = keys();
    let stranger = trusting(&other_public);
    run(&stranger, &url).shows("is signed by a key that is not trusted").shows("it is rebuilt here");
    assert_eq!(ran(&stranger), ["first", "second"]);
    let status = stranger.regatta(&["store", "status", "m", "--store", &url]);
    assert_eq!(status.code, 1);
    status.shows("untrusted  first").shows("its record is signed by a key that is not trusted");
    let json = stranger.regatta(&["store", "status", "m", "--json", "--store", &url]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["tasks"][0]["state"], "untrusted");
    let before = records(folder.path());
    run(&trusting(&other_public), &url);
    assert_eq!(records(folder.path()), before, "who cannot sign replaces nothing");

    // Both keys in one file.
    let both = trusting(&format!("{other_public}{public}"));
    run(&both, &url);
    assert!(ran(&both).is_empty());
    // A machine with the other key replaces the records that it refuses.
    let replacing = signing(&other_private);
    run(&replacing, &url).shows("is signed by a key that is not trusted");
    assert_eq!(ran(&replacing), ["first", "second"]);
    let late = trusting(&other_public);
    run(&late, &url);
    assert!(ran(&late).is_empty());
}

#[test]
fn records_without_a_signature_are_refused_where_one_is_asked_for_and_signed_by_a_push() {
    let (private, public) = keys();
    let (folder, url) = store();
    let old = machine(MANIFEST);
    run(&old, &url);
    let unsigned = records(folder.path());
    let reader = trusting(&public);
    run(&reader, &url).shows("is not signed").shows("`regatta store push MANIFEST --sign-key FILE` signs it");
    assert_eq!(ran(&reader), ["first", "second"]);
    assert_eq!(records(folder.path()), unsigned);
    let refused = reader.good(&["store", "push", "m", "--store", &url]);
    refused.shows("this store requires signed records");
    // A machine that took them unsigned does not sign them as its own.
    let borrower = machine(MANIFEST);
    run(&borrower, &url);
    assert!(ran(&borrower).is_empty());
    borrower.file("key.pem", &private);
    let push = ["store", "push", "m", "--store", &url, "--sign-key", "key.pem"];
    borrower.good(&push).shows("where no trusted key had signed it");
    assert_eq!(records(folder.path()), unsigned);
    // The machine that made them signs them.
    old.file("key.pem", &private);
    old.good(&push).shows("2 put into");
    old.good(&push).shows("0 put into").shows("2 there before");
    let reader = trusting(&public);
    run(&reader, &url);
    assert!(ran(&reader).is_empty());
    let pulling = trusting(&public);
    pulling.good(&["store", "pull", "m", "--store", &url]).shows("2 fetched");
}

#[test]
fn a_writer_without_a_key_changes_nothing() {
    let (private, public) = keys();
    let (folder, url) = store();
    run(&signing(&private), &url);
    // Another digest in a record, sealed anew; the record of one output under the name of the other.
    let mut paths = objects(folder.path(), "/records/");
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let json = texts[0].lines().next().unwrap();
    let at = json.find("\"seconds\":").unwrap();
    let altered = format!("{}\"seconds\":9,\"_\":{}", &json[..at], &json[at + "\"seconds\":".len()..]);
    write(&paths[0], &format!("{altered}\n{}\n", blake3::hash(altered.as_bytes()).to_hex()));
    let reader = trusting(&public);
    run(&reader, &url).shows("does not match its signature");
    write(&paths[0], &texts[1]);
    write(&paths[1], &texts[0]);
    let reader = trusting(&public);
    run(&reader, &url).shows("is the record of another key or machine");
    assert_eq!(ran(&reader), ["first", "second"]);
}

#[test]
fn the_key_is_in_nothing_that_a_run_leaves_or_prints() {
    let (private, public) = keys();
    let secret = private.lines().nth(1).unwrap().to_owned();
    let (folder, url) = store();
    // Its text in the environment: a command does not get it, and an output that has it is not shared.
    let mut world = machine(
        "stages:\n  seen: { shell: 'env > out; ! grep -q PRIVATE out' }\n  leak: { inputs: { key: key.pem }, shell: 'cp {{ inputs.key }} out' }\n",
    );
    world.env("REGATTA_SIGN_KEY", &private);
    world.file("key.pem", &private);
    let ended = run(&world, &url);
    ended.shows("leak: its output is not shared: out holds the value of");
    let status = world.good(&["store", "status", "m", "--store", &url]);
    let doctor = world.regatta(&["doctor"]);
    doctor.shows("REGATTA_SIGN_KEY").shows("signs as ");
    for printed in [&ended, &status, &doctor] {
        assert!(!printed.stdout.contains(&secret) && !printed.stderr.contains(&secret));
    }
    fs::remove_file(world.path("key.pem")).unwrap();
    let leaked = world.path("latest/leak/out");
    for place in [world.path(""), folder.path().to_owned()] {
        for file in walkdir::WalkDir::new(place).into_iter().flatten().filter(|item| item.file_type().is_file()) {
            let is_there = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).contains(&secret);
            assert!(
                !is_there || fs::canonicalize(&leaked).unwrap() == fs::canonicalize(file.path()).unwrap(),
                "{file:?}"
            );
        }
    }
    let reader = trusting(&public);
    reader.good(&["doctor"]).shows("REGATTA_TRUSTED_KEYS").shows("are taken");
}

#[test]
fn the_text_of_the_key_is_not_in_what_the_kernel_shows_of_the_runner() {
    let world =
        machine("stages:\n  look: { shell: 'cat /proc/$PPID/environ > out 2>&1 || true; ! grep -q PRIVATE out' }\n");
    // From root nothing is hidden.
    let line = "case $(id -u) in
        0) chown -R 65534:65534 . && exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$0\" run m ;;
        *) exec \"$0\" run m ;;
        esac";
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_regatta")]).current_dir(world.path(""));
    let ended = shell.env("REGATTA_SIGN_KEY", keys().0).env("HOME", world.path("")).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(world.read("latest/look/out").contains("Permission denied"));
}

#[test]
fn a_key_that_cannot_be_used_ends_the_command_before_anything_runs() {
    let (private, public) = keys();
    let (_folder, url) = store();
    let mut world = machine(MANIFEST);
    world.file("key.pem", &private).file("key.pub", &public);
    for (words, why) in [
        (["--sign-key", "key.pub"], "key.pub holds no unencrypted private key"),
        (["--sign-key", "none.pem"], "none.pem cannot be read"),
        (["--trusted-keys", "key.pem"], "key.pem holds no public key"),
    ] {
        let ended = world.regatta(&["run", "m", "--store", &url, words[0], words[1]]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(why).shows("hint: ");
    }
    // As a CI system sets a secret that it does not have.
    for name in ["REGATTA_SIGN_KEY", "REGATTA_TRUSTED_KEYS"] {
        let mut world = machine(MANIFEST);
        world.env(name, "");
        let ended = world.regatta(&["run", "m", "--store", &url]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(&format!("{name} is set, and names no key"));
        assert!(!world.path("ran").exists());
    }
    assert!(!world.path("ran").exists());
    fs::set_permissions(world.path("key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    world.env("REGATTA_SIGN_KEY", "key.pem");
    world.regatta(&["doctor"]).shows("other users can read its file").shows("chmod 600 key.pem");
}

/// Names and contents.
fn records(store: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all: Vec<_> =
        objects(store, "/records/").into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    all.sort();
    all
}

fn write(path: &Path, text: &str) {
    let _ = fs::remove_file(path);
    fs::write(path, text).unwrap();
}
