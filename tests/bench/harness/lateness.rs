//! How late requests are, as the kernel stamps them at a server's socket: from their time in the schedule to when they are there
//! as a whole. And whether what arrives there still follows Poisson's law, for several seeds: by chance alone one plan in twenty does not.

use regatta::harness::{LoadPattern, Transport};
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::race::Race;
use crate::server::{Server, monotonic};
use crate::spread::Spread;
use crate::tap::{CORES_TO_SPIN, Tap};

const SECONDS: f64 = 10.0;
/// At most, so that the law is put to a test of the same power at the high rates.
const ARRIVALS: f64 = 4_000.0;
const SEEDS: u64 = 3;
const RATES: [f64; 6] = [20.0, 100.0, 400.0, 2_000.0, 4_000.0, 8_000.0];

pub fn print(share: f64) -> Outcome {
    println!("Late at the server's socket against the schedule, µs: p50 / p99 / max; goal p99 ≤ 300 at ≤ 2,000/s");
    println!("(behind it: as issued by the client; as the server's program read them)");
    if std::thread::available_parallelism().map_or(1, usize::from) < CORES_TO_SPIN {
        println!("(fewer than {CORES_TO_SPIN} cores: the relay sleeps, and stamps what waits for it together)");
    }
    for rate in RATES {
        for (name, arrivals, seeds) in [("constant", Arrivals::Constant, 1), ("Poisson", Arrivals::Poisson, SEEDS)] {
            let (mut late, mut late_issued, mut late_read) = (Vec::new(), Vec::new(), Vec::new());
            let (mut laws, mut pacing, mut cpu) = (Vec::new(), String::new(), 0.0);
            for seed in 1..=seeds {
                let mut server = Server::paced(1.0, 1.0)?;
                let tap = Tap::before(server.address)?;
                let race = Race {
                    scenario: LoadPattern::Server { rate: rate.into() },
                    arrivals,
                    requests: ((rate * SECONDS).min(ARRIVALS) * share).ceil() as u64,
                    tokens: 1,
                    clients: 2,
                    seed,
                };
                let measured = race.at(tap.address, Transport::Kserve, true)?;
                let (zero, requests) = (monotonic(measured.zero), measured.requests.to_vec());
                let truths = server.truths()?;
                // What was asked before the run came before it began.
                let mut came = tap.came();
                came.retain(|stamp| stamp.at > zero);
                let unstamped = came.iter().filter(|stamp| !stamp.is_kernels).count();
                if unstamped > 0 {
                    println!(
                        "  {rate:>5}/s: the kernel did not stamp {unstamped} requests, which have the relay's time"
                    );
                }
                let came: Vec<i128> = came.into_iter().map(|stamp| stamp.at - zero).collect();
                let us = |at: i128, due: u64| (at - i128::from(due)) as f64 / 1e3;
                late.extend(came.iter().zip(&measured.requests).map(|(came, it)| us(*came, it.t_sched)));
                late_issued.extend(measured.requests.iter().map(|it| us(it.t_issue.into(), it.t_sched)));
                late_read.extend(truths.iter().map(|truth| us(truth.came - zero, requests[truth.id as usize].t_sched)));
                laws.push(Law {
                    most: 1.358 / ((came.len() - 1) as f64).sqrt(),
                    planned: distance(measured.requests.iter().map(|it| it.t_sched as f64 / 1e9), rate),
                    issued: distance(measured.requests.iter().map(|it| it.t_issue as f64 / 1e9), rate),
                    came: distance(came.iter().map(|came| *came as f64 / 1e9), rate),
                    read: distance(truths.iter().map(|truth| (truth.came - zero) as f64 / 1e9), rate),
                });
                pacing.clone_from(&measured.result.client.pacing);
                cpu = f64::max(cpu, measured.result.client.cpu_share_max);
            }
            let [late, issued, read] = [late, late_issued, late_read].map(Spread::of);
            let three = |spread: &Spread| {
                format!("{:>6.0} / {:>6.0} / {:>6.0}", spread.median(), spread.at(0.99), spread.at(1.0))
            };
            println!("  {rate:>5}/s {name:<8} {}   ({}; {})", three(&late), three(&issued), three(&read));
            println!("         {pacing}; busiest worker {:.0} % of a core", cpu * 1e2);
            if matches!(arrivals, Arrivals::Poisson) {
                for law in laws {
                    let verdict = if law.came <= law.most { "passes" } else { "FAILS" };
                    println!(
                        "         KS at 5 %: {verdict}, {:.4} at the socket ≤ {:.4}; {:.4} as issued, {:.4} of the plan, \
                         {:.4} as the program read them",
                        law.came, law.most, law.issued, law.planned, law.read
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
    read: f64,
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
