//! Shared by the built-in models: the actions of one reply, and the stream that performs them.
//!
//! A built-in model maps plain data (a prompt and the replies since then) to [`Action`]s. Only this
//! module waits, fails and ends the stream. Not here: the steps of either model.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::{Delta, Message, ModelError, Reply};

/// The most bytes of a tool result that a built-in model repeats.
pub const RESULT_BYTES: usize = 4 * 1024;
/// The most bytes of a text after placeholders are filled in. A short template may contain a long value
/// many times. At least the default limit of a turn, so that the turn's limit is reached first.
pub const FILLED_BYTES: usize = 8 * 1024 * 1024;
/// The longest single wait. A typing mistake must not stop a turn for a day.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The most bytes of a word in one delta.
const PIECE_BYTES: usize = 1024;

/// The actions of a reply, created lazily: the turn's limits end a reply that is too long.
pub type Actions = Box<dyn Iterator<Item = Action> + Send>;

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Emit(Delta),
    Wait(Duration),
    Fail(ModelError),
    /// Ends the stream without [`Delta::Stop`], like a lost connection.
    Cut,
    Panic(String),
}

/// Performs the actions when the stream is polled. A stop, a failure or a cut ends the stream, even if
/// `actions` has more.
pub fn stream(actions: Actions) -> BoxStream<'static, Result<Delta, ModelError>> {
    stream::unfold(Some(actions), |rest| async move {
        let mut actions = rest?;
        loop {
            // A long reply is always ready: without this the task would never yield.
            tokio::task::coop::consume_budget().await;
            match actions.next()? {
                Action::Wait(duration) => tokio::time::sleep(duration).await,
                Action::Emit(stop @ Delta::Stop(_)) => return Some((Ok(stop), None)),
                Action::Emit(delta) => return Some((Ok(delta), Some(actions))),
                Action::Fail(error) => return Some((Err(error), None)),
                Action::Cut => return None,
                #[expect(
                    clippy::panic,
                    reason = "a script requests it, to test that a turn survives it"
                )]
                Action::Panic(message) => std::panic::panic_any(message),
            }
        }
    })
    .boxed()
}

/// The text of the last prompt, and the replies since then. This is the whole state of a built-in model:
/// the replies determine its progress.
pub fn since_prompt(messages: &[Message]) -> (String, Vec<&Reply>) {
    let mut prompt = String::new();
    let mut replies = Vec::new();
    for message in messages {
        match message {
            Message::User(user) => {
                prompt = user.content.to_text();
                replies.clear();
            }
            Message::Reply(reply) => replies.push(reply),
            Message::Summary(_) => {}
        }
    }
    (prompt, replies)
}

/// `300ms`, `5s` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let not_a_duration = || format!("`{}` is not a duration such as 300ms, 5s or 2m", start(text));
    let number: u64 = number.parse().map_err(|_| not_a_duration())?;
    let duration = match unit.trim() {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => return Err(not_a_duration()),
    };
    duration
        .filter(|duration| *duration <= LONGEST_WAIT)
        .ok_or_else(|| format!("`{}` is longer than the 60m a wait may last", start(text)))
}

/// The text word by word, each with the space after it. A word that is too long is split.
pub fn words(text: String) -> impl Iterator<Item = String> + Send {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let (near, _) = clip(text.get(offset..)?, PIECE_BYTES);
        let piece = near.split_inclusive(char::is_whitespace).next()?;
        offset += piece.len();
        Some(piece.to_owned())
    })
}

/// Pieces of `size` characters.
pub fn chunks(text: String, size: usize) -> impl Iterator<Item = String> + Send {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = text.get(offset..).filter(|rest| !rest.is_empty())?;
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(index, _)| index);
        offset += end;
        rest.get(..end).map(str::to_owned)
    })
}

/// Replaces every `mark` by `value`, within [`FILLED_BYTES`].
pub fn fill(template: &str, mark: &str, value: &str) -> String {
    let mut filled = String::new();
    for (index, piece) in template.split(mark).enumerate() {
        if index > 0 {
            filled.push_str(value);
        }
        filled.push_str(piece);
        if filled.len() > FILLED_BYTES {
            filled.truncate(filled.floor_char_boundary(FILLED_BYTES));
            break;
        }
    }
    filled
}

/// The first `limit` bytes, and the number of bytes after them.
pub fn clip(text: &str, limit: usize) -> (&str, usize) {
    let (front, rest) = text.split_at(text.floor_char_boundary(limit));
    (front, rest.len())
}

/// The beginning of the first line, to recognise a text in a message.
pub fn start(text: &str) -> String {
    const LETTERS: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let front: String = line.chars().take(LETTERS).collect();
    if front.len() < text.trim_end().len() { format!("{front}…") } else { front }
}

#[cfg(test)]
#[path = "actions_tests.rs"]
pub mod tests;
