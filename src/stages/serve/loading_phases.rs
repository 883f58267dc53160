//! The startup phase of a vLLM or SGLang server, from its log. A known text in a line marks the start of a phase.

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

/// Without what these servers put in front of a message: `(EngineCore pid=51) INFO 11-23 09:12:05 [core.py:115] Initializing …`.
pub fn message(line: &str) -> &str {
    let line = line.trim_start();
    let rest = line.strip_prefix('(').and_then(|rest| rest.split_once(") ")).filter(|(who, _)| who.contains("pid="));
    let line = rest.map_or(line, |(_, rest)| rest);
    let is_level = |word: &str| matches!(word, "DEBUG" | "INFO" | "WARNING" | "ERROR");
    match line.split_once(' ') {
        Some((level, rest)) if is_level(level) => rest.split_once("] ").map_or(line, |(_, message)| message),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_the_phase() {
        for (line, expected) in [
            (
                "(EngineCore pid=51) INFO 11-23 09:12:05 [gpu_model_runner.py:5161] Starting to load model /models/llama...",
                Some("loading weights"),
            ),
            (
                "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.20it/s]",
                Some("loading weights (2 of 4)"),
            ),
            (
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  43%|####3     | 22/51 [00:01<00:01, 19.5it/s]",
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
        assert_eq!(message(line), "Initializing a V1 LLM engine (v0.24.0)");
        assert_eq!(message("ValueError: [x] y"), "ValueError: [x] y");
        assert_eq!(message("(a) b"), "(a) b");
    }
}
