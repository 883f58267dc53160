//! Which protocol has which setting of a request. What a protocol cannot send is an error before the first request, never left out.

use std::fmt;

use super::connection::Protocol::{self, Generate, Kserve, OpenaiChat, OpenaiCompletions};
use super::request::{CancelBy, CancelPolicy, Interface, Request, WordList};

/// A setting that the protocol of a request cannot send. Its text follows the key in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsendableSetting {
    /// Below `request`: `length_penalty`, `stop_words.ids`.
    pub key: &'static str,
    /// The protocols that have it.
    of: &'static [Protocol],
    protocol: Protocol,
}

impl fmt::Display for UnsendableSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of: Vec<&str> = self.of.iter().map(|protocol| protocol.as_str()).collect();
        write!(f, "is of {}, not of {}", of.join(", "), self.protocol.as_str())
    }
}

impl Request {
    /// What is set and the protocol cannot send.
    pub fn unsendable(&self, protocol: Protocol) -> impl Iterator<Item = UnsendableSetting> {
        LIMITED
            .iter()
            .filter(move |setting| !setting.of.contains(&protocol) && (setting.is_set)(self))
            .map(move |setting| UnsendableSetting { key: setting.key, of: setting.of, protocol })
    }
}

/// A setting that not every protocol has.
struct LimitedSetting {
    /// Below `request`.
    key: &'static str,
    is_set: fn(&Request) -> bool,
    of: &'static [Protocol],
}

/// All that are missing here every protocol has.
const LIMITED: [LimitedSetting; 19] = [
    of("interface", |it| it.interface == Some(Interface::TokenIds), &[Kserve, Generate, OpenaiCompletions]),
    // One beam, and one sequence, is what every server does.
    of("beam_width", |it| it.beam_width > Some(1), &[Kserve, Generate]),
    of("num_return_sequences", |it| it.sequences() > 1, &[Kserve]),
    of("length_penalty", |it| it.length_penalty.is_some(), &[Kserve, Generate]),
    of("early_stopping", |it| it.early_stopping.is_some(), &[Kserve, Generate]),
    of("stop_words.ids", |it| matches!(it.stop_words, Some(WordList::Ids(_))), &[Kserve]),
    of("bad_words.ids", |it| matches!(it.bad_words, Some(WordList::Ids(_))), &[Kserve]),
    of("bad_words.texts", |it| matches!(it.bad_words, Some(WordList::Texts(_))), &[Kserve, Generate]),
    of("end_id", |it| it.end_id.is_some(), &[Kserve, Generate]),
    of("pad_id", |it| it.pad_id.is_some(), &[Kserve, Generate]),
    of("lora_task_id", |it| !it.lora_task_id.is_empty(), &[Kserve]),
    of("return_log_probs", |it| it.return_log_probs, &[Kserve]),
    of("return_context_logits", |it| it.return_context_logits, &[Kserve]),
    of("return_generation_logits", |it| it.return_generation_logits, &[Kserve]),
    of("return_perf_metrics", |it| it.return_perf_metrics, &[Kserve]),
    of("exclude_input_in_output", |it| it.exclude_input_in_output.is_some(), &[Kserve, Generate]),
    of("length_field", |it| it.length_field.is_some(), &[OpenaiChat]),
    of("batch", |it| it.batch() > 1, &[Kserve]),
    of("cancel.by", |it| matches!(it.cancel, Some(CancelPolicy { by: CancelBy::Stop, .. })), &[Kserve]),
];

const fn of(key: &'static str, is_set: fn(&Request) -> bool, of: &'static [Protocol]) -> LimitedSetting {
    LimitedSetting { key, is_set, of }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsendable(request: &Request, protocol: Protocol) -> Vec<&'static str> {
        request.unsendable(protocol).map(|setting| setting.key).collect()
    }

    #[test]
    fn each_protocol_has_its_settings() {
        let beams = Request {
            beam_width: Some(4),
            length_penalty: Some(2.0),
            early_stopping: Some(true),
            bad_words: Some(WordList::Ids(vec![vec![3]])),
            end_id: Some(9),
            pad_id: Some(4),
            exclude_input_in_output: Some(true),
            ..Request::default()
        };
        let all = [
            "beam_width",
            "length_penalty",
            "early_stopping",
            "bad_words.ids",
            "end_id",
            "pad_id",
            "exclude_input_in_output",
        ];
        assert_eq!(unsendable(&beams, OpenaiChat), all);
        assert_eq!(unsendable(&beams, OpenaiCompletions), all);
        assert_eq!(unsendable(&beams, Generate), ["bad_words.ids"]);
        assert_eq!(unsendable(&beams, Kserve), [""; 0]);
        let usual = Request {
            temperature: Some(0.5),
            min_length: Some(3),
            beam_width: Some(1),
            num_return_sequences: Some(1),
            ..Request::default()
        };
        for protocol in [Kserve, Generate, OpenaiChat, OpenaiCompletions] {
            assert_eq!(unsendable(&usual, protocol), [""; 0]);
        }
        let words = Request { stop_words: Some(WordList::Ids(vec![vec![3]])), ..Request::default() };
        let text = words.unsendable(Generate).next().map(|setting| setting.to_string());
        assert_eq!(text.as_deref(), Some("is of kserve, not of generate"));
    }
}
