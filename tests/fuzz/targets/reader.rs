//! One program for all readers, which is built once: the variable READER names the one that is fuzzed.
#![no_main]

#[path = "../src/readers.rs"]
mod readers;
#[path = "../src/seeds.rs"]
mod seeds;

use std::sync::LazyLock;

static READER: LazyLock<(&str, readers::Reader)> = LazyLock::new(|| {
    let named = std::env::var("READER").expect("READER names a reader");
    *readers::READERS.iter().find(|(name, _)| *name == named).expect("READER names one of `readers::READERS`")
});

fn begin() {
    seeds::write_corpus(READER.0);
    readers::let_caught_panics_pass();
}

libfuzzer_sys::fuzz_target!(init: begin(), |data: &[u8]| READER.1(data));
