//! Paths as text: a folder's in another text, and parts of a URL's.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

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

/// A part of a URL's path, with reserved characters escaped.
pub fn url_path_part(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
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
