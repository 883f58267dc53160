//! Memory of the load generator against the number of requests, from the plan to the files of the result: each count in a process
//! of its own, its peak as the kernel has it.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use regatta::harness::{LoadPattern, Transport, write};
use regatta::spec::Arrivals;

use crate::Outcome;
use crate::race::Race;
use crate::server::Server;

const USERS: u32 = 64;
/// So few that their memory is that of the program itself.
const SMALL: u64 = 1_000;

pub fn print(share: f64) -> Outcome {
    println!(
        "Peak resident memory of the load generator, one-token requests of {USERS} users and as arrivals; goal 200 MB at 10⁷"
    );
    for manner in ["users", "arrivals"] {
        let least = peak(manner, SMALL)?;
        println!("  {manner:<8} {SMALL:>10} requests: {:>7.1} MB", least.mb);
        for requests in [100_000.0, 1_000_000.0, 10_000_000.0] {
            // Ten million take minutes: with a share of 10 only.
            if requests > 1e6 && share < 10.0 {
                continue;
            }
            let requests = (requests * share.min(1.0)).ceil() as u64;
            let peak = peak(manner, requests)?;
            println!(
                "  {manner:<8} {requests:>10} requests: {:>7.1} MB, {:>5.0} bytes a request, {:.0} requests/s; {:.0} s, and {:.0} s for \
                 the plan, the result and its files",
                peak.mb,
                (peak.mb - least.mb) * 1e6 / (requests - SMALL) as f64,
                peak.rate,
                requests as f64 / peak.rate,
                peak.seconds - requests as f64 / peak.rate,
            );
        }
    }
    Ok(())
}

struct Peak {
    mb: f64,
    rate: f64,
    /// From the plan to the files.
    seconds: f64,
}

fn peak(manner: &str, requests: u64) -> Result<Peak, Box<dyn std::error::Error>> {
    let output = Command::new(std::env::current_exe()?).args(["--many", manner, &requests.to_string()]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [mb, rate, seconds] = numbers[..] else {
        return Err(format!("{requests} requests: {}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(Peak { mb, rate, seconds })
}

/// Of the other process.
pub fn measure(manner: &[String]) -> Outcome {
    let requests: u64 = manner.get(1).and_then(|word| word.parse().ok()).unwrap_or(SMALL);
    let server = Server::at_once(1)?;
    let race = Race {
        scenario: match manner.first().map(String::as_str) {
            Some("arrivals") => LoadPattern::Server { rate: 20_000.0.into() },
            _ => LoadPattern::Concurrency { users: f64::from(USERS).into() },
        },
        arrivals: Arrivals::Poisson,
        requests,
        tokens: 1,
        clients: 2,
        seed: 1,
    };
    let begun = Instant::now();
    let measured = race.at(server.address, Transport::Kserve, false)?;
    let folder = tempfile::tempdir_in(if Path::new("/var/tmp").is_dir() { "/var/tmp" } else { "." })?;
    write(folder.path(), &measured)?;
    let seconds = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok());
    println!(
        "{} {} {seconds}",
        peak.unwrap_or(f64::NAN) * 1_024.0 / 1e6,
        measured.result.rates.requests_full.unwrap_or(f64::NAN)
    );
    Ok(())
}
