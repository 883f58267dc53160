//! What LoadGen writes: the detail log, the summary, the accuracy log.

mod accuracy;
mod detail;

use serde::{Deserialize, Serialize};

pub use accuracy::{AnswerLog, LogError, LoggedAnswer};
pub use detail::{Detail, DetailError, LoggedError};

/// The file of [`Detail`].
pub const DETAIL_FILE: &str = "mlperf_log_detail.txt";
/// The file of [`LoadgenSummary`].
pub const SUMMARY_FILE: &str = "mlperf_log_summary.txt";
/// The file of [`AnswerLog`].
pub const ACCURACY_FILE: &str = "mlperf_log_accuracy.json";

// How wide the token ids of an answer are: the reference implementations give LoadGen eight bytes for some models and
// four for others, and the log does not state which.

/// Bytes that are no token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenBytesError {
    #[error("{bytes} bytes are not a whole number of ids of {width} bytes")]
    NotWhole { bytes: usize, width: usize },
    #[error("{0} is not a token id")]
    NotToken(i64),
}

/// The reference scripts' `--dtype`. Lowest byte first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    Int32,
    Int64,
}

impl Width {
    /// As `--dtype` of the reference scripts names it.
    pub const fn dtype(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }

    /// From LoadGen's own count of tokens; without one that fits, from the upper halves of eight-byte ids, which are
    /// all zero. None: an empty answer has no width.
    pub fn guess(answer: &LoggedAnswer) -> Option<Self> {
        let bytes = answer.data.len() as u64;
        let count = answer.token_count.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
        match count {
            _ if bytes == 0 => None,
            Some(count) if count.checked_mul(8) == Some(bytes) => Some(Self::Int64),
            Some(count) if count.checked_mul(4) == Some(bytes) => Some(Self::Int32),
            _ => {
                let (eights, rest) = answer.data.as_chunks::<8>();
                let is_wide = rest.is_empty() && eights.iter().all(|id| id[4..] == [0; 4]);
                Some(if is_wide { Self::Int64 } else { Self::Int32 })
            }
        }
    }

    /// Token ids. Err: what is wrong with the bytes.
    pub fn ids(self, data: &[u8]) -> Result<Vec<u32>, TokenBytesError> {
        let (fours, eights) = (data.as_chunks::<4>(), data.as_chunks::<8>());
        let (ids, rest, width): (Vec<i64>, _, _) = match self {
            Self::Int32 => (fours.0.iter().map(|id| i32::from_le_bytes(*id).into()).collect(), fours.1, 4),
            Self::Int64 => (eights.0.iter().map(|id| i64::from_le_bytes(*id)).collect(), eights.1, 8),
        };
        if !rest.is_empty() {
            return Err(TokenBytesError::NotWhole { bytes: data.len(), width });
        }
        ids.into_iter().map(|id| u32::try_from(id).map_err(|_| TokenBytesError::NotToken(id))).collect()
    }
}

// `mlperf_log_summary.txt`: for people, and for checkers that look for its lines.

/// The summary as name–value pairs in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadgenSummary {
    pub lines: Vec<(String, String)>,
}

impl LoadgenSummary {
    pub fn parse(text: &str) -> Self {
        let pair = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        Self { lines: text.lines().filter_map(pair).collect() }
    }

    /// The first line of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `VALID` or `INVALID`.
    pub fn result(&self) -> Option<&str> {
        self.get("Result is")
    }
}

#[cfg(test)]
mod width_tests {
    use super::{LoggedAnswer, TokenBytesError, Width};

    fn answer(data: &[u8], token_count: Option<i64>) -> LoggedAnswer {
        LoggedAnswer { data: data.to_vec(), token_count, ..LoggedAnswer::default() }
    }

