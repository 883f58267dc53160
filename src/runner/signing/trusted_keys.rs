//! The keys whose signatures count.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

use super::public_key::{PublicKey, pre_authentication, short};
use super::signing_key::{KeyError, Signature, read};

/// Why a signature does not count. Reads after the name of what is signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("is not signed")]
    Unsigned,
    #[error("is signed by a key that is not trusted here ({0}…)")]
    UnknownKey(String),
    #[error("does not match its signature")]
    Wrong,
}

/// Public keys, any of which may have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKeys(Vec<PublicKey>);

impl TrustedKeys {
    /// From a PEM file with one or more public keys.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::from_pem(&read(path)?, &path.display().to_string())
    }

    /// From the text of such a file. `name`: what it is called in an error.
    ///
    /// # Errors
    /// The text holds no key, or one of another kind.
    pub fn from_pem(pem: &str, name: &str) -> Result<Self, KeyError> {
        let none = || KeyError::NoPublicKey(name.to_owned());
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem.as_bytes())
            .map(|key| {
                let key = key.map_err(|_| none())?;
                PublicKey::from_der(&key).ok_or_else(|| KeyError::NotEd25519(name.to_owned()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(none()) } else { Ok(Self(keys)) }
    }

    pub fn only(key: PublicKey) -> Self {
        Self(vec![key])
    }

    /// These, and one more.
    #[must_use]
    pub fn and(mut self, key: PublicKey) -> Self {
        if !self.0.contains(&key) {
            self.0.push(key);
        }
        self
    }

    pub fn keys(&self) -> &[PublicKey] {
        &self.0
    }

    /// Whether one of these keys signed the payload.
    ///
    /// # Errors
    /// None did.
    pub fn check(
        &self,
        payload_type: &str,
        payload: &[u8],
        signature: Option<&Signature>,
    ) -> Result<&PublicKey, SignatureError> {
        let signature = signature.ok_or(SignatureError::Unsigned)?;
        let key = self.0.iter().find(|key| key.id() == signature.keyid);
        let key = key.ok_or_else(|| SignatureError::UnknownKey(printable(short(&signature.keyid))))?;
        let bytes = STANDARD.decode(&signature.sig).map_err(|_| SignatureError::Wrong)?;
        if key.verifies(&pre_authentication(payload_type, payload), &bytes) {
            Ok(key)
        } else {
            Err(SignatureError::Wrong)
        }
    }
}

/// A name that another machine wrote.
fn printable(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).collect()
}

#[cfg(test)]
mod tests {
    use super::super::signing_key::SigningKey;
    use super::super::signing_key::tests::{EXAMPLE, EXAMPLE_PUBLIC};
    use super::*;

    #[test]
    fn only_the_payload_that_was_signed_by_a_trusted_key_passes() {
        let key = SigningKey::from_pem(EXAMPLE, "key").unwrap();
        let trusted = TrustedKeys::from_pem(&format!("a comment\n{EXAMPLE_PUBLIC}"), "keys").unwrap();
        assert_eq!(trusted.keys(), [key.public().clone()]);
        let signature = key.sign("type", b"payload");
        assert_eq!(trusted.check("type", b"payload", Some(&signature)), Ok(key.public()));
        for (payload_type, payload) in [("type", "payloae"), ("typf", "payload"), ("type", "")] {
            let checked = trusted.check(payload_type, payload.as_bytes(), Some(&signature));
            assert_eq!(checked, Err(SignatureError::Wrong));
        }
        let cut = Signature { sig: signature.sig[4..].to_owned(), ..signature.clone() };
        assert_eq!(trusted.check("type", b"payload", Some(&cut)), Err(SignatureError::Wrong));
        assert_eq!(trusted.check("type", b"payload", None), Err(SignatureError::Unsigned));
        let other = Signature { keyid: "0".repeat(64), ..signature };
        let unknown = trusted.check("type", b"payload", Some(&other)).unwrap_err();
        assert_eq!(unknown.to_string(), "is signed by a key that is not trusted here (0000000000000000…)");
    }

    #[test]
    fn a_file_without_public_keys_is_refused() {
        for text in ["", EXAMPLE, "-----BEGIN PUBLIC KEY-----\nMCow\n"] {
            assert!(TrustedKeys::from_pem(text, "keys").is_err(), "{text}");
        }
    }
}
