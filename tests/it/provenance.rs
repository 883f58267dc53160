//! `regatta provenance`: its digests are those of the files, and the public key alone is enough to check its signature.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::world::World;

const MANIFEST: &str = r#"
params:
  size: { number: {}, default: 3 }
stages:
  words: { inputs: { list: words.txt, more: data }, secrets: [TOKEN], shell: 'sort {{ inputs.list }} > out; mkdir b; cp out b/two' }
  count: { env: { SIZE: "{{ size }}" }, shell: 'wc -l < {{ stages.words.out }}/out > n' }
  each: { foreach: { x: [1, 2] }, shell: ': > {{ x }}' }
  none: { needs: [count], shell: 'true' }
"#;

fn world() -> World {
    let mut world = World::with(MANIFEST);
    world.file("words.txt", "b\na\n").file("data/one", "1").file("data/two", "2");
    world.env("TOKEN", "a-secret-value");
    world.good(&["run", "m"]);
    world
}

fn statement(world: &World, words: &[&str]) -> Value {
    let words: Vec<&str> = ["provenance"].iter().chain(words).copied().collect();
    serde_json::from_str(&world.good(&words).stdout).unwrap()
}

fn sha256(world: &World, path: &str) -> String {
    format!("{:x}", Sha256::digest(fs::read(world.path(path)).unwrap()))
}

/// Names with their SHA-256.
fn digests(resources: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    resources.as_array().unwrap().iter().map(|one| (text(&one["name"]), text(&one["digest"]["sha256"]))).collect()
}

#[test]
fn a_statement_names_the_files_of_an_output_and_what_it_was_made_from() {
    let world = world();
    let words = statement(&world, &["words"]);
    assert_eq!(words["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(words["predicateType"], "https://slsa.dev/provenance/v1");
    let of = |name: &str, path: &str| (name.to_owned(), sha256(&world, path));
    assert_eq!(
        digests(&words["subject"]),
        [of("words/b/two", "latest/words/b/two"), of("words/out", "latest/words/out")]
    );
    let definition = &words["predicate"]["buildDefinition"];
    let dependencies = &definition["resolvedDependencies"];
    let files = ["words.txt", "data/one", "data/two"].map(|path| of(path, path));
    assert_eq!(digests(dependencies), files);
    assert_eq!(dependencies[2]["annotations"]["input"], "more");
    let external = &definition["externalParameters"];
    assert_eq!((&external["task"], &external["manifest"]), (&"words".into(), &"m".into()));
    assert_eq!(external["requested"]["secrets"], serde_json::json!(["TOKEN"]));
    assert!(!words.to_string().contains("a-secret-value"));
    assert!(!words.to_string().contains(&world.path("").display().to_string()));
    let metadata = &words["predicate"]["runDetails"]["metadata"];
    assert!(world.path(".regatta/runs").join(metadata["invocationId"].as_str().unwrap()).is_dir());
    assert!(metadata["startedOn"].as_str() <= metadata["finishedOn"].as_str());

    // The files that a stage reads of another one are that one's subjects.
    let count = statement(&world, &["latest/count/n"]);
    let dependencies = &count["predicate"]["buildDefinition"]["resolvedDependencies"];
    assert_eq!(digests(dependencies), digests(&words["subject"]));
    assert_eq!(dependencies[0]["annotations"]["stage"], "words");
    let requested = &count["predicate"]["buildDefinition"]["externalParameters"]["requested"];
    assert_eq!(requested["env"]["SIZE"], "3");

    // What is further up is there by the digests of its record; an output without files by its own.
    let none = statement(&world, &["none"]);
    assert_eq!(none["subject"][0]["digest"]["regattaTree"].as_str().map(str::len), Some(64));

    // Other parameters are another output, which is not there.
    let other = world.regatta(&["provenance", "count", "m", "size=4"]);
    assert_eq!(other.code, 0, "the last output of the task, whatever the manifest asks for now");
    let several = world.regatta(&["provenance", "each"]);
    several.shows("each has several tasks: each/1, each/2");
    let wrong = world.regatta(&["provenance", "wrods"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("did you mean `words`?");
}

#[test]
fn what_has_changed_since_is_not_vouched_for() {
    let world = world();
    world.file("words.txt", "c\n");
    let words = statement(&world, &["words"]);
    let list = &words["predicate"]["buildDefinition"]["resolvedDependencies"][0];
    assert_eq!((&list["name"], &list["annotations"]["changedSince"]), (&"list".into(), &true.into()));
    assert!(list["digest"]["sha256"].is_null());
    world.file("latest/words/out", "altered\n");
    let altered = world.regatta(&["provenance", "words"]);
    assert_eq!((altered.code, altered.stdout.as_str()), (2, ""));
    altered.shows("words cannot be vouched for: out in its output was changed after it was made");
    let nothing = World::with(MANIFEST).regatta(&["provenance", "words"]);
    assert_eq!(nothing.code, 2);
    nothing.shows("nothing has run in this folder yet").shows("`regatta provenance OUTPUT MANIFEST`");
}

#[test]
fn a_signed_statement_is_an_envelope_that_the_public_key_opens() {
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let world = world();
    world.file("key.pem", &pair.serialize_pem());
    world.good(&["provenance", "words", "--sign-key", "key.pem", "--builder", "https://ci.example/7", "-o", "w.json"]);
    let envelope: Value = serde_json::from_str(&world.read("w.json")).unwrap();
    let text = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    let (payload, signature) = (text(&envelope["payload"]), text(&envelope["signatures"][0]["sig"]));
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let mut signed = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len()).into_bytes();
    signed.extend(&payload);
    let key = UnparsedPublicKey::new(&ED25519, pair.der_bytes());
    assert!(key.verify(&signed, &signature).is_ok());
    let id = format!("{:x}", Sha256::digest(pair.subject_public_key_info()));
    assert_eq!(envelope["signatures"][0]["keyid"], id);
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(statement["predicate"]["runDetails"]["builder"]["id"], "https://ci.example/7");
    *signed.last_mut().unwrap() ^= 1;
    assert!(key.verify(&signed, &signature).is_err());
    let secret = pair.serialize_pem().lines().nth(1).unwrap().to_owned();
    assert!(!world.read("w.json").contains(&secret));
}
