//! Ed25519 signatures over what leaves this machine: records of a shared store, and statements about outputs.
//!
//! Keys are PEM files as `openssl genpkey -algorithm ed25519` writes them. A private key is never printed, logged or
//! kept; what names it is the SHA-256 of its public half.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};

use base::diag::ErrorText;
use base::files::Sha256Of;

// The public half of a key, and what exactly a signature is over.

/// A `SubjectPublicKeyInfo` of Ed25519 (RFC 8410) is these bytes, then the 32 of the key.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An Ed25519 key that checks signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
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
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.short_id())
    }
}

/// The beginning of a key's id.
fn short(id: &str) -> &str {
    id.get(..16).unwrap_or(id)
}

/// What a signature is over, by DSSE 1.0: type and payload with their lengths, so that a signature for one purpose is
/// none for another.
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

// The key that signs.

/// Larger files are no keys (bytes).
const LARGEST: u64 = 1 << 20;

/// A key of another kind than those that sign. No error about a key has a part of it.
fn not_ed25519(name: &str) -> ErrorText {
    ErrorText::new(format_args!("{name} holds a key of another kind"))
        .hint("keys are Ed25519: `openssl genpkey -algorithm ed25519 -out key.pem`")
}

/// One signature, with what names its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// [`PublicKey::id`].
    pub keyid: String,
    /// 64 bytes in base64.
    pub sig: String,
}

/// An Ed25519 key that signs.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    pub public: PublicKey,
    /// The lines of its text: what must not be in anything that leaves the machine.
    pub(crate) lines: Vec<String>,
}

impl SigningKey {
    /// From a PEM file with a PKCS#8 key.
    ///
    /// # Errors
    /// The file cannot be read, or holds no such key.
    pub fn read(path: &Path) -> Result<Self, ErrorText> {
        Self::from_pem(&read(path)?, &path.display().to_string())
    }

    /// From the text of such a file. `name`: what it is called in an error.
    ///
    /// # Errors
    /// The text holds no such key.
    pub fn from_pem(pem: &str, name: &str) -> Result<Self, ErrorText> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            ErrorText::new(format_args!("{name} holds no unencrypted private key"))
                .hint("`openssl genpkey -algorithm ed25519 -out key.pem` makes one")
        })?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der()).map_err(|_| not_ed25519(name))?;
        let raw = pair.public_key().as_ref().try_into().map_err(|_| not_ed25519(name))?;
        let lines = pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("-----"));
        Ok(Self { pair, public: PublicKey(raw), lines: lines.map(str::to_owned).collect() })
    }

    /// Over a payload and its type, as DSSE 1.0 has it.
    pub fn sign(&self, payload_type: &str, payload: &[u8]) -> Signature {
        let signature = self.pair.sign(&pre_authentication(payload_type, payload));
        Signature { keyid: self.public.id(), sig: STANDARD.encode(signature) }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.short_id())
    }
}

