//! TLS for attached sessions.
//!
//! The system certificate store is used (on Linux also `SSL_CERT_FILE` and `SSL_CERT_DIR`);
//! `--ca-file` replaces it. Certificate checks cannot be disabled.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, Error, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_tungstenite::{Connector, tungstenite};

use super::AttachError;

/// Blocks while reading the certificates.
pub(super) fn connector(authorities: Option<&Path>) -> Result<Connector, AttachError> {
    let failed = |error: Error| {
        let why = format!("the system's certificates cannot be used: {error}");
        AttachError::Failed(why)
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let builder = match authorities {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None => builder.with_platform_verifier().map_err(failed)?,
    };
    let mut config = builder.with_no_client_auth();
    // WebSocket connections need HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Connector::Rustls(Arc::new(config)))
}

fn roots(path: &Path) -> Result<RootCertStore, AttachError> {
    let cannot = |why: String| AttachError::Failed(format!("--ca-file {}: {why}", path.display()));
    let found = CertificateDer::pem_file_iter(path).map_err(|error| cannot(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in found {
        let certificate = certificate.map_err(|error| cannot(error.to_string()))?;
        roots.add(certificate).map_err(|error| cannot(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(cannot("it holds no certificate; it has to be PEM".into())),
        false => Ok(roots),
    }
}

/// Describes a connection error, with a next step for an untrusted certificate.
pub(super) fn explain(error: &tungstenite::Error) -> String {
    explained_by(cause(error), error)
}

/// The same for HTTP requests.
pub(super) fn explained(error: &reqwest::Error) -> String {
    let mut last: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = last.source() {
        last = source;
    }
    explained_by(inside(error), last)
}

/// The rustls error inside another error. `source` of an I/O error skips its inner error, so that
/// one is checked separately.
fn inside<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let held = || error.downcast_ref::<std::io::Error>()?.get_ref().and_then(|held| inside(held));
    error.downcast_ref().or_else(held).or_else(|| error.source().and_then(inside))
}

fn explained_by(cause: Option<&Error>, error: impl std::fmt::Display) -> String {
    match cause {
        Some(Error::InvalidCertificate(why)) => format!(
            "its certificate is not trusted here ({why}): name its authority with --ca-file FILE, or \
             add it to the system's (SSL_CERT_FILE)"
        ),
        Some(Error::InvalidMessage(_)) => {
            format!("the server does not use TLS ({error}): try http://")
        }
        _ => error.to_string(),
    }
}

/// The rustls error inside a WebSocket error.
fn cause(error: &tungstenite::Error) -> Option<&Error> {
    match error {
        tungstenite::Error::Io(error) => error.get_ref()?.downcast_ref(),
        tungstenite::Error::Tls(tungstenite::error::TlsError::Rustls(error)) => Some(error),
        _ => None,
    }
}
