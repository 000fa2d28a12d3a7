//! The two times of a certificate's validity, read from its DER. rustls checks certificates but does not tell these times.
//!
//! Not `x509-parser`: it would add 18 packages to the binary, for two fields. Only the server's own certificate, a
//! file of the operator, is read.

use jiff::civil::DateTime;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    /// UTC. A certificate without an end has a time later than any timestamp.
    pub from: DateTime,
    pub until: DateTime,
}

impl Validity {
    /// `Certificate { tbs { [0] version?, serial, algorithm, issuer, validity { from, until } … } … }`.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).take(SEQUENCE)?);
        let mut signed = Der(certificate.take(SEQUENCE)?);
        if signed.0.first() == Some(&VERSION) {
            signed.take(VERSION)?;
        }
        signed.take(INTEGER)?;
        signed.take(SEQUENCE)?;
        signed.take(SEQUENCE)?;
        let mut validity = Der(signed.take(SEQUENCE)?);
        Some(Self { from: validity.time()?, until: validity.time()? })
    }
}

/// The rest of a value's content.
pub(super) struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, if it is of this kind.
    pub(super) fn take(&mut self, kind: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&length, rest) = rest.split_first()?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            // A length of more than four bytes does not fit any file here.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == kind).then_some(content)
    }

    /// RFC 5280, 4.1.2.5: with seconds, in zone `Z`.
    fn time(&mut self) -> Option<DateTime> {
        let kind = *self.0.first()?;
        let text = std::str::from_utf8(self.take(kind)?).ok()?.strip_suffix('Z')?;
        let digits: Vec<i16> = text
            .bytes()
            .map(|byte| byte.is_ascii_digit().then(|| i16::from(byte - b'0')))
            .collect::<Option<_>>()?;
        let (year, rest) = match kind {
            UTC_TIME => {
                let (year, rest) = digits.split_first_chunk::<2>()?;
                let year = number(year);
                (year + if year < 50 { 2000 } else { 1900 }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = digits.split_first_chunk::<4>()?;
                (number(year), rest)
            }
            _ => return None,
        };
        let mut pairs = rest.chunks(2).map(|pair| i8::try_from(number(pair)).ok());
        let mut next = || pairs.next().flatten();
        let time = DateTime::new(year, next()?, next()?, next()?, next()?, next()?, 0).ok()?;
        (rest.len() == 10).then_some(time)
    }
}

fn number(digits: &[i16]) -> i16 {
    digits.iter().fold(0, |sum, digit| sum * 10 + digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(kind: u8, text: &str) -> Option<String> {
        let mut der = vec![kind, u8::try_from(text.len()).unwrap()];
        der.extend_from_slice(text.as_bytes());
        Der(&der).time().map(|time| time.to_string())
    }

    #[test]
    fn times_as_certificates_write_them() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(time(UTC_TIME, "490203040506Z"), some("2049-02-03T04:05:06"));
        assert_eq!(time(UTC_TIME, "500203040506Z"), some("1950-02-03T04:05:06"));
        assert_eq!(time(GENERALIZED_TIME, "99991231235959Z"), some("9999-12-31T23:59:59"));
        assert_eq!(time(GENERALIZED_TIME, "21200101000000Z"), some("2120-01-01T00:00:00"));
        for wrong in ["", "Z", "4902030405Z", "490203040506", "491303040506Z", "4902030405067Z"] {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_times_of_a_real_certificate() {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 2);
        params.not_after = rcgen::date_time_ymd(2061, 3, 4);
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let validity = Validity::of(certificate.der()).unwrap();
        assert_eq!(validity.from.to_string(), "2020-01-02T00:00:00");
        assert_eq!(validity.until.to_string(), "2061-03-04T00:00:00");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Validity::of(&bytes);
            let _ = Der(&bytes).time();
        }
    }
}
