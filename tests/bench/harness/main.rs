//! What the load generator costs, what it lets a server do, and how late it is: every part of the goals in one run.
//!
//! ```text
//! cargo bench --bench harness                      # all parts, some five minutes
//! cargo bench --bench harness -- cost lateness     # some of them: cost, capacity, lateness, streams, seed, many
//! cargo bench --bench harness -- cost 0.1          # a tenth of the requests, to look at rather than to believe
//! ```
//!
//! Servers are the null and the scripted one of `sim`, each a process of its own (this program again, with `--serve`),
//! so that CPU is the client's alone and times are told by somebody else. Server and client share the machine's
//! monotonic clock. On a machine that does other things too, repeats differ: medians are printed with their range, and
//! the load of the machine before and after.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark starts programs and prints tables")]

mod capacity;
mod cost;
mod floor;
mod lateness;
mod many;
mod race;
mod seed;
mod server;
mod spread;
mod sse;
mod streams;
mod tap;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Its name, and what prints it when so much of its requests are sent.
type Part = (&'static str, fn(f64) -> Outcome);

const PARTS: [Part; 6] = [
    ("cost", cost::print),
    ("capacity", capacity::print),
    ("lateness", lateness::print),
    ("streams", streams::print),
    ("seed", seed::print),
    ("many", many::print),
];

fn main() -> Outcome {
    // `cargo bench` adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some((first, manner)) = words.split_first()
        && first == "--serve"
    {
        return server::serve(manner);
    }
    if let Some((first, manner)) = words.split_first()
        && first == "--many"
    {
        return many::measure(manner);
    }
    let share = words.iter().find_map(|word| word.parse::<f64>().ok()).unwrap_or(1.0);
    let words: Vec<String> = words.into_iter().filter(|word| word.parse::<f64>().is_err()).collect();
    if let Some(unknown) = words.iter().find(|word| PARTS.iter().all(|(name, _)| name != word)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        return Err(format!("`{unknown}` is not part of this benchmark; its parts are {}", names.join(", ")).into());
    }
    println!("{} cores, {}", std::thread::available_parallelism()?, machine_load());
    for (_, print) in PARTS.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name)) {
        println!();
        print(share)?;
    }
    println!("\n{}", machine_load());
    Ok(())
}

fn machine_load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load of the machine: {} in the last minute", text.split_whitespace().next().unwrap_or("unknown"))
}