    #[test]
    fn the_width_of_ids_is_found_by_their_count_or_by_their_zeroes() {
        let narrow: Vec<u8> = [5i32, 0, 7, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(Width::guess(&answer(&narrow, Some(4))), Some(Width::Int32));
        assert_eq!(Width::guess(&answer(&narrow, Some(2))), Some(Width::Int64));
        assert_eq!(Width::guess(&answer(&narrow, None)), Some(Width::Int64));
        assert_eq!(Width::guess(&answer(&narrow, Some(-1))), Some(Width::Int64));
        assert_eq!(
            Width::guess(&answer(&narrow, Some((1 << 62) + 4))),
            Some(Width::Int64),
            "as many bytes as 4, with an overflow"
        );
        assert_eq!(Width::guess(&answer(&narrow[..12], None)), Some(Width::Int32));
        assert_eq!(Width::guess(&answer(&[], Some(0))), None);
        assert_eq!(Width::Int64.ids(&narrow), Ok(vec![5, 7]));
        assert_eq!(Width::Int32.ids(&narrow[..3]), Err(TokenBytesError::NotWhole { bytes: 3, width: 4 }));
        assert_eq!(Width::Int32.ids(&[255; 4]), Err(TokenBytesError::NotToken(-1)));
    }
}

#[cfg(test)]
mod tests {
    // Against logs of LoadGen 6.0.17 (`tests/golden/mlperf/logs`), and against anything.

    use std::fmt::Write as _;
    use std::fs;
    use std::io::{BufReader, Cursor};
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::{ACCURACY_FILE, AnswerLog, Detail, DetailError, LoadgenSummary, LogError, LoggedAnswer, SUMMARY_FILE};
    use crate::Round;

    fn recorded(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/mlperf/logs").join(name)
    }

    fn detail(name: &str) -> Detail {
        Detail::read_folder(&recorded(name)).unwrap()
    }

