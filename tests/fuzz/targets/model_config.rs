#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

libfuzzer_sys::fuzz_target!(init: seeds::write_corpus("model_config"), |data: &[u8]| readers::model_config(data));
