//! What vLLM's engine did in each step: its log has a line for each with `--enable-logging-iteration-details`, and
//! here they become JSON lines beside the log.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use serde::Serialize;

use exec::process::AttemptLog;

/// One step of one engine.
#[derive(Debug, PartialEq, Serialize)]
struct EngineStep<'a> {
    /// Counts from 0 in each engine.
    step: u64,
    /// `EngineCore`, with its number where a server has several.
    engine: &'a str,
    /// As the log has it: month, day and time of day of the step's end, in seconds.
    at: &'a str,
    /// Requests whose prompts were worked on, and tokens of these prompts.
    prefill_requests: u64,
    prefill_tokens: u64,
    /// Requests that got a token, and these tokens.
    decode_requests: u64,
    decode_tokens: u64,
    /// vLLM's "iteration elapsed time": how long the engine waited for the step's result. With asynchronous scheduling,
    /// vLLM's default, the step began before that, so this is a part of its time.
    wait_ms: f64,
}

/// Writes the steps in an attempt's log to `….steps.jsonl` in the same folder, and returns the file and their number.
/// `None` if the log has no steps.
pub fn write(log: &AttemptLog) -> io::Result<Option<(PathBuf, usize)>> {
    let path = log.path().with_extension("steps.jsonl");
    // An earlier attempt's.
    let _ = fs::remove_file(&path);
    let mut file = File::open(log.path())?;
    file.seek(SeekFrom::Start(log.begin()))?;
    let mut out = None;
    let mut count = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let Some(step) = read(&line) else { continue };
        let out = match &mut out {
            Some(out) => out,
            None => out.insert(BufWriter::new(File::create(&path)?)),
        };
        serde_json::to_writer(&mut *out, &step)?;
        out.write_all(b"\n")?;
        count += 1;
    }
    let Some(mut out) = out else { return Ok(None) };
    out.flush()?;
    Ok(Some((path, count)))
}

/// `(EngineCore pid=51) INFO 11-23 09:12:09 [core.py:453] Iteration(7): 1 context requests, 512 context tokens, 3
/// generation requests, 3 generation tokens, iteration elapsed time: 12.34 ms`. A step without tokens, which one of
/// several engines makes for the others, does not count.
fn read(line: &str) -> Option<EngineStep<'_>> {
    let (head, details) = line.split_once("Iteration(")?;
    let (step, details) = details.split_once("): ")?;
    let (counts, time) = details.split_once(", iteration elapsed time: ")?;
    let number = |name: &str| {
        let part = counts.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    let wait_ms = time.trim_end().strip_suffix(" ms")?.parse().ok()?;
    let engine = head.split_once('(').and_then(|(_, rest)| rest.split_once(" pid=")).map_or("", |(name, _)| name);
    let at = head.split_once("INFO ").and_then(|(_, rest)| rest.split_once(" [")).map_or("", |(at, _)| at);
    Some(EngineStep {
        step: step.parse().ok()?,
        engine,
        at,
        prefill_requests: number(" context requests")?,
        prefill_tokens: number(" context tokens")?,
        decode_requests: number(" generation requests")?,
        decode_tokens: number(" generation tokens")?,
        wait_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_a_step() {
        let line = "(EngineCore_DP0 pid=51) INFO 11-23 09:12:09 [core.py:453] Iteration(7): 1 context requests, 512 \
         context tokens, 3 generation requests, 3 generation tokens, iteration elapsed time: 12.34 ms";
        let expected = EngineStep {
            step: 7,
            engine: "EngineCore_DP0",
            at: "11-23 09:12:09",
            prefill_requests: 1,
            prefill_tokens: 512,
            decode_requests: 3,
            decode_tokens: 3,
            wait_ms: 12.34,
        };
        assert_eq!(read(line), Some(expected));
        assert_eq!(read(&format!("{line} (dummy)")), None);
        assert_eq!(read("INFO 11-23 09:12:09 [loggers.py:271] Engine 000: Running: 3 reqs"), None);
    }

    /// Of vLLM 0.24.0 on an H200.
    #[test]
    fn real_lines_are_steps() {
        let log = include_str!("../../../tests/golden/vllm-h200/iterations.log");
        let steps: Vec<EngineStep> = log.lines().filter_map(read).collect();
        assert_eq!(steps.len(), log.lines().count());
        assert_eq!((steps[0].prefill_tokens, steps[0].decode_tokens), (512, 0));
        let mixed = &steps[6];
        assert_eq!((mixed.step, mixed.prefill_requests, mixed.prefill_tokens), (1040, 16, 7966));
        assert_eq!((mixed.decode_requests, mixed.decode_tokens), (226, 226));
        // A step of 8,192 tokens takes about 190 ms: what this line has is the wait alone.
        assert!(mixed.wait_ms < 1.0, "{mixed:?}");
    }
}
