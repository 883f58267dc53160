//! The binary: see the rustdoc of the library for the map.

use std::process::ExitCode;

fn main() -> ExitCode {
    regatta::app::main()
}
