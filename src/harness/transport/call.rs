//! How a model is called, and how the tokens of its answers are counted: fixed before the run.

/// How a model is called: decoupled ones by stream, the others by a single call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Stream,
    Unary,
}

impl CallKind {
    pub const fn method(self) -> &'static str {
        match self {
            Self::Stream => "ModelStreamInfer",
            Self::Unary => "ModelInfer",
        }
    }
}

/// How output tokens are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenCounting {
    /// Elements of `output_ids` over the beams, of all sequences; the prompt in front is not counted.
    Ids { beams: u32, sequences: u32, has_prompt: bool },
    /// One response is one token.
    Responses { sequences: u32 },
    /// The answer is one text: as many tokens as were requested.
    Requested,
    /// `usage.completion_tokens`; chunks where the server sends none.
    Usage,
}

impl TokenCounting {
    /// In readable form.
    pub fn source(self) -> String {
        match self {
            Self::Ids { sequences: n @ 2.., .. } => format!("output_ids, of all {n} sequences of a request"),
            Self::Responses { sequences: n @ 2.. } => {
                format!("responses, each counted as one token, of all {n} sequences of a request")
            }
            Self::Ids { beams: 0 | 1, .. } => "output_ids".to_owned(),
            Self::Ids { beams, .. } => format!("output_ids, of {beams} beams the longest"),
            Self::Responses { .. } => "responses, each counted as one token".to_owned(),
            Self::Usage => "usage.completion_tokens".to_owned(),
            Self::Requested => "requested max_tokens, since the answer is one text".to_owned(),
        }
    }

    /// Whether an answer without another count is counted by its text.
    pub fn is_of_text(self) -> bool {
        matches!(self, Self::Responses { .. } | Self::Requested | Self::Usage)
    }
}
