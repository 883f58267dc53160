//! Passwords in addresses, in the lines of a text that an error shows: the error may be about something else on the line.

use std::ops::Range;

/// The text with `*` in place of each byte of a password or a token in an address: as long as before, so that places in it stay right.
pub(super) fn masked(text: &str) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut start = 0;
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '|')) {
        // Behind the name of an image stands its digest.
        for (at, _) in word.match_indices('@').filter(|(at, _)| !word[at + 1..].starts_with("sha256:")) {
            if let Some(secret) = secret_before(&word[..at]) {
                bytes[start + secret.start..start + secret.end].fill(b'*');
            }
        }
        start += word.len();
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// What is secret of a word up to its `@`: `me:secret`, `http://secret`, `http://me:secret`. `git` of `git@host` and `ssh://git@host` is not.
fn secret_before(before: &str) -> Option<Range<usize>> {
    let (scheme, start) = match before.rfind("://") {
        Some(at) => (Some(&before[..at]), at + 3),
        None => (None, 0),
    };
    let userinfo = &before[start..];
    if userinfo.contains('/') {
        return None;
    }
    match (userinfo.find(':'), scheme) {
        // `http://secret:`, without a password, as `curl -u` takes it.
        (Some(colon), Some(scheme)) if colon + 1 == userinfo.len() && !scheme.ends_with("ssh") => {
            Some(start..start + colon)
        }
        (Some(colon), _) => Some(start + colon + 1..before.len()),
        (None, Some(scheme)) if !scheme.ends_with("ssh") => Some(start..before.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_masked_and_nothing_else() {
        for (text, shown) in [
            ("target: 'http://me:pw@host:1'", "target: 'http://me:**@host:1'"),
            ("[https://tök@a/x@y, \"a:1|me:pw@b:2\"]", "[https://****@a/x@y, \"a:1|me:**@b:2\"]"),
            ("url: https://tok:@host/x ssh://git:@host", "url: https://***:@host/x ssh://git:@host"),
            ("openai://sk-1@host http://a:1/v1", "openai://****@host http://a:1/v1"),
            ("url: ssh://git@host/x git@host:y", "url: ssh://git@host/x git@host:y"),
            ("image: tritonserver:24.08@sha256:ab", "image: tritonserver:24.08@sha256:ab"),
            ("image: nvcr.io/triton:24.08@sha256:ab", "image: nvcr.io/triton:24.08@sha256:ab"),
            ("a: b\n", "a: b\n"),
        ] {
            assert_eq!(masked(text), shown);
            assert_eq!(shown.len(), text.len());
        }
    }
}
