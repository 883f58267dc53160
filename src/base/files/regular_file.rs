//! Reads whole files of which nothing is known: bounded in size, and only what has an end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::string::FromUtf8Error;
use std::{fs, io};

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::units::size;

/// The byte order mark that editors and spreadsheets on Windows write before a text. It is skipped.
const BYTE_ORDER_MARK: &str = "\u{feff}";

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

/// The text of a JSON or YAML file of another program that can be parsed as a whole: each value in it takes some
/// seventy bytes of memory, however short it is in the file.
///
/// # Errors
/// Those of [`read_text`], and that it has too many values.
pub fn read_document(path: impl AsRef<Path>) -> io::Result<String> {
    // They take some 2 GB.
    document_up_to(read_bytes(path)?, 1 << 25)
}

/// The same of a file that people write, such as the description of a system.
///
/// # Errors
/// Those of [`read_document`].
pub fn read_description(path: impl AsRef<Path>) -> io::Result<String> {
    document_up_to(read_bytes(path)?, MOST_DESCRIBED)
}

/// The most values in a description, and in what a server reports about itself: some 50 MB.
pub const MOST_DESCRIBED: usize = 1 << 18;

fn document_up_to(bytes: Vec<u8>, most: usize) -> io::Result<String> {
    let text = readable(foreign_text(bytes))?;
    if has_more_values(text.as_bytes(), most) {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} values")));
    }
    Ok(text)
}

/// Whether a text seems to hold more values than this.
fn has_more_values(text: &[u8], most: usize) -> bool {
    text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b'\n')).nth(most).is_some()
}

/// Whether it has more values ([`MOST_DESCRIBED`]) than any server reports about itself.
pub fn is_too_long_a_report(bytes: &[u8]) -> bool {
    has_more_values(bytes, MOST_DESCRIBED)
}

/// What a server reports about itself as JSON; `None` if it is not JSON or too long.
pub fn json_report(bytes: &[u8]) -> Option<serde_json::Value> {
    if is_too_long_a_report(bytes) { None } else { serde_json::from_slice(bytes).ok() }
}

