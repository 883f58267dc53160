//! Replaces secret values in a stream of bytes, also where a value is cut in two by a chunk border.

const STARS: &[u8] = b"***";

/// Bytes in, bytes out, no secret among them.
#[derive(Debug)]
pub struct Redactor {
    /// Longest first, so that a secret which contains another is replaced as a whole.
    secrets: Vec<Vec<u8>>,
    buffered: Vec<u8>,
}

impl Redactor {
    pub fn new(secrets: &[String]) -> Self {
        let mut secrets: Vec<Vec<u8>> =
            secrets.iter().filter(|secret| !secret.is_empty()).map(|secret| secret.clone().into_bytes()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets, buffered: Vec::new() }
    }

    /// What may be written now. The end of the chunk is held back while it could be the start of a secret.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.buffered.extend_from_slice(chunk);
        self.take(false)
    }

    /// The rest: no more bytes will come.
    pub fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, last: bool) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.buffered);
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            // A longer secret that may still be completed by the next chunk goes before a shorter one that is complete.
            if !last && self.secrets.iter().any(|secret| secret.len() > rest.len() && secret.starts_with(rest)) {
                self.buffered = rest.to_vec();
                break;
            }
            if let Some(secret) = self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                out.extend_from_slice(STARS);
                at += secret.len();
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        out
    }
}

/// A text without secret values.
pub fn redacted(text: &str, secrets: &[String]) -> String {
    if !secrets.iter().any(|secret| text.contains(secret.as_str())) {
        return text.to_owned();
    }
    let mut redactor = Redactor::new(secrets);
    let mut bytes = redactor.push(text.as_bytes());
    bytes.extend(redactor.finish());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn through(secrets: &[&str], chunks: &[&[u8]]) -> Vec<u8> {
        let secrets: Vec<String> = secrets.iter().map(|&secret| secret.to_owned()).collect();
        let mut redactor = Redactor::new(&secrets);
        let mut out: Vec<u8> = chunks.iter().flat_map(|chunk| redactor.push(chunk)).collect();
        out.extend(redactor.finish());
        out
    }

    #[test]
    fn a_secret_across_chunks_is_found() {
        assert_eq!(through(&["hunter2"], &[b"pw=hun", b"te", b"r2!\n"]), b"pw=***!\n");
        assert_eq!(through(&["ab", "abc"], &[b"xab", b"cab"]), b"x******");
    }

    #[test]
    fn the_start_of_a_secret_is_given_out_when_it_stays_a_start() {
        assert_eq!(through(&["hunter2"], &[b"hun", b"dred"]), b"hundred");
        assert_eq!(through(&["hunter2"], &[b"hun"]), b"hun");
    }

    #[test]
    fn of_a_secret_that_begins_another_no_rest_is_left_in_whatever_order_they_are_named() {
        for secrets in [["tok", "tok-1234"], ["tok-1234", "tok"]] {
            let secrets = secrets.map(str::to_owned);
            assert_eq!(redacted("key=tok-1234 tok ü", &secrets), "key=*** *** ü");
        }
    }

    proptest! {
        #[test]
        fn where_the_chunks_are_cut_makes_no_difference(text in "[ab]{0,40}", cuts in prop::collection::vec(0_usize..40, 0..5)) {
            let whole = through(&["aba", "bb"], &[text.as_bytes()]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(through(&["aba", "bb"], &chunks), whole);
        }
    }
}
