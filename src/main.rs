//! The binary: see the rustdoc of the library for the map.

use std::process::ExitCode;

/// Plans of many stages are many small texts: with the system's allocator a quarter of their time goes into it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    regatta::app::main()
}
