//! SHA-256: the digest that MLPerf's rules and published data sets use. Regatta's own is another ([`super::Digest`]).

use std::io::{self, BufReader};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::open_regular;

/// A digest in the making.
#[derive(Clone, Debug, Default)]
pub struct Sha256Of(Sha256);

impl Sha256Of {
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn finish(self) -> String {
        format!("{:x}", self.0.finalize())
    }
}

/// Of a file, read in pieces.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 20, open_regular(path)?.0);
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    Ok(format!("{:x}", digest.finalize()))
}
