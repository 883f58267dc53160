//! The public half of a key, and what exactly a signature is over.

use std::fmt;

use ring::signature::{ED25519, UnparsedPublicKey};

use base::files::Sha256Of;

/// A `SubjectPublicKeyInfo` of Ed25519 (RFC 8410) is these bytes, then the 32 of the key.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 key that checks signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub(super) const fn from_raw(raw: [u8; 32]) -> Self {
        Self(raw)
    }

    /// `None`: a key of another kind.
    pub(super) fn from_der(der: &[u8]) -> Option<Self> {
        der.strip_prefix(&SPKI)?.try_into().ok().map(Self)
    }

    /// SHA-256 of the key as DER, in hex: `openssl pkey -pubin -in KEY -outform DER | sha256sum` prints the same.
    pub fn id(&self) -> String {
        let mut digest = Sha256Of::default();
        digest.update(SPKI);
        digest.update(self.0);
        digest.finish()
    }

    /// Its beginning, for display.
    pub fn short_id(&self) -> String {
        short(&self.id()).to_owned()
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.short_id())
    }
}

/// The beginning of a key's id.
pub(super) fn short(id: &str) -> &str {
    id.get(..16).unwrap_or(id)
}

/// What a signature is over, by DSSE 1.0: type and payload with their lengths, so that a signature for one purpose is none for
/// another.
pub(super) fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_as_the_protocol_of_dsse_has_it() {
        assert_eq!(
            pre_authentication("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }
}
