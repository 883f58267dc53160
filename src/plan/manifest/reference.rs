//! The reference of the manifest language: every key with its type, its default and its description, taken from the
//! JSON Schema.

use std::fmt::Write as _;

use include_dir::{Dir, include_dir};
use serde::Serialize;
use serde_json::{Map, Value};

use super::model::Action;
use super::schema;

/// One manifest for each action, named after it. A test checks and plans them.
static EXAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../tests/manual/reference/examples");

/// One key of the manifest language.
#[base::omit_empty(except(types))]
#[derive(Clone, Debug, Default, Serialize)]
pub struct ManifestKey {
    /// `stages.bench.target`. The names of stages and parameters are left out.
    pub path: String,
    /// `text`, `integer ≥ 1`, `list of text`; several where any of them is allowed.
    pub types: Vec<String>,
    pub about: String,
    pub required: bool,
    /// One of its siblings must be chosen: `simulator` or `triton` or … below `serve`.
    pub choice: bool,
    pub default: Option<Value>,
    /// Where only some texts are allowed.
    pub values: Vec<AllowedValue>,
    /// `{{ … }}` may stand in its place.
    pub expression: bool,
    pub keys: Vec<Self>,
    /// Its keys are names that the manifest chooses.
    #[serde(skip)]
    names: bool,
}

/// One of the texts that a key allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllowedValue {
    pub value: String,
    pub about: String,
}

impl ManifestKey {
    /// All keys, below a key without a path.
    pub fn root() -> Self {
        let schema = schema();
        let reader = SchemaReader { definitions: schema["$defs"].as_object().cloned().unwrap_or_default() };
        reader.key("", &schema, "", &mut Vec::new())
    }

    /// Its path, from the stage on.
    fn short_path(&self) -> &str {
        self.path.strip_prefix("stages.").unwrap_or(&self.path)
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// `text or list of text`
    pub fn type_text(&self) -> String {
        self.types.join(" or ")
    }

    /// As it is typed in YAML.
    pub fn default_text(&self) -> Option<String> {
        self.default.as_ref().map(|value| match value {
            Value::String(text) if !text.is_empty() => text.clone(),
            other => other.to_string(),
        })
    }

    /// The key at a path below this one. Names of stages and parameters may stand in it: `stages.server.serve.attach`.
    /// A path may begin below `stages`: `bench.target`.
    pub fn find(&self, path: &str) -> Option<&Self> {
        self.walk(path).or_else(|| self.child("stages")?.walk(path))
    }

    fn walk(&self, path: &str) -> Option<&Self> {
        let mut at = self;
        let (mut may_be_name, mut is_name) = (false, false);
        for part in path.split('.') {
            match at.child(part) {
                Some(key) => {
                    (may_be_name, is_name) = (key.names, false);
                    at = key;
                }
                None if may_be_name => (may_be_name, is_name) = (false, true),
                None => return None,
            }
        }
        // A name that the manifest chooses is not a key.
        (!is_name).then_some(at)
    }

    fn child(&self, name: &str) -> Option<&Self> {
        self.keys.iter().find(|key| key.name() == name)
    }

    /// It and all keys below it, in the order of the reference.
    pub fn all(&self) -> Vec<&Self> {
        std::iter::once(self).chain(self.keys.iter().flat_map(Self::all)).collect()
    }

    /// Whether it is the key of an action of a stage.
    pub fn is_action(&self) -> bool {
        self.path.strip_prefix("stages.").is_some_and(|name| Action::KEYS.contains(&name))
    }

    /// A manifest with this action in it.
    pub fn example(&self) -> Option<&'static str> {
        let action = self.path.strip_prefix("stages.")?;
        EXAMPLES.get_file(format!("{action}.yaml"))?.contents_utf8()
    }

    /// Whether the keys below it are, in every word, those below another.
    fn has_keys_of(&self, other: &Self) -> bool {
        let is_same = |key: &Self, other: &Self| {
            key.name() == other.name()
                && (&key.types, &key.about, key.required) == (&other.types, &other.about, other.required)
                && (&key.default, &key.values) == (&other.default, &other.values)
                && key.has_keys_of(other)
        };
        self.keys.len() == other.keys.len() && self.keys.iter().zip(&other.keys).all(|(key, other)| is_same(key, other))
    }

    /// The page of the manual: a section for each action, and for what surrounds them.
    pub fn page(&self) -> String {
        let mut page = KeyPage { out: PAGE_OPENING.to_owned(), listed: Vec::new() };
        page.section("A manifest", "", &self.keys.iter().collect::<Vec<_>>());
        if let Some(key) = self.child("params") {
            page.section("A parameter", &key.about, &key.all()[1..]);
        }
        if let Some(stages) = self.child("stages") {
            let common = stages.keys.iter().filter(|key| !key.is_action());
            page.section("Every stage", "", &common.flat_map(Self::all).collect::<Vec<_>>());
            for action in Action::KEYS.iter().filter_map(|name| stages.child(name)) {
                page.section(&format!("`{}`", action.name()), &action.about, &action.all()[1..]);
                if action.keys.is_empty() {
                    let _ = writeln!(page.out, "\nType: {}.", action.type_text());
                }
                let _ = writeln!(page.out, "\n[Example: {0}.yaml](examples/{0}.yaml)", action.name());
            }
        }
        page.out
    }

