//! Servers on several hosts over a real ssh: what is measured, what a person sees when a host goes, and what is left running.
//! `tests/parts/hosts.sh` brings the hosts up, and installs sshd where it is missing.

mod lab;

use std::time::{Duration, Instant};

use regatta::harness::read_result;

use crate::supervision::{measuring, told};
use crate::services::ENGINE;
use crate::world::{Ended, World, alive_with, signal};
use lab::Lab;

/// A simulated server on each of two hosts.
const SERVER: &str = r#"  server:
    host: { ssh: ["{h1}", { name: "{h2}", ssh: "root@{h2}" }] }
    serve: { simulator: { repository: "{{ stages.models.out }}" } }
"#;

fn measure(requests: u32) -> String {
    format!(
        "  measure:\n    bench: {{ target: \"{{{{ stages.server }}}}\", scenario: offline, stop: {{ requests: {requests} }}, input_tokens: {{ fixed: 16 }}, output_tokens: {{ fixed: 8 }}, vocab_size: 1000 }}\n"
    )
}

/// Waits for what another machine does in its own time.
#[track_caller]
fn patiently(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !is() {
        assert!(Instant::now() < deadline, "waited three minutes for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn newest(world: &World) -> regatta::harness::RunResult {
    read_result(&world.path("latest/measure/result.json")).unwrap()
}

#[test]
fn requests_are_spread_over_two_hosts_and_nothing_is_left_there() {
    let lab = Lab::up(2);
    let world = lab.world(&format!("{ENGINE}{SERVER}{}", measure(200)));
    let ended = world.good(&["run", "m"]);
    println!("{}", ended.stdout);
    let result = newest(&world);
    assert_eq!(result.counts.ok, 200);
    let of = |number: u32| format!("{}:", lab.address(number));
    assert!(result.asked.endpoints.iter().zip([1, 2]).all(|(one, n)| one.starts_with(&of(n))), "{:?}", result.asked.endpoints);
    for host in [1, 2] {
        assert_eq!(lab.running(host), [""; 0]);
    }
}
