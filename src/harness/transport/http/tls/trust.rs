//! The trusted authorities, the client's certificate, and their files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use base::files::read_bytes_up_to;

/// What is wrong with the files of `tls`. `option` is the key that names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    #[error("{option}: {} cannot be read: {source}", file.display())]
    Read { option: &'static str, file: PathBuf, source: pem::Error },
    #[error("{option}: {} cannot be read: {source}", file.display())]
    ReadKey { option: &'static str, file: PathBuf, source: std::io::Error },
    #[error("{option}: {} has no certificate in PEM (-----BEGIN CERTIFICATE-----)", file.display())]
    NoPemCertificate { option: &'static str, file: PathBuf },
    #[error("{option}: {} has no private key in PEM (-----BEGIN PRIVATE KEY-----)", file.display())]
    NoPemKey { option: &'static str, file: PathBuf },
    #[error("tls.ca: no certificate in {} can be used", file.display())]
    NoUsableAuthority { file: PathBuf },
    #[error("this machine knows no certificate authorities: install `ca-certificates`, or name a file with `tls.ca`")]
    NoAuthorities,
    #[error("{0}")]
    Verifier(#[source] VerifierBuilderError),
    #[error("tls.client_cert needs its tls.client_key")]
    NoKey,
    #[error("tls.client_key needs its tls.client_cert")]
    NoCertificate,
}

/// Authorities of a file, or those that this machine trusts.
pub(super) fn trusted(
    ca: Option<&Path>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let mut pinned = Vec::new();
    if let Some(file) = ca {
        pinned = certificates("tls.ca", file)?;
        roots.add_parsable_certificates(pinned.iter().cloned());
        if roots.is_empty() {
            return Err(TlsFileError::NoUsableAuthority { file: file.to_owned() });
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(TlsFileError::NoAuthorities);
        }
    }
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(TlsFileError::Verifier)?;
    Ok(Arc::new(NamedCertificates { inner, pinned }))
}

/// Bytes of the largest file of certificates that is read; those of all known authorities take a quarter of one MiB.
const MOST_PEM_BYTES: u64 = 16 << 20;

/// `option` is the key that names the file.
pub(super) fn certificates(option: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let found = read_bytes_up_to(file, MOST_PEM_BYTES)
        .map_err(pem::Error::Io)
        .and_then(|bytes| CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>());
    match found {
        Ok(all) if all.is_empty() => Err(TlsFileError::NoPemCertificate { option, file: file.to_owned() }),
        Ok(all) => Ok(all),
        Err(source) => Err(TlsFileError::Read { option, file: file.to_owned(), source }),
    }
}

/// Errors never show the content of the file.
pub(super) fn private_key(option: &'static str, file: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let bytes = read_bytes_up_to(file, MOST_PEM_BYTES).map_err(pem::Error::Io);
    bytes.and_then(|bytes| PrivateKeyDer::from_pem_slice(&bytes)).map_err(|error| {
        let file = file.to_owned();
        match error {
            pem::Error::Io(source) => TlsFileError::ReadKey { option, file, source },
            _ => TlsFileError::NoPemKey { option, file },
        }
    })
}

/// As browsers check, and a certificate that was itself named in `tls.ca`, as self-signed ones are.
#[derive(Debug)]
struct NamedCertificates {
    inner: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.inner.verify_server_cert(end, between, name, ocsp, now) {
            // `openssl req -x509` makes a certificate that calls itself an authority. Its time was checked before this.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if other.to_string().contains("CaUsedAsEndEntity") && self.pinned.contains(end) =>
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
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// `insecure`: any server certificate is accepted.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
