//! How far a server is with loading, from its log. A server that loads has no port to query.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

use super::loading_phases;
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

    /// Reads what came since. A log that does not exist yet is no evidence.
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
        if let Some(phase) = loading_phases::phase(line) {
            self.phase = Some(phase);
        }
        let text = loading_phases::message(message(line));
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

/// Without what glog and TensorRT-LLM put in front: `I1121 09:11:05.745822 5133 model_lifecycle.cc:472] "loading: a:1"`.
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

#[cfg(test)]
mod tests {
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
        loading.take("triton_python_backend_stub: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file: No such file or directory");
        assert!(loading.hopeless.is_some());
    }
}
