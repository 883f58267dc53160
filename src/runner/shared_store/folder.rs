//! A shared store in a folder, on NFS as a rule.
//!
//! What is published was written beside, synced and renamed; what must be new is published by `link`, which is atomic
//! on every NFS. There are no locks: a lock on such a filesystem can hang. Stale handles and names that another machine
//! has just made are requested again, a bounded number of times, after the folder was listed: that makes a client look
//! at the server.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::Access;
use tokio::task::spawn_blocking;
use walkdir::WalkDir;

use super::bucket::{LARGEST_OBJECT, ListedObject, SharedStoreError, TEMPORARY};
use base::files::{is_absence, open_regular};

/// How often something that should be there is requested, and the first pause between; each is twice the one before.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

/// What is done with an object, or with a folder of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Reading,
    Writing,
    Listing,
}

impl Doing {
    const fn past(self) -> &'static str {
        match self {
            Self::Reading => "read",
            Self::Writing => "written",
            Self::Listing => "listed",
        }
    }
}

/// Makes names that no other writer has.
static NONCE: AtomicU64 = AtomicU64::new(0);

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        doing: Doing,
        what: impl FnOnce(&Self, &Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, SharedStoreError> {
        let folder = Arc::clone(self);
        let (path, object) = (self.root.join(name), name.to_owned());
        spawn_blocking(move || {
            folder.is_there()?;
            what(&folder, &path).map_err(|error| folder.object_error(object, doing, &error))
        })
        .await
        .map_err(|error| SharedStoreError::Local(error.to_string()))?
    }

    /// Another kind of file in the place of an object, one that is too large (errors of the system have a number), or
    /// one of another user with a strict umask: the rest of the store may be whole.
    fn object_error(&self, object: String, doing: Doing, error: &io::Error) -> SharedStoreError {
        let is_damaged = match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge => error.raw_os_error().is_none(),
            io::ErrorKind::PermissionDenied => self.is_open(doing),
            _ => false,
        };
        if is_damaged {
            SharedStoreError::Damaged { object, why: format!("cannot be {}: {error}", doing.past()) }
        } else {
            io_error(&self.root.join(object), error)
        }
    }

    /// Whether this user has access to the store as a whole.
    fn is_open(&self, doing: Doing) -> bool {
        let may_access = |path: &Path, access| rustix::fs::access(path, access).is_ok();
        match doing {
            Doing::Listing => false,
            Doing::Reading => may_access(&self.root, Access::READ_OK | Access::EXEC_OK),
            Doing::Writing => may_access(&self.root.join(TEMPORARY), Access::WRITE_OK | Access::EXEC_OK),
        }
    }

    /// Makes the folders that are not there, for all users of the store.
    fn make_folders(&self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|above| *above != self.root && !above.is_dir()).collect();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                Err(_) => {}
                Ok(()) => self.share(folder, 0o077),
            }
        }
        Ok(())
    }

    /// Adds those of `bits` that the store's folder has to a new file or folder, so that the umask excludes no user of
    /// the store. A filesystem without permission bits leaves it as it is.
    fn share(&self, path: &Path, bits: u32) {
        let mode = |path: &Path| fs::metadata(path).map(|metadata| metadata.mode());
        if let (Ok(of_store), Ok(own)) = (mode(&self.root), mode(path)) {
            let shared = own | of_store & bits;
            if shared != own {
                let _ = fs::set_permissions(path, Permissions::from_mode(shared));
            }
        }
    }

    #[expect(clippy::disallowed_methods, reason = "in a folder of machines this is the one place that publishes")]
    fn publish(&self, file: &File, temporary: &Path, path: &Path) -> io::Result<()> {
        file.sync_all()?;
        self.make_parent(path)?;
        fs::rename(temporary, path)?;
        sync_parent(path)
    }

    fn make_parent(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |parent| self.make_folders(parent))
    }

    /// An unmounted folder must not look like an empty store: the folder must exist, and is never created.
    fn is_there(&self) -> Result<(), SharedStoreError> {
        match fs::metadata(&self.root) {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(SharedStoreError::Unreachable(format!("{} is not a folder", self.root.display()))),
            Err(error) if is_absence(&error) => Err(SharedStoreError::NoFolder(self.root.display().to_string())),
            Err(error) => Err(io_error(&self.root, &error)),
        }
    }

    pub(super) async fn size(self: &Arc<Self>, name: &str) -> Result<Option<u64>, SharedStoreError> {
        self.run_blocking(name, Doing::Reading, |_, path| read(path, |_, length| Ok(length))).await
    }

    pub(super) async fn get(self: &Arc<Self>, name: &str) -> Result<Option<Bytes>, SharedStoreError> {
        self.get_range(name, 0..u64::MAX).await
    }

    pub(super) async fn get_range(
        self: &Arc<Self>,
        name: &str,
        range: Range<u64>,
    ) -> Result<Option<Bytes>, SharedStoreError> {
        self.run_blocking(name, Doing::Reading, move |_, path| {
            read(path, |file, length| {
                let size = range.end.min(length).saturating_sub(range.start);
                if size > LARGEST_OBJECT {
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large to be read at once"));
                }
                let mut bytes = vec![0; size as usize];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(bytes.into())
            })
        })
        .await
    }

    pub(super) async fn put(self: &Arc<Self>, name: &str, bytes: Bytes) -> Result<(), SharedStoreError> {
        self.run_blocking(name, Doing::Writing, move |folder, path| {
            let (mut file, temporary) = folder.begin()?;
            file.write_all(&bytes).and_then(|()| folder.publish(&file, &temporary, path)).inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })
        })
        .await
    }

    pub(super) async fn create(self: &Arc<Self>, name: &str, bytes: Bytes) -> Result<bool, SharedStoreError> {
        self.run_blocking(name, Doing::Writing, move |folder, path| {
            let (mut file, temporary) = folder.begin()?;
            let created = (|| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                folder.make_parent(path)?;
                let linked = fs::hard_link(&temporary, path);
                // After a lost answer, a retry reports that the name is taken: by us.
                let ours = file.metadata()?.nlink() > 1;
                match linked {
                    Err(e) if !ours && e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                    Err(e) if !ours => Err(e),
                    _ => sync_parent(path).map(|()| true),
                }
            })();
            let _ = fs::remove_file(&temporary);
            created
        })
        .await
    }

    pub(super) async fn upload(self: &Arc<Self>, name: &str) -> Result<FolderUpload, SharedStoreError> {
        let (store, object) = (Arc::clone(self), name.to_owned());
        self.run_blocking(name, Doing::Writing, |folder, _| {
            let (file, temporary) = folder.begin()?;
            Ok(FolderUpload { store, file: Arc::new(file), temporary, object, offset: 0 })
        })
        .await
    }

    pub(super) async fn list(self: &Arc<Self>, below: &str) -> Result<Vec<ListedObject>, SharedStoreError> {
        self.run_blocking(below, Doing::Listing, |folder, path| {
            let mut seen = Vec::new();
            let now = SystemTime::now();
            for item in WalkDir::new(path) {
                let item = match item {
                    Ok(item) => item,
                    // Gone while it was being listed, or nothing was ever put there.
                    Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => continue,
                    Err(e) => return Err(e.into()),
                };
                let meta = match item.metadata() {
                    Ok(meta) => meta,
                    Err(e) if e.io_error().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => continue,
                    // What is left out of a list counts as unused where the store is cleaned.
                    Err(e) => return Err(e.into()),
                };
                if meta.is_file() {
                    let name = item.path().strip_prefix(&folder.root).unwrap_or(item.path());
                    let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
                    seen.push(ListedObject { name: name.to_string_lossy().into_owned(), size: meta.len(), age });
                }
            }
            Ok(seen)
        })
        .await
    }

    pub(super) async fn delete(self: &Arc<Self>, name: &str) -> Result<(), SharedStoreError> {
        self.run_blocking(name, Doing::Writing, |_, path| match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        })
        .await
    }

    /// A new file beside everything else.
    fn begin(&self) -> io::Result<(File, PathBuf)> {
        let folder = self.root.join(TEMPORARY);
        self.make_folders(&folder)?;
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "-");
        loop {
            let n = NONCE.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{host}-{}-{n}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    self.share(&path, 0o044);
                    return Ok((file, path));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// A large file under way.
#[derive(Debug)]
pub(super) struct FolderUpload {
    store: Arc<Folder>,
    file: Arc<File>,
    temporary: PathBuf,
    object: String,
    offset: u64,
}

impl FolderUpload {
    pub(super) async fn part(&mut self, bytes: Bytes) -> Result<(), SharedStoreError> {
        let (file, at) = (Arc::clone(&self.file), self.offset);
        self.offset += bytes.len() as u64;
        let written = spawn_blocking(move || file.write_all_at(&bytes, at)).await;
        flatten_join(written).map_err(|error| io_error(&self.temporary, &error))
    }

    pub(super) async fn finish(self) -> Result<(), SharedStoreError> {
        let Self { store, file, temporary, object, .. } = self;
        let (folder, path) = (Arc::clone(&store), store.root.join(&object));
        let published = spawn_blocking(move || {
            folder.publish(&file, &temporary, &path).inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })
        });
        flatten_join(published.await).map_err(|error| store.object_error(object, Doing::Writing, &error))
    }

    pub(super) fn abort(self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

fn flatten_join<T>(done: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    done.map_err(io::Error::other)?
}

/// Opens it and reads, given its length. With a stale handle, or a name that the folder lists and that cannot be opened
/// yet, all of it is tried again.
fn read<T>(path: &Path, take: impl Fn(&File, u64) -> io::Result<T>) -> io::Result<Option<T>> {
    let once = || open_regular(path).and_then(|(file, metadata)| take(&file, metadata.len()));
    let is_stale = |e: &io::Error| e.raw_os_error() == Some(rustix::io::Errno::STALE.raw_os_error());
    let is_absent = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let (mut pause, mut tries) = (PAUSE, 1);
    loop {
        match once() {
            Ok(taken) => return Ok(Some(taken)),
            Err(e) if tries < TRIES && (is_stale(&e) || is_absent(&e) && is_listed(path)) => {}
            Err(e) if is_absent(&e) => return Ok(None),
            Err(e) => return Err(e),
        }
        sleep(pause);
        pause *= 2;
        tries += 1;
    }
}

fn is_listed(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    fs::read_dir(parent).is_ok_and(|items| items.flatten().any(|item| item.file_name() == name))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    match File::open(parent)?.sync_all() {
        // Some filesystems do not sync folders, and report an error.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

fn io_error(path: &Path, error: &io::Error) -> SharedStoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => SharedStoreError::NoAccess(text),
        _ => SharedStoreError::Unreachable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Arc<Folder>) {
        let root = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::new(root.path()));
        (root, folder)
    }

    #[tokio::test]
    async fn of_many_writers_at_once_one_creates_and_the_others_see_it() {
        let (root, folder) = folder();
        let mut writers = tokio::task::JoinSet::new();
        for n in 0..16_u8 {
            let folder = Arc::clone(&folder);
            writers.spawn(async move { (n, folder.create("a/b/name", vec![n; 1000].into()).await.unwrap()) });
        }
        let winners: Vec<u8> = writers.join_all().await.into_iter().filter_map(|(n, won)| won.then_some(n)).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(folder.get("a/b/name").await.unwrap().unwrap(), vec![winners[0]; 1000]);
        assert_eq!(fs::read_dir(root.path().join(TEMPORARY)).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_unfinished_upload_is_invisible() {
        let (_root, folder) = folder();
        let mut upload = folder.upload("x/y").await.unwrap();
        upload.part(Bytes::from_static(b"half ")).await.unwrap();
        assert_eq!(folder.size("x/y").await.unwrap(), None);
        assert!(folder.list("x").await.unwrap().is_empty());
        upload.part(Bytes::from_static(b"whole")).await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(folder.get_range("x/y", 5..10).await.unwrap().unwrap(), "whole");
        assert_eq!(folder.list("x").await.unwrap()[0].size, 10);
        folder.delete("x/y").await.unwrap();
        folder.delete("x/y").await.unwrap();
        assert_eq!(folder.get("x/y").await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_object_that_is_too_large_is_damaged_and_the_store_is_whole() {
        let (root, folder) = folder();
        File::create(root.path().join("x")).unwrap().set_len(LARGEST_OBJECT + 1).unwrap();
        let error = folder.get("x").await.unwrap_err();
        assert!(matches!(error, SharedStoreError::Damaged { .. }), "{error}");
    }

    #[tokio::test]
    async fn all_users_of_the_folder_can_read_what_is_put_there() {
        let (root, folder) = folder();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        fs::set_permissions(root.path(), Permissions::from_mode(0o2770)).unwrap();
        // As with the umask 077.
        let (file, temporary) = folder.begin().unwrap();
        for path in [root.path().join(TEMPORARY), temporary.clone()] {
            assert_eq!(mode(path.clone()) & 0o070, if path.is_dir() { 0o070 } else { 0o040 });
        }
        fs::set_permissions(&temporary, Permissions::from_mode(0o600)).unwrap();
        folder.share(&temporary, 0o044);
        assert_eq!(mode(temporary), 0o640);
        drop(file);
        folder.put("a/b/c", Bytes::new()).await.unwrap();
        assert_eq!(mode(root.path().join("a/b")) & 0o070, 0o070);
    }

    #[test]
    fn an_object_of_another_user_that_cannot_be_read_is_damaged_and_a_store_is_closed() {
        let (root, folder) = folder();
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = |doing| folder.object_error("x".to_owned(), doing, &denied);
        assert_eq!(error(Doing::Reading).to_string(), "x cannot be read: permission denied");
        assert!(matches!(error(Doing::Listing), SharedStoreError::NoAccess(_)));
        assert!(matches!(error(Doing::Writing), SharedStoreError::NoAccess(_)), "there is no place to begin");
        drop(folder.begin().unwrap());
        assert!(matches!(error(Doing::Writing), SharedStoreError::Damaged { .. }));
        drop(root);
        let closed = error(Doing::Reading);
        assert!(closed.is_of_the_store() && closed.hint().contains("chmod"), "{closed}");
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_not_made() {
        let (root, folder) = folder();
        let path = root.path().to_owned();
        drop(root);
        let error = folder.put("a", Bytes::new()).await.unwrap_err();
        assert!(matches!(error, SharedStoreError::NoFolder(_)), "{error}");
        assert!(!path.exists());
    }
}
