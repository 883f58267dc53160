//! The frozen plan: its requests, their prompts, and its digest.

use std::sync::Arc;

use super::planned_requests::{PlannedRequest, PlannedRequests, RequestTrigger};
use crate::HarnessError;
use crate::schedule::arrivals::GENERATOR;
use crate::schedule::data::{
    ChatMessage, DataSummary, PreviousAnswers, Prompt, PromptPart, PromptRenderer, RandomStream, words_of,
};
use base::files::{Digest, Hasher};
use serde_json::json;

/// A frozen plan. Prompts are stored as recipes or file contents; `ids` and `text` expand them.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSchedule {
    pub requests: PlannedRequests,
    /// Covers everything that decides what is sent and when. Equal digests: equal requests at equal times.
    pub digest: Digest,
    /// What the data gave, if there were any.
    pub data: Option<DataSummary>,
    pub(super) renderer: Arc<PromptRenderer>,
}

impl RequestSchedule {
    /// The plan of a run that another process carried out: empty here.
    pub(crate) fn empty() -> Self {
        let prompt_renderer = Arc::new(PromptRenderer { seed: 0, vocab_size: 0, end_id: 0, tokenizer: None });
        Self {
            requests: PlannedRequests::kept(Vec::new()),
            digest: Digest::hash(&[]),
            data: None,
            renderer: prompt_renderer,
        }
    }

    /// The prompt of request `index` for a target that takes token ids.
    pub fn ids(
        &self,
        index: u64,
        planned: &PlannedRequest,
        previous_answers: &PreviousAnswers,
    ) -> Result<Vec<i32>, HarnessError> {
        self.renderer.ids(&planned.recipe(index), previous_answers)
    }

    /// The same prompt for a target that takes text.
    pub fn text(
        &self,
        index: u64,
        planned: &PlannedRequest,
        previous_answers: &PreviousAnswers,
    ) -> Result<String, HarnessError> {
        self.renderer.text(&planned.recipe(index), previous_answers)
    }

    /// The same prompt for a chat.
    pub fn chat(
        &self,
        index: u64,
        planned: &PlannedRequest,
        previous_answers: &PreviousAnswers,
    ) -> Result<Vec<ChatMessage>, HarnessError> {
        self.renderer.chat(&planned.recipe(index), previous_answers)
    }

    /// Tokens of a prompt as it is sent; without a tokenizer, the words of a text.
    pub(crate) fn length_of(&self, prompt: &Prompt) -> u32 {
        let length_of = |text: &str| self.count(text).unwrap_or_else(|| words_of(text));
        match prompt {
            Prompt::Ids(ids) => ids.len() as u32,
            Prompt::Text(text) => length_of(text),
            Prompt::Chat(messages) => messages.iter().map(|message| length_of(&message.text)).sum(),
        }
    }

    /// A request of the same lengths with a prompt that is in no plan, so that warming up fills no cache with what is
    /// measured.
    pub fn warmup(&self, number: u64) -> PlannedRequest {
        let like = self.requests.get(number as usize % self.requests.len());
        let like = like.unwrap_or_else(|| unreachable!("the index is below their number"));
        let drawn = PromptPart::Drawn { stream: RandomStream::Warmup, number, tokens: like.input_len.max(1) };
        PlannedRequest { turn: 0, parts: Some(Arc::from([drawn])), ..like }
    }

    /// Tokens of a text, where a tokenizer was given.
    pub fn count(&self, text: &str) -> Option<u32> {
        self.renderer.tokenizer.as_ref().and_then(|tokenizer| tokenizer.count(text).ok())
    }

