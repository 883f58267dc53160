//! A real TLS server on this machine: it ends TLS before a scripted HTTP server, with a certificate made for the test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use regatta::spec::Tls;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::openai::script::{Scripted, good};

/// An authority of our own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub struct Identity {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For a name or an address.
    pub fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Identity { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// As `openssl req -x509` makes it: its own authority.
pub fn self_signed(name: &str) -> Identity {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    Identity { cert: cert.pem(), key: key.serialize_pem() }
}

pub struct Secure {
    pub address: SocketAddr,
    pub behind: Scripted,
    _runtime: tokio::runtime::Runtime,
}

impl Secure {
    /// `client_authority` wants certificates of clients that this authority issued.
    pub fn start(identity: &Identity, client_authority: Option<&Authority>) -> Self {
        let behind = Scripted::start(|_| vec![crate::openai::script::Do::Send(good())]);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = match client_authority {
            None => builder.unwrap().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.unwrap().with_client_cert_verifier(verifier)
            }
        };
        let chain = CertificateDer::pem_slice_iter(identity.cert.as_bytes()).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, plain) = (listener.local_addr().unwrap(), behind.address);
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut front = acceptor.accept(socket).await?;
                    let mut back = TcpStream::connect(plain).await?;
                    tokio::io::copy_bidirectional(&mut front, &mut back).await
                });
            }
        });
        Self { address, behind, _runtime: runtime }
    }
}

/// Files for the client, gone with this.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn trusting(&self, pem: &str) -> Tls {
        Tls { ca: Some(self.file("ca.pem", pem)), ..Tls::default() }
    }
}
