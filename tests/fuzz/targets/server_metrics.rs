#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write_corpus("server_metrics"), |data: &[u8]| readers::server_metrics(data));
