//! "Did you mean": which of the known names somebody probably wanted to type.

/// The candidate that is a typing mistake or two away from `name`.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    const FARTHEST: usize = 2;
    let name = letters(name);
    let measured = candidates.map(|candidate| {
        let wanted = letters(candidate);
        // Between equally near names, swapped letters are likelier than a letter too many.
        (distance(&name, &wanted), wanted.len().abs_diff(name.len()), candidate)
    });
    let (mistakes, _, candidate) = measured.min()?;
    let near = mistakes <= FARTHEST && mistakes < candidate.len().div_ceil(2);
    near.then(|| candidate.to_owned())
}

fn letters(name: &str) -> Vec<char> {
    // A hostile name needs no longer look than this.
    name.chars().take(64).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Letters added, left out, replaced, or swapped with their neighbour.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (line, found) in left.iter().enumerate() {
        let above = &rows[line];
        let mut row = vec![line + 1];
        for (column, wanted) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(found != wanted);
            let mut least = replaced.min(above[column + 1] + 1).min(row[column] + 1);
            let swapped =
                line > 0 && column > 0 && left[line - 1] == *wanted && right[column - 1] == *found;
            if swapped {
                least = least.min(rows[line - 1][column - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
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
