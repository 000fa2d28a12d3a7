//! Times on the wire: RFC 3339, UTC, milliseconds; in HTTP headers, the format of HTTP.

use jiff::Timestamp;
use jiff::fmt::temporal::{DateTimePrinter, Pieces};
use loggia_core::Millis;

/// `2026-10-28T10:30:00.000Z`. A time outside of the calendar is 1970.
pub fn rfc3339(at: Millis) -> String {
    let moment = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    PRINTER.timestamp_to_string(&moment)
}

/// `Wed, 28 Oct 2026 10:30:00 GMT`.
pub fn http_date(at: Millis) -> String {
    let moment = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A time in the year 9999 whose UTC time is in the next year becomes the last supported time.
pub fn parse(text: &str) -> Option<Millis> {
    let moment = text.parse::<Timestamp>().ok().or_else(|| last(text))?;
    Some(Millis(moment.as_millisecond()))
}

fn last(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let whole = pieces.time().is_some() && pieces.offset().is_some();
    (whole && pieces.date().year() == 9999).then_some(Timestamp::MAX)
}
