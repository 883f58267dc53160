//! Files that a user names: written whole, or left as they were. What they name may be no regular file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::durable::{PathError, WithPath as _, replace_with};
use base::files::{metadata_if_there, open_regular};

/// Writes a file that a user names. Where it cannot be written, as on a full disk, what was there stays.
pub fn write_named(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), PathError> {
    write_named_with(path, |file| file.write_all(bytes.as_ref()))
}

/// Like `write_named`, with what is in another file.
pub fn copy_named(from: &Path, path: &Path) -> Result<(), PathError> {
    write_named_with(path, |file| io::copy(&mut open_regular(from)?.0, file).map(drop))
}

/// Adds to the end of a file that a user names. Anything but a regular file is written to directly.
pub fn append_named(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), PathError> {
    let appended = || -> io::Result<()> {
        if metadata_if_there(path)?.is_some_and(|found| !found.is_file()) {
            return DeviceWriter::open(path)?.write_all(bytes.as_ref());
        }
        OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes.as_ref())
    };
    appended().at("write", path)
}

/// Links are followed. A device or a pipe has no content that could be replaced: the bytes are written to it.
fn write_named_with(path: &Path, fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<(), PathError> {
    let written = || -> io::Result<()> {
        let earlier = metadata_if_there(path)?;
        if earlier.as_ref().is_some_and(|found| !found.is_file()) {
            return fill(&mut DeviceWriter::open(path)?);
        }
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let fill = |file: &mut File| {
            // A file that only its owner may read stays one.
            earlier.map_or(Ok(()), |found| file.set_permissions(found.permissions()))?;
            fill(file)
        };
        replace_with(&target, fill).map_err(|error| error.source)
    };
    written().at("write", path)
}

/// Writes to a device or a named pipe, and never waits long for a process that reads it.
struct DeviceWriter(File);

impl DeviceWriter {
    /// How long a reader may take nothing.
    const READER_TIMEOUT: Duration = Duration::from_secs(10);

    fn open(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => Ok(Self(file)),
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                Err(io::Error::other("no process reads it, or it is a socket"))
            }
            Err(error) => Err(error),
        }
    }
}

impl io::Write for DeviceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if began.elapsed() > Self::READER_TIMEOUT {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the process that reads it takes nothing"));
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::*;
    use crate::store::items_in;

    /// As on a full disk: a part can be written.
    fn full(file: &mut dyn io::Write) -> io::Result<()> {
        file.write_all(b"half")?;
        Err(io::Error::from_raw_os_error(28))
    }

    #[test]
    fn a_named_file_that_cannot_be_written_whole_is_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("junit.xml");
        let text = write_named_with(&path, full).unwrap_err().to_string();
        assert!(text.starts_with(&format!("cannot write {}: No space left", path.display())), "{text}");
        assert_eq!(items_in(folder.path()).unwrap(), [] as [PathBuf; 0]);
        write_named(&path, "whole").unwrap();
        write_named_with(&path, full).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(items_in(folder.path()).unwrap(), [path]);
    }

    #[test]
    fn a_named_file_is_written_where_its_link_leads_and_a_device_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        write_named(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        copy_named(&file, Path::new("/dev/null")).unwrap();
        assert!(!Path::new("/dev/null").is_file());
        assert!(write_named(Path::new("/dev/full"), "x").is_err());
        assert!(append_named(Path::new("/dev/full"), "x").is_err());
        append_named(&file, "er").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "newer");
    }

    #[test]
    fn a_named_pipe_is_written_in_full_and_without_a_reader_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for error in [write_named(&pipe, "x").unwrap_err(), append_named(&pipe, "x").unwrap_err()] {
            assert_eq!(
                error.to_string(),
                format!("cannot write {}: no process reads it, or it is a socket", pipe.display())
            );
        }
        // More than a pipe holds.
        let text = "x".repeat(1 << 20);
        // Opened for both, so that it does not wait for a writer.
        let mut reader = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        thread::scope(|scope| {
            let written = scope.spawn(|| write_named(&pipe, &text));
            let mut read = vec![0; text.len()];
            io::Read::read_exact(&mut reader, &mut read).unwrap();
            assert!(read == text.as_bytes());
            written.join().unwrap().unwrap();
        });
    }
}
