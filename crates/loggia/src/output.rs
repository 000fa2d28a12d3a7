//! `eprintln!` that never fails. A closed terminal or a full disk behind a redirection must not end
//! the work. The standard macro panics there; this one replaces it in this crate.

macro_rules! eprintln {
    ($($told:tt)*) => {{
        use std::io::Write as _;
        // Ignored: a closed stderr cannot be reported anywhere.
        let _ = writeln!(std::io::stderr(), $($told)*);
    }};
}
