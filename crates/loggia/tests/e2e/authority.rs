//! A test certificate authority with server files and clients that trust it.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::driver::Machine;

pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    /// Created beside the machine's home, with a certificate for this machine.
    pub fn new(machine: &Machine) -> Self {
        let directory = machine.home().with_file_name("tls");
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        std::fs::write(directory.join("authority.pem"), root.pem()).unwrap();
        let root = root.der().clone();
        let authority = Self { directory, issuer: Issuer::new(params, key), root };
        authority.issue();
        authority
    }

    /// Replaces the certificate and key.
    pub fn issue(&self) -> CertificateDer<'static> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        names.extend(outer_address().map(|address| address.to_string()));
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.directory.join("cert.pem"), certificate.pem()).unwrap();
        let path = self.directory.join("key.pem");
        std::fs::write(&path, key.serialize_pem()).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
        certificate.der().clone()
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }

    /// The CA certificate file.
    pub fn file(&self) -> String {
        self.path("authority.pem")
    }

    /// The flags of a TLS server.
    pub fn flags(&self) -> [String; 4] {
        ["--tls-cert".into(), self.path("cert.pem"), "--tls-key".into(), self.path("key.pem")]
    }

    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::new(self.config())
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// The same for gRPC.
    pub fn client_of_http2(&self) -> Arc<ClientConfig> {
        let mut config = self.config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    pub fn web_client(&self) -> reqwest::Client {
        let root = reqwest::Certificate::from_der(&self.root).unwrap();
        reqwest::Client::builder().tls_certs_only([root]).build().unwrap()
    }
}

/// A non-loopback address of this machine, if any. Nothing is sent.
pub fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    Some(socket.local_addr().unwrap().ip())
}
