//! Where a store is, as the user writes it.

use std::fmt;
use std::path::PathBuf;

use base::diag::ErrorText;

/// `file:///mnt/share`, a path, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. Never with
/// credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    Folder(PathBuf),
    Bucket {
        kind: BucketKind,
        /// Bucket or container.
        name: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketKind {
    S3,
    Google,
    Azure,
}

impl BucketKind {
    const fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }
}

const FORMS: &str = "write a path, file:///mnt/share, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix";

impl StoreAddress {
    /// Reads what was typed; the text is not repeated in a message where it may hold a secret.
    pub fn parse(text: &str) -> Result<Self, ErrorText> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ErrorText::new("the shared store has an empty name").hint(FORMS));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Self::Folder(text.into())) };
        if rest.split('/').next().is_some_and(|host| host.contains('@')) || rest.contains(['?', '#']) {
            let error = ErrorText::new("the address of the shared store has more than a location").hint(
                "credentials belong in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, \
                 AZURE_STORAGE_ACCOUNT_KEY, …)",
            );
            return Err(error.hint(FORMS));
        }
        let kind = match scheme {
            "file" => {
                return match rest.strip_prefix("localhost").unwrap_or(rest) {
                    path if path.starts_with('/') => Ok(Self::Folder(path.into())),
                    _ => Err(ErrorText::new(format_args!("`{text}` names a host"))
                        .hint("a file address has three slashes: file:///mnt/share")),
                };
            }
            "s3" | "s3a" => BucketKind::S3,
            "gs" => BucketKind::Google,
            "az" | "azure" => BucketKind::Azure,
            other => return Err(ErrorText::new(format_args!("`{other}://` is not a supported store")).hint(FORMS)),
        };
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() {
            return Err(ErrorText::new(format_args!("`{text}` names no bucket")).hint(FORMS));
        }
        Ok(Self::Bucket { kind, name: name.to_owned(), prefix: prefix.trim_matches('/').to_owned() })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { kind, name, prefix } if prefix.is_empty() => write!(f, "{}://{name}", kind.scheme()),
            Self::Bucket { kind, name, prefix } => write!(f, "{}://{name}/{prefix}", kind.scheme()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let shown = |text: &str| StoreAddress::parse(text).unwrap().to_string();
        assert_eq!(shown("/mnt/share"), "/mnt/share");
        assert_eq!(shown("file:///mnt/share"), "/mnt/share");
        assert_eq!(shown("file://localhost/mnt/share"), "/mnt/share");
        assert_eq!(shown("../share"), "../share");
        assert_eq!(shown("s3://bucket"), "s3://bucket");
        assert_eq!(shown("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(shown("gs://b/p"), "gs://b/p");
        assert_eq!(shown("azure://c/p"), "az://c/p");
    }

    #[test]
    fn an_invalid_address_is_reported_without_its_secret() {
        for (text, why) in [
            ("", "empty name"),
            ("http://host/x", "`http://` is not a supported store"),
            ("file://host/x", "names a host"),
            ("s3:///x", "names no bucket"),
            ("s3://KEY:SECRET@bucket/x", "credentials belong in the environment"),
            ("az://c/x?sig=SECRET", "credentials belong in the environment"),
        ] {
            let error = StoreAddress::parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("SECRET"), "{text}: {error}");
        }
    }
}
