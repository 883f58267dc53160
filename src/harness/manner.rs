//! How a model is asked, settled before the run: over gRPC or over HTTP.

use bytes::Bytes;

use super::data::{Answers, Prompt};
use super::exchange::Call;
use super::form::{Count, Form};
use super::http::{self, Dialect};
use super::link::Link;
use super::{HarnessError, Planned, Protocol, Schedule, Spec, greet, wire};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Manner {
    Kserve(Form),
    Http(Dialect),
}

impl Manner {
    /// Asks the server over the link itself.
    pub async fn agree(link: &Link, spec: &Spec) -> Result<Self, HarnessError> {
        match (&link.pool, &spec.protocol) {
            (Some(pool), Protocol::Http(http)) => Ok(Self::Http(http::greet(pool, spec, http).await?)),
            _ => Ok(Self::Kserve(greet::greet(link, spec).await?)),
        }
    }

    /// What is sent for the requests from `first` on: one message. `heard` has the answers of their session so far.
    pub fn message(
        &self,
        schedule: &Schedule,
        first: u64,
        planned: &[Planned],
        heard: &Answers,
    ) -> Result<Bytes, HarnessError> {
        let write = |(index, planned)| -> Result<Prompt, HarnessError> {
            Ok(if self.takes_ids() {
                Prompt::Ids(schedule.ids(index, planned, heard)?)
            } else {
                Prompt::Text(schedule.text(index, planned, heard)?)
            })
        };
        let mut prompts = (first..).zip(planned).map(write);
        Ok(match self {
            Self::Kserve(form) => wire::frame(&form.message(first, planned, &prompts.collect::<Result<Vec<_>, _>>()?)),
            Self::Http(dialect) => match (planned.first(), prompts.next()) {
                (Some(planned), Some(prompt)) => dialect.request(first, planned, &prompt?),
                _ => Bytes::new(),
            },
        })
    }

    /// Whether prompts are token ids; else they are text.
    fn takes_ids(&self) -> bool {
        match self {
            Self::Kserve(form) => form.takes_ids(),
            Self::Http(dialect) => dialect.prompt_ids,
        }
    }

    pub fn call(&self) -> Call {
        match self {
            Self::Kserve(form) => form.call,
            Self::Http(dialect) if dialect.streams => Call::Stream,
            Self::Http(_) => Call::Unary,
        }
    }

    pub fn count(&self) -> Count {
        match self {
            Self::Kserve(form) => form.count,
            Self::Http(dialect) => dialect.count(),
        }
    }
}
