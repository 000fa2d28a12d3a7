//! The Messages API.

use serde_json::Value;

use super::{HttpCall, Response, Route, Vendor};
use crate::script::{Answer, Asked};

pub struct Anthropic;

impl Vendor for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn route(&self, _call: &HttpCall) -> Route {
        Route::Now(Response::new(404, Value::Null))
    }

    fn events(&self, _asked: &Asked, _answer: &Answer) -> Vec<String> {
        Vec::new()
    }

    fn whole(&self, _asked: &Asked, _answer: &Answer) -> Value {
        Value::Null
    }

    fn error(&self, _name: &str, _retry_after_ms: Option<u64>) -> Response {
        Response::new(500, Value::Null)
    }

    fn error_event(&self, _name: &str) -> String {
        String::new()
    }
}
