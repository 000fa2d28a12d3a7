//! The providers that need no configuration, as data: addresses and names of variables.
//!
//! Not here: reading the variables.

use super::Kind;

/// The header that carries a key: `bearer`, or the header's name.
pub const BEARER: &str = "bearer";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    pub name: &'static str,
    pub kind: Kind,
    /// Of Chat Completions.
    pub dialect: &'static str,
    /// None: only the user knows it.
    pub base_url: Option<&'static str>,
    pub url_variable: Option<&'static str>,
    /// The variables with a key, each with its header. The first one that is set counts.
    pub key_variables: &'static [(&'static str, &'static str)],
    pub needs_key: bool,
    /// Variables whose value is a header.
    pub header_variables: &'static [(&'static str, &'static str)],
    /// A variable with headers, one in each line.
    pub headers_variable: Option<&'static str>,
    /// The model of a person with a key for this provider who did not choose a model.
    pub default_model: Option<&'static str>,
}

const CHAT: BuiltIn = BuiltIn {
    name: "",
    kind: Kind::Chat,
    dialect: "generic",
    base_url: None,
    url_variable: None,
    key_variables: &[],
    needs_key: true,
    header_variables: &[],
    headers_variable: None,
    default_model: None,
};

/// A server on this machine.
const LOCAL: BuiltIn = BuiltIn { needs_key: false, ..CHAT };

/// In the order in which their keys choose the default model.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "anthropic",
        kind: Kind::Anthropic,
        base_url: Some("https://api.anthropic.com"),
        url_variable: Some("ANTHROPIC_BASE_URL"),
        key_variables: &[("ANTHROPIC_API_KEY", "x-api-key"), ("ANTHROPIC_AUTH_TOKEN", BEARER)],
        headers_variable: Some("ANTHROPIC_CUSTOM_HEADERS"),
        default_model: Some("claude-opus-5-5"),
        ..CHAT
    },
    BuiltIn {
        name: "openai",
        kind: Kind::Openai,
        base_url: Some("https://api.openai.com/v1"),
        url_variable: Some("OPENAI_BASE_URL"),
        key_variables: &[("OPENAI_API_KEY", BEARER)],
        header_variables: &[
            ("OPENAI_ORG_ID", "openai-organization"),
            ("OPENAI_PROJECT_ID", "openai-project"),
        ],
        headers_variable: Some("OPENAI_CUSTOM_HEADERS"),
        default_model: Some("gpt-6.1-sol"),
        ..CHAT
    },
    BuiltIn {
        name: "gemini",
        kind: Kind::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com"),
        url_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        key_variables: &[
            ("GEMINI_API_KEY", "x-goog-api-key"),
            ("GOOGLE_API_KEY", "x-goog-api-key"),
        ],
        default_model: Some("gemini-3.8-flash"),
        ..CHAT
    },
    BuiltIn {
        name: "deepseek",
        dialect: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        key_variables: &[("DEEPSEEK_API_KEY", BEARER)],
        ..CHAT
    },
    BuiltIn {
        name: "openrouter",
        dialect: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variables: &[("OPENROUTER_API_KEY", BEARER)],
        ..CHAT
    },
    BuiltIn {
        name: "qwen",
        dialect: "qwen",
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        key_variables: &[("DASHSCOPE_API_KEY", BEARER)],
        ..CHAT
    },
    BuiltIn {
        name: "azure",
        dialect: "azure",
        url_variable: Some("AZURE_OPENAI_ENDPOINT"),
        key_variables: &[("AZURE_OPENAI_API_KEY", "api-key")],
        ..CHAT
    },
    BuiltIn {
        name: "litellm",
        dialect: "litellm",
        base_url: Some("http://127.0.0.1:4000"),
        url_variable: Some("LITELLM_BASE_URL"),
        key_variables: &[("LITELLM_API_KEY", BEARER)],
        ..LOCAL
    },
    BuiltIn {
        name: "ollama",
        kind: Kind::Ollama,
        base_url: Some("http://127.0.0.1:11434"),
        url_variable: Some("OLLAMA_HOST"),
        key_variables: &[("OLLAMA_API_KEY", BEARER)],
        ..LOCAL
    },
    BuiltIn {
        name: "llamacpp",
        dialect: "llamacpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        url_variable: Some("LLAMACPP_BASE_URL"),
        key_variables: &[("LLAMA_API_KEY", BEARER)],
        ..LOCAL
    },
    BuiltIn {
        name: "vllm",
        dialect: "vllm",
        base_url: Some("http://127.0.0.1:8000/v1"),
        url_variable: Some("VLLM_BASE_URL"),
        key_variables: &[("VLLM_API_KEY", BEARER)],
        ..LOCAL
    },
    BuiltIn {
        name: "sglang",
        dialect: "sglang",
        base_url: Some("http://127.0.0.1:30000/v1"),
        url_variable: Some("SGLANG_BASE_URL"),
        key_variables: &[("SGLANG_API_KEY", BEARER)],
        ..LOCAL
    },
];

pub fn built_in(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}

/// The variables that hold keys or headers of built-in providers. No command may get them.
pub fn secret_variables() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().flat_map(|built_in| {
        let keys = built_in.key_variables.iter().map(|(variable, _)| *variable);
        keys.chain(built_in.headers_variable)
    })
}

impl BuiltIn {
    /// The base URL that the value of `url_variable` means.
    pub fn url(&self, value: &str) -> String {
        let value = value.trim().trim_end_matches('/');
        match self.name {
            "azure" if !value.contains("/openai") => format!("{value}/openai/v1"),
            "ollama" => ollama_url(value),
            _ => value.to_owned(),
        }
    }
}

/// `host`, `host:port`, `:port` or a URL. The address on which a server listens for everybody is this
/// machine for a client.
fn ollama_url(value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let port = match (authority.rsplit_once(':'), scheme) {
        (Some((_, port)), _) if port.parse::<u16>().is_ok() => Some(port),
        (_, "https") => Some("443"),
        (_, _) if value.contains("://") => Some("80"),
        (_, _) => None,
    };
    let host = match port.and_then(|port| authority.strip_suffix(port)) {
        Some(host) => host.trim_end_matches(':'),
        None => authority,
    };
    let host = if matches!(host, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { host };
    format!("{scheme}://{host}:{}{path}", port.unwrap_or("11434"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_with_addresses_become_base_urls() {
        let check = |name: &str, value: &str, wanted: &str| {
            assert_eq!(built_in(name).unwrap().url(value), wanted, "{name} {value}");
        };
        check("ollama", "127.0.0.1", "http://127.0.0.1:11434");
        check("ollama", "0.0.0.0:8000", "http://127.0.0.1:8000");
        check("ollama", ":8000", "http://127.0.0.1:8000");
        check("ollama", "box", "http://box:11434");
        check("ollama", "http://box:1/", "http://box:1");
        check("ollama", "https://box/path", "https://box:443/path");
        check("ollama", "[::1]:5", "http://[::1]:5");
        check("azure", "https://r.openai.azure.com/", "https://r.openai.azure.com/openai/v1");
        check("azure", "https://r.x/openai/v1/", "https://r.x/openai/v1");
        check("openai", "http://127.0.0.1:1/v1/", "http://127.0.0.1:1/v1");
    }

    #[test]
    fn every_dialect_is_known() {
        for built_in in BUILT_IN.iter().filter(|built_in| built_in.kind == Kind::Chat) {
            assert!(crate::chat::dialect(built_in.dialect).is_some(), "{}", built_in.name);
        }
    }
}
