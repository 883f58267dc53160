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

/// What `LlamaTokenizer` and `LlamaTokenizerFast` of transformers 4.57.6 make of the same tokens. With Mixtral's
/// vocabulary 40,000 random answers, half of their tokens bytes, were spelt as the slow one spells them, spaces at the
/// beginning left aside.
#[test]
fn bytes_that_are_no_text_are_spelt_as_the_slow_tokenizer_spells_them() {
    let tokens = [
        "</s>", "▁Hello", "▁world", "▁", "<0x00>", "<0xE4>", "<0xBD>", "<0xA0>", "<0xE5>", "<0x41>", "<0xFF>", "<0xED>",
    ];
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| ((*token).to_owned(), id.into())).collect();
    let file = serde_json::json!({
        "version": "1.0",
        "added_tokens": [{ "id": 0, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true }],
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
            { "type": "ByteFallback" }, { "type": "Fuse" },
            { "type": "Strip", "content": " ", "start": 1, "stop": 0 } ] },
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": "▁" },
    });
    let tokenizer = Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
    for (ids, slow, fast) in [
        (&[1, 2, 0][..], "Hello world", "Hello world"),
        (&[1, 5, 2], "Hello\u{fffd} world", "Hello\u{fffd} world"),
        (&[1, 5, 6], "Hello\u{fffd}\u{fffd}", "Hello\u{fffd}\u{fffd}"),
        (&[1, 5, 6, 7, 8], "Hello你\u{fffd}", "Hello\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        (&[10, 9], "\u{fffd}A", "\u{fffd}\u{fffd}"),
        (&[11, 7, 4], "\u{fffd}\u{fffd}\0", "\u{fffd}\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(tokenizer.decode_slowly(ids, true).unwrap().trim_start(), slow, "{ids:?}");
        assert_eq!(tokenizer.decode(ids, true).unwrap(), fast, "{ids:?}");
    }
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

#[test]
fn what_is_put_in_front_of_a_text_counts_as_its_growth() {
    let prepend = r#"{"type":"Prepend","prepend":"▁"}"#;
    let refused = |steps: usize| {
        let list = vec![prepend; steps].join(",");
        let file = format!(r#"{{"normalizer":{{"type":"Sequence","normalizers":[{list}]}},"model":{{}}}}"#);
        Tokenizer::from_bytes(file.as_bytes()).unwrap_err().to_string()
    };
    assert!(refused(10).contains("1024 times as long"), "{}", refused(10));
    assert!(!refused(2).contains("times as long"), "{}", refused(2));
}
