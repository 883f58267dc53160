//! How far a server is with loading, from its log, since it has no port to query yet. Of vLLM and SGLang a known text
//! in a line marks the start of a phase.

use std::collections::BTreeSet;
use std::time::Instant;

use base::event::Endpoint;
use exec::process::{self, AttemptLog, FollowedLog};

/// What was read so far.
#[derive(Debug)]
pub struct LoadingProgress {
    log: FollowedLog,
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
            log: FollowedLog::new(log.path(), log.begin()),
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
        let mut log = std::mem::take(&mut self.log);
        // A progress bar goes back to the start of its line.
        let has_grown = log.read_lines(b"\n\r", |line| {
            self.take(line.trim_end());
            Ok(())
        });
        self.log = log;
        if has_grown.unwrap_or(false) {
            self.grew = Instant::now();
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
    Some(Endpoint { http: port("http"), metrics: port("metrics"), ..Endpoint::new("127.0.0.1", port("grpc")?) })
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

#[cfg(test)]
mod loading_tests {
    use std::fs::File;
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
