//! How far a server is with loading, from its log. A server that loads has no port to query.
//!
//! The startup phase of a vLLM or SGLang server, from its log. A known text in a line marks the start of a phase.
//!
//! What vLLM's engine did in each step: its log has a line for each with `--enable-logging-iteration-details`, and
//! here they become JSON lines beside the log.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use base::event::Endpoint;
use exec::process::{self, AttemptLog};

/// What was read so far.
#[derive(Debug)]
pub struct LoadingProgress {
    log: PathBuf,
    read: u64,
    /// The rest of a line that is not finished.
    rest: String,
    begun: BTreeSet<String>,
    loaded: BTreeSet<String>,
    /// What a server without models of its own to count is at.
    phase: Option<String>,
    /// The ports that a server chose: `ready grpc=PORT http=PORT metrics=PORT`.
    pub ports: Option<Endpoint>,
    /// The last line with content.
    pub last: Option<String>,
    /// When the log last grew.
    pub grew: Instant,
    /// A line after which the server waits for ever.
    pub hopeless: Option<String>,
}

impl LoadingProgress {
    pub fn new(log: &AttemptLog) -> Self {
        Self {
            log: log.path().to_owned(),
            read: log.begin(),
            rest: String::new(),
            begun: BTreeSet::new(),
            loaded: BTreeSet::new(),
            phase: None,
            ports: None,
            last: None,
            grew: Instant::now(),
            hopeless: None,
        }
    }

    /// Reads what was written since. A log that does not exist yet proves nothing.
    pub fn read_new_lines(&mut self) {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            file.seek(SeekFrom::Start(self.read))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let Ok(bytes) = read() else { return };
        if bytes.is_empty() {
            return;
        }
        self.read += bytes.len() as u64;
        self.grew = Instant::now();
        let text = std::mem::take(&mut self.rest) + &String::from_utf8_lossy(&bytes);
        // A progress bar goes back to the start of its line.
        let mut lines = text.split(['\n', '\r']).collect::<Vec<_>>();
        lines.pop().unwrap_or_default().clone_into(&mut self.rest);
        for line in lines {
            self.take(line.trim_end());
        }
    }

    fn take(&mut self, line: &str) {
        let (_, line) = process::untagged(line);
        if let Some(ports) = ports(line) {
            self.ports.get_or_insert(ports);
        }
        if line.contains("error while loading shared libraries: libpython") {
            // The stub died before it could report that to the server, which goes on waiting for it.
            self.hopeless = Some(line.to_owned());
        }
        if let Some(phase) = phase(line) {
            self.phase = Some(phase);
        }
        let text = phase_message(message(line));
        if let Some(model) = text.strip_prefix("loading: ") {
            self.begun.insert(model.rsplit_once(':').map_or(model, |(name, _)| name).to_owned());
        } else if let Some(model) = text.strip_prefix("successfully loaded '") {
            self.loaded.insert(model.split('\'').next().unwrap_or(model).to_owned());
        }
        if text.chars().any(char::is_alphabetic) && !text.starts_with('|') {
            self.last = Some(text.to_owned());
        }
    }

    /// Models that were begun and are not loaded.
    pub fn open(&self) -> Vec<&str> {
        self.begun.difference(&self.loaded).map(String::as_str).collect()
    }

    /// `(loaded, begun)`
    pub fn count(&self) -> (usize, usize) {
        (self.loaded.len(), self.begun.len())
    }

    /// `loading tensorrt_llm (2 of 3 models loaded)`, `loading weights`; nothing before the log names either.
    pub fn status_text(&self) -> Option<String> {
        let (loaded, begun) = self.count();
        match self.open()[..] {
            _ if begun == 0 => self.phase.clone(),
            [] => Some(format!("all of {begun} models loaded")),
            ref open => Some(format!("loading {} ({loaded} of {begun} models loaded)", open.join(", "))),
        }
    }
}

