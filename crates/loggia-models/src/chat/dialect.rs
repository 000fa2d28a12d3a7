//! The differences between servers of Chat Completions, as data. A new server is a row here.
//!
//! Not here: code that depends on a dialect's name.

use loggia_core::Effort;
use loggia_core::Effort::{High, Low, Max, Medium, Minimal, None as NoEffort, Xhigh};

use crate::error::ModelErrorKind;
use crate::error::ModelErrorKind::{
    ContextTooLong, HistoryRejected, QuotaSpent, Refused, UnknownModel,
};

/// The differences of one kind of server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dialect {
    pub name: &'static str,
    /// The role of the instructions.
    pub system: &'static str,
    /// A user message may be a list of parts. Otherwise it is one string.
    pub parts: bool,
    /// The fields of every request, as a JSON object.
    pub body: &'static str,
    /// The fields of a request with tools.
    pub with_tools: &'static str,
    /// How a level of effort is asked for: the fields of the request. The nearest level is taken.
    pub efforts: &'static [(Effort, &'static str)],
    /// The name of the limit of a reply's tokens.
    pub max_tokens: Option<&'static str>,
    /// The name of the key by which the server caches.
    pub cache_key: Option<&'static str>,
    /// The fields with reasoning that come back in later requests. The first one that the reply has is
    /// sent, because the others repeat it.
    pub returns: &'static [&'static str],
    /// A message with calls must have this field, even if it is empty.
    pub with_calls: Option<&'static str>,
    /// The server parses the arguments of past calls, and refuses a conversation whose arguments are not
    /// JSON objects.
    pub parses_arguments: bool,
    /// Every complete stream ends with `[DONE]`. Otherwise the usage behind the finish reason ends it too.
    pub done: bool,
    pub list: List,
    /// Parts of error texts, for servers whose codes do not say enough.
    pub errors: &'static [(&'static str, ModelErrorKind)],
}

/// Where each fact is in the list of models. Paths are names with dots; the first that is there counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct List {
    pub path: &'static str,
    pub id: &'static str,
    pub window: &'static [&'static str],
    pub output: Option<&'static str>,
    /// Dollars for one token: input, output, cached input.
    pub price: Option<[&'static str; 3]>,
    /// True, or a list with `reasoning`, if the model reasons.
    pub reasons: Option<&'static str>,
}

/// The dialect with this name.
pub fn dialect(name: &str) -> Option<&'static Dialect> {
    ALL.iter().find(|dialect| dialect.name == name)
}

const STREAM: &str = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;

const LIST: List =
    List { path: "/models", id: "id", window: &[], output: None, price: None, reasons: None };

