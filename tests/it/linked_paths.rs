//! Every path that a user gives may be a link, lead through links, be relative, or lead nowhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use regatta::files::Digest;
use regatta::manifest::model::Action;
use regatta::runner::store::{Digests, InputError};
use serde_json::{Map, Value, json};

use crate::world::World;

/// What a path is, the path, and the plain path to the same, where it leads anywhere.
const FORMS: [(&str, &str, Option<&str>); 8] = [
    ("link to a folder", "link", Some("folder")),
    ("link/", "link/", Some("folder")),
    ("link to a file", "file-link", Some("file")),
    ("links inside", "holder", Some("folder")),
    ("relative link", "links/relative", Some("folder")),
    ("`..`", "links/../link", Some("folder")),
    ("missing", "nowhere", None),
    ("dangling", "dangling", None),
];

/// `folder` with two files, `file`, and what leads to them.
fn make_links(project: &Path) {
    fs::create_dir_all(project.join("folder/deep")).unwrap();
    fs::create_dir_all(project.join("links")).unwrap();
    fs::create_dir_all(project.join("holder")).unwrap();
    for (file, text) in [("folder/part", "a part"), ("folder/deep/part", "a deep part"), ("file", "a file")] {
        fs::write(project.join(file), text).unwrap();
    }
    let absolute = |name: &str| project.join(name);
    for (link, target) in [
        ("link", absolute("folder")),
        ("file-link", absolute("file")),
        ("holder/part", "../folder/part".into()),
        ("holder/deep", absolute("folder/deep")),
        ("links/relative", "../folder".into()),
        ("dangling", "gone".into()),
    ] {
        symlink(target, project.join(link)).unwrap();
    }
}

/// The JSON Schema of manifests, without the alternatives that are in each place: an expression, null.
struct Schema(Value);

impl Schema {
    fn new() -> Self {
        Self(serde_json::from_str(include_str!("../../schemas/manifest.json")).unwrap())
    }

    /// The alternatives of a schema.
    fn parts<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/$defs/")) {
            return if name == "expression" { Vec::new() } else { self.parts(&self.0["$defs"][name]) };
        }
        match schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            Some(parts) => parts.iter().flat_map(|part| self.parts(part)).collect(),
            None => vec![schema],
        }
    }

    fn is_of(schema: &Value, kind: &str) -> bool {
        schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&json!(kind)))
    }

    /// The least that a schema accepts.
    fn least(&self, schema: &Value) -> Value {
        let parts = self.parts(schema);
        let Some(schema) = parts.first() else { return Value::Null };
        if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
            return value.clone();
        }
        match schema["type"].as_str() {
            Some("string") => json!("1s"),
            Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
            Some("boolean") => json!(false),
            Some("array") => {
                let count = schema["minItems"].as_u64().unwrap_or_default();
                (0..count).map(|_| self.least(&schema["items"])).collect()
            }
            Some("object") => self.required(schema).into(),
            _ => Value::Null,
        }
    }

    fn required(&self, object: &Value) -> Map<String, Value> {
        let names = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| (name.to_owned(), self.least(&object["properties"][name]))).collect()
    }

    /// The least values with this text in one place, for each place that accepts a text; with the description of that place.
    fn with_text(&self, schema: &Value, text: &str, depth: u8) -> Vec<(Value, String)> {
        if depth == 0 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for part in self.parts(schema) {
            if Self::is_of(part, "string") && part["enum"].is_null() && part["const"].is_null() {
                all.push((json!(text), String::new()));
            }
            for (name, property) in part["properties"].as_object().into_iter().flatten() {
                for (value, inner) in self.with_text(property, text, depth - 1) {
                    let mut object = self.required(part);
                    object.insert(name.clone(), value);
                    let about = property["description"].as_str().unwrap_or_default();
                    all.push((object.into(), if inner.is_empty() { format!("{name}: {about}") } else { inner }));
                }
            }
            if part["additionalProperties"].is_object() {
                let inner = self.with_text(&part["additionalProperties"], text, depth - 1);
                all.extend(inner.into_iter().map(|(value, about)| (json!({ "a": value }), about)));
            }
            if part["items"].is_object() {
                let inner = self.with_text(&part["items"], text, depth - 1);
                all.extend(inner.into_iter().map(|(value, about)| (json!([value]), about)));
            }
        }
        all
    }
}

