//! A name and what was given → a [`Manifest`]: read, include, choose, merge, check, compute.

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;

use super::error_origin::ErrorOrigins;
use super::expression::Expressions;
use super::expression_limits::on_expression_stack;
use super::expression_source::{ExpressionPath, paths_in_node};
use super::library::{FileId, merge_documents};
use super::loaded::{FaultyParts, check_catalog_keys};
use super::model::Action;
use super::overrides::Override;
use super::param::{ParamResolver, ResolvedParam};
use super::read::{Map, MapEntry, Node, NodeValue};
use super::schema::ValueShape;
use super::schema_check::{TemplatePolicy, check};
use super::value::value_of;
use super::{GivenValues, Manifest, ManifestLibrary, override_usage, overrides, param, read, schema, vars};
use base::diag::{Diagnostic, Diagnostics, SourceText, Span, did_you_mean};
use base::files::{Digest, text_of};
use base::units::{is_identifier, is_reserved_name};

/// How many files one manifest may be made of.
const MAX_FILES: usize = 512;

/// Loads a manifest by name or path.
///
/// # Errors
/// Everything that is wrong with it, at once, each with its place.
pub fn load(library: &ManifestLibrary, what: &str, given: &GivenValues) -> Result<Manifest, Diagnostics> {
    match load_with_errors(library, what, given) {
        (Some(manifest), found, _) if !found.has_errors() => Ok(manifest),
        (_, found, origins) => Err(origins.explain(found)),
    }
}

/// Loads a manifest from its text. Errors have `name` as the name of its file.
///
/// # Errors
/// Everything that is wrong with it, at once, each with its place.
pub fn load_text(
    library: &ManifestLibrary,
    name: &str,
    text: &str,
    given: &GivenValues,
) -> Result<Manifest, Diagnostics> {
    let (manifest, found, origins) = on_expression_stack(|| {
        let (mut loader, file) = (Loader::default(), library.own_file(name.to_owned()));
        let node = loader.parsed(&SourceText::new(name, text), &file, &mut Chain::new());
        loader.broken |= node.is_none();
        loader.files.insert(file.clone(), ReadFile::Kept(node));
        loader.finish(&file, given)
    });
    if found.has_errors() { Err(origins.explain(found)) } else { manifest.ok_or(found) }
}

/// Everything that is wrong with a manifest, with the origins of its errors, and the manifest where what is not faulty
/// can be used all the same.
pub fn load_with_errors(
    library: &ManifestLibrary,
    what: &str,
    given: &GivenValues,
) -> (Option<Manifest>, Diagnostics, ErrorOrigins) {
    let Some(file) = library.find(what) else {
        let names = library.names().unwrap_or_default();
        let file = format!("{what}.yaml");
        let hint = if let Some(above) = library.above_with(what) {
            Some(format!("it is a manifest of {}: start regatta in that folder", above.display()))
        } else if library.find(&file).is_some() {
            Some(format!("for the file, type `{file}`; a name without `.yaml` is looked up in `manifests/`"))
        } else if library.find(&format!("{what}/manifest.yaml")).is_some() {
            Some(format!("to repeat what this folder has, type `{what}/manifest.yaml`"))
        } else {
            did_you_mean(what, names.iter().map(|(name, ..)| name.as_str()))
        };
        let absent = Diagnostic::error(format!("there is no manifest `{what}`")).maybe_hint(hint);
        return (None, absent.into(), ErrorOrigins::default());
    };
    on_expression_stack(|| Loader::default().finish(&file, given))
}

/// A file with everything that it includes; none where it cannot be read. Nothing that is wrong is reported.
pub(super) fn merged(file: &FileId) -> Option<Node> {
    Loader::default().file(file, None, &mut Chain::new())
}

/// Pairs of given values, each as `KEY=VALUE`, that two names give to one place: the earlier and the later. None where
/// the manifest cannot be read. Nothing that is wrong is reported.
pub fn replaced_arguments(library: &ManifestLibrary, what: &str, given: &GivenValues) -> Vec<(String, String)> {
    let Some(mut root) = with_catalogs(library, what, given) else { return Vec::new() };
    let overrides = overrides::place_overrides(&mut root, &given.params, &mut Diagnostics::new());
    let pairs = |later: &Override| {
        let text = |word: &SourceText| word.text().to_owned();
        later.replaced.iter().map(|earlier| (text(earlier), text(&later.argument))).collect::<Vec<_>>()
    };
    overrides.iter().flat_map(pairs).collect()
}

