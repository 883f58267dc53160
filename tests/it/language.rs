//! The manifest language from outside: good manifests, the plan they become, and the published schema.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use regatta::manifest::{GivenValues, Manifest, ManifestLibrary, list_manifests, load, schema, shipped};
use regatta::plan::{Plan, expand};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Longer snapshots live beside the manifests that they are of.
fn golden() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden/good");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn given(pairs: &[(&str, &str)]) -> GivenValues {
    let params = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    GivenValues { params, ..GivenValues::default() }
}

fn whole(given: &GivenValues) -> Manifest {
    let folder = root().join("tests/golden/good");
    let file = folder.join("whole.yaml");
    load(&ManifestLibrary::new(&folder), file.to_str().expect("UTF-8"), given).unwrap_or_else(|found| panic!("{found}"))
}

/// A project in a temporary folder with one manifest, `m`.
fn project(text: &str) -> (tempfile::TempDir, ManifestLibrary) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("manifests")).expect("a folder");
    fs::write(folder.path().join("manifests/m.yaml"), text).expect("a file");
    let library = ManifestLibrary::new(folder.path());
    (folder, library)
}

fn plan_of(text: &str) -> Plan {
    let (_folder, library) = project(text);
    let manifest = load(&library, "m", &GivenValues::default()).unwrap_or_else(|found| panic!("{found}"));
    expand(&manifest).unwrap_or_else(|found| panic!("{found}"))
}

fn complaint(text: &str) -> String {
    let (_folder, library) = project(text);
    match load(&library, "m", &GivenValues::default()).and_then(|manifest| expand(&manifest)) {
        Ok(plan) => panic!("no complaint: {plan:?}"),
        Err(found) => found.render(false),
    }
}

fn describe(plan: &Plan) -> String {
    let mut out = String::new();
    for task in &plan.tasks {
        let name = |need: &regatta::plan::Need| {
            let dash = if need.data { "" } else { "~" };
            format!("{dash}{}", plan.tasks[need.task as usize].id)
        };
        let needs: Vec<String> = task.needs.iter().map(name).collect();
        let _ = writeln!(
            out,
            "{} <- [{}] {}",
            task.id,
            needs.join(", "),
            task.skipped.as_deref().unwrap_or(task.action_text())
        );
    }
    out
}

#[test]
fn the_whole_language_becomes_a_plan() {
    let plan = expand(&whole(&GivenValues::default())).unwrap_or_else(|found| panic!("{found}"));
    golden().bind(|| insta::assert_snapshot!("whole_plan", describe(&plan)));
    let pack = plan.tasks.iter().find(|task| task.stage == "pack").expect("pack is there");
    assert_eq!(pack.env["TOTAL"], "2", "numbers become texts in texts");
    assert_eq!(pack.inputs["all"][1], "⟦out:clone⟧/README.md");
    assert_eq!(pack.cpus, Some(1));
    let race = plan.tasks.iter().find(|task| task.stage == "race").expect("race is there");
    assert_eq!(race.cpus, None, "a race takes the machine");
}

#[test]
fn every_value_says_where_it_came_from() {
    let mut given = given(&[("system", "large"), ("seed", "9")]);
    given.env.insert("SCENARIOS".to_owned(), "server".to_owned());
    let manifest = whole(&given);
    let shown: Vec<String> =
        manifest.values().iter().map(|one| format!("{} = {}  # {}", one.path, one.value, one.origin)).collect();
    golden().bind(|| insta::assert_snapshot!("whole_values", shown.join("\n")));
    let names: Vec<&str> = manifest.sources().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["whole.yaml", "parts/versions.yaml", "systems/large.yaml"]);
    assert_eq!(manifest.environment()["SCENARIOS"].as_deref(), Some("server"));
}

