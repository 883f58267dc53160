//! `bench.tls:` — trusted authorities and the client's certificate.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// For protocols over HTTP with TLS. Keys and certificates are PEM files; their content is never shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tls {
    /// Authorities to trust, or the server's own certificate, in place of those that this machine knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Accept any certificate: requests, including keys, may be read in transit.
    #[serde(default)]
    pub insecure: bool,
    /// The client certificate with its chain, for servers that require one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
}

impl Tls {
    /// The files from a manifest, with absolute paths.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        for file in [&mut self.ca, &mut self.client_cert, &mut self.client_key] {
            *file = file.take().map(|file: PathBuf| folder.join(file));
        }
        self
    }

    /// The settings without the names of files, for a result.
    pub fn without_files(&self) -> Self {
        Self { insecure: self.insecure, ..Self::default() }
    }
}
