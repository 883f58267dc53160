//! The file of a `regatta bench` line's manifest: in a folder of its content, so that two benchmarks that begin at once do not read
//! each other's.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use runner::store::{StateFolder, discard, replace};

/// The newest are kept: a run needs its manifest until it is planned, and `regatta run` takes one that its journal names. Older ones
/// are of benchmarks long planned.
const KEPT: usize = 100;

const NAME: &str = "bench.yaml";

pub(super) fn write(home: &StateFolder, text: &str) -> anyhow::Result<PathBuf> {
    let path = home.bench_manifest(text.as_bytes()).join(NAME);
    let written = || -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(home.state());
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Also where it is there: it is the newest now.
        Ok(replace(&path, text.as_bytes())?)
    };
    // Another benchmark may just have removed an old folder of this content.
    written().or_else(|_| written())?;
    Ok(path)
}

/// Removes the older ones; `planned` removes what was compiled from one.
pub(super) fn remove_old(home: &StateFolder, planned: impl Fn(&Path)) {
    let items = fs::read_dir(home.bench_manifests()).into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        items.filter_map(|item| Some((item.metadata().ok()?.modified().ok()?, item.path()))).collect();
    // Others are not Regatta's.
    folders.retain(|(_, folder)| folder.join(NAME).is_file());
    folders.sort_by_key(|(modified, _)| Reverse(*modified));
    for (_, folder) in folders.into_iter().skip(KEPT) {
        planned(&folder.join(NAME));
        // One that stays is removed by the next benchmark.
        let _ = discard(&folder);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn home(folder: &tempfile::TempDir) -> StateFolder {
        StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"))
    }

    #[test]
    fn each_text_is_read_back_as_it_was_written_whatever_is_written_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let [first, second] = ["rate: 1", "rate: 2"].map(|text| write(&home, text).unwrap());
        assert_eq!(fs::read_to_string(&first).unwrap(), "rate: 1");
        assert_eq!(fs::read_to_string(second).unwrap(), "rate: 2");
        assert_eq!(write(&home, "rate: 1").unwrap(), first);
        assert_eq!(fs::read_dir(home.bench_manifests()).unwrap().count(), 2);
    }

    #[test]
    fn the_oldest_go_with_what_was_compiled_from_them() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let paths: Vec<PathBuf> = (0..KEPT + 2).map(|n| write(&home, &n.to_string()).unwrap()).collect();
        for (n, path) in paths.iter().enumerate() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64);
            fs::File::open(path.parent().unwrap()).unwrap().set_modified(time).unwrap();
        }
        // Written again: it is used again.
        write(&home, "0").unwrap();
        let gone = RefCell::new(Vec::new());
        remove_old(&home, |path| gone.borrow_mut().push(path.to_owned()));
        assert_eq!(*gone.borrow(), [paths[2].clone(), paths[1].clone()]);
        let left: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
        assert_eq!(left.len(), KEPT);
        assert!(left.contains(&&paths[0]));
    }
}
