//! Values checked against the engine's own `config.json`: what it was built for, and what it can do.

use crate::EngineConfig;

/// A value that does not fit the engine.
pub(super) struct Limit {
    /// The parameter's template name.
    pub name: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

/// Every parameter that does not fit. `value` gives a parameter by its template name.
pub(super) fn limits(value: &dyn Fn(&str) -> Option<String>, engine: &EngineConfig) -> Vec<Limit> {
    let number = |name: &str| value(name).and_then(|text| text.trim().parse::<u64>().ok());
    let is_on = |name: &str| value(name).as_deref() == Some("true");
    let build = &engine.build_config;
    let mut found = Vec::new();
    for (name, limit, flag) in [
        ("triton_max_batch_size", build.max_batch_size, "max_batch_size"),
        ("max_batch_size", build.max_batch_size, "max_batch_size"),
        ("max_num_tokens", build.max_num_tokens, "max_num_tokens"),
        ("max_beam_width", build.max_beam_width, "max_beam_width"),
    ] {
        if let Some(value) = number(name).filter(|value| *value > u64::from(limit)) {
            found.push(Limit {
                name,
                message: format!("`{name}` is {value}, and the engine was built with {flag} {limit}"),
                hint: Some(format!("lower it, or build the engine with a larger {flag}")),
            });
        }
    }
    let block = u64::from(engine.tokens_per_block());
    let least = number("max_beam_width").unwrap_or(1) * u64::from(engine.max_seq_len()).div_ceil(block) * block;
    let name = "max_tokens_in_paged_kv_cache";
    if let Some(tokens) = number(name).filter(|tokens| *tokens < least) {
        found.push(Limit {
            name,
            message: format!("`{name}` is {tokens}, too small for one sequence of the engine ({least} tokens)"),
            hint: None,
        });
    }
    if build
        .rest
        .get("kv_cache_type")
        .and_then(|kind| kind.as_str())
        .is_some_and(|kind| !kind.eq_ignore_ascii_case("paged") && !kind.ends_with("PAGED"))
        && value("batching_strategy").is_some_and(|strategy| strategy != "V1")
    {
        found.push(Limit {
            name: "batching_strategy",
            message: "in-flight batching needs an engine with a paged KV cache".to_owned(),
            hint: Some("build it with `kv_cache_type: paged`, or set V1".to_owned()),
        });
    }
    if build.plugin_config.use_paged_context_fmha == Some(false) {
        for name in ["enable_chunked_context", "enable_kv_cache_reuse"] {
            if is_on(name) {
                found.push(Limit {
                    name,
                    message: format!("`{name}` needs an engine built with use_paged_context_fmha"),
                    hint: Some("build it with `use_paged_context_fmha: enable`".to_owned()),
                });
            }
        }
    }
    let ranks = engine.ranks();
    let name = "gpu_device_ids";
    for group in value(name).iter().flat_map(|ids| ids.split(';')).filter(|group| !group.trim().is_empty()) {
        let count = group.split(',').count() as u32;
        if count != ranks {
            found.push(Limit {
                name,
                message: format!(
                    "`{name}` gives a copy {count} GPUs (`{group}`), and the engine has {ranks} ranks (tp × pp)"
                ),
                hint: Some("a copy needs as many GPUs as the engine has ranks".to_owned()),
            });
        }
    }
    found
}
