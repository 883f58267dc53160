//! A JSON object whose last member is a signature over the object without it: readers that ask for none, and older programs, read the rest.

use std::borrow::Cow;

use crate::signing::{Signature, SignatureError, SigningKey, TrustedKeys};

/// What is before the signature.
pub(super) const SIGNATURE: &str = ",\"signature\":";

/// The object with a signature, if there is a key. `media_type`: what the signature says that it is over.
pub(super) fn sign(
    mut json: String,
    media_type: &str,
    signer: Option<&SigningKey>,
) -> Result<String, serde_json::Error> {
    if let Some(signer) = signer {
        let signature = serde_json::to_string(&signer.sign(media_type, json.as_bytes()))?;
        json.truncate(json.len() - 1);
        json = format!("{json}{SIGNATURE}{signature}}}");
    }
    Ok(json)
}

/// The object without its signature: what is read is what was signed, byte for byte. `trusted`: one of these keys must have signed it.
pub(super) fn check<'a>(
    json: &'a str,
    media_type: &str,
    trusted: Option<&TrustedKeys>,
) -> Result<Cow<'a, str>, SignatureError> {
    let (json, signature) = split_signature(json);
    if let Some(trusted) = trusted {
        trusted.check(media_type, json.as_bytes(), signature.as_ref())?;
    }
    Ok(json)
}

/// The object without its last member, if that is a signature. In a text such quotes would be escaped, so they begin a member.
fn split_signature(json: &str) -> (Cow<'_, str>, Option<Signature>) {
    let Some((signed, rest)) = json.rsplit_once(SIGNATURE) else { return (json.into(), None) };
    match rest.strip_suffix('}').and_then(|text| serde_json::from_str(text).ok()) {
        Some(signature) => (format!("{signed}}}").into(), Some(signature)),
        None => (json.into(), None),
    }
}