/// A manifest with the chosen files of its catalogs.
fn with_catalogs(library: &ManifestLibrary, what: &str, given: &GivenValues) -> Option<Node> {
    let (mut loader, file) = (Loader::default(), library.find(what)?);
    let mut root = loader.file(&file, None, &mut Chain::new())?;
    loader.choose(&mut root, &file, given, &mut IndexMap::new(), &mut BTreeMap::new());
    Some(root)
}

#[derive(Default)]
struct Loader {
    found: Diagnostics,
    files: HashMap<FileId, ReadFile>,
    /// Files by the name that their source has.
    by_name: HashMap<String, FileId>,
    sources: Vec<(String, Digest)>,
    /// The chosen files of catalogs, each with what it includes.
    catalogs: Vec<Node>,
    /// The paths of all expressions, also of those that a catalog's file or the command line replaces.
    paths: Vec<ExpressionPath>,
    origins: ErrorOrigins,
    broken: bool,
    /// Errors in the text of files that could be read to their end.
    misread: Diagnostics,
}

/// What is known of a file that was included.
enum ReadFile {
    /// Its node was moved into the document, not copied. If the file is included again, it is read again.
    Used,
    /// The node with its includes merged. A file is kept after its second read, so no file is read more than twice.
    Kept(Option<Node>),
}

/// The files that are being included, and the place in each that includes the next.
type Chain = Vec<(FileId, Span)>;

impl Loader {
    fn finish(mut self, file: &FileId, given: &GivenValues) -> (Option<Manifest>, Diagnostics, ErrorOrigins) {
        let manifest = self.manifest(file, given);
        let origins = std::mem::take(&mut self.origins);
        (manifest, self.found().unique(), origins)
    }

    fn manifest(&mut self, file: &FileId, given: &GivenValues) -> Option<Manifest> {
        let mut root = self.file(file, None, &mut Chain::new())?;
        if self.broken {
            return None;
        }
        let mut params = IndexMap::new();
        let mut env = BTreeMap::new();
        let is_complete = self.choose(&mut root, file, given, &mut params, &mut env);
        self.files.clear();
        // Also before the overrides: a value that stands for an expression now does not make what this reads unknown.
        let mut paths = std::mem::take(&mut self.paths);
        if !self.catalogs.is_empty() {
            paths_in_node(&root, &mut paths);
        }
        let overrides = if is_complete {
            let overrides = overrides::place_overrides(&mut root, &given.params, &mut self.found);
            overrides::reject_replaced(&overrides, &mut self.found);
            overrides
        } else {
            Vec::new()
        };
        if !overrides.is_empty() && !self.catalogs.is_empty() {
            paths_in_node(&root, &mut paths);
        }
        let mut faulty = FaultyParts::default();
        let has_unknown_keys = is_complete && self.check_complete(&root, &paths, &mut faulty);
        let map = root.map()?;
        let section = |name: &str| map.get(name).and_then(|entry| entry.node.map()).cloned().unwrap_or_default();
        let expressions = Expressions::new();
        let (declared, written) = (section("params"), section("vars"));
        self.origins.vars.clone_from(&written);
        faulty.names.extend(declared.keys().filter(|name| !params.contains_key(*name)).cloned());
        // A value that is missed because its key is misspelt would be the same error a second time.
        let is_usable = is_complete && !has_unknown_keys && self.misread.is_empty() && has_sections(map);
        let (globals, vars) = if is_usable {
            let value = |chosen: &ResolvedParam| value_of(&Node::of_json(&chosen.declared, &chosen.value));
            let globals = params.iter().map(|(name, chosen)| (name.clone(), value(chosen))).collect();
            vars::resolve(&written, &expressions, globals, &mut faulty, &mut self.found)
        } else {
            Default::default()
        };
        let mut uses = override_usage::OverrideUsage::default();
        if is_usable && !self.found.has_errors() && !given.params.is_empty() {
            uses = override_usage::readers(given, &overrides, &root, &params, &expressions, &mut self.found);
        }
        if is_complete && has_sections(map) && (self.found.has_errors() || !self.misread.is_empty()) {
            let vars = if has_unknown_keys { Map::new() } else { written.clone() };
            let globals: Vec<&str> = declared.keys().chain(written.keys()).map(String::as_str).collect();
            unknown_names(map, &vars, &globals, &expressions, &mut self.found);
        }
        if !is_usable {
            return None;
        }
        let text = |name: &str| map.get(name).and_then(|entry| entry.node.text()).map(str::to_owned);
        let (name, about) = (text("name").unwrap_or_else(|| usual_name(file)), text("about"));
        // Moved, not copied: they may be many.
        let stages = match root.tree {
            NodeValue::Map(mut map) => map.swap_remove("stages").map(|entry| entry.node.tree),
            _ => None,
        };
        Some(Manifest {
            name,
            about,
            stages: if let Some(NodeValue::Map(stages)) = stages { stages } else { Map::default() },
            params,
            vars,
            globals: globals.into(),
            origins: self.origins.clone(),
            given: uses.readers,
            deciding: uses.deciding,
            new_var_arguments: uses.new_var_arguments,
            faulty,
            sources: std::mem::take(&mut self.sources),
            env,
        })
    }