/// Parses YAML that was not written here. The time of the library grows with the square of the depth of `[` and `{`.
///
/// # Errors
/// Those of the library, and that it is nested too deeply.
pub fn parse_yaml<T: DeserializeOwned>(text: &str) -> serde_yaml::Result<T> {
    const DEEPEST: u32 = 1000;
    let mut depth = 0_u32;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' if depth == DEEPEST => return Err(serde::de::Error::custom("it is nested too deeply")),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    serde_yaml::from_str(text)
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
    let reason = if metadata.is_dir() { "it is a folder" } else { "it is a pipe, a socket or a device, not a file" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

/// Opens a regular file of text to read it piece by piece, from behind its byte order mark.
///
/// # Errors
/// Those of [`open_regular`] and of reading.
pub fn open_text(path: &Path) -> io::Result<BufReader<File>> {
    let mut reader = BufReader::with_capacity(1 << 20, open_regular(path)?.0);
    match reader.fill_buf()? {
        begin if begin.starts_with(BYTE_ORDER_MARK.as_bytes()) => reader.consume(BYTE_ORDER_MARK.len()),
        [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => {
            let encoding = "it is UTF-16, as PowerShell writes it; save it as UTF-8: `iconv -f UTF-16 -t UTF-8`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, encoding));
        }
        _ => {}
    }
    Ok(reader)
}

/// The lines of a file that has one record in each, one in memory at a time.
#[derive(Debug)]
pub struct RecordLines<R> {
    reader: R,
    line: Vec<u8>,
    number: usize,
}

impl<R: BufRead> RecordLines<R> {
    /// A longer line is no record: one of a million tokens has 50 MB.
    const LONGEST: u64 = 256 << 20;

    pub const fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    /// The next line and its number, from 1; `None` after the last one.
    ///
    /// # Errors
    /// Those of reading, and that it is longer than 256 MiB.
    pub fn next_line(&mut self) -> io::Result<Option<(usize, &[u8])>> {
        self.line.clear();
        self.number += 1;
        let length = (&mut self.reader).take(Self::LONGEST).read_until(b'\n', &mut self.line)? as u64;
        if length == Self::LONGEST {
            let reason = format!("line {} is longer than 256 MiB; one record a line is expected", self.number);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        Ok((length > 0).then_some((self.number, &self.line)))
    }
}

/// The text of a file's bytes, without its byte order mark.
///
/// # Errors
/// They are not UTF-8; the error has all of them.
pub fn text_of(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let mut text = String::from_utf8(bytes)?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// The same of a file that another program wrote. PowerShell's `>` writes UTF-16.
///
/// # Errors
/// They are neither UTF-8 nor UTF-16; the error has all of them.
pub fn foreign_text(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let number: fn([u8; 2]) -> u16 = match bytes.as_slice() {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return text_of(bytes),
    };
    let numbers = bytes[2..].chunks_exact(2).map(|pair| number([pair[0], pair[1]]));
    String::from_utf16(&numbers.collect::<Vec<u16>>()).or_else(|_| text_of(bytes))
}

/// The text of a regular file that has at most `most` bytes, without its byte order mark.
///
/// # Errors
/// Those of [`read_bytes_up_to`], and bytes that are not UTF-8.
pub fn read_text_up_to(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    readable(text_of(read_bytes_up_to(path, most)?))
}

/// A text, or an error that says what its bytes are.
fn readable(text: Result<String, FromUtf8Error>) -> io::Result<String> {
    text.map_err(|error| {
        let reason = match error.as_bytes() {
            [0x1f, 0x8b, ..] => "it is compressed; `gunzip` unpacks it",
            [b'P', b'K', 3, 4, ..] => "it is an archive; `unzip` unpacks it",
            _ => "it is not UTF-8",
        };
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
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

// Whether a file is there, absent, or cannot be looked at.

/// Whether nothing is there. Any other error leaves open whether there is: a filesystem of the network that does not
/// answer, a disk that fails, a folder that may not be read. What cannot be looked at must not be taken for absent.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename)
}

/// What is at a path, links followed; `None` where nothing is.
///
/// # Errors
/// It cannot be known: see [`is_absence`].
pub fn metadata_if_there(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

// Folders that belong to the machine and not to a project.

/// Programs, libraries, settings. What is in them is not seen as an input; a confined command may read them as a whole.
pub const SYSTEM_FOLDERS: [&str; 13] =
    ["/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr"];

// Whether a JSON file was written to its end.

/// Whether it is there and holds JSON. One that was being written when its process was killed does not.
pub fn is_whole_json(path: &Path) -> bool {
    read_bytes(path).is_ok_and(|text| serde_json::from_slice::<IgnoredAny>(&text).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_text_in_utf_16_is_read_and_a_compressed_file_is_named() {
        let units =
            |order: fn(u16) -> [u8; 2]| "\u{feff}{\"ä\": 1}".encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for bytes in [units(u16::to_le_bytes), units(u16::to_be_bytes)] {
            assert_eq!(foreign_text(bytes).unwrap(), "{\"ä\": 1}");
        }
        // Half of a pair of surrogates cannot be written as text.
        assert!(foreign_text(vec![0xff, 0xfe, 0x00, 0xd8]).is_err());
        let folder = tempfile::tempdir().unwrap();
        for (bytes, reason) in [(&b"\x1f\x8b\x08"[..], "gunzip"), (b"PK\x03\x04\xff", "unzip"), (b"\xe4", "not UTF-8")]
        {
            fs::write(folder.path().join("x"), bytes).unwrap();
            let error = read_text(folder.path().join("x")).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

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
    fn utf_16_is_named_and_not_read_as_text() {
        for text in [&b"\xFF\xFE{\0"[..], b"\xFE\xFF\0{"] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text).unwrap();
            assert!(open_text(file.path()).unwrap_err().to_string().starts_with("it is UTF-16"));
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("\u{feff}\u{feff}a".as_bytes()).unwrap();
        let mut piecewise = String::new();
        open_text(file.path()).unwrap().read_to_string(&mut piecewise).unwrap();
        assert_eq!([read_text(file.path()).unwrap(), piecewise], ["\u{feff}a", "\u{feff}a"]);
    }

    #[test]
    fn a_document_of_short_values_is_refused_before_it_fills_the_memory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[0,0,{\"a\": [1]}]").unwrap();
        assert!(read_document(file.path()).is_ok());
        std::fs::write(file.path(), vec![b','; (1 << 25) + 1]).unwrap();
        assert_eq!(read_document(file.path()).unwrap_err().to_string(), "it has more than 33554432 values");
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let endless = BufReader::with_capacity(1 << 20, io::Cursor::new(b"{}\n\n").chain(io::repeat(b'x')));
        let mut lines = RecordLines::new(endless);
        for line in [(1, &b"{}\n"[..]), (2, b"\n")] {
            assert_eq!(lines.next_line().unwrap(), Some(line));
        }
        assert!(lines.next_line().unwrap_err().to_string().starts_with("line 3 is longer than 256 MiB"));
        let mut short = RecordLines::new(&b"last"[..]);
        assert_eq!(short.next_line().unwrap(), Some((1, &b"last"[..])));
        assert_eq!(short.next_line().unwrap(), None);
    }

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(read_text_up_to(file.path(), 5).unwrap(), "12345");
        assert_eq!(read_text_up_to(file.path(), 4).unwrap_err().to_string(), "it is larger than 4 B");
    }
}
