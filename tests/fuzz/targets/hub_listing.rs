#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write_corpus("hub_listing"), |data: &[u8]| readers::hub_listing(data));
