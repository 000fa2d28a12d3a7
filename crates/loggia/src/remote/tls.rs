//! The encrypted way to a session elsewhere: which provider, and whom it believes.
//!
//! What the system believes, believes Loggia: its certificate store or, on Linux, what
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` name instead. There is no switch that believes everybody.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, Error};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_tungstenite::{Connector, tungstenite};

use super::AttachError;

/// Blocks on the file system: the certificates are read here, once.
pub(super) fn connector() -> Result<Connector, AttachError> {
    let failed = |error: Error| {
        let why = format!("the system's certificates cannot be used: {error}");
        AttachError::Failed(why)
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_platform_verifier()
        .map_err(failed)?
        .with_no_client_auth();
    // A WebSocket is asked for in HTTP/1.1, whatever else is spoken there.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Connector::Rustls(Arc::new(config)))
}

/// Why a connection was not made, with a next step where the other side is not believed.
pub(super) fn explain(error: &tungstenite::Error) -> String {
    match cause(error) {
        Some(Error::InvalidCertificate(why)) => format!(
            "its certificate is not trusted here ({why}): add its authority to the system's, or name \
             a file of authorities in SSL_CERT_FILE"
        ),
        Some(Error::InvalidMessage(_)) => {
            format!("it does not speak TLS there ({error}): try http://")
        }
        _ => error.to_string(),
    }
}

/// What rustls says, however deep it is wrapped.
fn cause(error: &tungstenite::Error) -> Option<&Error> {
    match error {
        tungstenite::Error::Io(error) => error.get_ref()?.downcast_ref(),
        tungstenite::Error::Tls(tungstenite::error::TlsError::Rustls(error)) => Some(error),
        _ => None,
    }
}