/// Without what glog and TensorRT-LLM put in front: `I1121 09:11:05.745822 5133 model_lifecycle.cc:472] "loading:
/// a:1"`.
fn message(line: &str) -> &str {
    let stamped = line.starts_with(['I', 'W', 'E', 'F']) && line[1..].starts_with(|c: char| c.is_ascii_digit());
    let text = if stamped { line.split_once("] ").map_or(line, |(_, text)| text) } else { line };
    let text = text.strip_prefix("[TensorRT-LLM][INFO] ").unwrap_or(text).trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn ports(line: &str) -> Option<Endpoint> {
    let words = line.strip_prefix("ready ")?;
    let port =
        |name: &str| words.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    Some(Endpoint {
        host: "127.0.0.1".to_owned(),
        grpc: port("grpc")?,
        http: port("http"),
        metrics: port("metrics"),
        name: None,
    })
}

/// Sign → phase. vLLM's and SGLang's.
const PHASES: [(&str, &str); 21] = [
    ("non-default args", "reading the model's configuration"),
    ("Chunked prefill is enabled", "starting the engine"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("Starting to load model", "loading weights"),
    ("Loading model from scratch", "loading weights"),
    ("Model loading took", "compiling and profiling"),
    ("Dynamo bytecode transform time", "compiling"),
    ("torch.compile took", "profiling"),
    ("torch.compile takes", "profiling"),
    ("Available KV cache memory", "warming up"),
    ("GPU KV cache size", "warming up"),
    ("Capturing CUDA graphs", "capturing CUDA graphs"),
    ("Graph capturing finished", "starting the API server"),
    ("init engine (profile", "starting the API server"),
    ("Started server process", "starting the API server"),
    ("Application startup complete", "its API has started"),
    ("Load weight begin", "loading weights"),
    ("Load weight end", "making the KV cache"),
    ("KV Cache is allocated", "warming up"),
    ("Capture cuda graph begin", "capturing CUDA graphs"),
    ("Capture cuda graph end", "warming up"),
];

/// The phase that a line begins, or goes on with: `loading weights (2 of 4)`.
pub fn phase(line: &str) -> Option<String> {
    if let Some((_, bar)) = line.split_once("checkpoint shards:") {
        let counted = counted(bar);
        return Some(
            counted.map_or_else(|| "loading weights".to_owned(), |count| format!("loading weights ({count})")),
        );
    }
    let (sign, phase) = PHASES.iter().find(|(sign, _)| line.contains(sign))?;
    let bar = line.split_once(sign).map_or("", |(_, rest)| rest);
    Some(counted(bar).map_or_else(|| (*phase).to_owned(), |count| format!("{phase} ({count})")))
}

/// `2 of 4`, from what tqdm prints: `: 50%|#####     | 2/4 [00:01<00:01]`, or `50% Completed | 2/4`.
fn counted(bar: &str) -> Option<String> {
    let bar = bar.split_once('%')?.1;
    let count = bar.rsplit_once('|')?.1.split_whitespace().next()?;
    let (done, all) = count.split_once('/')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(done) && is_number(all)).then(|| format!("{done} of {all}"))
}

/// Without what these servers put in front of a message: `(EngineCore pid=51) INFO 11-23 09:12:05 [core.py:115]
/// Initializing …`.
pub fn phase_message(line: &str) -> &str {
    let line = line.trim_start();
    let rest = line.strip_prefix('(').and_then(|rest| rest.split_once(") ")).filter(|(who, _)| who.contains("pid="));
    let line = rest.map_or(line, |(_, rest)| rest);
    let is_level = |word: &str| matches!(word, "DEBUG" | "INFO" | "WARNING" | "ERROR");
    match line.split_once(' ') {
        Some((level, rest)) if is_level(level) => {
            rest.split_once("] ").map_or(line, |(_, phase_message)| phase_message)
        }
        _ => line,
    }
}

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
mod loading_tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_growing_log_tells_what_is_loaded_and_what_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut loading = LoadingProgress::new(&AttemptLog::from_now(&log));
        loading.read_new_lines();
        assert_eq!((loading.status_text(), loading.last.clone()), (None, None));
        let mut file = File::create(&log).unwrap();
        writeln!(file, "I1121 09:11:05.745822 51 model_lifecycle.cc:472] \"loading: postprocessing:1\"").unwrap();
        writeln!(file, "I1121 09:11:05.745822 51 model_lifecycle.cc:472] \"loading: tensorrt_llm:1\"").unwrap();
        write!(file, "I1121 09:11:07.188928 51 model_lifecycle.cc:839] \"successfully loaded 'postpro").unwrap();
        loading.read_new_lines();
        assert_eq!(loading.status_text().unwrap(), "loading postprocessing, tensorrt_llm (0 of 2 models loaded)");
        writeln!(file, "cessing'\"\n[TensorRT-LLM][INFO] Initializing MPI with thread mode 1\n+----+\n| a |").unwrap();
        loading.read_new_lines();
        assert_eq!(loading.status_text().unwrap(), "loading tensorrt_llm (1 of 2 models loaded)");
        assert_eq!(loading.last.as_deref(), Some("Initializing MPI with thread mode 1"));
    }

    #[test]
    fn lines_of_older_servers_and_of_ranks_are_understood() {
        let mut loading = LoadingProgress::new(&AttemptLog::from_now("/nowhere"));
        loading.take("[1,0]<stderr>:I1128 16:31:49.479096 227 model_lifecycle.cc:461] loading: tensorrt_llm:1");
        assert_eq!(loading.open(), ["tensorrt_llm"]);
        loading.take("[1,0]<stdout>:ready grpc=4711");
        assert_eq!(loading.ports.as_ref().unwrap().grpc, 4711);
        loading.take(
            "triton_python_backend_stub: error while loading shared libraries: libpython3.11.so.1.0: cannot \
         open shared object file: No such file or directory",
        );
        assert!(loading.hopeless.is_some());
    }
}

