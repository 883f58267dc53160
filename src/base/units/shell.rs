//! Arguments as a shell reads them.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

/// One argument for `sh`: quoted only where it must be. In single quotes whatever it contains, which is easier to read
/// than the mixture of quotes that `shlex` chooses.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

// A folder's path in a text.

/// The text with `instead` wherever it names a folder, or something in it, by the folder's absolute path. The path as a
/// part of another one stays: `/srv` in `/opt/srv/x` and in `/srv2`. `None`: the text does not name it.
pub fn replace_folder(text: &str, folder: &str, instead: &str) -> Option<String> {
    let mut replaced: Option<String> = None;
    let mut copied = 0;
    // Of `/` everything would be a part.
    if folder.len() < 2 {
        return None;
    }
    for (at, _) in text.match_indices(folder) {
        let end = at + folder.len();
        let begins =
            text[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || BEFORE.contains(before));
        let ends = text[end..].chars().next().is_none_or(|after| after.is_whitespace() || AFTER.contains(after));
        if begins && ends {
            let to = replaced.get_or_insert_default();
            to.push_str(&text[copied..at]);
            to.push_str(instead);
            copied = end;
        }
    }
    let mut replaced = replaced?;
    replaced.push_str(&text[copied..]);
    Some(replaced)
}

/// What can stand before a path. Not `}` and `⟧`, which end a variable or a reference that the path goes on from.
const BEFORE: &str = "\"'`=:,;([<>|&@!";
/// What can stand after the path of a folder.
const AFTER: &str = "/\"'`:,;)]<>|&";

// Names as programming languages and shells have them.

/// Letters, digits and `_`, not beginning with a digit.
pub fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether expressions of a manifest use this name themselves, so that nothing else may have it.
pub fn is_reserved_name(name: &str) -> bool {
    let words = ["stages", "inputs", "true", "false", "none", "not", "and", "or", "if", "else", "in", "is", "loop"];
    words.contains(&name)
}

// Paths as text.

/// A path without `.` and `..`, by its text alone: links are not followed.
pub fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::with_capacity(path.as_os_str().len());
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

// JSON values as a user types them.

/// A text without its quotes; everything else as JSON.
pub fn unquoted(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        assert_eq!(shell_word("--rate=20"), "--rate=20");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("$HOME"), "'$HOME'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(words in prop::collection::vec("[^\\x00]{0,12}", 1..5)) {
            let line = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(shlex::split(&line), Some(words));
        }
    }
}

#[cfg(test)]
mod folder_in_text_tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_where_it_is_no_part_of_another_path() {
        for (text, replaced) in [
            ("/srv", "P"),
            ("/srv/", "P/"),
            ("cat '/srv/a b' /srv/c >/srv/d", "cat 'P/a b' P/c >P/d"),
            ("--dir=/srv,/srv:/srv;(/srv)", "--dir=P,P:P;(P)"),
            ("sh\n/srv/x", "sh\nP/x"),
            ("/srv /srv2", "P /srv2"),
        ] {
            assert_eq!(replace_folder(text, "/srv", "P").as_deref(), Some(replaced), "{text}");
        }
        for text in ["", "/opt/srv/x", "/srv2", "/srv.old", "./srv", "$HOME/srv", "${x}/srv", "⟦out:a⟧/srv/x", "-I/srv"]
        {
            assert_eq!(replace_folder(text, "/srv", "P"), None, "{text}");
        }
        assert_eq!(replace_folder("/a", "/", "P"), None);
    }
}
