//! What can be wrong with a store, by what it means for a run.

use crate::signing::SignatureError;
use crate::store::PathError;
use base::diag::FeatureLeftOut;

/// Why something could not be done.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SharedStoreError {
    /// The store does not answer, or not in time.
    #[error("{0}")]
    Unreachable(String),
    /// It is a folder that is not there.
    #[error("there is no folder {0}")]
    NoFolder(String),
    /// It answers, and does not let us.
    #[error("{0}")]
    Denied(String),
    /// It is a folder in which this user may not do that.
    #[error("{0}")]
    NoAccess(String),
    /// One object is not what it must be, or is gone.
    #[error("{object} {why}")]
    Damaged { object: String, why: String },
    /// A record written during garbage collection could not be read: the record or the response is damaged.
    #[error("{object} was written during garbage collection and cannot be read; no file was removed")]
    Unread { object: String },
    /// A record that this program cannot read, and must not replace.
    #[error("{object} was written by a newer Regatta")]
    Newer { object: String },
    /// A record that no trusted key has signed.
    #[error("{object} {why}")]
    Untrusted { object: String, why: SignatureError },
    /// Its kind cannot be reached by this program.
    #[error(transparent)]
    LeftOut(#[from] FeatureLeftOut),
    /// Something on this machine.
    #[error("{0}")]
    Local(String),
}

impl SharedStoreError {
    /// Whether another request, for something else, would fail the same way.
    pub const fn is_of_the_store(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::NoFolder(_) | Self::Denied(_) | Self::NoAccess(_) | Self::LeftOut(_)
        )
    }

    /// What the user can do.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "is the store's machine up, the network there, the address right? (AWS_ENDPOINT_URL names an endpoint \
                    that is not Amazon's)"
            }
            Self::NoFolder(_) => "create it, or mount the filesystem that it is on",
            Self::NoAccess(_) => {
                "all users of the store need to read and write in it: `chmod -R g+rwX` by those whose files are \
                    there, and `chmod g+rws` for the folder itself"
            }
            Self::Denied(_) => {
                "credentials are taken from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                    GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and …_KEY) or the machine's own role; \
                    they need to read, write and list"
            }
            Self::Unread { .. } => "run `regatta store gc` again: it removes the record if it is damaged",
            Self::Damaged { .. } => {
                "it is rebuilt here and stored again; `regatta store push MANIFEST --verify` checks and repairs \
                    the rest"
            }
            Self::Untrusted { .. } => {
                "it is rebuilt here; if it is correct, `regatta store push MANIFEST --sign-key FILE` signs it, or add \
                its key to the file of --trusted-keys"
            }
            Self::Newer { .. } => "it is left unchanged; a Regatta of the same or a newer version can read it",
            Self::Local(_) | Self::LeftOut(_) => "",
        }
    }
}

impl SharedStoreError {
    pub(super) fn damaged(object: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Damaged { object: object.into(), why: why.into() }
    }

    /// Of an object that a record names.
    pub(super) fn gone(object: &str) -> Self {
        Self::damaged(object, "is missing, although a record names it")
    }
}

impl From<tokio::sync::AcquireError> for SharedStoreError {
    fn from(error: tokio::sync::AcquireError) -> Self {
        Self::Local(error.to_string())
    }
}

impl From<tokio::task::JoinError> for SharedStoreError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Local(format!("a transfer did not complete: {error}"))
    }
}

impl From<PathError> for SharedStoreError {
    fn from(error: PathError) -> Self {
        Self::Local(error.to_string())
    }
}