    /// Whether the lengths of texts are those of a tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        self.renderer.tokenizer.is_some()
    }

    /// Requests with a time in the plan: not later turns, and none of a closed loop.
    pub(crate) fn scheduled(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter(|request| request.due == RequestTrigger::Schedule).map(|request| request.at_ns)
    }

    /// Requests with the whole prompt of an earlier one. Later turns of sessions, which continue their history, and
    /// prompts that were drawn for one request alone do not count.
    pub(crate) fn repeated_prompts(&self) -> u64 {
        let mut seen = std::collections::BTreeSet::new();
        let parts = self.requests.iter().filter(|request| request.turn == 0).filter_map(|request| request.parts);
        parts
            .filter(|parts| {
                let mut hasher = Hasher::new();
                for part in parts.iter() {
                    digest_part(part, &mut hasher);
                }
                !seen.insert(hasher.finish())
            })
            .count() as u64
    }

    /// What belongs together, with the index of its first request: the turns of a session, or the requests of one
    /// message.
    pub(crate) fn sessions(&self, batch: usize) -> impl Iterator<Item = (u64, Vec<PlannedRequest>)> + use<> {
        let mut rest = self.requests.iter().peekable();
        let mut next = 0;
        std::iter::from_fn(move || {
            let mut session = vec![rest.next()?];
            while let Some(request) = rest.next_if(|next| belongs(batch, session.len(), next)) {
                session.push(request);
            }
            let first = next;
            next += session.len() as u64;
            Some((first, session))
        })
    }

    /// The plan of the same samples with the requests that were issued.
    pub(crate) fn with_issued(&self, requests: Vec<PlannedRequest>) -> Self {
        let mut schedule = Self { requests: PlannedRequests::kept(requests), ..self.clone() };
        schedule.digest = schedule.digested();
        schedule
    }

    pub(super) fn digested(&self) -> Digest {
        let mut hasher = Hasher::new();
        let PromptRenderer { seed, vocab_size, end_id, tokenizer } = &*self.renderer;
        hasher.field(GENERATOR.as_bytes()).field(&seed.to_le_bytes());
        hasher.field(&vocab_size.to_le_bytes()).field(&end_id.to_le_bytes());
        hasher.field(tokenizer.as_ref().map_or(&[][..], |tokenizer| tokenizer.digest.bytes()));
        for request in &self.requests {
            hasher.field(&request.at_ns.to_le_bytes()).field(&[request.due as u8]);
            // Of few plans; the digest of all others stays that of earlier versions.
            if request.earliest_ns > 0 {
                hasher.field(b"earliest").field(&request.earliest_ns.to_le_bytes());
            }
            hasher.field(&request.session.to_le_bytes()).field(&request.turn.to_le_bytes());
            hasher.field(&request.input_len.to_le_bytes()).field(&request.output_len.to_le_bytes());
            for part in request.parts.iter().flat_map(|parts| parts.iter()) {
                digest_part(part, &mut hasher);
            }
            if let Some(fields) = &request.own {
                hasher.field(b"own").field(json!(**fields).to_string().as_bytes());
            }
        }
        hasher.finish()
    }
}

/// Whether a request belongs to the `before` ones: the next turn of their session, or one more of their message.
pub(super) const fn belongs(batch: usize, before: usize, request: &PlannedRequest) -> bool {
    if batch > 1 { before < batch } else { request.turn > 0 }
}

fn digest_part(part: &PromptPart, hasher: &mut Hasher) {
    match part {
        PromptPart::Drawn { stream, number, tokens } => {
            hasher.field(stream.as_str().as_bytes()).field(&number.to_le_bytes()).field(&tokens.to_le_bytes());
        }
        PromptPart::Ids(ids) => {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            hasher.field(b"ids").field(&bytes);
        }
        PromptPart::Text(text) => {
            hasher.field(b"text").field(text.as_bytes());
        }
        PromptPart::Message { role, text, whole } => {
            hasher.field(b"message").field(role.as_bytes()).field(text.as_bytes());
            if let Some(whole) = whole {
                hasher.field(b"whole").field(json!(**whole).to_string().as_bytes());
            }
        }
        PromptPart::RecordedAnswer(text) => {
            hasher.field(b"recorded answer").field(text.as_bytes());
        }
        PromptPart::PreviousAnswer { turn } => {
            hasher.field(b"heard").field(&turn.to_le_bytes());
        }
    }
}

// The samples that an external driver may ask for.

/// What a request can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalSample {
    /// Token ids of the prompt.
    pub prompt: Arc<[i32]>,
    /// Tokens that its answer may have.
    pub output_len: u32,
}

/// The samples as a plan: one request for each, in their order, without a time.
pub(super) fn sampled(samples: &[ExternalSample]) -> Vec<PlannedRequest> {
    let request = |(index, sample): (usize, &ExternalSample)| PlannedRequest {
        input_len: sample.prompt.len() as u32,
        output_len: sample.output_len,
        session: index as u64,
        parts: Some(Arc::from([PromptPart::Ids(Arc::clone(&sample.prompt))])),
        ..PlannedRequest::default()
    };
    samples.iter().enumerate().map(request).collect()
}
