//! Lines for people that never fail. A terminal that is gone, or a full disk behind a redirection, must not end the
//! work. The macro of the standard library panics there; in this crate this one replaces it.

macro_rules! eprintln {
    ($($told:tt)*) => {{
        use std::io::Write as _;
        // There is no other place to report that standard error is closed.
        let _ = writeln!(std::io::stderr(), $($told)*);
    }};
}
