//! The vendor's errors, as `google.rpc.Status`.

use serde_json::{Value, json};

use crate::vendor::Response;

pub struct Refusal {
    code: u16,
    status: &'static str,
    message: String,
    details: Vec<Value>,
}

impl Refusal {
    fn new(code: u16, status: &'static str, message: impl Into<String>) -> Self {
        Self { code, status, message: message.into(), details: Vec::new() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    pub fn unknown_field(name: &str, place: &str) -> Self {
        let place = if place.is_empty() { String::new() } else { format!(" at '{place}'") };
        Self::invalid(format!(
            "Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."
        ))
    }

    pub fn no_such_page() -> Self {
        Self::new(404, "NOT_FOUND", "Requested entity was not found.")
    }

    pub fn no_key() -> Self {
        Self::new(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers (callers without established identity). \
             Please use API Key or other form of API consumer identity to call this API.",
        )
    }

    pub fn unknown_model(model: &str, version: &str, method: &str) -> Self {
        let message = format!(
            "models/{model} is not found for API version {version}, or is not supported for \
             {method}. Call ListModels to see the list of available models and their supported \
             methods."
        );
        Self::new(404, "NOT_FOUND", message)
    }

    pub fn body(&self) -> Value {
        let mut error = json!({
            "code": self.code, "message": self.message, "status": self.status,
        });
        if !self.details.is_empty() {
            error["details"] = self.details.clone().into();
        }
        json!({ "error": error })
    }

    pub fn response(&self) -> Response {
        Response::new(self.code, self.body())
    }
}

/// The error with this name (see [`crate::Fault`]).
pub fn by_name(name: &str, retry_after_ms: Option<u64>) -> Refusal {
    match name {
        "rate_limit" => quota("GenerateRequestsPerMinutePerProjectPerModel", 10, retry_after_ms),
        "quota" => quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", 250, retry_after_ms),
        "overloaded" => {
            Refusal::new(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
        }
        "bad_key" => bad_key(),
        "unknown_model" => Refusal::unknown_model("gemini-0", "v1beta", "generateContent"),
        "too_long" => Refusal::invalid(
            "The input token count (1048577) exceeds the maximum number of tokens allowed \
             (1048576).",
        ),
        "history" => Refusal::invalid("Corrupted thought signature."),
        _ => Refusal::new(
            500,
            "INTERNAL",
            "An internal error has occurred. Please retry or report in \
             https://developers.generativeai.google/guide/troubleshooting",
        ),
    }
}

fn bad_key() -> Refusal {
    let details = vec![
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": { "service": "generativelanguage.googleapis.com" },
        }),
        json!({
            "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
            "locale": "en-US",
            "message": "API key not valid. Please pass a valid API key.",
        }),
    ];
    Refusal { details, ..Refusal::invalid("API key not valid. Please pass a valid API key.") }
}

fn quota(id: &str, limit: u32, retry_after_ms: Option<u64>) -> Refusal {
    let metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests";
    let mut message = format!(
        "You exceeded your current quota, please check your plan and billing details. For more \
         information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n\
         * Quota exceeded for metric: {metric}, limit: {limit}, model: gemini-2.5-flash"
    );
    let mut details = vec![
        json!({
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{
                "description": "Learn more about Gemini API quotas",
                "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
            }],
        }),
        json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": metric,
                "quotaId": id,
                "quotaDimensions": { "location": "global", "model": "gemini-2.5-flash" },
                "quotaValue": limit.to_string(),
            }],
        }),
    ];
    if let Some(millis) = retry_after_ms {
        let (seconds, millis) = (millis / 1000, millis % 1000);
        message.push_str(&format!("\nPlease retry in {seconds}.{millis:03}s."));
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{seconds}.{millis:03}s"),
        }));
    }
    Refusal { details, ..Refusal::new(429, "RESOURCE_EXHAUSTED", message) }
}
