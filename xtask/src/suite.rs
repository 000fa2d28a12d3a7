//! Everything that has to hold before a change is done.

use crate::step::Steps;
use crate::tool;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Everything,
    /// For between two edits.
    Quick,
}

pub fn run(extent: Extent) -> anyhow::Result<()> {
    let checked = |steps: Steps| {
        steps.cargo("formatting", &["fmt", "--all", "--check"]).cargo(
            "lints",
            &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
        )
    };
    match extent {
        Extent::Quick => checked(Steps::default().add("tools", || tool::NEXTEST.ensure()))
            .cargo(
                "tests, quick ones",
                &["nextest", "run", "--workspace", "--locked", "--profile", "quick"],
            )
            .run(),
        Extent::Everything => checked(Steps::default().add("tools", tool::ensure_all))
            .cargo("supply chain", &["deny", "check", "bans", "licenses", "sources"])
            .cargo("tests", &["nextest", "run", "--workspace", "--locked"])
            .cargo("documentation tests", &["test", "--workspace", "--doc", "--locked"])
            .run(),
    }
}
