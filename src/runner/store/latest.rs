//! `latest`: links to the newest output of each task, in a folder of its own for each manifest.
//!
//! The folders are `by-manifest/<manifest>` in the state folder. `latest` leads to the one of the manifest that
//! finished a task last, so that what is below it is of one manifest. What that manifest reads below `latest` has links
//! there, too: its next run reads the same by the same path.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use super::durable::{PathError, WithPath as _, discard, is_there, items_in, point};
use super::{FileStamp, StateFolder};
use base::event::TaskId;
use base::files::Digest;

/// The links of one manifest.
#[derive(Clone, Debug)]
pub struct Latest {
    state: PathBuf,
    /// The link `latest`, beside the state folder or in it.
    shown: PathBuf,
    /// The manifest's folder.
    folder: PathBuf,
}

impl Latest {
    pub fn new(home: &StateFolder, manifest: &str) -> Self {
        let folder = home.by_manifest().join(folder_name(manifest));
        Self { state: home.state().to_owned(), shown: home.latest(), folder }
    }

    /// The folder with the links.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Points the task's link at an output.
    pub fn point(&self, task: &TaskId, output: &Path) -> Result<(), PathError> {
        self.show()?;
        self.link(task, output)
    }

    /// Like `point`, where [`Self::show`] was called before.
    pub fn link(&self, task: &TaskId, output: &Path) -> Result<(), PathError> {
        let link = self.folder.join(task.as_str());
        // Relative, so that a project can be moved: up from the task's folder to the manifest's, to `by-manifest`, to
        // the state folder.
        let ups = task.as_str().matches('/').count() + 2;
        let target = self.relative(output, ups);
        // In a first run there is nothing to look at, unless a link to an output could be on the way.
        if ups == 2 && symlink(&target, &link).is_ok() {
            return Ok(());
        }
        remove_conflicting(&self.folder, &link)?;
        point(&link, &target)
    }

    /// Puts the page of a run beside the outputs; returns the path for display. `latest/report.html` is the page of the
    /// last run, also of one without an output, which leaves the outputs of the manifest before it in `latest`.
    pub fn point_report(&self, page: &Path) -> Result<PathBuf, PathError> {
        if !is_there(&self.shown)? {
            self.show()?;
        }
        point(&self.folder.join("report.html"), &self.relative(page, 2))?;
        let (link, target) = self.shown_link();
        if fs::read_link(&link).is_ok_and(|now| now.parent() == target.parent()) {
            point(&link.join("report.html"), &self.relative(page, 2))?;
            return Ok(link.join("report.html"));
        }
        Ok(self.folder.join("report.html"))
    }

    /// From so many folders below the state folder to something in it.
    fn relative(&self, path: &Path, ups: usize) -> PathBuf {
        let relative = |below: &Path| {
            let mut relative: PathBuf = std::iter::repeat_n("..", ups).collect();
            relative.push(below);
            relative
        };
        path.strip_prefix(&self.state).map_or_else(|_| path.to_owned(), relative)
    }

    /// What must look the same for `latest` to be this manifest's.
    pub fn stamp(&self) -> Result<(PathBuf, FileStamp), PathError> {
        stamp_of(self.shown.clone())
    }

    /// What must look the same for the task's link to lead where it leads now: another run of this project may point it
    /// elsewhere.
    pub fn stamp_of(&self, task: &TaskId) -> Result<(PathBuf, FileStamp), PathError> {
        stamp_of(self.folder.join(task.as_str()))
    }

    /// Makes `latest` lead to this manifest's folder. A folder of that name with other things in it stays, and gets the
    /// link.
    pub fn show(&self) -> Result<(), PathError> {
        let (link, target) = self.shown_link();
        if link == self.shown && !link.is_symlink() && link.is_dir() {
            discard(&link)?;
        }
        point(&link, &target)
    }

    /// Whether `latest` leads to this manifest's folder.
    pub fn is_shown(&self) -> bool {
        let (link, target) = self.shown_link();
        fs::read_link(link).is_ok_and(|now| now == target)
    }

    /// The link to this manifest's folder, and where it leads.
    fn shown_link(&self) -> (PathBuf, PathBuf) {
        let parent = self.shown.parent().unwrap_or(&self.state);
        let to = self.folder.strip_prefix(parent).unwrap_or(&self.folder);
        if !self.shown.is_symlink() && self.shown.is_dir() && !only_links(&self.shown) {
            let name = self.folder.file_name().map_or_else(PathBuf::new, PathBuf::from);
            return (self.shown.join(name), Path::new("..").join(to));
        }
        (self.shown.clone(), to.to_owned())
    }

    /// Before [`Self::show`]: what these inputs name below `latest`, where that leads to another manifest's folder,
    /// gets a link in this one. `project`: what relative inputs are relative to.
    pub fn keep_inputs<'a>(&self, project: &Path, inputs: impl Iterator<Item = &'a String>) -> Result<(), PathError> {
        let last = fs::read_link(&self.shown).ok().and_then(|to| Some(Path::new("..").join(to.file_name()?)));
        let Some(last) = last.filter(|_| !self.is_shown()) else { return Ok(()) };
        for input in inputs {
            let path = project.join(input);
            let below = path.strip_prefix(&self.shown).ok().and_then(|below| below.components().next());
            let Some(Component::Normal(name)) = below else { continue };
            let link = self.folder.join(name);
            // An output of this manifest's own, or a folder of them, stays.
            let is_free = match fs::read_link(&link) {
                Ok(now) => now.starts_with("..") && !now.starts_with("../.."),
                Err(_) => !link.exists(),
            };
            if is_free && is_there(&self.shown.join(name))? {
                point(&link, &last.join(name))?;
            }
        }
        Ok(())
    }
}

