//! Suggests a known name for a misspelled one.

/// The candidate that differs from `name` by at most two typing errors.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    const FARTHEST: usize = 2;
    let name = letters(name);
    let measured = candidates.map(|candidate| {
        let wanted = letters(candidate);
        // At the same distance, swapped letters are more likely than an additional letter.
        let difference = wanted.chars().count().abs_diff(name.chars().count());
        (strsim::osa_distance(&name, &wanted), difference, candidate)
    });
    let (mistakes, _, candidate) = measured.min()?;
    let near = mistakes <= FARTHEST && mistakes < candidate.len().div_ceil(2);
    near.then(|| candidate.to_owned())
}

/// Compares only the start of a long name, without case.
fn letters(name: &str) -> String {
    name.chars().take(64).map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_mistake_finds_its_name() {
        let known = ["model", "mode", "commands", "limits", "shell", "pass_env"];
        let cases = [
            ("modle", Some("model")),
            ("modl", Some("mode")),
            ("Mode", Some("mode")),
            ("command", Some("commands")),
            ("limit", Some("limits")),
            ("shel", Some("shell")),
            ("passenv", Some("pass_env")),
            ("hooks", None),
            ("x", None),
            ("", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(nearest(name, known.into_iter()).as_deref(), wanted, "{name}");
        }
    }
}
