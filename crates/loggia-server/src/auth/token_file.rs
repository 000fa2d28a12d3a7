//! Bearer tokens from a file that only its owner can read.
//!
//! Tokens are kept as SHA-256 digests and compared in constant time, all of them for each request, so that the
//! time shows neither the position of a wrong byte nor which token matched (A10). The text of a token is
//! never stored, printed or logged.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use axum::http::request::Parts;
use futures::FutureExt;
use futures::future::BoxFuture;
use subtle::ConstantTimeEq;

use super::scheme::{CredentialCheck, Scheme};
use super::scope::Scopes;
use super::secret::{Secret, position};
use super::{Principal, bearer};

const SHORTEST: usize = 16;
const LONGEST: usize = 4_096;
const LARGEST_FILE: u64 = 64 * 1024;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("the token file {path} cannot be read: {error}")]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("the token file {0} is not a regular file: name the file itself, not a link")]
    NotAFile(PathBuf),
    #[error("others may read the token file {path} (mode {mode:03o}): run `chmod 600 {path}`")]
    Open { path: PathBuf, mode: u32 },
    #[error("the token file {0} is owned by another user: use a file that you own")]
    Foreign(PathBuf),
    #[error("the token file {path}, line {line}: {why}")]
    Line { path: PathBuf, line: usize, why: &'static str },
    #[error(
        "the token file {0} holds no token: write one a line, for example from `openssl rand -hex 32`"
    )]
    Empty(PathBuf),
}

/// The tokens of a file: one a line, as `TOKEN` or `NAME:TOKEN`; lines that begin with `#` are
/// comments.
pub struct TokenFile {
    tokens: Vec<Token>,
}

struct Token {
    name: String,
    digest: [u8; 32],
}

impl TokenFile {
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = read_private(path)?;
        let mut tokens: Vec<Token> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let wrong = |why| TokenFileError::Line { path: path.to_owned(), line: number, why };
            let token = Token::parse(line, number).map_err(wrong)?;
            if tokens.iter().any(|known| known.name == token.name) {
                return Err(wrong("the name is taken by an earlier line: choose another"));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            return Err(TokenFileError::Empty(path.to_owned()));
        }
        Ok(Self { tokens })
    }

    /// The name of the token, if it is in the file.
    fn find(&self, presented: &Secret) -> Option<&str> {
        let presented = presented.digest();
        let found = position(self.tokens.iter().map(|token| token.digest.ct_eq(&presented)))?;
        self.tokens.get(found).map(|token| token.name.as_str())
    }
}

impl Token {
    fn parse(line: &str, number: usize) -> Result<Self, &'static str> {
        let (name, text) = match line.split_once(':') {
            Some((name, text)) => (name.to_owned(), text),
            None => (number.to_string(), line),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err("a name has 1 to 64 letters, digits, `-`, `_` or `.`");
        }
        if text.len() < SHORTEST {
            return Err("a token has at least 16 characters: try `openssl rand -hex 32`");
        }
        if text.len() > LONGEST || !is_bearer(text) {
            return Err("a token has at most 4096 letters, digits or `-._~+/=`, without spaces");
        }
        Ok(Self { name, digest: Secret::new(text.to_owned()).digest() })
    }
}

/// The characters that RFC 6750 allows in a bearer token.
fn is_bearer(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

/// Checks the descriptor that it reads from, so that the file cannot be replaced in between.
fn read_private(path: &Path) -> Result<String, TokenFileError> {
    let unreadable = |error| TokenFileError::Unreadable { path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    let nofollow = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = match options.read(true).custom_flags(nofollow.bits()).open(path) {
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Err(TokenFileError::NotAFile(path.to_owned()));
        }
        other => other.map_err(unreadable)?,
    };
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(TokenFileError::NotAFile(path.to_owned()));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(TokenFileError::Open { path: path.to_owned(), mode });
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(TokenFileError::Foreign(path.to_owned()));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(unreadable(std::io::ErrorKind::FileTooLarge.into()));
    }
    let mut text = String::new();
    file.take(LARGEST_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

impl Scheme for TokenFile {
    fn check<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, CredentialCheck> {
        let principal = self.principal(request);
        std::future::ready(principal.map_or(CredentialCheck::Unknown, CredentialCheck::Accepted))
            .boxed()
    }

    fn has_guessable_credentials(&self) -> bool {
        true
    }
}

impl TokenFile {
    fn principal(&self, request: &Parts) -> Option<Principal> {
        let name = self.find(&Secret::new(bearer(request)?.to_owned()))?;
        Some(Principal::new(format!("token:{name}")).may(Scopes::CLIENT))
    }
}
