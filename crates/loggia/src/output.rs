//! Lines for people that never fail: a terminal that is gone or a full disk behind a redirection must not end what is
//! being done. The macros of the standard library panic there; in this crate these stand in their place.

macro_rules! eprintln {
    ($($told:tt)*) => {{
        use std::io::Write as _;
        // Nobody can be told that nobody can be told.
        let _ = writeln!(std::io::stderr(), $($told)*);
    }};
}

macro_rules! println {
    ($($told:tt)*) => {{
        use std::io::Write as _;
        // The same.
        let _ = writeln!(std::io::stdout(), $($told)*);
    }};
}
