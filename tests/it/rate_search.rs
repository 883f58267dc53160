//! What the interval of a search is worth: on queues whose true rate is known it holds that rate about as often as it says, and it is
//! narrow enough to be of use.

#[path = "../bench/searches.rs"]
#[allow(dead_code, reason = "the benchmark prints the rest")]
mod searches;
#[path = "../../src/base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of the library and benchmarks use the rest")]
mod simulated_queue;
#[path = "../bench/systems.rs"]
#[allow(dead_code, reason = "benchmarks use the rest")]
mod systems;

use searches::{SearchTally, searched_systems};

/// Of each system; `cargo bench --bench verdicts` makes more, of 300 and 3,000 requests a probe, too.
const SEARCHES: usize = 25;

#[test]
#[expect(clippy::print_stdout, reason = "the table is for people")]
fn intervals_hold_the_true_rate_and_are_narrow() {
    println!("{}", SearchTally::HEAD);
    let (mut covered, mut estimated, mut bracketed) = (0, 0, 0);
    for system in searched_systems() {
        let tally = system.search(0.09, 1_000, SEARCHES);
        let row = tally.row(&system.name, 1_000);
        println!("{row}");
        (covered, estimated) = (covered + tally.covered, estimated + tally.widths.len());
        bracketed += tally.bracketed;
        assert!(tally.coverage() >= 0.88, "{row}");
        assert!(tally.share_wider_than(2.0) <= 0.0, "{row}");
        assert!(tally.median_width() <= 1.85, "{row}");
        assert!(tally.share_bracketed() <= 0.55, "{row}");
        assert!(tally.bias().abs() <= 0.12, "{row}");
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    assert!(share(covered, estimated) >= 0.95, "{covered} of {estimated} intervals hold the true rate");
    assert!(share(bracketed, estimated + bracketed) <= 0.1, "{bracketed} searches without an estimate");
}
