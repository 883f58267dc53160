//! A folder's path in a text.

/// The text with `instead` wherever it names a folder, or something in it, by the folder's absolute path. The path as a part of another
/// one stays: `/srv` in `/opt/srv/x` and in `/srv2`. `None`: the text does not name it.
pub fn replace_folder(text: &str, folder: &str, instead: &str) -> Option<String> {
    let mut replaced = String::new();
    let mut copied = 0;
    for at in paths_below(text, folder) {
        replaced.push_str(&text[copied..at]);
        replaced.push_str(instead);
        copied = at + folder.len();
    }
    (copied > 0).then(|| replaced + &text[copied..])
}

/// Where in the text a path begins that is the folder or below it. Of `/` everything would be a part.
pub fn paths_below<'a>(text: &'a str, folder: &'a str) -> impl Iterator<Item = usize> + 'a {
    let all = text.match_indices(folder).map(|(at, _)| at).filter(|_| folder.len() > 1);
    all.filter(move |at| begins_path(&text[..*at]) && ends_name(&text[at + folder.len()..]))
}

fn ends_name(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_alphanumeric() || "._-+~%".contains(c))
}

/// Whether an argument of a command line ends before this character.
pub fn ends_argument(c: char) -> bool {
    c.is_whitespace() || "'\":,;".contains(c)
}

/// Whether a path can begin after this text, and it is not the beginning of that path.
fn begins_path(before: &str) -> bool {
    let Some(last) = before.chars().next_back() else { return true };
    if last == '"' || last == '\'' {
        // Behind a closing one the path goes on: `"$FOLDER"/file`.
        let outside = before[..before.len() - 1].chars().next_back();
        return outside.is_none_or(|c| c.is_whitespace() || "=:,;([{<>|&@\"'".contains(c));
    }
    let argument = before.rsplit(|c: char| ends_argument(c) || c == '=').next().unwrap_or_default();
    let is_url = argument == "//" && before.ends_with("://");
    let is_option = argument.starts_with('-') && !argument.contains(['/', '⟧', '$']);
    is_url || is_option || !(last.is_alphanumeric() || "/._-~+%$})]*?`\\⟧".contains(last))
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
            ("cc -I/srv/x", "cc -IP/x"),
            ("file:///srv/x", "file://P/x"),
            ("# don't\ncat '/srv/x'", "# don't\ncat 'P/x'"),
        ] {
            assert_eq!(replace_folder(text, "/srv", "P").as_deref(), Some(replaced), "{text}");
        }
        for text in ["", "/opt/srv/x", "/srv2", "/srv.old", "./srv", "$HOME/srv", "${x}/srv", "⟦out:a⟧/srv/x"] {
            assert_eq!(replace_folder(text, "/srv", "P"), None, "{text}");
        }
        assert_eq!(replace_folder("/a", "/", "P"), None);
    }
}
