//! Broken manifests and what a person is told about them. `UPDATE=1` rewrites the golden files.

use std::fs;
use std::path::{Path, PathBuf};

use regatta::manifest::{GivenValues, ManifestLibrary};
use regatta::plan::{expand, load};

use crate::world::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/broken")
}

/// The first line may say what was typed: `# given: system=b20 tp=0`.
fn given(text: &[u8]) -> GivenValues {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().and_then(|line| line.strip_prefix("# given: ")).unwrap_or_default();
    let params = line.split_whitespace().filter_map(|pair| pair.split_once('='));
    GivenValues { params: params.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(), ..GivenValues::default() }
}

fn complaint(file: &Path) -> String {
    let bytes = fs::read(file).expect("a golden input can be read");
    let library = ManifestLibrary::new(&folder());
    let what = file.to_str().expect("golden names are UTF-8");
    match load(&library, what, &given(&bytes)).and_then(|manifest| expand(&manifest)) {
        Ok(_) => panic!("{what} is not broken"),
        Err(found) => {
            assert!(found.has_errors(), "{what}: no error among the diagnostics");
            found.render(false)
        }
    }
}

#[test]
fn every_broken_manifest_is_explained() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut inputs: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("entries can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "bin"))
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 40, "only {} broken manifests", inputs.len());
    let mut wrong = Vec::new();
    for input in inputs {
        let got = complaint(&input);
        let golden = input.with_extension("stderr");
        if update {
            fs::write(&golden, &got).expect("the golden can be written");
        } else if fs::read_to_string(&golden).unwrap_or_default() != got {
            wrong.push(format!("{}:\n{got}", input.display()));
        }
    }
    assert!(wrong.is_empty(), "{} differ (UPDATE=1 accepts):\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_manifest_that_does_not_exist_is_suggested() {
    let project = tempfile::tempdir().expect("a folder");
    fs::create_dir(project.path().join("manifests")).expect("a folder");
    fs::write(project.path().join("manifests/llama.yaml"), "regatta: 1\n").expect("a file");
    let found =
        load(&ManifestLibrary::new(project.path()), "lama", &GivenValues::default()).expect_err("no such manifest");
    insta::assert_snapshot!(found.render(false), @r"
    error: there is no manifest `lama`
     |
     = help: did you mean `llama`?

    1 error
    ");
    // A file beside `manifests/` has its path as name.
    fs::write(project.path().join("queue.yaml"), "regatta: 1\n").expect("a file");
    let found =
        load(&ManifestLibrary::new(project.path()), "queue", &GivenValues::default()).expect_err("no such manifest");
    insta::assert_snapshot!(found.render(false), @r"
    error: there is no manifest `queue`
     |
     = help: for the file, type `queue.yaml`; a name without `.yaml` is looked up in `manifests/`

    1 error
    ");
    // The folder of `regatta bench --out` has the manifest of its run.
    fs::create_dir(project.path().join("measured")).expect("a folder");
    fs::write(project.path().join("measured/manifest.yaml"), "regatta: 1\n").expect("a file");
    let found =
        load(&ManifestLibrary::new(project.path()), "measured", &GivenValues::default()).expect_err("no such manifest");
    insta::assert_snapshot!(found.render(false), @r"
    error: there is no manifest `measured`
     |
     = help: to repeat what this folder has, type `measured/manifest.yaml`

    1 error
    ");
}

#[test]
fn a_file_outside_of_the_current_folder_is_named_by_its_way() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = |name: &str| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    };
    let (project, other) = (folder("project"), folder("other"));
    fs::write(other.join("bad.yaml"), "regatta: 1\ninclude: [part.yaml]\nstages: { a: { shel: x } }\n")
        .expect("a file");
    fs::write(other.join("part.yaml"), "vrs: 1\n").expect("a file");
    let what = other.join("bad.yaml");
    let found = load(&ManifestLibrary::new(&project), what.to_str().expect("UTF-8"), &GivenValues::default());
    let text = found.expect_err("broken").render(false);
    assert!(text.contains("--> ../other/bad.yaml:3:16") && text.contains("--> ../other/part.yaml:1:1"), "{text}");
}

#[test]
fn a_manifest_with_a_parameter_that_must_be_given_is_checked() {
    let world = World::with("params: { need: { int: {} } }\nstages: { a: { shell: 'echo {{ need }}' } }\n");
    world.manifest("other", "stages: { a: { shell: x } }\n");
    world.good(&["check", "m", "need=4"]).shows("m: good, 1 task");
    let ended = world.good(&["check", "m", "other"]);
    ended.shows("warning: the parameter `need` has no value").shows("other: good, 1 task");
    ended.shows("m: good, but its stages need the values of parameters");
    let json = world.good(&["check", "m", "--format", "json"]).stdout;
    assert!(json.contains("\"severity\": \"warning\"") && json.contains("\"good\": true"), "{json}");
    world.manifest("m", "params: { need: { int: {} } }\nstages: { a: { shel: 'echo {{ need }}' } }\n");
    assert_eq!(world.regatta(&["check", "m"]).code, 2);
}
