//! Servers that refuse a field which Regatta adds to requests by itself: the setting that leaves it out.

/// What such a refusal says, in small letters. A value that is too large is not refused like this.
const REFUSALS: [&str; 10] = [
    "additional propert",
    "extra_forbidden",
    "instead",
    "not allowed",
    "not permitted",
    "not supported",
    "unexpected",
    "unknown",
    "unrecognized",
    "unsupported",
];

/// What to set so that requests are without the fields which the server refuses with this text.
pub fn refused_field(why: &str) -> Option<String> {
    let lower = why.to_lowercase();
    if !REFUSALS.iter().any(|refusal| lower.contains(refusal)) {
        return None;
    }
    let names = |field: &str| lower.contains(field);
    let by_length_field = |field: &str| {
        format!(
            "`request: {{ length_field: {field} }}` sends the length of answers as {field} (`regatta bench`: --length-field {field})"
        )
    };
    let length = match (names("max_tokens"), names("max_completion_tokens")) {
        (true, true) => Some(by_length_field("max_completion_tokens")),
        (true, false) => Some(
            "`extra: { max_tokens: null }` leaves max_tokens out (`regatta bench`: --extra max_tokens:null), and the server decides how long \
             answers are; with `request: { length_field: max_completion_tokens }` (--length-field) openai-chat has another name for it"
                .to_owned(),
        ),
        (false, true) => Some(by_length_field("max_tokens")),
        (false, false) => None,
    };
    let options = names("stream_options").then(|| {
        "`extra: { stream_options: null }` leaves stream_options out (`regatta bench`: --extra stream_options:null)"
            .to_owned()
    });
    let all: Vec<String> = length.into_iter().chain(options).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_leaves_the_field_out() {
        for (why, settings) in [
            (
                "HTTP status 400: Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                &["--length-field max_completion_tokens"][..],
            ),
            (
                r#"HTTP status 422: {"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
                &["--extra stream_options:null"],
            ),
            (
                "HTTP status 400: Unrecognized request arguments supplied: max_tokens, stream_options",
                &["--extra max_tokens:null", "--extra stream_options:null"],
            ),
            ("HTTP status 422: max_completion_tokens: Extra inputs are not permitted", &["--length-field max_tokens"]),
        ] {
            let hint = refused_field(why).unwrap();
            assert!(settings.iter().all(|setting| hint.contains(setting)), "{why}: {hint}");
        }
        for why in [
            "HTTP status 400: max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
            "HTTP status 400: This model's maximum context length is 4096 tokens",
            "HTTP status 404: unknown model",
        ] {
            assert_eq!(refused_field(why), None, "{why}");
        }
    }
}
