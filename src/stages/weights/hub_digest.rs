//! The two digests that a hub knows files by: SHA-256 of what it keeps in large-file storage, git's own of the
//! rest.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Serialize;
use sha1::{Digest as _, Sha1};

use base::files::Sha256Of;

/// A file's digest, 64 or 40 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HubDigest {
    Sha256(String),
    /// SHA-1 of `blob <size>\0` and the bytes.
    GitBlob(String),
}

impl fmt::Display for HubDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hex) => write!(f, "sha256 {hex}"),
            Self::GitBlob(hex) => write!(f, "git blob {hex}"),
        }
    }
}

impl HubDigest {
    /// A digest of this kind in the making, for a file of this many bytes.
    pub(super) fn begin(&self, size: u64) -> FileHasher {
        match self {
            Self::Sha256(_) => FileHasher::Sha256(Sha256Of::default()),
            Self::GitBlob(_) => {
                let mut sum = Sha1::new();
                sum.update(format!("blob {size}\0").as_bytes());
                FileHasher::GitBlob(sum)
            }
        }
    }

    /// The digest of this kind of a file's bytes.
    pub(super) fn of_file(&self, path: &Path) -> io::Result<Self> {
        let mut sum = self.begin(path.metadata()?.len());
        sum.read(path, u64::MAX)?;
        Ok(sum.finish())
    }
}

pub(super) enum FileHasher {
    Sha256(Sha256Of),
    GitBlob(Sha1),
}

impl FileHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::GitBlob(sum) => sum.update(bytes),
        }
    }

    /// Takes in a file's bytes up to a length.
    pub(super) fn read(&mut self, path: &Path, up_to: u64) -> io::Result<()> {
        let mut file = File::open(path)?.take(up_to);
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(()),
                length => self.update(&piece[..length]),
            }
        }
    }

    pub(super) fn finish(self) -> HubDigest {
        match self {
            Self::Sha256(sum) => HubDigest::Sha256(sum.finish()),
            Self::GitBlob(sum) => HubDigest::GitBlob(format!("{:x}", sum.finalize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_sha256sum_and_of_git() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "hello\n").unwrap();
        let digest = |kind: HubDigest| kind.of_file(&path).unwrap().to_string();
        assert_eq!(
            digest(HubDigest::Sha256(String::new())),
            "sha256 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
        // `git hash-object x`
        assert_eq!(digest(HubDigest::GitBlob(String::new())), "git blob ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
