//! Free ports for servers that are told their port, and for addresses at which no server listens.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to clients, so that no connection of another test takes one before its server
/// does. The clusters of `slurm` have the ports below these.
const FIRST: u16 = 28_000;
const LAST: u16 = 32_767;

/// `N` ports in a row at which nothing listens. No other test of this process gets them.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let number = u16::try_from(N).expect("a small number");
    for _ in 0..LAST - FIRST {
        // Another process of the same tests begins somewhere else.
        let begin = (std::process::id() % 4096) as u16;
        let offset = begin.wrapping_add(NEXT.fetch_add(number, Ordering::Relaxed)) % (LAST - FIRST - number);
        let row = std::array::from_fn(|at| FIRST + offset + at as u16);
        if row.iter().all(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()) {
            return row;
        }
    }
    panic!("no {N} free ports in a row between {FIRST} and {LAST}");
}

/// A port at which nothing listens.
pub fn free_port() -> u16 {
    free_ports::<1>()[0]
}