    fn answers(name: &str) -> Vec<LoggedAnswer> {
        AnswerLog::open(&recorded(name).join(ACCURACY_FILE)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_detail_log_says_what_was_run_and_what_came_out() {
        let valid = detail("server-valid");
        assert_eq!(valid.result(), Some("VALID"));
        assert_eq!(valid.loadgen_version(), Some("6.0.17"));
        for (name, seed) in Round::named("v6.1").unwrap().loadgen.seeds.named() {
            assert_eq!(valid.count(&format!("effective_{name}_rng_seed")), Some(seed));
        }
        assert_eq!(valid.text("effective_scenario"), Some("Server"));
        assert_eq!(valid.count("generated_query_count"), Some(640));
        assert_eq!(valid.flag("effective_sample_concatenate_permutation"), Some(true));
        assert_eq!(valid.number("effective_target_qps"), Some(400.0));
        assert_eq!((valid.all_errors(), valid.first_errors.len(), valid.unread), (0, 0, 0));
        assert!(valid.invalid_reasons().is_empty() && valid.contradictions.is_empty());
        let slow = detail("server-slow");
        assert_eq!(slow.result(), Some("INVALID"));
        let reason = slow.invalid_reasons();
        assert_eq!(reason[0], "TTFT constrain not met: Reduce target QPS to improve latency.");
        assert_eq!(reason[2..4], ["Run unsuccessful.", "Processed 640 queries."]);
        assert_eq!(detail("server-accuracy").result(), None);
    }

    #[test]
    fn what_is_no_number_is_not_there_and_errors_are_counted() {
        let line = |key: &str, value: &str, is_error: bool| {
            format!(
                ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": \
                 1.0, \"namespace\": \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": \
                 {{\"is_error\": {is_error}, \"is_warning\": false, \"file\": \"results.cc\", \"line_no\": 1, \"pid\": \
                 1, \"tid\": 1}}}}\n"
            )
        };
        let mut text = line("result_scheduled_samples_per_sec", "-nan", false);
        text += &line("error_runtime", "\"a token count of 0\"", true).repeat(30);
        text += &line("error_runtime", "\"another\"", true);
        text += &line("effective_target_qps", "3", false);
        text += &line("effective_target_qps", "4", false);
        text += &line("loaded_qsl_set", "[1, 2]", false);
        text += &line("loaded_qsl_set", "[3]", false);
        text += "a stray line\n\n:::MLLOG {\"key\": \"cut of";
        let detail = Detail::read(Cursor::new(text)).unwrap();
        assert_eq!(detail.number("result_scheduled_samples_per_sec"), None);
        assert_eq!((detail.all_errors(), detail.first_errors.len()), (31, 2));
        assert_eq!(
            (detail.first_errors[0].to_string(), detail.first_errors[0].times),
            ("error_runtime: a token count of 0".to_owned(), 30)
        );
        assert_eq!(detail.number("effective_target_qps"), Some(3.0), "as the official checker accepts it");
        // An accuracy run loads the data set in parts.
        assert_eq!(
            detail.contradictions.into_iter().collect::<Vec<_>>(),
            [("effective_target_qps".to_owned(), 4.into())]
        );
        assert_eq!((detail.unread, detail.first_unread), (2, vec![37, 39]));
        assert!(matches!(Detail::read(Cursor::new("nothing\n")), Err(DetailError::Empty)));
    }

    #[test]
    fn a_summary_says_the_verdict() {
        let read = |name: &str| LoadgenSummary::parse(&fs::read_to_string(recorded(name).join(SUMMARY_FILE)).unwrap());
        let slow = read("server-slow");
        assert_eq!(slow.result(), Some("INVALID"));
        assert_eq!(slow.get("Performance constraints satisfied"), Some("NO"));
        assert_eq!(slow.get("ttft_latency (ns)"), Some("450000000"));
        assert_eq!(read("server-valid").result(), Some("VALID"));
        assert_eq!(read("server-accuracy").result(), None);
    }

    #[test]
    fn answers_come_with_their_tokens() {
        let server = answers("server-accuracy");
        assert_eq!(server.len(), 16);
        for answer in &server {
            let tokens = answer.tokens().unwrap();
            assert_eq!(answer.first_tokens().unwrap().unwrap(), tokens[..1]);
            assert_eq!(answer.token_count, Some(tokens.len() as i64));
            assert_eq!(
                answer.qsl_idx % 2 == 0,
                *tokens.last().unwrap() == 2,
                "the recorder ended every second answer so"
            );
        }
        let mut seen: Vec<u64> = server.iter().map(|answer| answer.qsl_idx).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..16).collect::<Vec<_>>());
        assert!(answers("offline-accuracy").iter().all(|answer| answer.token_data.is_none()));
        assert!(answers("server-valid").is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_log_is_reported_with_its_place() {
        let read = |text: &str| AnswerLog::new(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let reason = |text: &str| read(text).unwrap_err().to_string();
        let entry = r#"{ "seq_id" : 0, "qsl_idx" : 8, "data" : "6C2F0000", "token_count" : 1 }"#;
        assert_eq!(read(&format!("[\n{entry},\n{entry}\n]\n")).unwrap()[1].offset, 2 + entry.len() as u64 + 2);
        assert!(reason("{}").contains("at byte 0: LoadGen's log begins with `[`"));
        assert!(
            reason(&format!("[\n{entry},\nx {entry}\n]")).contains(&format!("at byte {}: expected", 4 + entry.len()))
        );
        assert!(
            reason(&format!("[{entry} {entry}]"))
                .contains(&format!("at byte {}: entries are separated", 2 + entry.len()))
        );
        assert!(reason(&format!("[{entry}] x")).contains("more after its `]`"));
        assert!(reason(r#"[{ "seq_id" : 0, "data" : "" }]"#).contains("at byte 1: missing field `qsl_idx`"));
        assert!(
            reason(&format!("[{}]", entry.replace("6C2F", "6C2g")))
                .contains("at byte 1: the data of sample 8 are not hex")
        );
        assert!(reason(&format!("[{}]", entry.replace("6C2F", "6C2"))).contains("not hexadecimal"));
    }

    #[test]
    fn tokens_have_four_or_eight_bytes() {
        let wide = [0x6c, 0x2f, 0, 0, 0, 0, 0, 0, 0xd4, 0, 0, 0, 0, 0, 0, 0];
        let answer = |token_count| LoggedAnswer {
            data: wide.to_vec(),
            token_data: Some(wide[..8].to_vec()),
            token_count,
            ..LoggedAnswer::default()
        };
        // By the count, and without one by their upper halves.
        assert_eq!(answer(None).tokens().unwrap(), vec![12140, 212]);
        assert_eq!(answer(Some(2)).tokens().unwrap(), vec![12140, 212]);
        assert_eq!(answer(Some(2)).first_tokens().unwrap(), Some(vec![12140]));
        assert_eq!(answer(Some(4)).tokens().unwrap(), vec![12140, 0, 212, 0]);
        // The comparison finds a wrong count; it is not hidden here.
        assert_eq!(answer(Some(3)).tokens().map(|tokens| tokens.len()).unwrap(), 2);
        assert_eq!(LoggedAnswer::default().tokens().unwrap(), Vec::<u32>::new());
        let torn = LoggedAnswer { data: wide[..3].to_vec(), offset: 7, ..LoggedAnswer::default() };
        assert!(torn.tokens().unwrap_err().to_string().contains("at byte 7: 3 bytes are not a whole number"));
    }

    #[test]
    fn a_log_is_digested_as_it_is_read() {
        let path = recorded("server-accuracy").join(ACCURACY_FILE);
        let mut answers = AnswerLog::open(&path).unwrap();
        assert!(answers.by_ref().all(|answer| answer.is_ok()));
        assert_eq!(answers.sha256(), base::files::sha256_of_file(&path).unwrap());
    }

    /// As LoadGen writes it.
    fn written(list: &[(u64, Vec<u32>, bool)]) -> String {
        let hex = |tokens: &[u32]| {
            tokens.iter().flat_map(|token| token.to_le_bytes()).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02X}");
                text
            })
        };
        let mut text = "[".to_owned();
        for (seq_id, (qsl_idx, tokens, is_streamed)) in list.iter().enumerate() {
            text.push_str(if seq_id == 0 { "\n" } else { ",\n" });
            let _ = write!(text, "{{ \"seq_id\" : {seq_id}, \"qsl_idx\" : {qsl_idx}, \"data\" : \"{}\", ", hex(tokens));
            if *is_streamed {
                let _ = write!(text, "\"token_data\" : \"{}\", ", hex(&tokens[..tokens.len().min(1)]));
            }
            let _ = write!(text, "\"token_count\" : {} }}", tokens.len());
        }
        text + "\n]\n"
    }

    proptest! {
        #[test]
        fn every_answer_comes_back(
            list in prop::collection::vec(
                (0..1u64 << 40, prop::collection::vec(0..1u32 << 31, 0..40), any::<bool>()),
                0..30,
            ),
        ) {
            let text = written(&list);
            // A small buffer: answers lie across its ends.
            let read: Vec<LoggedAnswer> =
                AnswerLog::new(BufReader::with_capacity(7, text.as_bytes())).collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(read.len(), list.len());
            for (answer, (qsl_idx, tokens, is_streamed)) in read.iter().zip(&list) {
                prop_assert_eq!(answer.qsl_idx, *qsl_idx);
                prop_assert_eq!(&answer.tokens().unwrap(), tokens);
                prop_assert_eq!(answer.token_data.is_some(), *is_streamed);
            }
        }

        #[test]
        fn a_log_that_is_cut_anywhere_is_never_whole(
            list in prop::collection::vec((0..99u64, prop::collection::vec(0..1u32 << 31, 1..4), any::<bool>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let text = written(&list);
            let cut = cut.index(text.len());
            let read: Vec<Result<LoggedAnswer, LogError>> = AnswerLog::new(&text.as_bytes()[..cut]).collect();
            if text[..cut].ends_with(']') {
                prop_assert!(read.iter().all(Result::is_ok) && read.len() == list.len());
            } else {
                let last = read.last();
                let torn = matches!(last, Some(Err(LogError::Truncated { offset, .. })) if *offset == cut as u64);
                prop_assert!(torn, "{last:?}");
            }
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = AnswerLog::new(bytes.as_slice()).count();
            let answer = [b"[{\"seq_id\":0,\"qsl_idx\":1,\"data\":\"", bytes.as_slice(), b"\"}]"].concat();
            let _ = AnswerLog::new(answer.as_slice()).count();
            let _ = Detail::read(bytes.as_slice());
            let _ = LoadgenSummary::parse(&String::from_utf8_lossy(&bytes));
            let mut log = b":::MLLOG {\"key\": \"a\", \"value\": ".to_vec();
            log.extend(bytes);
            let _ = Detail::read(log.as_slice());
        }
    }
}
