//! What programs print: servers and their launchers into logs, `nvidia-smi`, MLPerf's checker, engines into their logs of steps.

use regatta::exec::process::{
    ExitKind, diagnose, diagnose_server, exhausted_memory, first_to_fail, redacted, tail, untagged,
};
use regatta::harness::gpu::{GpuTrace, GpusUsage, NvidiaSmi, SmiError, cuda_version, summarize};
use regatta::mlperf::Official;
use regatta::rules::gpus_of_table;
use regatta::sim::read_step_log;

use super::file;

pub fn program_output(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    logs(text);
    let _ = tail(&file("log", data), 20);
    gpus(text);
    let _ = (gpus_of_table(text), Official::parse(text).errors().count(), read_step_log(text));
}

fn logs(text: &str) {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for end in [ExitKind::Code(1), ExitKind::Code(127), ExitKind::Signal(9)] {
        let _ = diagnose(&lines, end);
    }
    let _ = diagnose_server(&lines);
    for killed in [false, true] {
        let _ = exhausted_memory(&lines, killed);
    }
    let _ = first_to_fail(&lines);
    for line in &lines {
        let (rank, rest) = untagged(line);
        assert!(rank.is_some() || rest == line);
        // Each cause alone: of several in one log the first hides the others.
        let _ = diagnose_server(std::slice::from_ref(line));
    }
    let secret = text.get(..6).unwrap_or("secret").to_owned();
    assert!(
        !redacted(text, std::slice::from_ref(&secret)).contains(&secret)
            || "***".contains(&secret)
            || secret.contains('*')
    );
}

fn gpus(text: &str) {
    let mut smi = NvidiaSmi::default();
    // Each refusal leaves a column out or names it otherwise.
    let refused = std::iter::repeat_with(|| smi.refusal(text)).take_while(|error| *error == SmiError::Column);
    assert!(refused.take(100).count() < 100, "it does not end");
    let smi = NvidiaSmi::default();
    let mut trace = GpuTrace { gpus: smi.identities(text), readings: Vec::new() };
    for answer in text.lines().filter_map(|line| smi.answer(line)) {
        if let Some(gpu) = trace.gpus.iter().position(|gpu| gpu.index == Some(answer.index)) {
            trace.readings.push(regatta::harness::gpu::GpuReading { gpu, at_s: 0.5, ..answer.reading });
        }
    }
    let _ = (trace.lines().count(), cuda_version(text));
    let usage = GpusUsage { window_s: 1.0, ..GpusUsage::default() };
    let _ = serde_json::to_string(&summarize(&trace, usage, Some(1.0), "output_ids")).expect("JSON");
}
