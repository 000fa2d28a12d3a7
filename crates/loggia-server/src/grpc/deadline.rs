//! The deadline that a gRPC client sends: `grpc-timeout: 1500m`.

use std::time::Duration;

use axum::http::HeaderMap;
use tokio::time::Instant;
use tonic::Status;

/// None: the client sent no deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get("grpc-timeout").and_then(|value| parse(value.to_str().ok()?));
        Self(given.and_then(|wait| Instant::now().checked_add(wait)))
    }

    /// Ready at the deadline.
    pub async fn over(self) {
        match self.0 {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    pub async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, Status> {
        tokio::select! {
            done = work => Ok(done),
            () = self.over() => Err(exceeded()),
        }
    }
}

pub fn exceeded() -> Status {
    Status::deadline_exceeded("The client's deadline has passed; the request may still complete")
}

/// At most eight digits and a unit. Anything else is ignored.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let whole = digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| whole && digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_units_are_read() {
        let cases = [
            ("2H", Some(Duration::from_secs(7200))),
            ("3M", Some(Duration::from_secs(180))),
            ("30S", Some(Duration::from_secs(30))),
            ("1500m", Some(Duration::from_millis(1500))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("7u", Some(Duration::from_micros(7))),
            ("123456789S", None),
            ("+1S", None),
            ("-1S", None),
            ("S", None),
            ("5", None),
            ("5 S", None),
            ("", None),
            ("5ü", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
