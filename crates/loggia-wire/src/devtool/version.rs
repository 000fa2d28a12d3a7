//! The version in an extension's URI, compared by Semantic Versioning 2.0.0.

use std::cmp::Ordering;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// Dot-separated identifiers after a hyphen. Build metadata has no precedence and is dropped.
    pub pre: Vec<String>,
}

impl Version {
    /// `1.2.3`, `1.2`, `1`, each with or without a pre-release and build; missing numbers are zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(v, b)| (v, Some(b)));
        let (core, pre) = text.split_once('-').map_or((text, None), |(v, p)| (v, Some(p)));
        let mut numbers = core.split('.').map(number);
        let major = numbers.next()??;
        let minor = numbers.next().map_or(Some(0), |minor| minor)?;
        let patch = numbers.next().map_or(Some(0), |patch| patch)?;
        let pre = pre.map_or(Some(Vec::new()), identifiers)?;
        let built = build.is_none_or(|build| identifiers(build).is_some());
        (numbers.next().is_none() && built).then_some(Self { major, minor, patch, pre })
    }

    /// `v0`, `v1.2`: a version as a path segment.
    pub fn of_segment(segment: &str) -> Option<Self> {
        segment.strip_prefix('v').and_then(Self::parse)
    }
}

/// Digits without a leading zero.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text == "0" || !text.starts_with('0');
    (digits && plain).then(|| text.parse().ok()).flatten()
}

fn identifiers(text: &str) -> Option<Vec<String>> {
    let valid = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.').map(|part| valid(part).then(|| part.to_owned())).collect()
}

/// The last segment of a URI's path that is a version.
pub fn version_in(uri: &str) -> Option<Version> {
    uri.rsplit('/').find_map(Version::of_segment)
}

/// Whether an agent that offers `offered` supports a client that was written for `wanted`: the same major
/// version, and not an older one. Before 1.0.0 a minor version may break compatibility.
pub fn compatible(wanted: &Version, offered: &Version) -> bool {
    let same_line = match (wanted.major, offered.major) {
        (0, 0) => wanted.minor == offered.minor,
        (wanted, offered) => wanted == offered,
    };
    same_line && offered >= wanted
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Version| [version.major, version.minor, version.patch];
        numbers(self).cmp(&numbers(other)).then_with(|| by_pre_release(&self.pre, &other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A release comes after its pre-releases; numbers come before words; more parts come after fewer.
fn by_pre_release(left: &[String], right: &[String]) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let parts = left.iter().zip(right).map(|(left, right)| {
        match (left.parse::<u64>(), right.parse::<u64>()) {
            (Ok(left), Ok(right)) => left.cmp(&right),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => left.cmp(right),
        }
    });
    parts.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()))
}
