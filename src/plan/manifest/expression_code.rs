//! Where the code of a text with expressions is: between `{{` and `}}`, and between `{%` and `%}`, outside of comments and raw text.

/// One piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeBlock<'a> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// What is between the brackets.
    pub code: &'a str,
}

impl<'a> CodeBlock<'a> {
    /// Without the marks that remove white space, as in `{%- raw -%}`.
    pub fn statement(&self) -> &'a str {
        self.code.trim_start_matches(['-', '+']).trim_start().trim_end_matches(['-', '+']).trim_end()
    }
}

/// The code of a text, in the order in which it is written. Where an end is not certain, it is the later one.
pub fn code_blocks(text: &str) -> CodeBlocks<'_> {
    CodeBlocks { text, at: 0 }
}

pub struct CodeBlocks<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for CodeBlocks<'a> {
    type Item = CodeBlock<'a>;

    fn next(&mut self) -> Option<CodeBlock<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let begin = self.at + self.text.get(self.at..)?.find('{')? + 1;
            self.at = begin;
            match bytes.get(begin) {
                Some(b'#') => self.at = after(self.text, begin + 1, "#}"),
                Some(kind @ (b'{' | b'%')) => {
                    let end = end_of_code(bytes, begin + 1, if *kind == b'{' { b'}' } else { b'%' });
                    let block = CodeBlock { at: begin, code: self.text.get(begin + 1..end).unwrap_or_default() };
                    let is_raw = *kind == b'%' && block.statement() == "raw";
                    self.at = if is_raw { after(self.text, end, "endraw") } else { end };
                    return Some(block);
                }
                _ => {}
            }
        }
    }
}

/// Behind the next `end`; the end of the text, if there is none.
fn after(text: &str, from: usize, end: &str) -> usize {
    text.get(from..).and_then(|rest| rest.find(end)).map_or(text.len(), |at| from + at + end.len())
}

/// The end of what begins at `from`: strings are skipped, and a `}}` that closes two brackets of the code is no end.
fn end_of_code(bytes: &[u8], from: usize, closing: u8) -> usize {
    let mut open = 0_usize;
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\'' | b'"' => at = end_of_string(bytes, at),
            byte if open == 0 && *byte == closing && bytes.get(at + 1) == Some(&b'}') => return at,
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The quote that closes the one at `from`; the end, if there is none.
pub fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let quote = bytes.get(from);
    let mut at = from + 1;
    while let Some(inner) = bytes.get(at).filter(|inner| Some(*inner) != quote) {
        at += if *inner == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_between_its_brackets() {
        let codes = |text: &'static str| code_blocks(text).map(|block| block.statement()).collect::<Vec<_>>();
        assert_eq!(codes("a {{ b }} {%- c -%} { d } {{ {'e': {'f': 1}} }}"), ["b", "c", "{'e': {'f': 1}}"]);
        assert_eq!(codes(r"{{ '}}' ~ a }}{{ 'it\'s }}' ~ b }}"), ["'}}' ~ a", r"'it\'s }}' ~ b"]);
        assert_eq!(codes("{# {{ a }} #}{{ b }}{% raw %}{{ 'c }}{% endraw %}{{ d }}"), ["b", "raw", "d"]);
        assert_eq!(codes("{{ a"), ["a"]);
    }
}
