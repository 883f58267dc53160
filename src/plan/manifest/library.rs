//! Where manifests come from: the project folder first, then what is shipped inside the binary.
//!
//! Both are one tree of relative paths: `manifests/x.yaml` of the project hides the shipped file of that name. A
//! path never leaves that tree. It parses nothing.
//!
//! Deep merge of two manifests: maps merge, everything else is replaced; the later one wins.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use include_dir::{Dir, DirEntry, include_dir};

use super::read::{Node, NodeValue};
use base::diag::ErrorText;
use base::files::{is_absence, metadata_if_there, open_regular};

/// The most bytes that one manifest file may have.
const MAX_BYTES: u64 = 16 << 20;

static MANIFESTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../manifests");
static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../templates");
static SCHEMAS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../schemas");

/// Every file that is part of the binary: its path (`manifests/x.yaml`, with `/`) and its bytes, sorted by path.
pub fn shipped() -> impl Iterator<Item = (String, &'static [u8])> {
    let mut files = Vec::new();
    for (top, dir) in [("manifests", &MANIFESTS), ("schemas", &SCHEMAS), ("templates", &TEMPLATES)] {
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            for entry in dir.entries() {
                match entry {
                    DirEntry::Dir(dir) => open.push(dir),
                    DirEntry::File(file) => {
                        files.push((format!("{top}/{}", file.path().to_string_lossy()), file.contents()));
                    }
                }
            }
        }
    }
    files.sort();
    files.into_iter()
}

/// Whether a path of the project, a file or a folder, is part of the binary too.
pub fn is_shipped(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let (top, rest) = path.split_once('/').unwrap_or((path, ""));
    shipped_folder(top).is_some_and(|dir| rest.is_empty() || dir.get_entry(rest).is_some())
}

fn shipped_file(rel: &str) -> Option<&'static [u8]> {
    let (top, rest) = rel.split_once('/')?;
    shipped_folder(top)?.get_file(rest).map(include_dir::File::contents)
}

fn shipped_folder(top: &str) -> Option<&'static Dir<'static>> {
    match top {
        "manifests" => Some(&MANIFESTS),
        "templates" => Some(&TEMPLATES),
        "schemas" => Some(&SCHEMAS),
        _ => None,
    }
}

/// A project folder and the shipped files behind it.
#[derive(Clone, Debug)]
pub struct ManifestLibrary {
    root: PathBuf,
}

/// A file of the tree below `root`, by its relative path with `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    pub root: PathBuf,
    /// The way from the project to the root, as messages have it: empty, or `../other/`.
    way: String,
    pub rel: String,
}

/// The result of reading a file: the display name and the bytes.
pub struct ReadSource {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl ManifestLibrary {
    /// `project` is the folder that holds `manifests/`; it need not exist.
    pub fn new(project: &Path) -> Self {
        let absolute = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        Self { root: fs::canonicalize(&absolute).unwrap_or(absolute) }
    }

    /// The file that `what` means: a path, or a name.
    pub fn find(&self, what: &str) -> Option<FileId> {
        let path = Path::new(what);
        let spelled_as_path = what.contains('/') || has_yaml_suffix(what);
        let mut unreadable = None;
        if spelled_as_path {
            for candidate in [path.to_owned(), self.root.join(path)] {
                match metadata_if_there(&candidate) {
                    Ok(Some(found)) if found.is_file() => {
                        return fs::canonicalize(candidate).ok().map(|found| self.project_file_id(&found));
                    }
                    Ok(_) => {}
                    Err(_) => unreadable = unreadable.or(Some(candidate)),
                }
            }
            if let Some(rel) = normal("", what)
                && shipped_file(&rel).is_some()
            {
                return Some(self.own_file(rel));
            }
        }
        [format!("manifests/{what}.yaml"), format!("manifests/{what}/pipeline.yaml")]
            .into_iter()
            .filter_map(|rel| normal("", &rel))
            .map(|rel| self.own_file(rel))
            .find(exists)
            // Reading it reports why it cannot be read.
            .or_else(|| Some(self.project_file_id(&std::path::absolute(unreadable?).ok()?)))
    }

