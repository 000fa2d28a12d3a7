//! Web pages of the origins that the operator allowed: what a browser has to be told before it lets
//! them ask, and read what they are answered.
//!
//! Exactly these origins, one at a time and never all. A page proves itself by a header that it sets
//! itself, so nothing is ever said about cookies, which browsers would send unasked.

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
/// What clients of the bindings send.
const SENT: &str = "Authorization, Content-Type, A2A-Version, A2A-Extensions, X-A2A-Extensions, \
                    Last-Event-ID, If-None-Match";
/// What they read of an answer, beyond what browsers show to everybody.
const READ: &str = "A2A-Version, A2A-Extensions, ETag, Retry-After, WWW-Authenticate, \
                    X-Next-Page-Token";
/// Seconds that a browser may remember what it was told.
const REMEMBERED: u32 = 600;

/// What the answer to a request tells a browser.
pub(crate) enum Pages {
    /// There are no such origins: nothing.
    None,
    /// That another origin could be answered differently.
    Others,
    /// That the page it came from may read it.
    Allowed(HeaderValue),
}

/// An origin as browsers write it: no path, and no port that the scheme has anyway.
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
    /// A request under a name that is not ours gets none of this, whatever page it came from.
    pub(crate) fn pages(&self, request: &Parts) -> Pages {
        if self.allowed_origins.is_empty() {
            return Pages::None;
        }
        let mut origins = request.headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None)
                if self.allows_page(origin) && self.check_host(request).is_ok() =>
            {
                Pages::Allowed(origin.clone())
            }
            _ => Pages::Others,
        }
    }

    fn allows_page(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().map(str::to_ascii_lowercase);
        origin.is_ok_and(|origin| self.allowed_origins.contains(&origin))
    }
}

impl Pages {
    /// The answer to a browser that asks whether an allowed page may ask. Nobody has to prove anything
    /// for it: browsers send no credentials here, and nothing is done.
    pub(crate) fn preflight(&self, request: &Parts) -> Option<Response> {
        let asks = request.method == Method::OPTIONS
            && request.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let Pages::Allowed(_) = self else { return None };
        asks.then(|| {
            let headers = [
                (ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS)),
                (ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(SENT)),
                (ACCESS_CONTROL_MAX_AGE, HeaderValue::from(REMEMBERED)),
            ];
            (StatusCode::NO_CONTENT, headers).into_response()
        })
    }

    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        match self {
            Pages::None => return,
            Pages::Others => {}
            Pages::Allowed(origin) => {
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