/// For each key of an action that names a file or a folder: an action that has this path there.
fn path_keys(path: &str) -> BTreeMap<&'static str, Action> {
    actions_with(path)
        .into_iter()
        .filter_map(|(action, _)| {
            let (key, _) = action.input_paths().into_iter().find(|(_, known)| *known == path)?;
            Some((key, action))
        })
        .collect()
}

/// Every action that the schema allows with this text in one place, and what the manual has on that place.
fn actions_with(text: &str) -> Vec<(Action, String)> {
    let schema = Schema::new();
    let mut all = Vec::new();
    for key in Action::KEYS {
        for (value, about) in schema.with_text(&schema.0["$defs"]["Stage"]["properties"][key], text, 8) {
            // In some places a text has a form: `90s`.
            if let Ok(action) = serde_json::from_value::<Action>(json!({ key: value })) {
                all.push((action, format!("{key}: {about}")));
            }
        }
    }
    all
}

/// As the text of a path in the project, and as the absolute one: a name at Hugging Face is no path.
fn digest(project: &Path, key: &str, path: &str) -> Result<Digest, InputError> {
    let absolute = project.join(path).display().to_string();
    let paths = [path, &absolute].map(|text| {
        let action = path_keys(text).remove(key)?;
        let (_, path) = action.input_paths().into_iter().find(|(known, _)| *known == key)?;
        Some(Digests::default().input(project, &[path.to_owned()]).map(|state| state.digest))
    });
    let [relative, absolute] = paths;
    let absolute = absolute.expect("an absolute path is one")?;
    if let Some(relative) = relative {
        assert_eq!(relative?, absolute, "{key}: {path}");
    }
    Ok(absolute)
}

/// The table of path keys × forms of a path: each counts by what it leads to, or is an error that names it.
#[test]
#[expect(clippy::print_stdout, reason = "the table is for its readers")]
fn a_path_counts_by_what_it_leads_to() {
    let project = tempfile::tempdir().unwrap();
    let project = project.path().canonicalize().unwrap();
    make_links(&project);
    let keys: Vec<&str> = path_keys("/x").into_keys().collect();
    for known in ["template.from", "engine.checkpoint", "serve.model", "weights.path", "compare.results"] {
        assert!(keys.contains(&known), "{known} is not among {keys:?}");
    }
    let mut table = format!("{:32}", "");
    for (form, ..) in FORMS {
        write!(table, " {form:16}").unwrap();
    }
    for key in keys {
        write!(table, "\n{key:32}").unwrap();
        for (form, path, plain) in FORMS {
            let found = digest(&project, key, path);
            let cell = match (found, plain) {
                (Ok(found), Some(plain)) => {
                    assert_eq!(found, digest(&project, key, plain).unwrap(), "{key}: {form}");
                    format!("as {plain}")
                }
                (Err(error), None) => {
                    let text = error.to_string();
                    assert!(text.contains(path) && text.ends_with("does not exist"), "{key}: {form}: {text}");
                    "error".to_owned()
                }
                (found, _) => panic!("{key}: {form}: {found:?}"),
            };
            write!(table, " {cell:16}").unwrap();
        }
    }
    println!("{table}");
}

/// A key whose description names a file or a folder, and that no key of a task has, is not digested: a change of it goes unnoticed.
#[test]
fn every_path_of_an_action_is_an_input() {
    let is_path = |about: &str| {
        let words = about.split(|c: char| !c.is_alphanumeric());
        words
            .into_iter()
            .any(|word| ["folder", "folders", "path", "file", "files"].contains(&word.to_lowercase().as_str()))
    };
    let mut unknown: Vec<String> = actions_with("/x")
        .into_iter()
        .filter(|(action, about)| is_path(about) && action.input_paths().iter().all(|(_, path)| *path != "/x"))
        .map(|(_, about)| about)
        .collect();
    unknown.sort();
    unknown.dedup();
    assert_eq!(unknown, Vec::<String>::new());
}

