//! The key that signs.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use super::public_key::{PublicKey, pre_authentication};

/// Larger files are no keys (bytes).
pub(super) const LARGEST: u64 = 1 << 20;

/// Why a key cannot be used. Never with a part of it.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{0} holds no unencrypted private key")]
    NoPrivateKey(String),
    #[error("{0} holds no public key")]
    NoPublicKey(String),
    #[error("{0} holds a key of another kind")]
    NotEd25519(String),
}

impl KeyError {
    /// What to try.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "name a PEM file that can be read",
            Self::NoPrivateKey(_) => "`openssl genpkey -algorithm ed25519 -out key.pem` makes one",
            Self::NoPublicKey(_) => "`openssl pkey -in key.pem -pubout -out key.pub` writes it",
            Self::NotEd25519(_) => "keys are Ed25519: `openssl genpkey -algorithm ed25519 -out key.pem`",
        }
    }
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
    public: PublicKey,
    /// The lines of its text: what must not be in anything that leaves the machine.
    lines: Vec<String>,
}

impl SigningKey {
    /// From a PEM file with a PKCS#8 key.
    ///
    /// # Errors
    /// The file cannot be read, or holds no such key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::from_pem(&read(path)?, &path.display().to_string())
    }

    /// From the text of such a file. `name`: what it is called in an error.
    ///
    /// # Errors
    /// The text holds no such key.
    pub fn from_pem(pem: &str, name: &str) -> Result<Self, KeyError> {
        let key =
            PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyError::NoPrivateKey(name.to_owned()))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key.secret_pkcs8_der())
            .map_err(|_| KeyError::NotEd25519(name.to_owned()))?;
        let raw = pair.public_key().as_ref().try_into().map_err(|_| KeyError::NotEd25519(name.to_owned()))?;
        let lines = pem.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("-----"));
        Ok(Self { pair, public: PublicKey::from_raw(raw), lines: lines.map(str::to_owned).collect() })
    }

    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Over a payload and its type, as DSSE 1.0 has it.
    pub fn sign(&self, payload_type: &str, payload: &[u8]) -> Signature {
        let signature = self.pair.sign(&pre_authentication(payload_type, payload));
        Signature { keyid: self.public.id(), sig: STANDARD.encode(signature) }
    }

    /// The secret as it is written, in pieces.
    pub(crate) fn secret_lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.short_id())
    }
}

pub(super) fn read(path: &Path) -> Result<String, KeyError> {
    use std::io::Read as _;
    let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
    let (file, _) = base::files::open_regular(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
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
    pub(crate) const EXAMPLE_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";

    pub(crate) fn example_key() -> SigningKey {
        SigningKey::from_pem(EXAMPLE, "example").unwrap()
    }

    #[test]
    fn a_key_is_named_by_its_public_half_and_shows_nothing_else() {
        let key = SigningKey::from_pem(EXAMPLE, "key.pem").unwrap();
        // `openssl pkey -pubin -in key.pub -outform DER | sha256sum`.
        assert_eq!(key.public().id(), "a1e9156054e04fac899ae9f275132cdc07a5dbc4ea2c2ad3a1ffc6e0d253681f");
        assert!(!format!("{key:?}").contains("MC4C"));
    }

    #[test]
    fn what_is_no_key_is_refused_without_being_repeated() {
        let why = |text: &str| SigningKey::from_pem(text, "key.pem").unwrap_err().to_string();
        assert!(why("").contains("key.pem holds no unencrypted private key"));
        assert!(why(EXAMPLE_PUBLIC).contains("no unencrypted private key"));
        let other = EXAMPLE.replace("MC4CAQAwBQYDK2Vw", "MC4CAQAwBQYDK2Vx");
        let why = why(&other);
        assert!(why.contains("of another kind") && !why.contains("MC4"), "{why}");
        assert!(SigningKey::read(Path::new("/nowhere/key.pem")).unwrap_err().to_string().contains("cannot be read"));
    }
}