    /// The nearest folder above the project whose `manifests/` has a manifest of this name.
    pub fn above_with(&self, name: &str) -> Option<PathBuf> {
        let files = [format!("manifests/{name}.yaml"), format!("manifests/{name}/pipeline.yaml")];
        let has_it = |folder: &&Path| files.iter().any(|file| folder.join(file).is_file());
        self.root.ancestors().skip(1).find(has_it).map(Path::to_owned)
    }

    /// A file of the project, whether or not it is there.
    pub(super) fn own_file(&self, rel: String) -> FileId {
        FileId { root: self.root.clone(), way: String::new(), rel }
    }

    fn project_file_id(&self, absolute: &Path) -> FileId {
        if let Ok(rel) = absolute.strip_prefix(&self.root) {
            return self.own_file(rel.to_string_lossy().into_owned());
        }
        let root = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        FileId {
            way: format!("{}/", way_to(&self.root, &root).display()),
            root,
            rel: absolute.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// Names that can be run: `(name, file, shipped)`, project ones first, then shipped ones that are not hidden.
    ///
    /// # Errors
    /// The project's cannot be listed.
    pub fn names(&self) -> io::Result<Vec<(String, FileId, bool)>> {
        let mut seen = BTreeSet::new();
        let mut list = Vec::new();
        let folder = self.root.join("manifests");
        let on_disk = disk_names(&folder)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot list {}: {error}", folder.display())))?;
        let inside = MANIFESTS.entries().iter().map(|entry| -> Vec<String> {
            let name = entry.path().to_string_lossy().into_owned();
            match entry {
                DirEntry::File(_) => name.strip_suffix(".yaml").map(str::to_owned).into_iter().collect(),
                DirEntry::Dir(dir) if dir.contains(dir.path().join("pipeline.yaml")) => vec![name],
                DirEntry::Dir(dir) => dir.dirs().filter_map(|systems| pipeline_of(dir, systems)).collect(),
            }
        });
        let inside: BTreeSet<String> = inside.flatten().collect();
        for (name, shipped) in on_disk.into_iter().map(|n| (n, false)).chain(inside.into_iter().map(|n| (n, true))) {
            if seen.insert(name.clone())
                && let Some(file) = self.find(&name)
            {
                list.push((name, file, shipped));
            }
        }
        Ok(list)
    }
}

/// In a folder that is not a pipeline itself, a file is a pipeline if its folder also has a folder of systems with the
/// same name: `rounds/llama2-70b.yaml`. Other files in such a folder are parts to include.
fn pipeline_of(dir: &Dir<'_>, systems: &Dir<'_>) -> Option<String> {
    let name = systems.path().to_string_lossy().into_owned();
    dir.contains(format!("{name}.yaml")).then_some(name)
}

fn disk_names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absence(&error) => return Ok(names),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if let Some(stem) = name.strip_suffix(".yaml") {
            names.insert(stem.to_owned());
        } else if path.join("pipeline.yaml").is_file() {
            names.insert(name);
        } else {
            let below = fs::read_dir(&path).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
            let below = below.map(|entry| format!("{name}/{}", entry.file_name().to_string_lossy()));
            names.extend(below.filter(|name| folder.join(format!("{name}.yaml")).is_file()));
        }
    }
    Ok(names)
}

fn has_yaml_suffix(what: &str) -> bool {
    Path::new(what).extension().is_some_and(|ext| ext.eq_ignore_ascii_case("yaml") || ext.eq_ignore_ascii_case("yml"))
}

/// Everything but a folder counts, such as a pipe or a file that cannot be looked at: reading it reports why.
fn exists(file: &FileId) -> bool {
    let metadata = metadata_if_there(&file.root.join(&file.rel));
    metadata.map_or(true, |metadata| metadata.is_some_and(|metadata| !metadata.is_dir()))
        || shipped_file(&file.rel).is_some()
}

impl FileId {
    /// A path as written in this file; `None` if it is absolute or leaves the tree.
    pub fn sibling(&self, path: &str) -> Option<Self> {
        let folder = self.rel.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(Self { rel: normal(folder, path)?, ..self.clone() })
    }

