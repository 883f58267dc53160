//! The manual: every command of every page is run, and must print what the page says.
//!
//! A page `tests/manual/PART/x.md` runs from top to bottom in a copy of the folder `x.in`. What differs from run to run
//! is written `[..]`, left-out lines are `...`. After a change, `TRYCMD=overwrite cargo test --test it manual`
//! writes what is printed now; read the difference, and put the `[..]` back.

use std::fs;
use std::path::Path;

/// Pages with commands of several lines.
const SEVERAL_LINES: [&str; 2] = ["guides/model-repositories", "guides/vllm"];
/// Those with a server and a load against it.
const WITH_SIMULATOR: [&str; 5] =
    ["start/first-benchmark", "start/first-manifest", "guides/simulator", "guides/load", "guides/llmb-run"];
/// Those that need other software: their tests are ignored without it, and the test of the help is in `cli.rs`.
const ELSEWHERE: [&str; 4] = ["guides/containers", "guides/mlperf", "guides/query-triton", "reference/help"];

/// Pages that only read and write files, and every page that is in no other list.
#[test]
fn the_pages_are_true() {
    let cases = manual();
    cases.case("tests/manual/*/*.md");
    for page in SEVERAL_LINES.iter().chain(&WITH_SIMULATOR).chain(&ELSEWHERE) {
        cases.skip(format!("tests/manual/{page}.md"));
    }
}

/// trycmd reads each `\` that is printed as `/`, and so the copies of these pages have it.
#[test]
fn the_pages_with_commands_of_several_lines_are_true() {
    let copies = tempfile::tempdir().expect("a folder");
    for name in SEVERAL_LINES {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/manual/{name}.md"));
        let copy = copies.path().join(page.file_name().expect("a page"));
        let text = fs::read_to_string(&page).expect("a page");
        assert!(text.contains(" \\\n"), "{name} has no command of several lines");
        fs::write(&copy, text.replace(" \\\n", " /\n")).expect("a copy");
        for folder in ["in", "out"].iter().filter(|folder| page.with_extension(folder).is_dir()) {
            copy_folder(&page.with_extension(folder), &copy.with_extension(folder));
        }
    }
    manual().case(copies.path().join("*.md")).run();
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).into_iter().map(|entry| entry.expect("a file of ours")) {
        let copy = to.join(entry.path().strip_prefix(from).expect("below it"));
        if entry.file_type().is_dir() {
            fs::create_dir_all(copy).expect("a folder");
        } else {
            fs::copy(entry.path(), copy).expect("a file");
        }
    }
}

#[test]
fn the_pages_with_the_simulator_are_true() {
    let cases = manual();
    for page in WITH_SIMULATOR {
        cases.case(format!("tests/manual/{page}.md"));
    }
}

/// The one with a real podman, which has the image of the other tests.
#[test]
#[ignore = "needs podman"]
fn the_page_about_containers_is_true() {
    let podman = crate::server_containers::Podman::here();
    let cases = manual();
    cases.register_bin("podman", std::path::PathBuf::from("/usr/bin/podman"));
    cases.env("CONTAINERS_CONF", podman.config.display().to_string());
    cases.env("CONTAINERS_STORAGE_CONF", podman.storage.display().to_string());
    cases.case("tests/manual/guides/containers.md");
}

/// The one that builds LoadGen and rehearses a submission.
#[test]
#[ignore = "needs MLPerf's LoadGen: pip, g++ and the network"]
fn the_page_about_mlperf_is_true() {
    manual().case("tests/manual/guides/mlperf.md");
}

/// The example of the language quotes its paths: it runs in a folder whose name has a space, too.
#[test]
fn the_example_of_the_language_runs_in_a_folder_with_a_space() {
    let folder = tempfile::tempdir().expect("a folder").path().join("with space");
    let world = crate::world::World::below(&{
        fs::create_dir_all(&folder).expect("a folder");
        folder
    });
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/concepts/manifests.in");
    for entry in walkdir::WalkDir::new(&manifests).into_iter().map(|entry| entry.expect("a file of ours")) {
        if entry.file_type().is_file() {
            let to = entry.path().strip_prefix(&manifests).expect("below it").display().to_string();
            world.file(&to, &fs::read_to_string(entry.path()).expect("text"));
        }
    }
    world.good(&["run", "language"]);
    assert_eq!(world.read("latest/compare/table.txt").lines().count(), 2);
}

fn manual() -> trycmd::TestCases {
    let cases = trycmd::TestCases::new();
    cases.register_bin("regatta", trycmd::cargo::cargo_bin!("regatta"));
    // What a reader types between the commands of the program.
    for name in ["cat", "ls", "rm", "sed", "sh", "touch"] {
        cases.register_bin(name, std::path::PathBuf::from(format!("/bin/{name}")));
    }
    cases
}

/// Relative links of the pages and of README.
#[test]
fn every_link_leads_to_a_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let items = walkdir::WalkDir::new(root.join("tests/manual")).into_iter().map(|item| item.expect("a file of ours"));
    let mut links = 0;
    for page in items.map(walkdir::DirEntry::into_path).chain([root.join("README.md")]) {
        if page.extension().is_none_or(|kind| kind != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") {
                assert!(page.with_file_name(path).exists(), "{}: {link}", page.display());
                links += 1;
            }
        }
    }
    assert!(links > 100, "{links}");
}

/// Each test that the page on faults names as `module::test` or as the beginning of one, `module::test_…`, exists.
#[test]
fn the_tests_that_the_page_on_faults_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("tests/manual/appendix/faults.md")).unwrap();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let mut module = None;
        for name in row.split('`').skip(1).step_by(2) {
            // A beginning alone is of the module that the row named before it.
            let (of, test) = match name.split_once("::") {
                Some((of, test)) => (Some(of), test),
                None if name.ends_with('…') => (module, name),
                None => continue,
            };
            module = of;
            let Some(of) = of else { continue };
            let path = root.join(format!("tests/it/{of}.rs"));
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let function = match test.strip_suffix('…') {
                Some(begin) => format!("fn {begin}"),
                None => format!("fn {test}("),
            };
            assert!(text.contains(&function), "{} has no {test}", path.display());
            named += 1;
        }
    }
    assert!(named > 30, "{named}");
}
