//! Every path that a user gives may be a link, lead through links, be relative, or lead nowhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use regatta::files::Digest;
use regatta::manifest::model::Action;
use regatta::runner::store::{ContentChange, Digests, InputError};
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
            // Beside `properties` they are rules for these.
            Some(parts) if schema["properties"].is_null() => parts.iter().flat_map(|part| self.parts(part)).collect(),
            _ => vec![schema],
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

    /// The least values with this text in one place, for each place that accepts a text.
    fn with_text(&self, schema: &Value, text: &str, depth: u8) -> Vec<Place> {
        if depth == 0 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for part in self.parts(schema) {
            if Self::is_of(part, "string") && part["enum"].is_null() && part["const"].is_null() {
                all.push(Place { value: json!(text), key: String::new(), about: String::new() });
            }
            for (name, property) in part["properties"].as_object().into_iter().flatten() {
                for inner in self.with_text(property, text, depth - 1) {
                    let mut object = self.required(part);
                    object.insert(name.clone(), inner.value);
                    let about = property["description"].as_str().filter(|_| inner.about.is_empty());
                    let about = about.map_or(inner.about, str::to_owned);
                    all.push(Place { value: object.into(), key: format!(".{name}{}", inner.key), about });
                }
            }
            if part["additionalProperties"].is_object() {
                let inner = self.with_text(&part["additionalProperties"], text, depth - 1);
                all.extend(inner.into_iter().map(|place| Place { value: json!({ "a": place.value }), ..place }));
            }
            if part["items"].is_object() {
                let inner = self.with_text(&part["items"], text, depth - 1);
                all.extend(inner.into_iter().map(|place| Place { value: json!([place.value]), ..place }));
            }
        }
        all
    }
}

/// A place in a value that accepts a text.
struct Place {
    /// The least value with the text in that place.
    value: Value,
    /// `.bench.data.jsonl`
    key: String,
    /// What the schema has on it.
    about: String,
}

/// Every action that the schema allows with this text in one place, with its key and what the schema has on it.
fn actions_with(text: &str) -> Vec<(Action, String, String)> {
    let schema = Schema::new();
    let mut all = Vec::new();
    for key in Action::KEYS {
        for place in schema.with_text(&schema.0["$defs"]["Stage"]["properties"][key], text, 8) {
            // In some places a text has a form: `90s`.
            if let Ok(action) = serde_json::from_value::<Action>(json!({ key: place.value })) {
                all.push((action, format!("{key}{}", place.key), place.about));
            }
        }
    }
    all
}

/// For each key of an action that names a file or a folder: an action that has this path there.
fn path_keys(path: &str) -> BTreeMap<&'static str, Action> {
    let mut keys = BTreeMap::new();
    for (action, ..) in actions_with(path) {
        let key = action.input_paths().into_iter().find(|(_, known)| *known == path).map(|(key, _)| key);
        keys.extend(key.map(|key| (key, action)));
    }
    keys
}

/// Compares a text with its file; `UPDATE=1` writes it anew.
fn is_golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&file, text).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), text, "UPDATE=1 writes {name} anew: read what changed");
}

/// A path in the project, and for each key an action that has it: as it is, and absolute.
struct GivenPath {
    texts: [String; 2],
    actions: [BTreeMap<&'static str, Action>; 2],
}

impl GivenPath {
    fn new(project: &Path, path: &str) -> Self {
        let texts = [path.to_owned(), project.join(path).display().to_string()];
        let actions = texts.each_ref().map(|text| path_keys(text));
        Self { texts, actions }
    }

