//! Every route with the requests of a stranger, which use the owner's ids as `{task}` and
//! `{context}`.

/// The requests of a stranger on a route.
pub enum Probe {
    /// Identical for all clients, without session data.
    Public,
    /// Every JSON-RPC method.
    Rpc,
    /// The methods, and following a session, on both subprotocols.
    Socket,
    /// Every method of this gRPC service: method, message.
    Grpc(&'static [(&'static str, &'static str)]),
    /// gRPC methods without sessions.
    About,
    /// Requests: method, path, body.
    Requests(&'static [Tried]),
}

pub type Tried = (&'static str, &'static str, &'static str);

/// All paths without another route: HTTP+JSON of both versions.
pub const FALLBACK: &str = "(fallback)";

const GET_TASK: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"id":"{task}"}}"#;
const CANCEL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tasks/cancel","params":{"id":"{task}"}}"#;
const RESUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tasks/resubscribe","params":{"id":"{task}"}}"#;
const CALLBACK: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tasks/pushNotification/get","params":{"id":"{task}"}}"#;
/// Opens a task of the stranger under that name, twice.
const SEND: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tasks/send","params":{"id":"{task}","message":{"role":"user","parts":[{"text":"say x"}]}}}"#;

pub const ROUTES: &[(&str, Probe)] = &[
    ("/", Probe::Rpc),
    ("/a2a", Probe::Rpc),
    ("/a2a/", Probe::Rpc),
    ("/a2a/1.0", Probe::Rpc),
    ("/a2a/1.0/", Probe::Rpc),
    ("/a2a/0.3", Probe::Rpc),
    ("/a2a/0.3/", Probe::Rpc),
    ("/ws", Probe::Socket),
    ("/oauth/token", Probe::Public),
    ("/.well-known/agent-card.json", Probe::Public),
    ("/a2a/1.0/.well-known/agent-card.json", Probe::Public),
    ("/a2a/0.3/.well-known/agent-card.json", Probe::Public),
    ("/.well-known/agent.json", Probe::Public),
    ("/agent.json", Probe::Public),
    ("/a2a/agent.json", Probe::Public),
    ("/healthz", Probe::Requests(&[("GET", "/healthz?id={task}&contextId={context}", "")])),
    (
        "/rpc",
        Probe::Requests(&[
            ("POST", "/rpc", GET_TASK),
            ("POST", "/rpc", CANCEL),
            ("POST", "/rpc", RESUBSCRIBE),
            ("POST", "/rpc", CALLBACK),
        ]),
    ),
    ("/tasks/get", Probe::Requests(&[("POST", "/tasks/get", GET_TASK)])),
    ("/tasks/cancel", Probe::Requests(&[("POST", "/tasks/cancel", CANCEL)])),
    ("/tasks/stream", Probe::Requests(&[("POST", "/tasks/stream", RESUBSCRIBE)])),
    ("/stream", Probe::Requests(&[("POST", "/stream", GET_TASK)])),
    ("/tasks/send", Probe::Requests(&[("POST", "/tasks/send", SEND)])),
    ("/a2a/tasks/get", Probe::Requests(&[("POST", "/a2a/tasks/get", GET_TASK)])),
    ("/a2a/tasks/cancel", Probe::Requests(&[("POST", "/a2a/tasks/cancel", CANCEL)])),
    ("/a2a/tasks/stream", Probe::Requests(&[("POST", "/a2a/tasks/stream", RESUBSCRIBE)])),
    ("/a2a/stream", Probe::Requests(&[("POST", "/a2a/stream", GET_TASK)])),
    ("/a2a/tasks/send", Probe::Requests(&[("POST", "/a2a/tasks/send", SEND)])),
    (
        "/tasks",
        Probe::Requests(&[
            ("GET", "/tasks?contextId={context}", ""),
            ("GET", "/tasks", ""),
            ("POST", "/tasks", r#"{"contextId":"{context}"}"#),
        ]),
    ),
    ("/tasks/metadata", Probe::Requests(&[("GET", "/tasks/metadata", "")])),
    ("/tasks/{id}/metadata", Probe::Requests(&[("GET", "/tasks/{task}/metadata", "")])),
    (
        "/message/stream",
        Probe::Requests(&[
            ("POST", "/message/stream", r#"{"taskId":"{task}","userMessage":"yes"}"#),
            (
                "POST",
                "/message/stream",
                r#"{"taskId":"{task}","userMessage":{"kind":"tool-call-confirmation","toolCallId":"call-1","approved":true}}"#,
            ),
        ]),
    ),
    (
        "/executeCommand",
        Probe::Requests(&[(
            "POST",
            "/executeCommand",
            r#"{"command":"help","contextId":"{context}"}"#,
        )]),
    ),
    ("/listCommands", Probe::Requests(&[("GET", "/listCommands?contextId={context}", "")])),
    (FALLBACK, Probe::Requests(HTTP_JSON)),
    (
        "/lf.a2a.v1.A2AService/{method}",
        Probe::Grpc(&[
            (
                "SendMessage",
                r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","parts":[{"text":"yes"}]}}"#,
            ),
            (
                "SendStreamingMessage",
                r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","parts":[{"text":"yes"}]}}"#,
            ),
            ("GetTask", r#"{"id":"{task}"}"#),
            ("ListTasks", r#"{"contextId":"{context}"}"#),
            ("CancelTask", r#"{"id":"{task}"}"#),
            ("SubscribeToTask", r#"{"id":"{task}"}"#),
            (
                "CreateTaskPushNotificationConfig",
                r#"{"taskId":"{task}","url":"https://example.com/hook"}"#,
            ),
            ("GetTaskPushNotificationConfig", r#"{"taskId":"{task}","id":"1"}"#),
            ("ListTaskPushNotificationConfigs", r#"{"taskId":"{task}"}"#),
            ("DeleteTaskPushNotificationConfig", r#"{"taskId":"{task}","id":"1"}"#),
            ("GetExtendedAgentCard", "{}"),
        ]),
    ),
    (
        "/a2a.v1.A2AService/{method}",
        Probe::Grpc(&[
            (
                "SendMessage",
                r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","content":[{"text":"yes"}]}}"#,
            ),
            (
                "SendStreamingMessage",
                r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","content":[{"text":"yes"}]}}"#,
            ),
            ("GetTask", r#"{"name":"tasks/{task}"}"#),
            ("CancelTask", r#"{"name":"tasks/{task}"}"#),
            ("TaskSubscription", r#"{"name":"tasks/{task}"}"#),
            (
                "CreateTaskPushNotificationConfig",
                r#"{"parent":"tasks/{task}","configId":"1","config":{"pushNotificationConfig":{"url":"https://example.com/hook"}}}"#,
            ),
            (
                "GetTaskPushNotificationConfig",
                r#"{"name":"tasks/{task}/pushNotificationConfigs/1"}"#,
            ),
            ("ListTaskPushNotificationConfig", r#"{"parent":"tasks/{task}"}"#),
            (
                "DeleteTaskPushNotificationConfig",
                r#"{"name":"tasks/{task}/pushNotificationConfigs/1"}"#,
            ),
            ("GetAgentCard", "{}"),
        ]),
    ),
    ("/grpc.health.v1.Health/{method}", Probe::About),
    ("/grpc.reflection.v1.ServerReflection/{method}", Probe::About),
    ("/grpc.reflection.v1alpha.ServerReflection/{method}", Probe::About),
];

/// Every method of both versions in HTTP+JSON.
pub const HTTP_JSON: &[Tried] = &[
    (
        "POST",
        "/message:send",
        r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","parts":[{"text":"yes"}]}}"#,
    ),
    (
        "POST",
        "/message:stream",
        r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","parts":[{"text":"yes"}]}}"#,
    ),
    ("GET", "/tasks/{task}", ""),
    ("GET", "/a2a/1.0/tasks?contextId={context}", ""),
    ("POST", "/tasks/{task}:cancel", "{}"),
    ("GET", "/tasks/{task}:subscribe", ""),
    ("POST", "/tasks/{task}:subscribe", "{}"),
    ("POST", "/tasks/{task}/pushNotificationConfigs", r#"{"url":"https://example.com/hook"}"#),
    ("GET", "/tasks/{task}/pushNotificationConfigs", ""),
    ("GET", "/tasks/{task}/pushNotificationConfigs/1", ""),
    ("DELETE", "/tasks/{task}/pushNotificationConfigs/1", ""),
    ("GET", "/extendedAgentCard", ""),
    (
        "POST",
        "/v1/message:send",
        r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","content":[{"text":"yes"}]}}"#,
    ),
    (
        "POST",
        "/v1/message:stream",
        r#"{"message":{"messageId":"1","role":"ROLE_USER","taskId":"{task}","content":[{"text":"yes"}]}}"#,
    ),
    ("GET", "/v1/tasks/{task}", ""),
    ("GET", "/v1/tasks?contextId={context}", ""),
    ("POST", "/v1/tasks/{task}:cancel", "null"),
    ("GET", "/v1/tasks/{task}:subscribe", ""),
    (
        "POST",
        "/v1/tasks/{task}/pushNotificationConfigs",
        r#"{"config":{"pushNotificationConfig":{"url":"https://example.com/hook"}}}"#,
    ),
    ("GET", "/v1/tasks/{task}/pushNotificationConfigs", ""),
    ("GET", "/v1/tasks/{task}/pushNotificationConfigs/1", ""),
    ("DELETE", "/v1/tasks/{task}/pushNotificationConfigs/1", ""),
    ("GET", "/v1/card", ""),
];
