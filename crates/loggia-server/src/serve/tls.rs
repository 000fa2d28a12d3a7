//! The server's certificate and key: read, checked, used for every handshake, and read again when the files change.
//!
//! A pair that cannot be used is an error with the file's name and a next step, before the server listens. If a later pair
//! cannot be used, the one in use stays. For addresses see `listen`, for the protocols inside TLS see `connection`.

mod validity;

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;

use validity::Validity;

/// How often the files are checked. A change is read at the second check that finds it the same, so that two files that
/// are replaced one after the other are never read in between.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// A longer file is not a certificate.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the server's certificate first, then its chain.
    pub certificate: PathBuf,
    /// PEM: PKCS#8, SEC1 or PKCS#1, without a passphrase.
    pub key: PathBuf,
}

/// Why files cannot be used: a sentence with the file's name.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// A certificate in use. Clones share it, also after a change.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    /// The files as they were before they were read.
    read: Stamp,
}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The pair for the next handshake.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// Blocks on the file system.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let read = Stamp::of(&files);
        let (key, _) = certified(&files)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| TlsError(format!("TLS cannot be used here: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { files, current, config: Arc::new(config), read })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// Checks the files while it is polled, and reports each change or its error.
    pub async fn watch(self, mut report: impl FnMut(Result<String, TlsError>)) {
        let mut watched = Watched { judged: self.read.clone(), last: self.read.clone() };
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let files = self.files.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let changed = watched.look(Stamp::of(&files)).then(|| certified(&files));
                (watched, changed)
            });
            // A panic was reported where it happened.
            let Ok((after, changed)) = looked.await else { return };
            watched = after;
            let Some(changed) = changed else { continue };
            report(changed.map(|(key, validity)| self.exchange(key, &validity)));
        }
    }

    fn exchange(&self, key: CertifiedKey, validity: &Validity) -> String {
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        let path = self.files.certificate.display();
        format!("the certificate {path} was read again; it is valid until {} UTC", validity.until)
    }
}

/// The metadata of both files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp([Option<[i64; 7]>; 2]);

impl Stamp {
    fn of(files: &TlsFiles) -> Self {
        let stamp = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            Some([
                whole(found.dev()),
                whole(found.ino()),
                whole(found.len()),
                found.mtime(),
                found.mtime_nsec(),
                found.ctime(),
                found.ctime_nsec(),
            ])
        };
        Self([stamp(&files.certificate), stamp(&files.key)])
    }
}

struct Watched {
    /// The files when they were read last, usable or not.
    judged: Stamp,
    last: Stamp,
}

impl Watched {
    /// Whether to read now: the files have changed since they were read, and not since the last check.
    fn look(&mut self, now: Stamp) -> bool {
        let settled = now == self.last;
        let read = settled && now != self.judged;
        if read {
            self.judged = now.clone();
        }
        self.last = now;
        read
    }
}

fn certified(files: &TlsFiles) -> Result<(CertifiedKey, Validity), TlsError> {
    let chain = chain(&files.certificate)?;
    let validity = validity(&files.certificate, &chain)?;
    let key = key(&files.key)?;
    let (certificate, path) = (files.certificate.display(), files.key.display());
    let made = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    let key = made.map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError(format!(
            "the key {path} does not belong to the first certificate of {certificate}: name the two \
             that were made together, and put the server's own certificate before its authority's"
        )),
        rustls::Error::InvalidCertificate(why) => {
            TlsError(format!("the certificate {certificate} cannot be used: {why}"))
        }
        error => TlsError(format!("the key {path} cannot be used: {error}")),
    })?;
    Ok((key, validity))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let named = format!("the certificate {}", path.display());
    let (bytes, _) = read(path, &named)?;
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| broken(&named, &error))?;
    match (chain.is_empty(), PrivateKeyDer::from_pem_slice(&bytes).is_ok()) {
        (false, _) => Ok(chain),
        (true, true) => {
            Err(TlsError(format!("{named} is a key: are --tls-cert and --tls-key swapped?")))
        }
        (true, false) => Err(TlsError(format!(
            "{named} holds no certificate: it has to be PEM, with -----BEGIN CERTIFICATE-----"
        ))),
    }
}

/// The validity of the server's own certificate, which must be valid now.
fn validity(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Validity, TlsError> {
    let path = path.display();
    let own = chain.first().and_then(|own| Validity::of(own));
    let own = own.ok_or_else(|| {
        TlsError(format!("the certificate {path} cannot be used: it is not an X.509 certificate"))
    })?;
    let now = Timestamp::now().to_zoned(TimeZone::UTC).datetime();
    if now > own.until {
        let until = own.until;
        return Err(TlsError(format!("the certificate {path} expired on {until} UTC: renew it")));
    }
    if now < own.from {
        let from = own.from;
        return Err(TlsError(format!(
            "the certificate {path} is not valid before {from} UTC: is this machine's clock right?"
        )));
    }
    Ok(own)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let named = format!("the key {}", path.display());
    let (bytes, metadata) = read(path, &named)?;
    is_private(&metadata, &named, path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let text = String::from_utf8_lossy(&bytes);
            let why = match text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
                true => {
                    "needs a passphrase, which nobody can be asked for: keep it without one, from \
                     `openssl pkey -in ENCRYPTED -out KEY`"
                }
                false if text.contains("BEGIN CERTIFICATE") => {
                    "is a certificate: are --tls-cert and --tls-key swapped?"
                }
                false => "holds no key: it has to be PEM, in PKCS#8, SEC1 or PKCS#1",
            };
            TlsError(format!("{named} {why}"))
        }
        error => broken(&named, &error),
    })
}

/// Like ssh, with one exception: a key of root may be readable by a group, because systems share keys among servers that
/// way.
fn is_private(metadata: &Metadata, named: &str, path: &Path) -> Result<(), TlsError> {
    let mode = metadata.mode() & 0o777;
    let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    let open = match (ours, metadata.uid()) {
        (false, 0) => mode & 0o037 != 0,
        (true, _) => mode & 0o077 != 0,
        (false, _) => {
            return Err(TlsError(format!(
                "{named} is owned by another user: use a file that you own"
            )));
        }
    };
    if open {
        let path = path.display();
        let sentence = format!("others may use {named} (mode {mode:03o}): run `chmod 600 {path}`");
        return Err(TlsError(sentence));
    }
    Ok(())
}

/// Checks and reads through one descriptor. Links are followed, because tools that renew certificates use them.
fn read(path: &Path, named: &str) -> Result<(Vec<u8>, Metadata), TlsError> {
    let cannot = |error: std::io::Error| TlsError(format!("{named} cannot be read: {error}"));
    let mut options = OpenOptions::new();
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file: File = options.read(true).custom_flags(flags).open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(TlsError(format!("{named} is not a regular file")));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(TlsError(format!("{named} is larger than {LARGEST_FILE} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(cannot)?;
    Ok((bytes, metadata))
}

/// The library's message could show bytes of a key, so only the kind of error is told.
fn broken(named: &str, error: &pem::Error) -> TlsError {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "its last part has no end",
        pem::Error::IllegalSectionStart { .. } => "a line with -----BEGIN is broken",
        _ => "it is not base64 between -----BEGIN and -----END",
    };
    TlsError(format!("{named} is not valid PEM: {why}"))
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
