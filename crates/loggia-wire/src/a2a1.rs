//! A2A 1.0 over JSON-RPC: members tell things apart, states end streams.

pub mod decode;
pub(crate) mod project;
pub mod types;

pub(crate) const METHODS: &[&str] = &[
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];
pub(crate) const STREAMING: &[&str] = &["SendStreamingMessage", "SubscribeToTask"];
