//! TLS to a server: the trusted authorities, the client's certificate, and what to do when it is refused.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, RootCertStore,
    SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::HarnessError;
use crate::transport::connection::ConnectError;
use base::diag::ErrorText;
use base::files::read_bytes_up_to;
use base::spec::{Tls, UnmeasuredProtocol};

/// Read once for a run; every connection is made with it.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: TlsConnector,
    pub has_certificate: bool,
}

impl Connector {
    /// Reads the files. Errors: everything that is wrong with them.
    pub fn new(tls: &Tls) -> Result<Self, HarnessError> {
        let provider = Arc::new(ring::default_provider());
        let mut faults = Vec::new();
        let mut keep = |fault: ErrorText| faults.push(fault.message);
        let verifier: Option<Arc<dyn ServerCertVerifier>> = if tls.insecure {
            Some(Arc::new(ServerCertificates { provider: Arc::clone(&provider), trusted: None }))
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
                keep(ErrorText::new("tls.client_cert needs its tls.client_key"));
                None
            }
            (None, Some(_)) => {
                keep(ErrorText::new("tls.client_key needs its tls.client_cert"));
                None
            }
        };
        let Some(verifier) = verifier.filter(|_| faults.is_empty()) else {
            return Err(HarnessError::Spec(faults.join("; ")));
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(HarnessError::spec)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let has_certificate = identity.is_some();
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                let pair = "tls.client_cert and tls.client_key";
                HarnessError::spec(format_args!("{pair} do not go together: {error}"))
            })?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { inner: TlsConnector::from(Arc::new(config)), has_certificate })
    }

    /// The handshake. Errors: why, and what to do.
    pub async fn handshake(&self, socket: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, ConnectError> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| ConnectError::new(format!("`{host}` is not a valid name for a certificate")))?;
        let connected = self.inner.connect(name, socket).await;
        connected.map_err(|error| ConnectError::new(handshake_fault(&error, host, self.has_certificate)))
    }
}

// The trusted authorities, the client's certificate, and their files.

/// Authorities of a file, or those that this machine trusts.
fn trusted(ca: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, ErrorText> {
    let mut roots = RootCertStore::empty();
    let mut pinned = Vec::new();
    if let Some(file) = ca {
        pinned = certificates("tls.ca", file)?;
        roots.add_parsable_certificates(pinned.iter().cloned());
        if roots.is_empty() {
            return Err(ErrorText::new(format_args!("tls.ca: no certificate in {} can be used", file.display())));
        }
    } else {
        let actual = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(actual.certs);
        if roots.is_empty() {
            let cure = "install `ca-certificates`, or name a file with `tls.ca`";
            return Err(ErrorText::new(format_args!("this machine knows no certificate authorities: {cure}")));
        }
    }
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(ErrorText::new)?;
    Ok(Arc::new(ServerCertificates { provider: Arc::clone(provider), trusted: Some((inner, pinned)) }))
}

/// Bytes of the largest file of certificates that is read; those of all known authorities take a quarter of one MiB.
const MOST_PEM_BYTES: u64 = 16 << 20;

/// `option` is the key that names the file.
fn certificates(option: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, ErrorText> {
    let actual = read_bytes_up_to(file, MOST_PEM_BYTES)
        .map_err(pem::Error::Io)
        .and_then(|bytes| CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>());
    let wrong = |fault: &dyn Display| ErrorText::new(format_args!("{option}: {} {fault}", file.display()));
    match actual {
        Ok(all) if all.is_empty() => Err(wrong(&"has no certificate in PEM (-----BEGIN CERTIFICATE-----)")),
        Ok(all) => Ok(all),
        Err(error) => Err(wrong(&format_args!("cannot be read: {error}"))),
    }
}

/// Errors never show the content of the file.
fn private_key(option: &str, file: &Path) -> Result<PrivateKeyDer<'static>, ErrorText> {
    let bytes = read_bytes_up_to(file, MOST_PEM_BYTES).map_err(pem::Error::Io);
    bytes.and_then(|bytes| PrivateKeyDer::from_pem_slice(&bytes)).map_err(|error| {
        let fault = match error {
            pem::Error::Io(error) => format!("cannot be read: {error}"),
            _ => "has no private key in PEM (-----BEGIN PRIVATE KEY-----)".to_owned(),
        };
        ErrorText::new(format_args!("{option}: {} {fault}", file.display()))
    })
}

/// Which certificates of a server are accepted.
#[derive(Debug)]
pub(super) struct ServerCertificates {
    provider: Arc<CryptoProvider>,
    /// As browsers check, and a certificate that was itself named in `tls.ca`, as self-signed ones are. `None`
    /// (`insecure`): any certificate.
    trusted: Option<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)>,
}

