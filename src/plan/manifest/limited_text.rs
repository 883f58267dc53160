//! What a template writes, up to a limit.

use std::io;

/// Refuses what would make it longer than its limit.
#[derive(Debug)]
pub struct LimitedText {
    bytes: Vec<u8>,
    limit: usize,
}

impl LimitedText {
    /// `limit` in bytes.
    pub const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// The text; what is not UTF-8 is replaced.
    pub fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl io::Write for LimitedText {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if piece.len() > self.limit - self.bytes.len() {
            return Err(io::Error::other(format!("it becomes longer than {} bytes", self.limit)));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_piece_that_would_be_too_much_is_refused() {
        let mut text = LimitedText::new(5);
        text.write_all(b"abc").unwrap();
        assert_eq!(text.write_all(b"def").unwrap_err().to_string(), "it becomes longer than 5 bytes");
        text.write_all(b"de").unwrap();
        assert_eq!(text.into_text(), "abcde");
    }
}