    fn add_type(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.types.contains(&text) {
            self.types.push(text);
        }
    }

    fn add_value(&mut self, value: AllowedValue) {
        if !self.values.contains(&value) {
            self.values.push(value);
        }
    }
}

const PAGE_OPENING: &str = "\
# Reference of the manifest language

`regatta explain stages.bench.target` prints one key. Names that you choose (of stages, parameters, variables) are left
out of paths. `= x` is a default; a key without a type is a text, or a map of the keys below it. Under `stages` an
expression (`{{ … }}`) can replace a value or a part of a text.
";

/// The page while it is written.
struct KeyPage<'a> {
    out: String,
    /// The keys so far that have keys below them: the same keys are listed once.
    listed: Vec<&'a ManifestKey>,
}

impl<'a> KeyPage<'a> {
    fn section(&mut self, title: &str, about: &str, keys: &[&'a ManifestKey]) {
        let _ = writeln!(self.out, "\n## {title}");
        if !about.is_empty() {
            let _ = writeln!(self.out, "\n{about}");
        }
        if !keys.is_empty() {
            self.out.push('\n');
        }
        let mut listed_before = None;
        let mut rows: Vec<(&str, [String; 3])> = Vec::new();
        for key in keys.iter().copied() {
            if listed_before.as_deref().is_some_and(|above: &str| key.path.starts_with(above)) {
                continue;
            }
            let same = self.listed.iter().find(|earlier| key.keys.len() > 1 && key.has_keys_of(earlier)).copied();
            listed_before = same.map(|_| format!("{}.", key.path));
            let cells = self.cells(key, same);
            let parent = key.path.rsplit_once('.').map_or("", |(parent, _)| parent);
            match rows.last_mut() {
                Some((above, [names, rest @ ..])) if *above == parent && rest[..] == cells[1..] => {
                    let _ = write!(names, ", `{}`", key.name());
                }
                _ => rows.push((parent, cells)),
            }
            if same.is_none() {
                self.listed.push(key);
            }
        }
        for (_, [names, types, about]) in rows {
            let types = if types.is_empty() { types } else { format!(" ({types})") };
            let about = if about.is_empty() { about } else { format!(": {about}") };
            let _ = writeln!(self.out, "- {names}{types}{about}");
        }
    }

    fn cells(&self, key: &ManifestKey, same: Option<&ManifestKey>) -> [String; 3] {
        let name = format!("`{}`", key.short_path());
        if let Some(same) = same.filter(|same| same.name() == key.name() && same.about == key.about) {
            return [name, String::new(), format!("as `{}`.", same.short_path())];
        }
        let default = match (key.required, key.default_text()) {
            (true, _) => ", required".to_owned(),
            (false, Some(default)) => format!(" = `{default}`"),
            (false, None) => String::new(),
        };
        let mut about = key.about.clone();
        let is_described = key.values.len() > 1 && key.values.iter().any(|value| !value.about.is_empty());
        if let Some(earlier) = self.listed.iter().find(|earlier| is_described && earlier.values == key.values) {
            let _ = write!(about, " Values: those of `{}`.", earlier.short_path());
        } else {
            for allowed in &key.values {
                let more = if allowed.about.is_empty() { String::new() } else { format!(": {}", allowed.about) };
                let _ = write!(about, "{}`{}`{more}", if about.is_empty() { "" } else { "<br>" }, allowed.value);
            }
        }
        if let Some(same) = same {
            let _ = write!(about, " Keys: those of `{}`.", same.short_path());
        }
        let types = key
            .type_text()
            .replace("of NAME to anything", "")
            .replace("of NAME to", "of")
            .replace("list of text", "texts");
        // Bounds in the thousands are those of the security page.
        let is_shown = |word: &&str| word.rsplit_once('–').is_none_or(|(_, most)| most.len() < 4 || most.contains('.'));
        let types: String = types.split_whitespace().filter(is_shown).collect::<Vec<_>>().join(" ");
        let types = if ["map", "text"].contains(&types.as_str()) { default } else { types + &default };
        [name, types.trim_start_matches([',', ' ']).to_owned(), about.trim_start().to_owned()]
    }
}

struct SchemaReader {
    definitions: Map<String, Value>,
}

impl SchemaReader {
    /// `above` names the definitions that this position is inside of: a definition inside itself is not followed.
    fn key(&self, path: &str, schema: &Value, about: &str, above: &mut Vec<String>) -> ManifestKey {
        let mut key = ManifestKey { path: path.to_owned(), ..ManifestKey::default() };
        self.read(path, schema, &mut key, above);
        key.expression |=
            path.starts_with("stages.") && key.types.iter().any(|name| name == "text" || name == "anything");
        if !about.is_empty() {
            about.clone_into(&mut key.about);
        }
        key
    }

