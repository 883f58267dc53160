//! How late requests are, as the server sees it: from their time in the schedule to when the server has read them. And
//! whether what arrives there still follows Poisson's law, for several seeds: by chance alone one plan in twenty does not.

use regatta::harness::LoadPattern;
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::race::Race;
use crate::server::{Server, monotonic};
use crate::spread::Spread;

const SECONDS: f64 = 10.0;
/// At most, so that the law is put to a test of the same power at the high rates.
const ARRIVALS: f64 = 4_000.0;
const SEEDS: u64 = 3;

pub fn print(share: f64) -> Outcome {
    println!("Late at the server against the schedule, µs: p50 / p99 / max; goal p99 ≤ 1,000");
    for rate in [20.0, 100.0, 400.0, 2_000.0] {
        for (name, arrivals, seeds) in [("constant", Arrivals::Constant, 1), ("Poisson", Arrivals::Poisson, SEEDS)] {
            let (mut late, mut laws) = (Vec::new(), Vec::new());
            for seed in 1..=seeds {
                let mut server = Server::paced(1.0, 1.0)?;
                let race = Race {
                    scenario: LoadPattern::Server { rate: rate.into() },
                    arrivals,
                    requests: ((rate * SECONDS).min(ARRIVALS) * share).ceil() as u64,
                    tokens: 1,
                    clients: 2,
                    seed,
                };
                let measured = race.run(&server)?;
                let zero = monotonic(measured.zero);
                let truths = server.truths()?;
                late.extend(truths.iter().map(|truth| {
                    let due = zero + i128::from(measured.requests[truth.id as usize].t_sched);
                    (truth.came - due) as f64 / 1e3
                }));
                laws.push(Law {
                    most: 1.358 / ((truths.len() - 1) as f64).sqrt(),
                    planned: distance(measured.requests.iter().map(|it| it.t_sched as f64 / 1e9), rate),
                    issued: distance(measured.requests.iter().map(|it| it.t_issue as f64 / 1e9), rate),
                    came: distance(truths.iter().map(|truth| (truth.came - zero) as f64 / 1e9), rate),
                });
            }
            let late = Spread::of(late);
            let (p50, p99, max) = (late.median(), late.at(0.99), late.at(1.0));
            println!("  {rate:>5}/s {name:<8} {p50:>6.0} / {p99:>6.0} / {max:>6.0}");
            if matches!(arrivals, Arrivals::Poisson) {
                for law in laws {
                    let verdict = if law.came <= law.most { "passes" } else { "FAILS" };
                    println!(
                        "         KS at 5 %: {verdict}, {:.4} at the server ≤ {:.4}; {:.4} as issued, {:.4} of the plan",
                        law.came, law.most, law.issued, law.planned
                    );
                }
            }
        }
    }
    Ok(())
}

/// Distances from Poisson's law, and the most that chance alone exceeds once in twenty times.
struct Law {
    most: f64,
    planned: f64,
    issued: f64,
    came: f64,
}

/// Kolmogorov's distance of the gaps between times (s) from the exponential law of the rate.
fn distance(times: impl Iterator<Item = f64>, rate: f64) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let both_sides = gaps.iter().enumerate().map(|(at, gap)| {
        let law = 1.0 - (-rate * gap).exp();
        (law - at as f64 / n).max((at + 1) as f64 / n - law)
    });
    both_sides.fold(0.0, f64::max)
}