impl ServerCertVerifier for ServerCertificates {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((verifier, pinned)) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(end, between, name, ocsp, now) {
            // `openssl req -x509` makes a certificate that calls itself an authority. Its time was checked before this.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.to_string().contains("CaUsedAsEndEntity") && pinned.contains(end) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

// A readable message for a failed handshake: what is wrong, and what to do.

/// The server ended the handshake: it may require a client certificate.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the server ended the TLS handshake ({alert:?}): {}",
    if *has_certificate {
        "it may not know the authority of tls.client_cert"
    } else {
        "it may require a client certificate: name it with `tls.client_cert` and `tls.client_key`"
    }
)]
pub(crate) struct TlsRefusal {
    pub alert: AlertDescription,
    /// A client certificate was sent.
    pub has_certificate: bool,
}

/// The meaning of a failed handshake, and what to do.
fn handshake_fault(error: &io::Error, host: &str, has_certificate: bool) -> String {
    let Some(tls_error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "the server hung up during the TLS handshake: does it speak TLS at this port? If not, write http://"
                    .to_owned()
            }
            _ => format!("the TLS handshake failed: {error}"),
        };
    };
    match tls_error {
        Error::InvalidCertificate(fault) => certificate_fault(fault, host),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS at this port: write http:// in place of https://".to_owned()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => TlsRefusal { alert: *alert, has_certificate }.to_string(),
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => UnmeasuredProtocol::HTTP2.to_string(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// The meaning of an alert on an open connection; TLS 1.3 reports a missing certificate only then.
pub(in crate::transport::http) fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())? {
        Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

fn certificate_fault(fault: &CertificateError, host: &str) -> String {
    let date = |time: &UnixTime| {
        let at = jiff::Timestamp::from_second(time.as_secs() as i64);
        at.map_or_else(|_| "a time long past".to_owned(), |at| at.to_string())
    };
    match fault {
        CertificateError::Expired => {
            format!("the certificate of {host} has expired: renew it on the server (and check this machine's clock)")
        }
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "the certificate of {host} expired at {}: renew it on the server (and check this machine's clock)",
            date(not_after)
        ),
        CertificateError::NotValidYet => {
            format!("the certificate of {host} is not valid yet: check this machine's clock")
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the certificate of {host} is valid only from {}: check this machine's clock", date(not_before))
        }
        CertificateError::NotValidForName => {
            format!("the certificate is not for {host}: use a name that is in the server's certificate")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("the certificate is for {names}, not for {host}: use a name that is in the server's certificate")
        }
        CertificateError::UnknownIssuer => format!(
            "the certificate of {host} was issued by an unknown authority: name its file with `tls.ca` (--cacert), \
             or accept any certificate with `tls.insecure: true` (--insecure)"
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => format!(
            "the certificate of {host} is self-signed: name its file with `tls.ca` (--cacert), or accept any \
             certificate with `tls.insecure: true` (--insecure)"
        ),
        other => format!("the certificate of {host} is invalid: {other}"),
    }
}

/// `DnsName("a.example")` → `a.example`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"').to_owned()
}
