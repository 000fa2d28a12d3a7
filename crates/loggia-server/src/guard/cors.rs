//! CORS: lets web pages of the origins that the operator allowed send requests and read the answers.
//!
//! An answer names one origin and never all. Web pages authenticate by a header that they set themselves,
//! so cookies, which browsers send by themselves, are never allowed.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{Guard, HostPort};

const METHODS: &str = "GET, POST, DELETE";
/// Request headers of the bindings.
const SENT: &str = "Authorization, Content-Type, A2A-Version, A2A-Extensions, X-A2A-Extensions, \
                    Last-Event-ID, If-None-Match";
/// Answer headers that pages may read.
const READ: &str = "A2A-Version, A2A-Extensions, ETag, Retry-After, WWW-Authenticate, \
                    X-Next-Page-Token";
/// Seconds that a browser may cache a preflight answer.
const MAX_AGE: u32 = 600;

/// The CORS headers of an answer.
pub(crate) enum CorsHeaders {
    /// None, because no origin is allowed.
    None,
    /// Only `Vary`: another origin would get another answer.
    Others,
    /// The page of this origin may read the answer.
    Allowed(HeaderValue),
}

/// An origin as browsers write it: without a path and without the scheme's default port.
pub fn read_origin(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (scheme, host) = text.split_once("://")?;
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let host = HostPort::parse(host)?;
    let plausible = !scheme.is_empty() && scheme.bytes().all(letters);
    let written = plausible && (host.port.is_none() || host.port != usual);
    written.then(|| format!("{scheme}://{host}"))
}

impl Guard {
    /// A request for a host that is not ours is never allowed.
    pub(crate) fn cors_headers(&self, request: &Parts) -> CorsHeaders {
        if self.allowed_origins.is_empty() {
            return CorsHeaders::None;
        }
        let mut origins = request.headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None)
                if self.allows_page(origin) && self.check_host(request).is_ok() =>
            {
                CorsHeaders::Allowed(origin.clone())
            }
            _ => CorsHeaders::Others,
        }
    }

    fn allows_page(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().map(str::to_ascii_lowercase);
        origin.is_ok_and(|origin| self.allowed_origins.contains(&origin))
    }
}

impl CorsHeaders {
    /// The answer to a preflight request of an allowed page. It needs no authentication: browsers send no
    /// credentials with it, and it changes nothing.
    pub(crate) fn preflight(&self, request: &Parts) -> Option<Response> {
        let asks = request.method == Method::OPTIONS
            && request.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let CorsHeaders::Allowed(_) = self else { return None };
        asks.then(|| {
            let headers = [
                (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS)),
                (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT)),
                (ACCESS_CONTROL_MAX_AGE, HeaderValue::from(MAX_AGE)),
            ];
            (StatusCode::NO_CONTENT, headers).into_response()
        })
    }

    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        match self {
            CorsHeaders::None => return,
            CorsHeaders::Others => {}
            CorsHeaders::Allowed(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
            }
        }
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_browsers_write_them() {
        let rows = [
            ("https://console.example", Some("https://console.example")),
            ("HTTPS://Console.Example:8443", Some("https://console.example:8443")),
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("http://[::1]:3000", Some("http://[::1]:3000")),
            ("chrome-extension://abcdef", Some("chrome-extension://abcdef")),
            ("*", None),
            ("https://*", None),
            ("https://*.example", None),
            ("null", None),
            ("", None),
            ("console.example", None),
            ("://console.example", None),
            ("https://", None),
            ("https://console.example/", None),
            ("https://console.example/app", None),
            ("https://console.example:443", None),
            ("http://console.example:80", None),
            ("https://user@console.example", None),
            ("https://a.example, https://b.example", None),
        ];
        for (text, wanted) in rows {
            assert_eq!(read_origin(text).as_deref(), wanted, "{text}");
        }
    }
}
