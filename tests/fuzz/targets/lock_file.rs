#![no_main]

#[path = "../src/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| readers::lock_file(data));
