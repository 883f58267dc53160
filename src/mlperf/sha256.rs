//! SHA-256: the digest that MLPerf's rules and published data sets use. Regatta's own is another (`event::Digest`).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// A digest in the making.
#[derive(Clone, Debug, Default)]
pub struct Sha256Of(Sha256);

impl Sha256Of {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// 64 hexadecimal digits.
    pub fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Hexadecimal digits, two a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of a file, read in pieces.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256Of::default();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(digest.finish()),
            length => digest.update(&piece[..length]),
        }
    }
}
