//! A readable message for a failed handshake: what is wrong, and what to do.

use std::io;
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Why there is no secure connection, and what to do.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("`{host}` is no name that a certificate could have")]
    HostName { host: String },
    #[error("the server hung up during the TLS handshake: does it speak TLS at this port? If not, write http://")]
    HungUp,
    #[error("the TLS handshake failed: {0}")]
    Io(#[source] Arc<io::Error>),
    #[error("{}", certificate_fault(fault, host))]
    Certificate { host: String, fault: CertificateError },
    #[error("the server does not speak TLS at this port: write http:// in place of https://")]
    NotTls,
    #[error(transparent)]
    Refused(TlsRefusal),
    #[error("the TLS handshake failed: {0}")]
    Protocol(#[source] Error),
}

/// The server ended the handshake: it may require a client certificate.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "the server ended the TLS handshake ({alert:?}): {}",
    if *has_certificate {
        "it may not know the authority of tls.client_cert"
    } else {
        "it may want a certificate from us: name it with `tls.client_cert` and `tls.client_key`"
    }
)]
pub(crate) struct TlsRefusal {
    pub alert: AlertDescription,
    /// A client certificate was sent.
    pub has_certificate: bool,
}

/// The meaning of a failed handshake.
pub(super) fn handshake_error(error: io::Error, host: &str, has_certificate: bool) -> TlsError {
    let Some(tls_error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => TlsError::HungUp,
            _ => TlsError::Io(Arc::new(error)),
        };
    };
    match tls_error {
        Error::InvalidCertificate(fault) => TlsError::Certificate { host: host.to_owned(), fault: fault.clone() },
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsError::NotTls,
        Error::AlertReceived(
            alert @ (AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => TlsError::Refused(TlsRefusal { alert: *alert, has_certificate }),
        other => TlsError::Protocol(other.clone()),
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
            "the certificate of {host} comes from an authority that is not known here: name its file with `tls.ca` (--cacert), or `tls.insecure: true` (--insecure) takes any certificate"
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => format!(
            "the certificate of {host} is self-signed and not known here: name its file with `tls.ca` (--cacert), or `tls.insecure: true` (--insecure) takes any certificate"
        ),
        other => format!("the certificate of {host} is not good: {other}"),
    }
}

/// `DnsName("a.example")` → `a.example`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"').to_owned()
}
