//! Whether records and summaries of a store are signed, and whose signatures count.

use std::sync::Arc;

use crate::signing::{SigningKey, TrustedKeys};

/// What a signature of a record says that it is over.
pub(super) const RECORD_TYPE: &str = "application/vnd.regatta.shared-record+json";

/// The same of a summary.
pub(super) const SUMMARY_TYPE: &str = "application/vnd.regatta.shared-summary+json";

/// Where a key signs, its own signatures count, too.
#[derive(Clone, Debug, Default)]
pub struct SignaturePolicy {
    signer: Option<Arc<SigningKey>>,
    /// `None`: a record needs no signature.
    trusted: Option<TrustedKeys>,
}

impl SignaturePolicy {
    /// With neither key nothing is signed and nothing is asked for.
    pub fn new(signer: Option<SigningKey>, trusted: Option<TrustedKeys>) -> Self {
        let trusted = match (&signer, trusted) {
            (Some(signer), Some(trusted)) => Some(trusted.and(signer.public().clone())),
            (Some(signer), None) => Some(TrustedKeys::only(signer.public().clone())),
            (None, trusted) => trusted,
        };
        Self { signer: signer.map(Arc::new), trusted }
    }

    pub fn signer(&self) -> Option<&SigningKey> {
        self.signer.as_deref()
    }

    pub const fn trusted(&self) -> Option<&TrustedKeys> {
        self.trusted.as_ref()
    }

    /// Signatures are asked for, and none can be made: what is sent would be refused by those that ask for them, too.
    pub const fn is_read_only(&self) -> bool {
        self.trusted.is_some() && self.signer.is_none()
    }
}