#[test]
fn a_given_engine_skips_its_stage_and_nothing_else() {
    let plan = expand(&whole(&given(&[("engine_dir", "/"), ("scenarios", "offline")])));
    let plan = plan.unwrap_or_else(|found| panic!("{found}"));
    let engine = plan.tasks.iter().find(|task| task.stage == "engine").expect("engine is there");
    assert_eq!(engine.skipped.as_deref(), Some("when is false: not engine_dir"));
    let repo = plan.tasks.iter().find(|task| task.id.as_str() == "repo/offline").expect("repo is there");
    assert!(repo.action_text().contains(r#""engine":"/""#), "{}", repo.action_text());
    assert!(repo.needs.is_empty());
}

#[test]
fn a_reference_picks_the_same_coordinates_or_a_list() {
    let plan = plan_of(
        "regatta: 1
stages:
  a: { foreach: { x: [1, 2], y: [u, v] }, shell: 'a' }
  b: { foreach: { x: [1, 2] }, shell: '{{ stages.a.out | join(\" \") }}' }
  c: { foreach: { y: [u, v], x: [2] }, shell: '{{ stages.a.out }} {{ stages.b.outs[0] }}' }
",
    );
    insta::assert_snapshot!(describe(&plan), @r##"
    a/1/u <- [] {"shell":"a"}
    a/1/v <- [] {"shell":"a"}
    a/2/u <- [] {"shell":"a"}
    a/2/v <- [] {"shell":"a"}
    b/1 <- [a/1/u, a/1/v] {"shell":"⟦out:a/1/u⟧ ⟦out:a/1/v⟧"}
    b/2 <- [a/2/u, a/2/v] {"shell":"⟦out:a/2/u⟧ ⟦out:a/2/v⟧"}
    c/u/2 <- [a/2/u, b/2] {"shell":"⟦out:a/2/u⟧ ⟦out:b/2⟧"}
    c/v/2 <- [a/2/v, b/2] {"shell":"⟦out:a/2/v⟧ ⟦out:b/2⟧"}
    "##);
}

#[test]
fn a_switch_in_a_text_is_true_or_false() {
    let plan = plan_of(
        "regatta: 1
params: { sw: { switch: {}, default: true } }
stages:
  a: { foreach: { on: [true, false] }, shell: 'a --flag={{ sw }} {{ on }}' }
  b: { shell: '{{ stages.a.outs | join(\" \") }}' }
",
    );
    insta::assert_snapshot!(describe(&plan), @r##"
    a/true <- [] {"shell":"a --flag=true true"}
    a/false <- [] {"shell":"a --flag=true false"}
    b <- [a/true, a/false] {"shell":"⟦out:a/true⟧ ⟦out:a/false⟧"}
    "##);
}

#[test]
fn until_takes_what_is_needed_and_only_takes_just_that() {
    let plan = plan_of(
        "regatta: 1
stages:
  a: { shell: a }
  b: { shell: '{{ stages.a.out }}' }
  c: { shell: c, needs: [b] }
  d: { shell: d }
",
    );
    let names = |wanted: Vec<bool>| {
        let pairs = plan.tasks.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        pairs.map(|(task, _)| task.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    let of = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(plan.select(&[], &[]).expect("all")), "a b c d");
    assert_eq!(names(plan.select(&of(&["c"]), &[]).expect("c")), "a b c");
    assert_eq!(names(plan.select(&[], &of(&["b", "d"])).expect("b, d")), "b d");
    let found = plan.select(&of(&["bb"]), &[]).expect_err("unknown").render(false);
    assert!(found.contains("there is no stage or task `bb`") && found.contains("did you mean `b`?"), "{found}");
}

#[test]
fn a_service_is_an_edge_with_data() {
    let plan = plan_of(
        "regatta: 1
stages:
  s: { serve: { command: { words: [x, '{port}'] } } }
  b: { shell: 'ask {{ stages.s }}' }
",
    );
    insta::assert_snapshot!(describe(&plan), @r##"
    s <- [] {"serve":{"command":{"ready":{"by":"detect"},"words":["x","{port}"]}}}
    b <- [s] {"shell":"ask ⟦service:s⟧"}
    "##);
}

/// Read anew each time, the last of them would be read a billion times.
#[test]
fn a_file_that_is_included_again_and_again_is_read_twice_at_the_most() {
    let (folder, library) = project("regatta: 1\ninclude: [f0.yaml, f0.yaml]\n");
    for number in 0..30 {
        let below = if number < 29 { format!("include: [f{0}.yaml, f{0}.yaml]\n", number + 1) } else { String::new() };
        let text = format!("{below}stages: {{ s{number}: {{ shell: 'true' }} }}\n");
        fs::write(folder.path().join(format!("manifests/f{number}.yaml")), text).expect("a file");
    }
    let manifest = load(&library, "m", &GivenValues::default()).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(manifest.stages.len(), 30);
    assert_eq!(manifest.sources().len(), 31, "each once");
}

#[test]
fn includes_merge_deeply_and_the_later_wins() {
    let (folder, library) = project("regatta: 1\ninclude: [one.yaml, two.yaml]\nvars: { c: mine }\n");
    let write = |name: &str, text: &str| fs::write(folder.path().join("manifests").join(name), text).expect("a file");
    write("one.yaml", "vars: { a: 1, b: { x: 1, y: [1, 2] }, c: one }\nstages: { s: { shell: one } }\n");
    write("two.yaml", "include: [one.yaml]\nvars: { b: { y: [3] }, c: two }\nstages: { s: { cache: false } }\n");
    let manifest = load(&library, "m", &GivenValues::default()).unwrap_or_else(|found| panic!("{found}"));
    let shown: Vec<String> =
        manifest.values().iter().map(|one| format!("{} = {}  # {}", one.path, one.value, one.origin)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r##"
    vars.a = 1  # manifests/one.yaml:1
    vars.b.x = 1  # manifests/one.yaml:1
    vars.b.y = [3]  # manifests/two.yaml:2
    vars.c = mine  # manifests/m.yaml:3
    stages.s.shell = one  # manifests/one.yaml:2
    stages.s.cache = false  # manifests/two.yaml:3
    "##);
}

#[test]
fn a_switch_has_no_bounds() {
    let found = complaint("regatta: 1\nparams: { x: { switch: { min: 0 }, default: false } }\nstages: {}\n");
    assert!(found.contains("unknown key `min`"), "{found}");
}

#[test]
fn the_list_of_manifests_has_broken_ones_with_their_first_error() {
    let (folder, library) = project("regatta: 1\nabout: works\nstages: {}\n");
    let manifests = folder.path().join("manifests");
    fs::write(manifests.join("bad.yaml"), "regatta: 1\nabout: fails\nstage: {}\n").expect("a file");
    fs::create_dir(manifests.join("deep")).expect("a folder");
    fs::write(manifests.join("deep/pipeline.yaml"), "regatta: 1\nparams: { x: { int: {} } }\n").expect("a file");
    let lines: Vec<String> = list_manifests(&library)
        .unwrap()
        .iter()
        .filter(|one| one.location != "shipped")
        .map(|one| format!("{} | {:?} | {} | {:?}", one.name, one.about, one.location, one.broken))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r##"
    bad | Some("fails") | manifests/bad.yaml | Some("unknown key `stage` (manifests/bad.yaml:3)")
    deep | None | manifests/deep/pipeline.yaml | None
    m | Some("works") | manifests/m.yaml | None
    "##);
}

#[test]
fn ten_thousand_stages_in_a_chain() {
    let mut text = String::from("regatta: 1\nstages:\n");
    for n in 0..10_000 {
        let before =
            |back: usize| if n >= back { format!("'{{{{ stages.s{}.out }}}}'", n - back) } else { "x".to_owned() };
        let _ = write!(
            text,
            "  s{n}:\n    inputs: {{ a: {}, b: {}, c: {} }}\n    shell: run {n}\n",
            before(1),
            before(2),
            before(3)
        );
    }
    let plan = plan_of(&text);
    assert_eq!(plan.tasks.len(), 10_000);
    assert_eq!(plan.tasks.iter().map(|task| task.needs.len()).sum::<usize>(), 3 * 10_000 - 6);
}

#[test]
fn a_circle_of_ten_thousand_is_reported_once() {
    let mut text = String::from("regatta: 1\nstages:\n");
    for n in 0..10_000 {
        let _ = write!(text, "  s{n}:\n    shell: 'x'\n    needs: [s{}]\n", (n + 1) % 10_000);
    }
    let found = complaint(&text);
    assert!(found.ends_with("1 error\n"), "{}", &found[found.len() - 200..]);
    assert!(found.len() < 20_000, "a circle that nobody can read: {} bytes", found.len());
}

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    let path = root().join("schemas/manifest.json");
    let now = serde_json::to_string_pretty(&schema()).expect("a schema is JSON") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &now).expect("the schema can be written");
    }
    assert!(fs::read_to_string(&path).unwrap_or_default() == now, "schemas/manifest.json is old: run with UPDATE=1");
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("entries can be read").path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn an_independent_validator_agrees_with_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is one");
    let read = |path: &Path| -> serde_json::Value {
        serde_yaml::from_str(&fs::read_to_string(path).expect("a file")).expect("YAML")
    };
    let mut files = vec![root().join("tests/golden/good/whole.yaml")];
    yaml_files(&root().join("manifests"), &mut files);
    for file in files {
        let value = read(&file);
        // Catalog files and files to include are parts of manifests and have no version.
        if value.get("regatta").is_some() {
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", file.display());
        }
    }
    let broken = [
        "unknown-key",
        "unknown-action",
        "unknown-top",
        "wrong-types",
        "missing-keys",
        "two-actions",
        "no-action",
        "bench",
        "words",
        "version",
        "params-kinds",
        "merge-key",
    ];
    for name in broken {
        let value = read(&root().join(format!("tests/golden/broken/{name}.yaml")));
        assert!(!validator.is_valid(&value), "the schema allows {name}.yaml");
    }
}

#[test]
fn every_shipped_manifest_loads_and_expands() {
    let library = ManifestLibrary::new(Path::new("/nonexistent"));
    for one in list_manifests(&library).unwrap() {
        assert_eq!(one.broken, None, "{}", one.name);
    }
    assert!(shipped().any(|(path, bytes)| path == "schemas/manifest.json" && !bytes.is_empty()));
}

/// The tables leave the simulated twins out where each system has one.
#[test]
fn the_page_of_the_manifests_lists_their_systems() {
    let folder = root().join("manifests");
    let page = fs::read_to_string(folder.join("README.md")).expect("a page");
    let mut listed: Vec<&str> = Vec::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let Some((workload, systems)) = row.trim_end_matches(" |").split_once("` | ") else { continue };
        if !folder.join(workload).is_dir() {
            continue;
        }
        listed.push(workload);
        let systems: Vec<&str> = systems.split(", ").collect();
        let has_twins = systems.iter().any(|system| system.starts_with("sim-"));
        let files = fs::read_dir(folder.join(workload)).expect("a folder").flatten();
        let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".yaml")?.to_owned()));
        let mut names: Vec<String> =
            names.filter(|name| name != "pipeline" && (has_twins || !name.starts_with("sim-"))).collect();
        names.sort();
        assert_eq!(systems, names, "{workload}");
    }
    let pipelines = fs::read_dir(&folder).expect("a folder").flatten();
    let pipelines = pipelines.filter(|item| item.path().join("pipeline.yaml").is_file());
    let missing: Vec<_> =
        pipelines.map(|item| item.file_name()).filter(|name| !listed.iter().any(|listed| name == listed)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_link_out_of_the_project_is_not_followed() {
    let (folder, library) = project("regatta: 1\ninclude: [out.yaml]\nstages: {}\n");
    let outside = tempfile::tempdir().expect("a folder");
    fs::write(outside.path().join("out.yaml"), "stages: {}\n").expect("a file");
    std::os::unix::fs::symlink(outside.path().join("out.yaml"), folder.path().join("manifests/out.yaml"))
        .expect("a link");
    let found = load(&library, "m", &GivenValues::default()).expect_err("it leaves").render(false);
    assert!(found.contains("it is a link that leaves the project folder"), "{found}");
}

#[test]
fn an_error_in_a_loop_is_reported_once() {
    let found = complaint("regatta: 1\nstages:\n  a:\n    foreach: { x: [1, 2, 3] }\n    shell: '{{ y }}'\n");
    assert!(found.ends_with("\n1 error\n"), "{found}");
}

/// Pieces that manifests are made of, in any order: most of it is wrong in some way.
fn rubble() -> impl Strategy<Value = String> {
    const PIECES: [&str; 44] = [
        "regatta: 1\n",
        "stages:\n",
        "  a:\n",
        "  b:\n",
        "    shell: x\n",
        "    shell: '{{ stages.a.out }}'\n",
        "params:\n",
        "vars:\n",
        "  x: 1\n",
        "  y: '{{ x }}'\n",
        "  z: '{{ y }}{{ z }}'\n",
        "{{ ",
        " }}",
        "{% if x %}",
        "{% endif %}",
        "'",
        "\"",
        "- ",
        "? ",
        ": ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!t ",
        "|\n",
        ">\n",
        "\t",
        "\r\n",
        "---\n",
        "# c\n",
        "é",
        "日",
        "    foreach: { x: [1, 2] }\n",
        "    when: '{{ x }}'\n",
        "    needs: [a, b]\n",
        "include: [m.yaml]\n",
        "\0",
        "\u{feff}",
        "    gpus: '{{ x * 1.5 }}'\n",
        "  p: { int: {}, default: 3 }\n",
        "  p: { catalog: ., default: m }\n",
    ];
    prop::collection::vec(prop::sample::select(PIECES.as_slice()), 0..24).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_stage_over_an_empty_list_is_skipped_and_in_the_plan() {
    let plan = plan_of(
        "regatta: 1
vars: { empty: [] }
stages:
  a: { foreach: { x: '{{ empty }}', y: [1, 2] }, shell: a }
  b: { shell: 'echo {{ stages.a.outs | length }}' }
",
    );
    let skipped: Vec<_> = plan.tasks.iter().map(|task| (task.id.as_str(), task.skipped.as_deref())).collect();
    assert_eq!(skipped, [("a", Some("foreach.x is an empty list")), ("b", None)]);
    let text = "regatta: 1\nvars: { empty: [] }\nstages:\n  a: { foreach: { x: '{{ empty }}' }, shell: a }\n  \
                b: { shell: 'cat {{ stages.a.out }}/x' }\n";
    assert!(complaint(text).contains("`a` is skipped, but this stage cannot do without it"));
}

#[test]
fn a_stage_that_is_skipped_as_a_whole_is_an_empty_list_to_the_one_that_gathers_it() {
    let off = "regatta: 1\nstages:\n  x: { foreach: { n: [1, 2] }, when: false, shell: x }\n";
    let plan = plan_of(&format!(
        "{off}  all: {{ inputs: {{ all: '{{{{ stages.x.out }}}}' }}, shell: 'cat {{{{ inputs.all }}}}' }}\n  \
         count: {{ shell: 'echo {{{{ stages.x.out | length }}}} {{% for one in stages.x.out %}}{{{{ one }}}}{{% endfor %}}' }}\n"
    ));
    let (all, count) = (&plan.tasks[2], &plan.tasks[3]);
    assert_eq!(all.inputs["all"], [""; 0]);
    assert_eq!(count.action_text(), r#"{"shell":"echo 0 "}"#);
    for needed in ["shell: 'cat {{ stages.x.out }}/f'", "template: { from: '{{ stages.x.out }}' }"] {
        let text = complaint(&format!("{off}  one: {{ {needed} }}\n"));
        assert!(text.contains("`x/1` is skipped, but this stage cannot do without it"), "{text}");
    }
}

#[test]
fn a_section_with_nothing_behind_it_does_not_remove_the_included_one() {
    let (folder, library) = project("regatta: 1\ninclude: [base.yaml]\nstages:\n");
    let base = "regatta: 1\nstages:\n  a: { shell: a }\n";
    fs::write(folder.path().join("manifests/base.yaml"), base).expect("a file");
    let manifest = load(&library, "m", &GivenValues::default()).unwrap_or_else(|found| panic!("{found}"));
    let plan = expand(&manifest).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(plan.tasks.len(), 1);
}

/// One edit of a text, of the kind that people make.
fn edited(text: &str, (kind, at, with): (u8, prop::sample::Index, usize)) -> String {
    const VALUES: [&str; 9] = ["", "~", "3", "true", "[]", "{}", "\"{{ gpus }}\"", "[{ a: 1 }]", "\"{{ none }}\""];
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let line = at.index(lines.len());
    let other = with % lines.len();
    match kind {
        0 => drop(lines.remove(line)),
        1 => lines.insert(other, lines[line].clone()),
        2 => lines.swap(line, other),
        // The space after the colon.
        3 => lines[line] = lines[line].replacen(": ", ":", 1),
        4 => lines[line].insert_str(0, &" ".repeat(1 + with % 4)),
        5 => {
            let dedented = lines[line].strip_prefix("  ").unwrap_or(&lines[line]).to_owned();
            lines[line] = dedented;
        }
        6 => {
            if let Some((key, _)) = lines[line].clone().split_once(": ") {
                lines[line] = format!("{key}: {}", VALUES[with % VALUES.len()]);
            }
        }
        7 => {
            let letters: Vec<char> = lines[line].chars().collect();
            if !letters.is_empty() {
                let gone = with % letters.len();
                lines[line] = letters.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, c)| c).collect();
            }
        }
        _ => lines[line].push_str([":", " #", "'", "\"", " }", "]", "{{"][with % 7]),
    }
    lines.join("\n") + "\n"
}

/// The stages of a manifest as another YAML library reads it; empty if it cannot.
fn stages_of(text: &str) -> Vec<String> {
    let Ok(value) = serde_yaml::from_str::<serde_json::Value>(text) else { return Vec::new() };
    value["stages"].as_object().map(|stages| stages.keys().cloned().collect()).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_stage_of_an_edited_manifest_is_a_task_or_an_error(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((0..9_u8, any::<prop::sample::Index>(), any::<usize>()), 1..4),
    ) {
        let manifests: Vec<(String, &str)> = shipped()
            .filter(|(path, _)| path.starts_with("manifests/") && std::path::Path::new(path).extension().is_some_and(|ext| ext == "yaml"))
            .filter_map(|(path, bytes)| Some((path, std::str::from_utf8(bytes).ok()?)))
            .filter(|(_, text)| text.contains("\nstages:"))
            .collect();
        let (path, text) = &manifests[which.index(manifests.len())];
        let text = edits.into_iter().fold((*text).to_owned(), |text, edit| edited(&text, edit));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
        fs::write(&file, &text).expect("a file");
        // Absolute: a relative path would be the one of this repository.
        let what = file.to_str().expect("UTF-8");
        match load(&ManifestLibrary::new(folder.path()), what, &GivenValues::default()).and_then(|manifest| expand(&manifest)) {
            Ok(plan) => {
                for stage in stages_of(&text) {
                    prop_assert!(plan.tasks.iter().any(|task| task.stage == stage), "{stage} is gone from:\n{text}");
                }
                for (at, task) in plan.tasks.iter().enumerate() {
                    prop_assert!(task.needs.iter().all(|need| (need.task as usize) < at));
                }
            }
            Err(found) => {
                prop_assert!(found.has_errors());
                prop_assert!(!found.render(false).is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in prop_oneof![any::<String>(), rubble(), rubble().prop_map(|s| format!("regatta: 1\nstages:\n{s}"))]) {
        let (_folder, library) = project(&text);
        if let Err(found) = load(&library, "m", &GivenValues::default()).and_then(|manifest| expand(&manifest)) {
            prop_assert!(found.has_errors());
            prop_assert!(!found.render(true).is_empty());
        }
    }

    #[test]
    fn no_expression_makes_it_panic(text in "[a-z0-9 .|+*/(){}%\\[\\]'\"~,:<>=!-]{0,40}") {
        let quoted = format!("regatta: 1\nvars: {{ x: 3, l: [1, 2], m: {{ k: v }} }}\nstages:\n  a:\n    shell: '{{{{ {} }}}}'\n", text.replace('\'', "''"));
        let (_folder, library) = project(&quoted);
        if let Err(found) = load(&library, "m", &GivenValues::default()).and_then(|manifest| expand(&manifest)) {
            prop_assert!(!found.render(false).is_empty());
        }
    }
}