#[cfg(test)]
mod loading_phases_tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_the_phase() {
        for (line, expected) in [
            (
                "(EngineCore pid=51) INFO 11-23 09:12:05 [gpu_model_runner.py:5161] Starting to load model \
                 /models/llama...",
                Some("loading weights"),
            ),
            (
                "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.20it/s]",
                Some("loading weights (2 of 4)"),
            ),
            (
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  43%|####3     | 22/51 [00:01<00:01, \
                 19.5it/s]",
                Some("capturing CUDA graphs (22 of 51)"),
            ),
            ("(APIServer pid=50) INFO:     Application startup complete.", Some("its API has started")),
            ("[2026-11-23 09:12:05 TP0] Load weight begin. avail mem=78.50 GB", Some("loading weights")),
            ("I1121 09:11:05.745822 51 model_lifecycle.cc:472] \"loading: postprocessing:1\"", None),
        ] {
            assert_eq!(phase(line).as_deref(), expected, "{line}");
        }
    }

    /// Of vLLM 0.24.0 on an H200: the phases in their order.
    #[test]
    fn a_real_start_has_every_phase() {
        let log = include_str!("../../../tests/golden/vllm-h200/start.log");
        let mut phases: Vec<String> = log.lines().filter_map(phase).collect();
        phases.dedup();
        let expected = [
            "reading the model's configuration",
            "starting the engine",
            "loading weights",
            "compiling and profiling",
            "compiling",
            "profiling",
            "warming up",
            "capturing CUDA graphs (51 of 51)",
            "starting the API server",
            "its API has started",
        ];
        assert_eq!(phases, expected);
    }

    #[test]
    fn what_stands_in_front_of_a_message_is_left_out() {
        let line = "(EngineCore pid=51) INFO 11-23 09:12:05 [core.py:115] Initializing a V1 LLM engine (v0.24.0)";
        assert_eq!(phase_message(line), "Initializing a V1 LLM engine (v0.24.0)");
        assert_eq!(phase_message("ValueError: [x] y"), "ValueError: [x] y");
        assert_eq!(phase_message("(a) b"), "(a) b");
    }
}

#[cfg(test)]
mod step_log_tests {
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