    /// What the key counts with. A name at Hugging Face is no path: there it has to be absolute.
    fn digest(&self, project: &Path, key: &str) -> Result<Digest, InputError> {
        let given = self.texts.iter().zip(&self.actions);
        let mut digests = given.filter_map(|(text, actions)| {
            let paths = actions.get(key)?.input_paths();
            let (_, path) = paths.into_iter().find(|(known, path)| *known == key && path == text)?;
            Some(Digests::default().input(project, &[path.to_owned()]).map(|state| state.digest))
        });
        let first = digests.next().expect("an absolute path is one")?;
        for other in digests {
            assert_eq!(other?, first, "{key}: {:?}", self.texts);
        }
        Ok(first)
    }
}

/// The table of path keys × forms of a path: each counts by what it leads to, or is an error that names it.
#[test]
fn a_path_counts_by_what_it_leads_to() {
    let project = tempfile::tempdir().unwrap();
    let project = project.path().canonicalize().unwrap();
    make_links(&project);
    let paths = FORMS.iter().flat_map(|(_, path, plain)| [Some(*path), *plain]).flatten();
    let given: BTreeMap<&str, GivenPath> = paths.map(|path| (path, GivenPath::new(&project, path))).collect();
    let digest = |key: &str, path: &str| given[path].digest(&project, key);
    let mut table = "key".to_owned();
    for (form, ..) in FORMS {
        write!(table, " | {form}").unwrap();
    }
    table.push('\n');
    for key in path_keys("/x").into_keys() {
        table.push_str(key);
        for (form, path, plain) in FORMS {
            let cell = match (digest(key, path), plain) {
                (Ok(digested), Some(plain)) if digested == digest(key, plain).unwrap() => {
                    format!("as {plain}")
                }
                (Ok(_), _) => "digested".to_owned(),
                (Err(error), _) => {
                    let text = error.to_string();
                    assert!(text.contains(path), "{key}: {form}: {text}");
                    text.replace(&format!("{}/", project.display()), "")
                }
            };
            write!(table, " | {cell}").unwrap();
        }
        table.push('\n');
    }
    is_golden("linked-paths.txt", &table);
}

/// The places of an action whose description names a file or a folder and that are no inputs: where one of them is read, a change of it
/// goes unnoticed.
#[test]
fn every_path_of_an_action_is_an_input_or_known_to_be_none() {
    const WORDS: [&str; 11] =
        ["folder", "folders", "path", "file", "files", "json", "jsonl", "npy", "output", "outputs", "clone"];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_path = |about: &str| {
        let mut words = about.split(|c: char| !is_word(c));
        words.any(|word| WORDS.contains(&word.to_lowercase().as_str()))
    };
    let all = actions_with("/x").into_iter();
    let none =
        all.filter(|(action, _, about)| is_path(about) && action.input_paths().iter().all(|(_, path)| *path != "/x"));
    let lines = none.map(|(_, key, about)| format!("{key}: {}\n", about.replace('\n', " ")));
    is_golden(
        "paths-that-are-no-inputs.txt",
        &lines.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<String>(),
    );
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
    symlink("..", project.path().join("holder/up")).unwrap();
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
    let change = || Digests::default().change(project.path(), &link, &before).unwrap();
    assert_eq!(change(), ContentChange::Same);
    fs::remove_file(&link[0]).unwrap();
    symlink("folder/deep", &link[0]).unwrap();
    assert!(matches!(change(), ContentChange::Changed(_)));
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
    let repository = help.split_whitespace().find(|word| word.starts_with(".regatta/")).expect("an example");
    assert!(world.path(repository).is_dir(), "{repository}");
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
    // A run that finishes no task leaves the outputs below `latest` as they are; the page there is its own.
    world.manifest("failing", "stages:\n  b: { inputs: { x: latest/a }, shell: 'exit 1' }\n");
    let failed = world.regatta(&["run", "failing"]);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert_eq!(leads(), "first");
    assert!(!failed.stdout.contains("outputs"), "{failed:?}");
    failed.shows("latest/report.html");
    let page = || world.read("latest/report.html");
    assert!(page().contains("<title>failing"), "{}", page());
    // Everything of `first` is cached: its page is there again.
    world.good(&["run", "first"]);
    assert!(page().contains("<title>first"), "{}", page());
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
