#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

fn begin() {
    seeds::write_corpus("tokenizer");
    readers::let_caught_panics_pass();
}

libfuzzer_sys::fuzz_target!(init: begin(), |data: &[u8]| readers::tokenizer(data));