    fn read(&self, path: &str, schema: &Value, allowed: &mut ManifestKey, above: &mut Vec<String>) {
        let Some(object) = schema.as_object() else {
            allowed.add_type("anything");
            return;
        };
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        if allowed.about.is_empty() {
            allowed.about = text("description").replace('\n', " ");
        }
        if allowed.default.is_none() {
            allowed.default = object.get("default").filter(|value| !value.is_null()).cloned();
        }
        if let Some(name) = text("$ref").strip_prefix("#/$defs/") {
            if name == "expression" {
                allowed.expression = true;
            } else if let Some(definition) = self.definitions.get(name)
                && !above.iter().any(|one| one == name)
            {
                above.push(name.to_owned());
                self.read(path, definition, allowed, above);
                above.pop();
            }
            return;
        }
        if let Some(value) = object.get("const").and_then(Value::as_str) {
            allowed.add_type("text");
            allowed.add_value(AllowedValue { value: value.to_owned(), about: text("description").to_owned() });
            return;
        }
        let branches = ["oneOf", "anyOf"].into_iter().filter_map(|key| object.get(key)?.as_array()).flatten();
        // Beside properties, branches say only which of them are needed.
        let branches: Vec<&Value> = if object.contains_key("properties") { Vec::new() } else { branches.collect() };
        if branches.is_empty() {
            self.plain(path, object, allowed, above);
        }
        for branch in branches {
            self.branch(path, branch, allowed, above);
        }
    }

    /// One of several alternatives at a position. The description of an alternative does not describe the position.
    fn branch(&self, path: &str, branch: &Value, allowed: &mut ManifestKey, above: &mut Vec<String>) {
        let tagged =
            branch["properties"].as_object().filter(|properties| properties.len() == 1).and_then(|properties| {
                let (name, schema) = properties.iter().next()?;
                let needed = branch["required"].as_array()?.iter().any(|one| one == name.as_str());
                needed.then_some((name, schema))
            });
        if let Some((name, schema)) = tagged {
            allowed.add_type("map with one key");
            let about = branch["description"].as_str().unwrap_or_default();
            let mut key = self.key(&join(path, name), schema, about, above);
            key.choice = true;
            allowed.keys.push(key);
            return;
        }
        let about = allowed.about.clone();
        self.read(path, branch, allowed, above);
        // A branch that is a type of its own describes the position where nothing else does.
        if branch.get("$ref").is_none() && branch.get("anyOf").is_none() {
            allowed.about = about;
        }
    }

    fn plain(&self, path: &str, object: &Map<String, Value>, allowed: &mut ManifestKey, above: &mut Vec<String>) {
        let types: Vec<&str> = match object.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            _ => vec!["anything"],
        };
        for name in types {
            match name {
                "null" => {}
                "string" => {
                    allowed.add_type("text");
                    let values = object.get("enum").and_then(Value::as_array).into_iter().flatten();
                    let values = values.filter_map(Value::as_str);
                    allowed
                        .values
                        .extend(values.map(|value| AllowedValue { value: value.to_owned(), about: String::new() }));
                }
                "boolean" => allowed.add_type(name),
                "integer" | "number" => allowed.add_type(format!("{name}{}", bounds(object))),
                "array" => {
                    let item = self.key(path, object.get("items").unwrap_or(&Value::Null), " ", above);
                    allowed.add_type(format!("list of {}", item.type_text()));
                    item.values.into_iter().for_each(|value| allowed.add_value(value));
                    allowed.keys.extend(item.keys);
                }
                "object" => self.object(path, object, allowed, above),
                other => allowed.add_type(other),
            }
        }
    }

    fn object(&self, path: &str, object: &Map<String, Value>, allowed: &mut ManifestKey, above: &mut Vec<String>) {
        let required: Vec<&str> =
            object.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            allowed.add_type("map");
            for (name, schema) in properties {
                let mut key = self.key(&join(path, name), schema, "", above);
                key.required = required.contains(&name.as_str());
                allowed.keys.push(key);
            }
        }
        match object.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {}
            Some(value) => {
                let named = self.key(path, value, " ", above);
                allowed.add_type(format!("map of NAME to {}", named.type_text()));
                allowed.names = true;
                allowed.keys.extend(named.keys);
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn bounds(object: &Map<String, Value>) -> String {
    let number = |key: &str| object.get(key).filter(|value| value.is_number()).map(ToString::to_string);
    let trimmed = |text: String| text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    match (number("minimum").map(trimmed), number("maximum").map(trimmed)) {
        (Some(least), Some(most)) if least == most => format!(" {least}"),
        (Some(least), Some(most)) if least.starts_with('-') => format!(" {least} to {most}"),
        (Some(least), Some(most)) => format!(" {least}–{most}"),
        (Some(least), None) => format!(" ≥ {least}"),
        (None, Some(most)) => format!(" ≤ {most}"),
        (None, None) => String::new(),
    }
}
