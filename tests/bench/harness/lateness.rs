//! How late requests are, as the server sees it: from their time in the schedule to when the server has read them. And
//! whether what arrives there still follows Poisson's law.

use regatta::harness::{Arrivals, Scenario};

use crate::Outcome;
use crate::race::Race;
use crate::server::{Server, monotonic};
use crate::spread::Spread;

const SECONDS: f64 = 10.0;
/// At most, so that the law is put to a test of the same power at the high rates.
const ARRIVALS: f64 = 4_000.0;

pub fn print(share: f64) -> Outcome {
    println!("Late at the server against the schedule, µs: p50 / p99 / max; goal p99 ≤ 1,000");
    for rate in [20.0, 100.0, 400.0, 2_000.0] {
        for (name, arrivals) in [("constant", Arrivals::Constant), ("Poisson", Arrivals::Poisson)] {
            let mut server = Server::paced(1.0, 1.0)?;
            let race = Race {
                scenario: Scenario::Server { rate: rate.into() },
                arrivals,
                requests: ((rate * SECONDS).min(ARRIVALS) * share).ceil() as u64,
                tokens: 1,
                clients: 2,
            };
            let measured = race.run(&server)?;
            let zero = monotonic(measured.zero);
            let truths = server.truths()?;
            let late = Spread::of(truths.iter().map(|truth| {
                let due = zero + i128::from(measured.requests[truth.id as usize].t_sched);
                (truth.came - due) as f64 / 1e3
            }));
            let came: Vec<f64> = truths.iter().map(|truth| (truth.came - zero) as f64 / 1e9).collect();
            let law = match arrivals {
                Arrivals::Poisson => {
                    let planned = measured.requests.iter().map(|request| request.t_sched as f64 / 1e9).collect();
                    let most = 1.358 / ((came.len() - 1) as f64).sqrt();
                    let (here, there) = (distance(planned, rate), distance(came, rate));
                    let verdict = if there <= most { "passes" } else { "FAILS" };
                    format!("; KS at 5 %: {verdict}, {there:.4} ≤ {most:.4} (of the plan {here:.4})")
                }
                _ => String::new(),
            };
            let (p50, p99, max) = (late.median(), late.at(0.99), late.at(1.0));
            println!("  {rate:>5}/s {name:<8} {p50:>6.0} / {p99:>6.0} / {max:>6.0}{law}");
        }
    }
    Ok(())
}

/// Kolmogorov's distance of the gaps between times (s) from the exponential law of the rate.
fn distance(mut times: Vec<f64>, rate: f64) -> f64 {
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