/// Runs a manifest for each form and compares what the stage read with what it reads of the plain path.
fn read_by_stage(manifest: &str, run: impl Fn(&str) -> Vec<String>) {
    let world = World::with(manifest);
    make_links(&world.path(""));
    for (form, path, plain) in FORMS {
        let run = |path: &str| {
            let words = run(path);
            world.regatta(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let ended = run(path);
        let Some(plain) = plain else {
            assert_ne!(ended.code, 0, "{form}: {ended:?}");
            ended.shows(path);
            continue;
        };
        assert_eq!(ended.code, 0, "{form}: {ended:?}");
        let read = world.read("latest/a/read");
        assert_eq!(run(plain).code, 0, "{plain}");
        assert_eq!(read, world.read("latest/a/read"), "{form}");
    }
}

const READ: &str = "cd -P \"$INPUT_X\" 2>/dev/null && find -L . -type f -exec cat {} + | sort > $OUT/read || cat \"$INPUT_X\" > $OUT/read";

#[test]
fn inputs_and_path_parameters_may_be_links() {
    let stage = format!("stages:\n  a:\n    inputs: {{ x: \"{{{{ x }}}}\" }}\n    shell: |\n      {READ}\n");
    let word = |path: &str| vec!["run".to_owned(), "m".to_owned(), format!("x={path}")];
    for param in ["path: required", "text: {}"] {
        read_by_stage(&format!("params:\n  x: {{ {param} }}\n{stage}"), word);
    }
}

#[test]
fn a_glob_goes_through_links() {
    let project = tempfile::tempdir().unwrap();
    make_links(project.path());
    symlink("..", project.path().join("folder/deep/up")).unwrap();
    let paths = |pattern: &str| {
        let state = Digests::default().input(project.path(), &[pattern.to_owned()]);
        let below = |path: PathBuf| path.strip_prefix(project.path()).unwrap().display().to_string();
        state.map(|state| state.paths.into_iter().map(below).collect::<Vec<_>>()).map_err(|error| error.to_string())
    };
    assert_eq!(paths("link/*").unwrap(), ["link/part"]);
    assert_eq!(paths("li*/part").unwrap(), ["link/part"]);
    assert_eq!(paths("./links/../link/*t").unwrap(), ["links/../link/part"]);
    assert_eq!(paths("holder/*/part").unwrap(), ["holder/deep/part"]);
    assert_eq!(paths("h*/part").unwrap(), ["holder/part"]);
    // Links to folders, like files, are what a pattern can name.
    assert_eq!(paths("links/*").unwrap(), ["links/relative"]);
    // `**` does not follow them.
    assert_eq!(paths("holder/**/part").unwrap(), ["holder/part"]);
    assert_eq!(paths("*/nothing").unwrap_err(), "no file matches */nothing");
    assert!(paths("dang*").unwrap_err().ends_with("dangling is a link to gone, which does not exist"));
}

#[test]
fn a_link_that_leads_around_the_input_is_an_error_wherever_the_input_is_named() {
    let project = tempfile::tempdir().unwrap();
    fs::create_dir_all(project.path().join("above/a")).unwrap();
    symlink("..", project.path().join("above/a/up")).unwrap();
    symlink("above/a", project.path().join("link")).unwrap();
    for path in ["above/a", "link", "link/", "above/../link"] {
        let error = Digests::default().input(project.path(), &[path.to_owned()]).unwrap_err();
        assert!(matches!(error, InputError::Encloses { .. }), "{path}: {error}");
    }
}

#[test]
fn a_link_that_was_pointed_elsewhere_is_seen() {
    let project = tempfile::tempdir().unwrap();
    make_links(project.path());
    let link = [project.path().join("link").display().to_string()];
    let before = Digests::default().input(project.path(), &link).unwrap();
    assert!(Digests::default().unchanged(project.path(), &link, &before).unwrap());
    fs::remove_file(&link[0]).unwrap();
    symlink("folder/deep", &link[0]).unwrap();
    assert!(!Digests::default().unchanged(project.path(), &link, &before).unwrap());
}

#[test]
fn a_template_is_read_through_links() {
    let world = World::with("params:\n  x: { path: required }\nstages:\n  a: { template: { from: \"{{ x }}\" } }\n");
    make_links(&world.path(""));
    for folder in ["folder", "holder", "link", "link/", "links/relative"] {
        world.good(&["run", "m", &format!("x={folder}")]);
        assert_eq!(world.read("latest/a/deep/part"), "a deep part", "{folder}");
        assert!(!world.path("latest/a/deep").is_symlink(), "{folder}");
    }
}

/// An engine that an earlier run built, given by a link and by `latest`; then servers and a benchmark on it.
#[test]
fn an_engine_below_latest_can_be_reused() {
    let world = World::new();
    let quickstart = |words: &[&str]| {
        let all = [&["run", "quickstart", "scenarios=server", "--until", "generate_triton_config"], words].concat();
        world.good(&all).ran()
    };
    quickstart(&[]);
    symlink("latest/generate_engines", world.path("engine")).unwrap();
    for given in ["engine_dir=engine", "engine_dir=engine/", "engine_dir=latest/generate_engines"] {
        let ran = quickstart(&[given]);
        assert!(ran.iter().all(|task| task.starts_with("generate_triton_config")), "{given}: {ran:?}");
    }
    // What `sim --help` shows is there, whichever manifest ran last.
    world.manifest("m", "stages:\n  a: { shell: 'true' }\n");
    world.good(&["run", "m"]);
    let help = world.good(&["sim", "--help"]).stdout;
    let repository = help.split_once("--repository .regatta").expect("an example").1.split_whitespace().next();
    let repository = format!(".regatta{}", repository.expect("a path"));
    assert!(world.path(&repository).is_dir(), "{repository}");
    let ended = world.regatta(&["run", "quickstart", "scenarios=server", "--until", "generate_triton_config"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn an_input_below_latest_stays_there() {
    let world = World::new();
    world.manifest("first", "stages:\n  a: { shell: 'echo 1 > x', outputs: [x] }\n");
    world.manifest(
        "second",
        "stages:\n  b: { inputs: { x: latest/a }, shell: 'cp $INPUT_X/x .' }\n  \
         c: { needs: [b], inputs: { x: latest/a/x }, shell: 'cp $INPUT_X .; test ! -e $OUT/../fail' }\n",
    );
    let leads = || fs::read_link(world.path("latest")).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    world.good(&["run", "first"]);
    // A run that finishes no task leaves `latest` as it is.
    world.manifest("failing", "stages:\n  b: { inputs: { x: latest/a }, shell: 'exit 1' }\n");
    let failed = world.regatta(&["run", "failing"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert_eq!(leads(), "first");
    assert!(!failed.stdout.contains("outputs"), "{failed:?}");
    failed.shows(".regatta/by-manifest/failing/report.html");
    // Both stages read it, and so does the next run.
    world.good(&["run", "second"]);
    assert_eq!((leads().as_str(), world.read("latest/c/x").as_str()), ("second", "1\n"));
    world.good(&["run", "second"]).shows("2 cached");
    world.manifest("other", "stages:\n  z: { shell: 'true' }\n");
    world.good(&["run", "other"]);
    let gone = world.regatta(&["run", "second"]);
    assert_ne!(gone.code, 0, "{gone:?}");
    gone.shows("latest/a does not exist").shows("`latest` leads to the outputs of `other`");
    gone.shows("there is .regatta/by-manifest/first/a");
    world.good(&["run", "first"]);
    world.good(&["run", "second"]).shows("2 cached");
}
