//! TLS to a server: the trusted authorities, the client's certificate, and what to do when it is refused.

mod errors;
mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(super) use self::errors::alert;
use self::trust::{AnyCertificate, certificates, private_key, trusted};
use crate::harness::spec::protocol::Tls;

/// Read once for a run; every connection is made with it.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: TlsConnector,
    has_certificate: bool,
}

impl Connector {
    /// Reads the files. Errors: everything that is wrong with them.
    pub fn new(tls: &Tls) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let mut faults = Vec::new();
        let mut keep = |fault: String| faults.push(fault);
        let verifier: Option<Arc<dyn ServerCertVerifier>> = if tls.insecure {
            Some(Arc::new(AnyCertificate(Arc::clone(&provider))))
        } else {
            trusted(tls.ca.as_deref(), &provider).map_err(&mut keep).ok()
        };
        let identity = match (&tls.client_cert, &tls.client_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => match (certificates(cert), private_key(key)) {
                (Ok(cert), Ok(key)) => Some((cert, key)),
                (cert, key) => {
                    [cert.err(), key.err()].into_iter().flatten().for_each(&mut keep);
                    None
                }
            },
            (Some(_), None) => {
                keep("tls.client_cert needs its tls.client_key".to_owned());
                None
            }
            (None, Some(_)) => {
                keep("tls.client_key needs its tls.client_cert".to_owned());
                None
            }
        };
        let Some(verifier) = verifier.filter(|_| faults.is_empty()) else { return Err(faults.join("; ")) };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let has_certificate = identity.is_some();
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("tls.client_cert and tls.client_key do not go together: {error}"))?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { inner: TlsConnector::from(Arc::new(config)), has_certificate })
    }

    /// The meaning of an alert on an open connection.
    pub fn refused(&self, alert: AlertDescription) -> String {
        errors::refused(alert, self.has_certificate)
    }

    /// The handshake. Errors: why, and what to do.
    pub async fn secure(&self, socket: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("`{host}` is no name that a certificate could have"))?;
        self.inner.connect(name, socket).await.map_err(|error| errors::why(&error, host, self.has_certificate))
    }
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
}
