//! Tests of `tokenizer_file`.
use super::*;

#[test]
fn replacements_that_fill_the_memory_are_refused() {
    let with_replacements = |count: usize| {
        let step = r#"{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"}"#;
        let steps = vec![step; count].join(",");
        let text = format!(
            r#"{{"version":"1.0","added_tokens":[],"normalizer":{{"type":"Sequence","normalizers":[{steps}]}},
                "model":{{"type":"WordLevel","vocab":{{"a":0}},"unk_token":"a"}}}}"#
        );
        Tokenizer::from_bytes(text.as_bytes())
    };
    assert!(with_replacements(3).unwrap().encode("a", false).is_ok());
    let error = with_replacements(9).unwrap_err().to_string();
    assert!(error.contains("can make a text 1000000000 times as long (limit 1000)"), "{error}");
}

#[test]
fn a_pattern_that_takes_hours_for_a_long_text_is_given_up() {
    let text = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},
            "pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?<!x)a(?=a*c|)"},"behavior":"Isolated",
                "invert":false}}"#;
    let tokenizer = Tokenizer::from_bytes(text.as_bytes()).unwrap();
    // A long text is encoded as a short one is.
    let long = "b".repeat(SHORT_TEXT + 1);
    assert_eq!(tokenizer.encode(&long, false).unwrap(), tokenizer.encode("b", false).unwrap());
    let hours = "a".repeat(1 << 15);
    let begun = std::time::Instant::now();
    let encode = move || called(|| tokenizer.0.encode_fast(hours.as_str(), false));
    let error = within(Duration::from_millis(100), encode).unwrap_err().to_string();
    assert_eq!(error, "its patterns take more than 0 s for it");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_file_that_is_cut_or_of_another_shape_is_an_error_wherever_that_is() {
    let whole = r#"{"version":"1.0","added_tokens":[],"normalizer":{"type":"Lowercase"},"decoder":{"type":"Fuse"},
            "model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;
    assert_eq!(Tokenizer::from_bytes(whole.as_bytes()).unwrap().encode("A", false).unwrap(), [0]);
    for at in 0..whole.len() {
        let error = Tokenizer::from_bytes(&whole.as_bytes()[..at]).unwrap_err().to_string();
        assert!(error.starts_with("it is not a `tokenizer.json` that can be used: "), "{error}");
    }
    let without_its_table = whole.replace("Lowercase", "Precompiled");
    assert!(Tokenizer::from_bytes(without_its_table.as_bytes()).is_err());
}
