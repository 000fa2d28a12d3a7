//! Gets tokens for a device: first with a one-time code, later with the secret that came with it.
//! Both are kept in memory only.

use std::time::Duration;

use loggia_server::http::token::PAIRING;
use reqwest::StatusCode;
use serde::Deserialize;
use tokio_tungstenite::Connector;

use super::{Address, AttachError, connector, parse_url};

/// Timeout of the whole request.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a response.
const MAX_RESPONSE: usize = 16 * 1024;

/// The credentials of a paired device. No `Debug`, because they are secret.
#[derive(Clone, Deserialize)]
pub struct Registered {
    client_id: String,
    client_secret: String,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    #[serde(flatten)]
    registered: Option<Registered>,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Address {
    /// Exchanges a one-time code for a token and credentials.
    pub async fn redeem(&mut self, code: &str) -> Result<(), AttachError> {
        let device = self.name.clone().unwrap_or_else(machine);
        let form = [("grant_type", PAIRING), ("code", code), ("client_name", &device)];
        let Token { access_token, registered } = self.ask(&form).await?;
        (self.token, self.registered) = (Some(access_token), registered);
        Ok(())
    }

    /// Gets a new token with the credentials.
    pub async fn renew(&mut self) -> Result<(), AttachError> {
        let Some(Registered { client_id, client_secret }) = self.registered.clone() else {
            return Ok(());
        };
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", &client_id),
            ("client_secret", &client_secret),
        ];
        self.token = Some(self.ask(&form).await?.access_token);
        Ok(())
    }

    async fn ask(&self, form: &[(&str, &str)]) -> Result<Token, AttachError> {
        let (encrypted, rest) = parse_url(self)?;
        let scheme = if encrypted { "https" } else { "http" };
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT);
        let builder = match connector(self).await? {
            Connector::Rustls(config) => builder.tls_backend_preconfigured((*config).clone()),
            _ => builder.tls_certs_only(None),
        };
        let failed = |error: reqwest::Error| AttachError::Unreachable {
            url: self.url.clone(),
            why: super::tls::explained(&error.without_url()),
        };
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = builder
            .build()
            .map_err(failed)?
            .post(format!("{scheme}://{rest}/oauth/token"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        let mut answer = request.send().await.map_err(failed)?;
        let (status, mut body) = (answer.status(), Vec::new());
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_RESPONSE {
                return Err(AttachError::Failed("not a Loggia server".into()));
            }
        }
        match (status, serde_json::from_slice(&body)) {
            (StatusCode::OK, Ok(token)) => Ok(token),
            (status, _) => Err(refused(status, &body)),
        }
    }
}

/// The reason of a refusal, from the server if it gave one.
fn refused(status: StatusCode, body: &[u8]) -> AttachError {
    let why = match serde_json::from_slice(body) {
        Ok(Refusal { error, error_description }) => match error.as_str() {
            "unsupported_grant_type" => {
                "the server is an older version without one-time codes".to_owned()
            }
            _ if error_description.is_empty() => error,
            _ => error_description,
        },
        Err(_) => "not a Loggia server, or an old version".to_owned(),
    };
    AttachError::NotLetIn { status: status.as_u16(), why }
}

/// The host name of this machine.
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