    /// The file's content. The error is a fragment that describes what is wrong with it.
    pub fn read(&self) -> Result<ReadSource, ErrorText> {
        let path = self.root.join(&self.rel);
        let metadata = metadata_if_there(&path).map_err(ErrorText::new)?;
        if metadata.as_ref().is_none_or(fs::Metadata::is_dir)
            && let Some(bytes) = shipped_file(&self.rel)
        {
            return Ok(ReadSource { name: format!("shipped:{}", self.rel), bytes: bytes.to_vec() });
        }
        metadata.ok_or_else(|| ErrorText::new("no such file"))?;
        let real = fs::canonicalize(&path).map_err(ErrorText::new)?;
        if !real.starts_with(&self.root) {
            return Err(ErrorText::new("it is a link that leaves the project folder"));
        }
        let mut bytes = Vec::new();
        let (file, _) = open_regular(&path).map_err(ErrorText::new)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(ErrorText::new)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(ErrorText::new(format_args!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        Ok(ReadSource { name: format!("{}{}", self.way, self.rel), bytes })
    }

    /// The names of the YAML files in this folder (without suffix), on disk and shipped; `except` is left out.
    pub fn catalog(&self, except: &Self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(self.root.join(&self.rel)).into_iter().flatten().flatten() {
            if entry.path().is_file() {
                names.insert(entry.file_name().to_string_lossy().into_owned());
            }
        }
        let inside = if self.rel == "manifests" {
            Some(&MANIFESTS)
        } else {
            self.rel.strip_prefix("manifests/").and_then(|rest| MANIFESTS.get_dir(rest))
        };
        for file in inside.into_iter().flat_map(Dir::files) {
            names.insert(file.path().file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        names
            .into_iter()
            .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
            // A folder's pipeline is what its items are for.
            .filter(|name| name != "pipeline" && self.item(name) != *except)
            .collect()
    }

    /// One file of this folder.
    pub fn item(&self, name: &str) -> Self {
        let rel = if self.rel.is_empty() { format!("{name}.yaml") } else { format!("{}/{name}.yaml", self.rel) };
        Self { rel, ..self.clone() }
    }
}

/// The way from one folder to another: `../other`; where they have only `/` in common, the other itself.
fn way_to(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    if shared <= 1 {
        return to.to_owned();
    }
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// `folder` joined with `path`, without `.` and `..`; `None` if that leaves the tree.
fn normal(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// A whole manifest on top of another. A section of `over` with nothing behind its key (`stages:`) leaves the one below
/// as it is.
pub fn merge_documents(base: Node, mut over: Node) -> Node {
    if let (NodeValue::Map(below), NodeValue::Map(sections)) = (&base.tree, &mut over.tree) {
        let is_section =
            |name: &String| below.get(name).is_some_and(|entry| matches!(entry.node.tree, NodeValue::Map(_)));
        sections.retain(|name, entry| entry.node.tree != NodeValue::Null || !is_section(name));
    }
    merge(base, over)
}

/// `over` on top of `base`. Keys keep the order in which they first came.
pub fn merge(base: Node, over: Node) -> Node {
    match (base.tree, over.tree) {
        (NodeValue::Map(mut base), NodeValue::Map(over_map)) => {
            for (name, entry) in over_map {
                match base.get_mut(&name) {
                    Some(slot) => {
                        let below = std::mem::replace(&mut slot.node, Node::new(entry.key.clone(), NodeValue::Null));
                        slot.node = merge(below, entry.node);
                        slot.key = entry.key;
                    }
                    None => {
                        base.insert(name, entry);
                    }
                }
            }
            Node::new(over.span, NodeValue::Map(base))
        }
        (_, tree) => Node::new(over.span, tree),
    }
}