    /// Checks a document whose catalogs are chosen, and them. `paths`: those of its expressions. Returns whether a
    /// catalog has a key that none of them reads.
    fn check_complete(&mut self, root: &Node, paths: &[ExpressionPath], faulty: &mut FaultyParts) -> bool {
        let key = root.map().and_then(|map| map.values().next()).map_or(&root.span, |entry| &entry.key);
        check(root, schema::document(), "", key, TemplatePolicy::InStages, &mut self.found);
        if self.found.has_errors() {
            faulty_stages(root, faulty);
        }
        self.names(root);
        let before = self.found.len();
        for catalog in &std::mem::take(&mut self.catalogs) {
            check_catalog_keys(catalog, paths, &mut self.found);
        }
        self.found.len() > before
    }

    /// All errors, without consequences of a misread value: checks of the placeholder that replaced it.
    fn found(self) -> Diagnostics {
        let misread: Vec<Span> =
            self.misread.sorted().iter().filter_map(|one| Some(one.primary.as_ref()?.span.clone())).collect();
        let is_other = |one: &Diagnostic| {
            one.primary.as_ref().is_none_or(|label| !misread.iter().any(|place| label.span.is_within(place)))
        };
        let mut errors = self.misread;
        errors.extend(self.found.into_list().into_iter().filter(is_other));
        errors
    }

    /// One file with everything it includes. `from` is the place that named it.
    fn file(&mut self, file: &FileId, from: Option<&Span>, chain: &mut Chain) -> Option<Node> {
        let was_used = match self.files.get(file) {
            Some(ReadFile::Kept(known)) => return known.clone(),
            known => known.is_some(),
        };
        let fail = |loader: &mut Self, message: String, why: String| {
            let fault = Diagnostic::error(message);
            let fault = match from {
                Some(place) => chain_of(fault.at(place.first_line(), why), chain),
                None => fault.hint(why),
            };
            loader.found.push(fault);
            loader.broken = true;
        };
        if self.sources.len() >= MAX_FILES && !was_used {
            fail(self, format!("more than {MAX_FILES} files"), "one too many".to_owned());
            return None;
        }
        let read = match file.read() {
            Ok(read) => read,
            Err(error) => {
                fail(self, format!("cannot read `{}`", file.rel), error.to_string());
                self.files.insert(file.clone(), ReadFile::Kept(None));
                return None;
            }
        };
        // A catalog's file may include the manifest, which is then read again.
        if !self.by_name.contains_key(&read.name) {
            self.sources.push((read.name.clone(), Digest::hash(&read.bytes)));
        }
        let text = match text_of(read.bytes) {
            Ok(text) => text,
            Err(error) => {
                self.found.push(chain_of(not_utf8(&read.name, &error), chain));
                self.broken = true;
                self.files.insert(file.clone(), ReadFile::Kept(None));
                return None;
            }
        };
        let source = SourceText::new(&read.name, text);
        self.by_name.insert(read.name, file.clone());
        let node = self.parsed(&source, file, chain);
        self.broken |= node.is_none();
        // Only a catalog's file can include the manifest itself, so it is not recorded.
        if from.is_some() {
            let read_file = if was_used || node.is_none() { ReadFile::Kept(node.clone()) } else { ReadFile::Used };
            self.files.insert(file.clone(), read_file);
        }
        node
    }