/// Where an output is that is not below `latest`, because that leads to another manifest's: a hint for a path below
/// `latest` that leads nowhere.
pub fn latest_hint(home: &StateFolder, path: &Path) -> Option<String> {
    let below = path.strip_prefix(home.latest()).ok()?;
    let shown = fs::read_link(home.latest()).ok()?;
    let manifests = items_in(&home.by_manifest()).ok()?;
    let mut places = manifests.into_iter().map(|folder| folder.join(below)).filter(|place| place.exists());
    let place = places.next()?;
    let place = place.strip_prefix(home.project()).unwrap_or(&place);
    let shown = shown.file_name()?.to_string_lossy().into_owned();
    Some(format!("`latest` leads to the outputs of `{shown}`, which ran last; there is {}", place.display()))
}

fn stamp_of(link: PathBuf) -> Result<(PathBuf, FileStamp), PathError> {
    let stamp = FileStamp::of_path(&link).at("look at", &link)?;
    Ok((link, stamp))
}

/// A folder name for any text: what could lead elsewhere is replaced, and a digest keeps two such names apart.
fn folder_name(manifest: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_fine = manifest.len() <= 100 && manifest.chars().all(is_plain) && !manifest.starts_with('.');
    if is_fine && !manifest.is_empty() {
        return manifest.to_owned();
    }
    let plain: String = manifest.chars().take(80).map(|c| if is_plain(c) && c != '.' { c } else { '_' }).collect();
    format!("{plain}-{}", Digest::hash(manifest.as_bytes()).short())
}

/// A stage that was one task may have become many, or the other way round: then a link is where a folder of links must
/// be, or such a folder is where a link must be. A link on the way would lead into an output.
fn remove_conflicting(latest: &Path, link: &Path) -> Result<(), PathError> {
    let between = link.ancestors().skip(1).take_while(|above| *above != latest);
    for above in between {
        if above.is_symlink() {
            discard(above)?;
        }
    }
    // Nothing but links of ours; anything else stays and is reported to be in the way.
    if !link.is_symlink() && link.is_dir() && only_links(link) {
        discard(link)?;
    }
    Ok(())
}

/// Whether there is nothing in a folder but links and folders of links.
pub(super) fn only_links(folder: &Path) -> bool {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .all(|item| item.is_ok_and(|item| item.file_type().is_dir() || item.path_is_symlink()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(project: &Path) -> StateFolder {
        let state = project.join(".regatta");
        fs::create_dir_all(state.join("out/k-0")).unwrap();
        fs::create_dir_all(state.join("out/k-1")).unwrap();
        StateFolder::new(project.to_owned(), state)
    }

    #[test]
    fn each_manifest_has_its_links_and_latest_is_the_last_one() {
        let project = tempfile::tempdir().unwrap();
        let home = home(project.path());
        let task = TaskId::new("bench/server");
        let (a, b) = (Latest::new(&home, "a"), Latest::new(&home, "b"));
        a.point(&task, &home.output("k-0")).unwrap();
        let before = a.stamp().unwrap();
        b.point(&task, &home.output("k-1")).unwrap();
        let lead = |path: PathBuf| fs::canonicalize(path).unwrap().file_name().unwrap().to_owned();
        assert_eq!(lead(a.folder().join("bench/server")), "k-0");
        assert_eq!(lead(home.latest().join("bench/server")), "k-1");
        assert_ne!(a.stamp().unwrap(), before, "a run of `a` has to point `latest` back");
        a.point(&task, &home.output("k-0")).unwrap();
        assert_eq!(lead(home.latest().join("bench/server")), "k-0");
    }

    #[test]
    fn a_folder_of_links_becomes_a_link_and_a_folder_with_files_stays() {
        let project = tempfile::tempdir().unwrap();
        let home = home(project.path());
        fs::create_dir(home.latest()).unwrap();
        std::os::unix::fs::symlink("../.regatta/out/k-0", home.latest().join("old")).unwrap();
        Latest::new(&home, "a").point(&TaskId::new("x"), &home.output("k-1")).unwrap();
        assert!(home.latest().is_symlink() && home.latest().join("x").is_dir());

        fs::remove_file(home.latest()).unwrap();
        fs::create_dir(home.latest()).unwrap();
        fs::write(home.latest().join("notes"), "mine").unwrap();
        Latest::new(&home, "a").point(&TaskId::new("x"), &home.output("k-1")).unwrap();
        assert_eq!(fs::read_to_string(home.latest().join("notes")).unwrap(), "mine");
        assert!(home.latest().join("a/x").is_dir());
    }

    #[test]
    fn no_name_leads_elsewhere() {
        for name in ["", ".", "..", "../x", "a/b", "ä", ".hidden"] {
            let folder = folder_name(name);
            let parts: Vec<_> = Path::new(&folder).components().collect();
            assert!(matches!(parts[..], [std::path::Component::Normal(_)]), "{name}: {folder}");
        }
        assert_eq!(folder_name("gpt2-v1.0"), "gpt2-v1.0");
        assert_ne!(folder_name("a/b"), folder_name("a:b"));
    }
}
