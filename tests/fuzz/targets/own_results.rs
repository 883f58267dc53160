#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write_corpus("own_results"), |data: &[u8]| readers::own_results(data));
