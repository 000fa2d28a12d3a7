//! The guard on its own, for tests that need it before the `loggia` binary is built.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The first argument is the word `guard`, as it is for `loggia guard`.
    loggia_agent::guard::main(std::env::args_os().skip(2))
}
