//! Porter's stemmer as NLTK extends it, which is the one that ROUGE is defined with.
//!
//! M. F. Porter, "An algorithm for suffix stripping" (1980), with the changes that NLTK's default mode makes: a pool of
//! irregular words, `-ies` and `-ied` of four-letter words, `y` only after a consonant, `-alli` before all else of
//! step 2, `-fulli` and `-logi`, and stems of two letters that count as ending consonant-vowel-consonant.

/// Words that the rules would spoil, and what they become.
const IRREGULAR: [(&str, &str); 16] = [
    ("sky", "sky"),
    ("skies", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// What has to hold for the part before a suffix.
#[derive(Clone, Copy)]
enum If {
    /// At least one vowel followed by a consonant: Porter's `m > 0`.
    Some,
    /// `m > 1`.
    Many,
}

const STEP_2: [(&str, &str); 20] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const STEP_3: [(&str, &str); 7] =
    [("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];

const STEP_4: [&str; 11] = ["al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"];
const STEP_4_LAST: [&str; 7] = ["ou", "ism", "ate", "iti", "ous", "ive", "ize"];

/// The stem of a word of `a-z` and `0-9`. Other letters are taken for consonants.
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let mut word = word.to_owned();
    plurals(&mut word);
    past_and_progressive(&mut word);
    final_y(&mut word);
    step_2(&mut word);
    replace_first(&mut word, &STEP_3, If::Some);
    step_4(&mut word);
    final_e(&mut word);
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
    word
}

/// Whether each letter is a consonant; `y` is one at the start and after a vowel.
fn consonants(word: &str) -> impl Iterator<Item = bool> + '_ {
    let mut before = false;
    word.bytes().map(move |letter| {
        before = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => !before,
            _ => true,
        };
        before
    })
}

/// How often a consonant follows a vowel.
fn measure(word: &str) -> usize {
    let mut vowel_before = false;
    consonants(word).filter(|consonant| std::mem::replace(&mut vowel_before, !consonant) && *consonant).count()
}

fn has_vowel(word: &str) -> bool {
    consonants(word).any(|consonant| !consonant)
}

fn ends_in_consonant(word: &str) -> bool {
    consonants(word).last().unwrap_or(false)
}

fn ends_in_double_consonant(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 2 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] && ends_in_consonant(word)
}

/// Consonant, vowel, consonant, and the last is none of `w`, `x`, `y`; or a vowel and a consonant and nothing else.
fn ends_short(word: &str) -> bool {
    let mut last = [false; 3];
    for consonant in consonants(word) {
        last = [last[1], last[2], consonant];
    }
    match word.len() {
        0 | 1 => false,
        2 => !last[1] && last[2],
        _ => last == [true, false, true] && !word.ends_with(['w', 'x', 'y']),
    }
}

fn plurals(word: &mut String) {
    if word.ends_with("ies") {
        word.truncate(word.len() - if word.len() == 4 { 1 } else { 2 });
    } else if word.ends_with("sses") {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

fn past_and_progressive(word: &mut String) {
    if word.ends_with("ied") {
        word.truncate(word.len() - if word.len() == 4 { 1 } else { 2 });
        return;
    }
    if let Some(stem) = word.strip_suffix("eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let stem = ["ed", "ing"].into_iter().filter_map(|suffix| word.strip_suffix(suffix)).find(|stem| has_vowel(stem));
    let Some(length) = stem.map(str::len) else { return };
    word.truncate(length);
    if word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz") {
        word.push('e');
    } else if ends_in_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_short(word) {
        word.push('e');
    }
}

fn final_y(word: &mut String) {
    if let Some(stem) = word.strip_suffix('y')
        && stem.len() > 1
        && ends_in_consonant(stem)
    {
        word.pop();
        word.push('i');
    }
}

fn step_2(word: &mut String) {
    while let Some(stem) = word.strip_suffix("alli")
        && measure(stem) > 0
    {
        word.truncate(word.len() - 2);
    }
    if replace_first(word, &STEP_2, If::Some) || replace_first(word, &[("fulli", "ful")], If::Some) {
        return;
    }
    // The `l` counts with the stem, so that `geologi` is treated as `archaeologi` is.
    if word.ends_with("logi") && measure(&word[..word.len() - 3]) > 0 {
        word.pop();
    }
}

/// The first suffix that the word ends in decides, whether its condition holds or not. True: there was one.
fn replace_first(word: &mut String, rules: &[(&str, &str)], condition: If) -> bool {
    let Some((suffix, with)) = rules.iter().find(|(suffix, _)| word.ends_with(suffix)) else { return false };
    let stem = word.len() - suffix.len();
    let least = match condition {
        If::Some => 1,
        If::Many => 2,
    };
    if measure(&word[..stem]) >= least {
        word.truncate(stem);
        word.push_str(with);
    }
    true
}

fn step_4(word: &mut String) {
    let none = |suffixes: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        suffixes.iter().map(|suffix| (*suffix, "")).collect()
    };
    if replace_first(word, &none(&STEP_4), If::Many) {
        return;
    }
    if let Some(stem) = word.strip_suffix("ion") {
        if measure(stem) > 1 && stem.ends_with(['s', 't']) {
            word.truncate(word.len() - 3);
        }
        return;
    }
    replace_first(word, &none(&STEP_4_LAST), If::Many);
}

fn final_e(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measure = measure(stem);
        if measure > 1 || (measure == 1 && !ends_short(stem)) {
            word.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn porters_own_examples_and_those_of_nltk() {
        for (word, expected) in [
            ("ponies", "poni"),
            ("ties", "tie"),
            ("agreed", "agre"),
            ("enjoy", "enjoy"),
            ("radically", "radic"),
            ("geology", "geolog"),
            ("controll", "control"),
            ("dies", "die"),
            ("died", "die"),
            ("spied", "spi"),
            ("dying", "die"),
            ("succeed", "succeed"),
            ("1990s", "1990"),
            ("yyyy", "yyyi"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
