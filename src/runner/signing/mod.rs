//! Ed25519 signatures over what leaves this machine: records of a shared store, and statements about outputs.
//!
//! Keys are PEM files as `openssl genpkey -algorithm ed25519` writes them. A private key is never printed, logged or kept; what names
//! it is the SHA-256 of its public half.

mod public_key;
mod signing_key;
mod trusted_keys;

pub use public_key::PublicKey;
#[cfg(test)]
pub(crate) use signing_key::tests::example_key;
pub use signing_key::{KeyError, Signature, SigningKey};
pub use trusted_keys::{SignatureError, TrustedKeys};