/// For servers that are not known: no field that a server may refuse, and everything back that it sent.
/// Usage is not asked for, because some gateways refuse `stream_options`.
pub const GENERIC: Dialect = Dialect {
    name: "generic",
    system: "system",
    parts: false,
    body: r#"{"stream":true}"#,
    with_tools: "{}",
    efforts: &[
        (Low, r#"{"reasoning_effort":"low"}"#),
        (Medium, r#"{"reasoning_effort":"medium"}"#),
        (High, r#"{"reasoning_effort":"high"}"#),
    ],
    max_tokens: Some("max_tokens"),
    cache_key: None,
    returns: &["reasoning_details", "thinking_blocks", "reasoning_content", "reasoning"],
    with_calls: None,
    parses_arguments: true,
    done: false,
    list: List {
        window: &[
            "max_model_len",
            "context_length",
            "context_window",
            "max_context_length",
            "meta.n_ctx",
        ],
        ..LIST
    },
    errors: &[
        ("maximum context length", ContextTooLong),
        ("context length", ContextTooLong),
        ("context size", ContextTooLong),
        ("context window", ContextTooLong),
        ("prompt is too long", ContextTooLong),
        ("maximum number of tokens", ContextTooLong),
        ("reasoning_content", HistoryRejected),
        ("`signature`", HistoryRejected),
        ("thought signature", HistoryRejected),
        ("thought_signature", HistoryRejected),
        ("insufficient balance", QuotaSpent),
        ("exceeded your current quota", QuotaSpent),
        ("model not exist", UnknownModel),
        ("not a valid model", UnknownModel),
        ("invalid model name", UnknownModel),
    ],
};

/// The effort as OpenAI names it.
const OPENAI_EFFORTS: &[(Effort, &str)] = &[
    (NoEffort, r#"{"reasoning_effort":"none"}"#),
    (Minimal, r#"{"reasoning_effort":"minimal"}"#),
    (Low, r#"{"reasoning_effort":"low"}"#),
    (Medium, r#"{"reasoning_effort":"medium"}"#),
    (High, r#"{"reasoning_effort":"high"}"#),
    (Xhigh, r#"{"reasoning_effort":"xhigh"}"#),
    (Max, r#"{"reasoning_effort":"max"}"#),
];

/// A switch of the chat template, and the level for models that have levels.
const TEMPLATE_EFFORTS: &[(Effort, &str)] = &[
    (NoEffort, r#"{"chat_template_kwargs":{"enable_thinking":false}}"#),
    (Low, r#"{"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"low"}"#),
    (Medium, r#"{"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"medium"}"#),
    (High, r#"{"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"high"}"#),
];

const OPENAI: Dialect = Dialect {
    name: "openai",
    system: "developer",
    parts: true,
    body: STREAM,
    efforts: OPENAI_EFFORTS,
    max_tokens: Some("max_completion_tokens"),
    cache_key: Some("prompt_cache_key"),
    returns: &[],
    parses_arguments: false,
    done: true,
    list: LIST,
    ..GENERIC
};

const VLLM: Dialect = Dialect {
    name: "vllm",
    parts: true,
    body: STREAM,
    efforts: TEMPLATE_EFFORTS,
    done: true,
    list: List { window: &["max_model_len"], ..LIST },
    ..GENERIC
};

/// All dialects.
pub const ALL: &[Dialect] = &[
    OPENAI,
    Dialect { name: "azure", system: "system", cache_key: None, ..OPENAI },
    Dialect {
        name: "deepseek",
        body: STREAM,
        efforts: &[
            (NoEffort, r#"{"thinking":{"type":"disabled"}}"#),
            (Minimal, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"low"}"#),
            (Low, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"low"}"#),
            (Medium, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"high"}"#),
            (High, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"high"}"#),
            (Xhigh, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"high"}"#),
            (Max, r#"{"thinking":{"type":"enabled"},"reasoning_effort":"max"}"#),
        ],
        returns: &["reasoning_content"],
        with_calls: Some("reasoning_content"),
        parses_arguments: false,
        done: true,
        list: LIST,
        ..GENERIC
    },
    Dialect {
        name: "qwen",
        parts: true,
        body: STREAM,
        with_tools: r#"{"parallel_tool_calls":true}"#,
        efforts: &[
            (NoEffort, r#"{"enable_thinking":false}"#),
            (Medium, r#"{"enable_thinking":true}"#),
        ],
        done: true,
        list: LIST,
        errors: &[
            ("range of input length", ContextTooLong),
            ("access denied, please make sure your account is in good standing", QuotaSpent),
            ("data_inspection_failed", Refused),
            ("inappropriate content", Refused),
        ],
        ..GENERIC
    },
    VLLM,
    Dialect {
        name: "sglang",
        errors: &[("longer than the model's context", ContextTooLong)],
        ..VLLM
    },
    Dialect {
        name: "llamacpp",
        with_tools: r#"{"parallel_tool_calls":true}"#,
        efforts: &[
            (NoEffort, r#"{"chat_template_kwargs":{"enable_thinking":false}}"#),
            (Low, r#"{"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"low"}}"#),
            (
                Medium,
                r#"{"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"medium"}}"#,
            ),
            (
                High,
                r#"{"chat_template_kwargs":{"enable_thinking":true,"reasoning_effort":"high"}}"#,
            ),
        ],
        list: List { window: &["meta.n_ctx"], ..LIST },
        errors: &[("context size has been exceeded", ContextTooLong)],
        ..VLLM
    },
    Dialect {
        name: "openrouter",
        parts: true,
        body: STREAM,
        efforts: &[
            (NoEffort, r#"{"reasoning":{"effort":"none"}}"#),
            (Minimal, r#"{"reasoning":{"effort":"minimal"}}"#),
            (Low, r#"{"reasoning":{"effort":"low"}}"#),
            (Medium, r#"{"reasoning":{"effort":"medium"}}"#),
            (High, r#"{"reasoning":{"effort":"high"}}"#),
            (Xhigh, r#"{"reasoning":{"effort":"xhigh"}}"#),
        ],
        // A limit counts against the credits before anything is written.
        max_tokens: None,
        returns: &["reasoning_details", "reasoning"],
        done: true,
        list: List {
            window: &["top_provider.context_length", "context_length"],
            output: Some("top_provider.max_completion_tokens"),
            price: Some(["pricing.prompt", "pricing.completion", "pricing.input_cache_read"]),
            reasons: Some("supported_parameters"),
            ..LIST
        },
        errors: &[("no endpoints found", UnknownModel)],
        ..GENERIC
    },
    Dialect {
        name: "litellm",
        parts: true,
        body: STREAM,
        efforts: OPENAI_EFFORTS,
        returns: &["thinking_blocks", "reasoning_content"],
        done: true,
        list: List {
            path: "/model/info",
            id: "model_name",
            window: &["model_info.max_input_tokens"],
            output: Some("model_info.max_output_tokens"),
            price: Some([
                "model_info.input_cost_per_token",
                "model_info.output_cost_per_token",
                "model_info.cache_read_input_token_cost",
            ]),
            reasons: Some("model_info.supports_reasoning"),
        },
        ..GENERIC
    },
    GENERIC,
];