fn read(path: &Path) -> Result<String, ErrorText> {
    use std::io::Read as _;
    let unreadable = |error: std::io::Error| {
        ErrorText::new(format_args!("{} cannot be read: {error}", path.display()))
            .hint("name a PEM file that can be read")
    };
    let (file, _) = base::files::open_regular(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

// The keys whose signatures count.

/// Why a signature does not count. Reads after the name of what is signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("is not signed")]
    Unsigned,
    #[error("is signed by a key that is not trusted ({0}…)")]
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
    pub fn read(path: &Path) -> Result<Self, ErrorText> {
        Self::from_pem(&read(path)?, &path.display().to_string())
    }

    /// From the text of such a file. `name`: what it is called in an error.
    ///
    /// # Errors
    /// The text holds no key, or one of another kind.
    pub fn from_pem(pem: &str, name: &str) -> Result<Self, ErrorText> {
        let none = || {
            ErrorText::new(format_args!("{name} holds no public key"))
                .hint("`openssl pkey -in key.pem -pubout -out key.pub` writes it")
        };
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem.as_bytes())
            .map(|key| {
                let key = key.map_err(|_| none())?;
                let raw = key.strip_prefix(&SPKI).and_then(|raw| raw.try_into().ok());
                raw.map(PublicKey).ok_or_else(|| not_ed25519(name))
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
        // Another machine wrote the name.
        let printable = || short(&signature.keyid).chars().filter(char::is_ascii_hexdigit).collect();
        let key = key.ok_or_else(|| SignatureError::UnknownKey(printable()))?;
        let bytes = STANDARD.decode(&signature.sig).map_err(|_| SignatureError::Wrong)?;
        if UnparsedPublicKey::new(&ED25519, key.0).verify(&pre_authentication(payload_type, payload), &bytes).is_ok() {
            Ok(key)
        } else {
            Err(SignatureError::Wrong)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The key of RFC 8410, section 10.3: an example, no secret of anybody.
    pub(crate) const EXAMPLE: &str = concat!(
        "-----BEGIN PRIVATE",
        " KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE",
        " KEY-----\n"
    );
    pub(crate) const EXAMPLE_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    pub(crate) fn example_key() -> SigningKey {
        SigningKey::from_pem(EXAMPLE, "example").unwrap()
    }

    #[test]
    fn a_key_is_named_by_its_public_half_and_shows_nothing_else() {
        let key = SigningKey::from_pem(EXAMPLE, "key.pem").unwrap();
        // `openssl pkey -pubin -in key.pub -outform DER | sha256sum`.
        assert_eq!(key.public.id(), "a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f");
        assert!(!format!("{key:?}").contains("MC4C"));
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_repeated() {
        let error_text = |text: &str| SigningKey::from_pem(text, "key.pem").unwrap_err().to_string();
        assert!(error_text("").contains("key.pem holds no unencrypted private key"));
        assert!(error_text(EXAMPLE_PUBLIC).contains("no unencrypted private key"));
        let other = EXAMPLE.replace("MC4CAQAwBQYDK2Vw", "MC4CAQAwBQYDK2Vx");
        let error_text = error_text(&other);
        assert!(error_text.contains("of another kind") && !error_text.contains("MC4"), "{error_text}");
        assert!(SigningKey::read(Path::new("/nowhere/key.pem")).unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn what_is_signed_is_as_the_protocol_of_dsse_has_it() {
        assert_eq!(
            pre_authentication("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn only_the_payload_that_was_signed_by_a_trusted_key_passes() {
        let key = SigningKey::from_pem(EXAMPLE, "key").unwrap();
        let trusted = TrustedKeys::from_pem(&format!("a comment\n{EXAMPLE_PUBLIC}"), "keys").unwrap();
        assert_eq!(trusted.keys(), std::slice::from_ref(&key.public));
        let signature = key.sign("type", b"payload");
        assert_eq!(trusted.check("type", b"payload", Some(&signature)), Ok(&key.public));
        for (payload_type, payload) in [("type", "payloae"), ("typf", "payload"), ("type", "")] {
            let checked = trusted.check(payload_type, payload.as_bytes(), Some(&signature));
            assert_eq!(checked, Err(SignatureError::Wrong));
        }
        let cut = Signature { sig: signature.sig[4..].to_owned(), ..signature.clone() };
        assert_eq!(trusted.check("type", b"payload", Some(&cut)), Err(SignatureError::Wrong));
        assert_eq!(trusted.check("type", b"payload", None), Err(SignatureError::Unsigned));
        let other = Signature { keyid: "0".repeat(64), ..signature };
        let unknown = trusted.check("type", b"payload", Some(&other)).unwrap_err();
        assert_eq!(unknown.to_string(), "is signed by a key that is not trusted (0000000000000000…)");
    }

    #[test]
    fn a_file_without_public_keys_is_refused() {
        for text in ["", EXAMPLE, "-----BEGIN PUBLIC KEY-----\nMCow\n"] {
            assert!(TrustedKeys::from_pem(text, "keys").is_err(), "{text}");
        }
    }
}