    fn parsed(&mut self, source: &SourceText, file: &FileId, chain: &mut Chain) -> Option<Node> {
        let node = match read::read_with_errors(source) {
            Ok((node, found)) => {
                self.misread.append(found);
                node
            }
            Err(found) => {
                self.found.append(found);
                return None;
            }
        };
        let NodeValue::Map(mut map) = node.tree else {
            let empty = node.tree == NodeValue::Null;
            let kind = super::schema_check::kind_of(&node.tree);
            let message =
                if empty { "the file is empty".to_owned() } else { format!("a manifest is a map, this is {kind}") };
            let fault =
                Diagnostic::error(message).at(node.span.first_line(), if empty { "nothing in here" } else { "" });
            self.found.push(fault.hint("begin the file with `regatta: 1`, then `stages:`"));
            return None;
        };
        let includes = map.shift_remove("include");
        let included = self.includes(includes.as_ref(), file, chain);
        included.into_iter().chain([Node::new(node.span, NodeValue::Map(map))]).reduce(merge_documents)
    }

    fn includes(&mut self, list: Option<&MapEntry>, file: &FileId, chain: &mut Chain) -> Vec<Node> {
        let Some(list) = list else { return Vec::new() };
        let NodeValue::List(items) = &list.node.tree else {
            let fault = Diagnostic::error("`include` must be a list of files").at(list.node.span.first_line(), "");
            let hint = list.node.text().map(|_| format!("write it as [{}]", list.node.span.text()));
            self.found.push(fault.maybe_hint(hint));
            self.broken = true;
            return Vec::new();
        };
        let mut nodes = Vec::new();
        for item in items {
            let Some(path) = item.text().filter(|path| !super::read::is_template(path)) else {
                let fault = Diagnostic::error("`include` must name a file")
                    .at(item.span.first_line(), "this is not a plain path");
                self.found.push(fault);
                self.broken = true;
                continue;
            };
            let Some(target) = file.sibling(path) else {
                let fault = Diagnostic::error(format!("`{path}` leaves the project folder"));
                let fault = chain_of(fault.at(item.span.clone(), "outside"), chain);
                self.found
                    .push(fault.hint("paths are relative to the including file; copy that file into the project"));
                self.broken = true;
                continue;
            };
            let repeats = &target == file || chain.iter().any(|(open, _)| open == &target);
            if repeats {
                let fault = Diagnostic::error(format!("`{}` includes itself", target.rel));
                self.found.push(chain_of(fault.at(item.span.clone(), "and so it begins again"), chain));
                self.broken = true;
                continue;
            }
            chain.push((file.clone(), item.span.clone()));
            nodes.extend(self.file(&target, Some(&item.span), chain));
            chain.pop();
        }
        nodes
    }

