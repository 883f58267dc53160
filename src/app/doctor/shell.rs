//! Programs that a text for `sh` calls, as far as the text shows them: the first word of each command. What a script calls by
//! itself, or builds up from variables, is not found.

/// Words before a command that are no command themselves.
const BEFORE: [&str; 14] =
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time", "sudo", "nohup", "env"];

/// The first words of all commands, in order, each once.
pub fn programs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let joined = text.replace("\\\n", " ");
    for command in joined.split(['\n', ';', '|', '&', '(', ')', '`']) {
        let mut words = command.split_whitespace().skip_while(|word| BEFORE.contains(word) || is_assignment(word));
        let Some(word) = words.next() else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        if word.chars().all(plain) && !found.iter().any(|known| known == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// `NAME=value`
fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_every_command_is_found() {
        let text = "set -e\ncd build && CC=gcc cmake .. \\\n  -G Ninja; if ! nvidia-smi | grep H100; then exec python3 x.py; fi\n\
                    v=$(git describe)\n\"$OUT/tool\" a";
        let found = programs(text);
        for program in ["cmake", "nvidia-smi", "grep", "python3", "git"] {
            assert!(found.iter().any(|one| one == program), "{program} is not in {found:?}");
        }
        assert!(!found.iter().any(|one| one == "Ninja" || one.contains('$')), "{found:?}");
    }
}
