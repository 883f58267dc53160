//! Reads whole files of which nothing is known: bounded in size, and only what has an end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::units::size;

/// Bytes of the largest file that is read whole where no smaller limit is known.
const MOST: u64 = 1 << 30;

/// The text of a regular file of at most 1 GiB.
///
/// # Errors
/// Those of [`read_text_up_to`].
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    read_text_up_to(path, MOST)
}

/// The bytes of a regular file of at most 1 GiB.
///
/// # Errors
/// Those of [`read_bytes_up_to`].
pub fn read_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_bytes_up_to(path, MOST)
}

/// Opens a file that can be read to an end: a pipe, a socket or a device is an error at once, never a wait.
///
/// # Errors
/// Those of opening it, and that it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok((file, metadata));
    }
    let what = if metadata.is_dir() { "it is a folder" } else { "it is a pipe, a socket or a device, not a file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// The text of a regular file that has at most `most` bytes.
///
/// # Errors
/// Those of [`read_bytes_up_to`], and that it is no text.
pub fn read_text_up_to(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    String::from_utf8(read_bytes_up_to(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The bytes of a regular file that has at most `most`.
///
/// # Errors
/// Those of [`open_regular`] and of reading, and that it has more.
pub fn read_bytes_up_to(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path.as_ref())?;
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {}", size(most)));
    if metadata.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    // It may grow meanwhile, and files of the system have no size.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_has_no_end_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(open_regular(path).unwrap_err().to_string().starts_with("it is a "));
            assert!(read_text_up_to(path, 9).unwrap_err().to_string().starts_with("it is a "));
        }
    }

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(read_text_up_to(file.path(), 5).unwrap(), "12345");
        assert_eq!(read_text_up_to(file.path(), 4).unwrap_err().to_string(), "it is larger than 4 B");
    }
}
