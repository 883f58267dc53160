#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write_corpus("import_line"), |data: &[u8]| readers::import_line(data));
