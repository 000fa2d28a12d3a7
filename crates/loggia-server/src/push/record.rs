//! The stored form of a webhook: its registration and its cursor.
//!
//! Two documents for each webhook. The registration is written when a client registers, and removed with the
//! webhook; only the worker writes the cursor. A cursor without a registration is ignored, and a registration
//! without a cursor begins where it was registered.

use std::sync::Arc;

use loggia_core::{Millis, Origin, Seq, SessionId, TaskId, TaskState};
use loggia_session::{Document, Store, StoreError};
use loggia_wire::{FrameId, PushTarget, View};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

const REGISTRATIONS: &str = "push";
const CURSORS: &str = "push-cursors";

/// The key of a webhook: the task, and the client's id of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub task: TaskId,
    pub config: String,
}

impl Key {
    /// Begins with a length, so that no key is a prefix of another, whatever ids clients choose.
    fn document(&self) -> String {
        format!("{}{}", prefix(&self.task), self.config)
    }
}

fn prefix(task: &TaskId) -> String {
    format!("{}:{}:", task.as_str().len(), task.as_str())
}

/// A webhook as it was registered. Holds secrets, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Registration {
    /// Distinguishes it from an earlier one of the same key.
    pub serial: String,
    pub session: SessionId,
    pub task: TaskId,
    pub config: String,
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The protocol version of the registration, and so of its payload.
    #[serde(deserialize_with = "known_version")]
    pub version: String,
    /// Whether the development-tool extension was on.
    pub extension: bool,
    pub principal: String,
    pub start: Start,
}

/// Where a webhook begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// With the task as it is when the first notification is sent: it was registered by method.
    Snapshot,
    /// With the events after this one: it came with the next message.
    After(Seq),
}

/// The progress of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cursor {
    pub serial: String,
    /// The last frame that was delivered, `seq.k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<String>,
    /// The task's state in the last notification. Where whole tasks are sent, only changes of it are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
    /// The session's head when everything was delivered and the task was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Seq>,
}

/// Failed attempts at one notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    pub since: Millis,
    pub attempts: u32,
}

impl Registration {
    pub fn key(&self) -> Key {
        Key { task: self.task.clone(), config: self.config.clone() }
    }

    pub fn view(&self) -> View {
        let view = View::of_version(&self.version, self.extension).unwrap_or(View::of_header(None));
        view.read_by(!Origin::is_owner(&self.principal))
    }

    pub fn target(&self) -> PushTarget {
        PushTarget {
            id: Some(self.config.clone()),
            url: self.url.clone(),
            token: self.token.clone(),
            scheme: self.scheme.clone(),
            credentials: self.credentials.clone(),
        }
    }
}

impl Cursor {
    pub fn begin(registration: &Registration) -> Self {
        Self { serial: registration.serial.clone(), ..Self::default() }
    }

    /// The frame to continue after; None to begin with the task itself.
    pub fn after(&self, start: Start) -> Option<FrameId> {
        let delivered = self.delivered.as_deref().and_then(|text| text.parse().ok());
        delivered.or(match start {
            Start::Snapshot => None,
            Start::After(seq) => Some(FrameId { seq, k: u32::MAX }),
        })
    }
}

/// The documents of all webhooks.
#[derive(Clone)]
pub struct Records {
    store: Arc<dyn Store>,
}

impl Records {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Durable when it returns.
    pub async fn keep(&self, registration: &Registration) -> Result<(), StoreError> {
        self.put(REGISTRATIONS, &registration.key(), Some(registration)).await
    }

    pub async fn keep_cursor(&self, key: &Key, cursor: &Cursor) -> Result<(), StoreError> {
        self.put(CURSORS, key, Some(cursor)).await
    }

    /// To be removed before the cursor: without it nothing more is delivered.
    pub async fn forget(&self, key: &Key) -> Result<(), StoreError> {
        self.put::<()>(REGISTRATIONS, key, None).await
    }

    pub async fn forget_cursor(&self, key: &Key) -> Result<(), StoreError> {
        self.put::<()>(CURSORS, key, None).await
    }

    async fn put<T: Serialize>(
        &self,
        collection: &str,
        key: &Key,
        value: Option<&T>,
    ) -> Result<(), StoreError> {
        let value = value.map(serde_json::to_string).transpose();
        let value = value.map_err(|error| StoreError::Io(error.to_string()))?;
        let document = Document { collection: collection.to_owned(), key: key.document(), value };
        self.store.put(document).await
    }

    pub async fn registration(&self, key: &Key) -> Result<Option<Registration>, StoreError> {
        let document = self.store.document(REGISTRATIONS, &key.document()).await?;
        Ok(document.and_then(|text| read(&text)))
    }

    /// The cursor of this registration.
    pub async fn cursor(&self, registration: &Registration) -> Result<Cursor, StoreError> {
        let document = self.store.document(CURSORS, &registration.key().document()).await?;
        let found = document.and_then(|text| read::<Cursor>(&text));
        let mine = found.filter(|cursor| cursor.serial == registration.serial);
        Ok(mine.unwrap_or_else(|| Cursor::begin(registration)))
    }

    /// The webhooks of a task, sorted by configuration id.
    pub async fn of_task(&self, task: &TaskId) -> Result<Vec<Registration>, StoreError> {
        let documents = self.store.documents(REGISTRATIONS, &prefix(task)).await?;
        Ok(documents.iter().filter_map(|(_, text)| read(text)).collect())
    }

    pub async fn all(&self) -> Result<Vec<Registration>, StoreError> {
        let documents = self.store.documents(REGISTRATIONS, "").await?;
        Ok(documents.iter().filter_map(|(_, text)| read(text)).collect())
    }
}

/// Fails for a version that this server does not have, so that the record is left alone.
fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let version = String::deserialize(deserializer)?;
    match View::of_version(&version, false) {
        Some(_) => Ok(version),
        None => Err(D::Error::custom("an unknown version")),
    }
}

/// None for the form of another version; the document is left unchanged.
fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Option<T> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            // The text may contain a secret, and so may the error's text.
            tracing::warn!(line = error.line(), column = error.column(), "a webhook is unreadable");
            None
        }
    }
}