    /// Gives every parameter its value and merges the chosen catalog files. False: the manifest is not complete.
    fn choose(
        &mut self,
        root: &mut Node,
        file: &FileId,
        given: &GivenValues,
        params: &mut IndexMap<String, ResolvedParam>,
        env: &mut BTreeMap<String, Option<String>>,
    ) -> bool {
        let mut chosen_files: Vec<String> = Vec::new();
        loop {
            params.clear();
            let declared = root.get("params").and_then(|entry| entry.node.map()).cloned().unwrap_or_default();
            let mut next = None;
            let mut complete = true;
            // What is wrong now may be right with a catalog's file, which can give a default.
            let mut wrong = Diagnostics::new();
            // The walk over the whole document reports the same, if all catalogs are chosen.
            let mut malformed = Diagnostics::new();
            for (name, entry) in &declared {
                if let Some(variable) = entry.node.get("env").and_then(|entry| entry.node.text()) {
                    env.insert(variable.to_owned(), given.env.get(variable).cloned());
                }
                let is_catalog = entry.node.get("catalog").is_some();
                let before = malformed.len();
                check_param(name, entry, &mut malformed);
                if malformed.len() > before {
                    complete &= !is_catalog;
                    continue;
                }
                let folder = self.folder(entry);
                let catalog =
                    folder.as_ref().map(|folder| folder.catalog(file).into_iter().collect()).unwrap_or_default();
                if is_catalog && folder.is_none() {
                    let place = entry.node.place(&["catalog"]);
                    wrong.push(Diagnostic::error("the catalog leaves the project folder").at(place, "outside"));
                    self.found.append(wrong);
                    return false;
                }
                let chooser = ParamResolver { name, entry, given, catalog };
                match chooser.choose(&mut wrong) {
                    Some(chosen) => {
                        if let (true, Some(folder), false) = (is_catalog, folder, chosen_files.contains(name)) {
                            next = next.or(Some((name.clone(), folder, chosen.value.clone(), entry.key.clone())));
                        }
                        params.insert(name.clone(), chosen);
                    }
                    None => complete &= !is_catalog,
                }
            }
            let Some((name, folder, value, place)) = next.filter(|_| complete) else {
                self.found.append(wrong);
                if !complete {
                    self.found.append(malformed);
                }
                param::unknown(given, params, root, &mut self.found);
                return complete;
            };
            chosen_files.push(name);
            let target = folder.item(value.as_str().unwrap_or_default());
            let Some(over) = self.file(&target, Some(&place), &mut Chain::new()) else {
                self.found.append(wrong);
                self.found.append(malformed);
                return false;
            };
            paths_in_node(root, &mut self.paths);
            self.origins.system = Some((folder, target, over.span.first_line()));
            self.catalogs.push(over.clone());
            let below = std::mem::replace(root, Node::new(place, NodeValue::Null));
            *root = merge_documents(below, over);
        }
    }

    /// The folder of a `catalog` parameter, relative to the file that sets it.
    fn folder(&self, entry: &MapEntry) -> Option<FileId> {
        let catalog = &entry.node.get("catalog")?.node;
        let file = self.by_name.get(catalog.span.source().name())?;
        file.sibling(catalog.text()?)
    }

    /// Params, vars and the keywords of the language share one namespace; names are names.
    fn names(&mut self, root: &Node) {
        let section = |name: &str| root.get(name).and_then(|entry| entry.node.map());
        if let Some(name) = root.get("name")
            && let Some(text) = name.node.text()
            && !is_name(text)
        {
            let fault = Diagnostic::error(format!("`{text}` cannot be the name of a manifest"));
            self.found.push(fault.at(name.node.span.first_line(), "lower-case letters, digits, `-`, `_` and `.` only"));
        }
        let empty = Map::new();
        let (params, vars) = (section("params").unwrap_or(&empty), section("vars").unwrap_or(&empty));
        for (name, entry) in vars {
            if let Some(param) = params.get(name) {
                let clash = Diagnostic::error(format!("`{name}` is both a param and a var"));
                let clash = clash.at(entry.key.clone(), "a var").related(param.key.clone(), "a param");
                self.found.push(clash.hint("expressions could not distinguish them: rename one"));
            }
        }
        for (what, (name, entry)) in
            params.iter().map(|pair| ("param", pair)).chain(vars.iter().map(|pair| ("var", pair)))
        {
            self.name(what, name, &entry.key);
        }
        for (name, entry) in section("stages").unwrap_or(&empty) {
            self.name("stage", name, &entry.key);
            for (variable, entry) in entry.node.get("foreach").and_then(|entry| entry.node.map()).into_iter().flatten()
            {
                self.name("foreach variable", variable, &entry.key);
            }
        }
    }

    fn name(&mut self, what: &str, name: &str, key: &Span) {
        if !is_identifier(name) {
            let suggestion: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let fault = Diagnostic::error(format!("`{name}` cannot be the name of a {what}"));
            let fault = fault.at(key.clone(), "letters, digits and `_`, not beginning with a digit");
            self.found.push(
                fault.hint(format!("for example `{}`", suggestion.trim_start_matches(|c: char| c.is_ascii_digit()))),
            );
        } else if what != "stage" && is_reserved_name(name) {
            let fault = Diagnostic::error(format!("`{name}` cannot be the name of a {what}"));
            self.found.push(fault.at(key.clone(), "a reserved word of the language"));
        }
    }
}

