//! The binary: see the rustdoc of the library for the map.

use std::process::ExitCode;

/// Large plans allocate many small strings: glibc's allocator takes a quarter of their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    regatta::app::main()
}
