//! TLS to a server: the trusted authorities, the client's certificate, and what to do when it is refused.

mod errors;
mod trust;

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) use self::errors::TlsError;
use self::errors::TlsRefusal;
pub(super) use self::errors::alert;
use self::trust::{AnyCertificate, TlsFileError, certificates, private_key, trusted};
use crate::{HarnessError, TransportFailure};
use base::spec::Tls;

/// Why connections cannot be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsSetupError {
    /// All that is wrong with the named files.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Files(Vec<TlsFileError>),
    #[error("{0}")]
    Provider(#[source] rustls::Error),
    #[error("tls.client_cert and tls.client_key do not go together: {0}")]
    Pair(#[source] rustls::Error),
}

impl From<TlsSetupError> for HarnessError {
    fn from(error: TlsSetupError) -> Self {
        Self::Tls(TransportFailure::new(error))
    }
}

/// Read once for a run; every connection is made with it.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: TlsConnector,
    has_certificate: bool,
}

impl Connector {
    /// Reads the files. Errors: everything that is wrong with them.
    pub fn new(tls: &Tls) -> Result<Self, TlsSetupError> {
        let provider = Arc::new(ring::default_provider());
        let mut faults = Vec::new();
        let mut keep = |fault: TlsFileError| faults.push(fault);
        let verifier: Option<Arc<dyn ServerCertVerifier>> = if tls.insecure {
            Some(Arc::new(AnyCertificate(Arc::clone(&provider))))
        } else {
            trusted(tls.ca.as_deref(), &provider).map_err(&mut keep).ok()
        };
        let identity = match (&tls.client_cert, &tls.client_key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                match (certificates("tls.client_cert", cert), private_key("tls.client_key", key)) {
                    (Ok(cert), Ok(key)) => Some((cert, key)),
                    (cert, key) => {
                        [cert.err(), key.err()].into_iter().flatten().for_each(&mut keep);
                        None
                    }
                }
            }
            (Some(_), None) => {
                keep(TlsFileError::NoKey);
                None
            }
            (None, Some(_)) => {
                keep(TlsFileError::NoCertificate);
                None
            }
        };
        let Some(verifier) = verifier.filter(|_| faults.is_empty()) else { return Err(TlsSetupError::Files(faults)) };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsSetupError::Provider)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let has_certificate = identity.is_some();
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(TlsSetupError::Pair)?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { inner: TlsConnector::from(Arc::new(config)), has_certificate })
    }

    /// The meaning of an alert on an open connection.
    pub const fn alert_text(&self, alert: AlertDescription) -> TlsRefusal {
        TlsRefusal { alert, has_certificate: self.has_certificate }
    }

    /// The handshake. Errors: why, and what to do.
    pub async fn handshake(&self, socket: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::HostName { host: host.to_owned() })?;
        let connected = self.inner.connect(name, socket).await;
        connected.map_err(|error| errors::handshake_error(error, host, self.has_certificate))
    }
}