/// Whether a manifest may be called so.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

/// `plan` computes expressions, which a manifest with errors never reaches, nor vars that use a faulty one: report
/// unknown names here.
fn unknown_names(map: &Map, vars: &Map, globals: &[&str], expressions: &Expressions, found: &mut Diagnostics) {
    let stages = map.get("stages").and_then(|entry| entry.node.map()).into_iter().flatten();
    let names: Vec<&str> = stages.clone().map(|(name, _)| name.as_str()).collect();
    for (_, entry) in stages {
        let foreach = entry.node.get("foreach").and_then(|entry| entry.node.map()).into_iter().flat_map(Map::keys);
        let known: Vec<&str> = foreach.map(String::as_str).chain(globals.iter().copied()).collect();
        expressions.unknown_names(&entry.node, &[&known[..], &["stages", "inputs"]].concat(), &names, found);
    }
    for entry in vars.values() {
        expressions.unknown_names(&entry.node, globals, &names, found);
    }
}

/// One parameter as it is declared.
fn check_param(name: &str, entry: &MapEntry, found: &mut Diagnostics) {
    if let ValueShape::Object(document) = schema::document()
        && let Some(ValueShape::Map(shape)) = document.fields.get("params").map(|shape| &**shape)
    {
        check(&entry.node, shape, &format!("params.{name}"), &entry.key, TemplatePolicy::Done, found);
    }
}

/// Of a manifest that sets no `name`: that of its file, or of the folder of a `pipeline.yaml`.
fn usual_name(file: &FileId) -> String {
    let path = file.rel.trim_end_matches(".yaml").trim_end_matches("/pipeline");
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The stages that have an error, and among them those whose kind is not known.
fn faulty_stages(root: &Node, faulty: &mut FaultyParts) {
    for (name, entry) in root.get("stages").and_then(|entry| entry.node.map()).into_iter().flatten() {
        let mut faults = Diagnostics::new();
        check(&entry.node, schema::stage(), "", &entry.key, TemplatePolicy::InStages, &mut faults);
        if faults.has_errors() {
            faulty.stages.insert(name.clone());
            if Action::KEYS.into_iter().filter(|key| entry.node.get(key).is_some()).count() != 1 {
                faulty.unknown_stages.insert(name.clone());
            }
        }
    }
}

/// Whether params, vars and stages are maps, where they are given.
fn has_sections(map: &Map) -> bool {
    let is_map = |node: &Node| matches!(node.tree, NodeValue::Map(_) | NodeValue::Null);
    ["params", "vars", "stages"].into_iter().all(|name| map.get(name).is_none_or(|entry| is_map(&entry.node)))
}

/// Points at the first byte that is not UTF-8, in the text as it can be shown.
fn not_utf8(name: &str, error: &std::string::FromUtf8Error) -> Diagnostic {
    let at = error.utf8_error().valid_up_to();
    let byte = error.as_bytes().get(at).copied().unwrap_or_default();
    let encoding = match error.as_bytes() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ("UTF-16", "utf-16"),
        _ => ("Latin-1", "latin1"),
    };
    // Up to there the texts are the same; behind it U+FFFD, of three bytes, stands for what is wrong.
    let shown = SourceText::new(name, String::from_utf8_lossy(error.as_bytes()));
    Diagnostic::error(format!("`{name}` is not UTF-8 text"))
        .at(shown.span(at..at + 3), format!("the byte 0x{byte:02x}"))
        .hint(format!("save the file as UTF-8; from {}: `iconv -f {} -t utf-8`", encoding.0, encoding.1))
}

fn chain_of(mut found: Diagnostic, chain: &Chain) -> Diagnostic {
    for (_, place) in chain.iter().rev() {
        if found
            .primary
            .as_ref()
            .is_none_or(|label| label.span.range() != place.range() || !label.span.source().is(place.source()))
        {
            found = found.related(place.clone(), "included from here");
        }
    }
    found
}
