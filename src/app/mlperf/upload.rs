//! The upload of a submission: its archive, encrypted where that is wanted, and the checksum.
//!
//! Encrypted is what `pack_submission.sh --pack` of mlcommons/inference writes: `openssl enc -e -aes256`, by openssl itself. The
//! password is never an argument: openssl reads it from a file or from its environment.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::PasswordSource;
use crate::error::CommandError;
use base::units::{counted, size};
use exec::process::{ProbeOutput, ProbeResult, probe};
use mlperf::{compress_divisions, write_checksum};

/// The longest that openssl may take: some hundred gigabytes.
const LIMIT: Duration = Duration::from_hours(1);

/// Why nothing was encrypted.
#[derive(Debug, thiserror::Error)]
pub(super) enum EncryptionError {
    #[error("the environment has no `{0}`, which holds the password of the archive")]
    NotSet(String),
    #[error("cannot read the password of the archive from {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the password of the archive is empty: the first line of {}", .0.display())]
    Empty(PathBuf),
    #[error("openssl, which encrypts the archive, is not installed")]
    NoOpenssl,
    #[error("openssl did not encrypt the archive: {0}")]
    Failed(String),
}

/// Refuses a password that is not there, before anything is written.
pub(super) fn require_password(source: &PasswordSource) -> Result<(), EncryptionError> {
    match source {
        PasswordSource::Env(name) => match std::env::var_os(name) {
            Some(value) if !value.is_empty() => Ok(()),
            _ => Err(EncryptionError::NotSet(name.clone())),
        },
        PasswordSource::File(path) => {
            let failed = |source| EncryptionError::Unreadable { path: path.clone(), source };
            let mut line = Vec::new();
            BufReader::new(fs::File::open(path).map_err(failed)?).read_until(b'\n', &mut line).map_err(failed)?;
            if line.trim_ascii().is_empty() { Err(EncryptionError::Empty(path.clone())) } else { Ok(()) }
        }
    }
}

/// Writes the archive and its checksum, and returns what is printed of them.
pub(super) fn upload(
    submission: &Path,
    archive: &Path,
    password: Option<&PasswordSource>,
) -> Result<String, CommandError> {
    let other = |error: anyhow::Error| CommandError::Other(error);
    let files = match password {
        None => compress_divisions(submission, archive).map_err(|error| other(error.into()))?,
        Some(password) => {
            let folder = archive.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let plain = tempfile::NamedTempFile::new_in(folder).map_err(|error| other(error.into()))?;
            let files = compress_divisions(submission, plain.path()).map_err(|error| other(error.into()))?;
            encrypt(plain.path(), archive, password).map_err(|error| other(error.into()))?;
            files
        }
    };
    let written = write_checksum(archive).map_err(|error| other(error.into()))?;
    let how = if password.is_some() { ", encrypted with AES-256" } else { "" };
    let mut text = format!(
        "{}: {}, {}{how}; its SHA-1 is in {}\n",
        archive.display(),
        counted(files, "file"),
        size(written.bytes),
        written.checksum.display()
    );
    if password.is_some() {
        let _ = writeln!(text, "  decrypt: openssl enc -d -aes256 -in {} | tar -xz", archive.display());
    }
    Ok(text)
}

/// `openssl enc -e -aes256`, as the script of MLCommons calls it.
fn encrypt(plain: &Path, to: &Path, password: &PasswordSource) -> Result<(), EncryptionError> {
    let mut argv: Vec<OsString> = ["openssl", "enc", "-e", "-aes256", "-pass"].map(OsString::from).to_vec();
    argv.push(password.openssl_argument());
    argv.extend([OsStr::new("-in"), plain.as_os_str(), OsStr::new("-out"), to.as_os_str()].map(OsStr::to_owned));
    match probe(&argv, LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, .. }) => Ok(()),
        ProbeResult::Answered(ProbeOutput { code, err, .. }) => {
            let last = err.lines().last().unwrap_or_default();
            Err(EncryptionError::Failed(format!("exit code {code}: {last}")))
        }
        ProbeResult::Missing => Err(EncryptionError::NoOpenssl),
        ProbeResult::TimedOut => Err(EncryptionError::Failed("it took longer than an hour".to_owned())),
        ProbeResult::Failed(error) => Err(EncryptionError::Failed(error)),
    }
}
