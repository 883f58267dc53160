//! A walk over JSON that copies nothing: visits the keys a measurement needs, steps over the rest.
//!
//! Answers are read once, in order, while tokens come; building a tree of each would cost more than receiving it.
//! Structure is checked; the content of skipped texts and numbers is not.

use memchr::memchr2;

/// Nesting beyond this is refused; no answer of a server comes near it.
const DEEPEST: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not JSON: {0}")]
pub(super) struct NotJson(pub &'static str);

type Walked<T> = Result<T, NotJson>;

#[derive(Clone, Debug)]
pub(super) struct Json<'a> {
    left: &'a [u8],
    depth: u32,
}

impl<'a> Json<'a> {
    pub const fn new(text: &'a [u8]) -> Self {
        Self { left: text, depth: 0 }
    }

    /// The next byte that is not white space.
    pub fn peek(&mut self) -> Option<u8> {
        let blanks = self.left.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.left = &self.left[blanks..];
        self.left.first().copied()
    }

    fn take(&mut self, byte: u8, else_say: &'static str) -> Walked<()> {
        if self.peek() == Some(byte) {
            self.left = &self.left[1..];
            Ok(())
        } else {
            Err(NotJson(else_say))
        }
    }

    /// Calls `visit` for each key; it reads or skips the value. Keys are as written, escapes and all.
    pub fn object(&mut self, mut visit: impl FnMut(&'a [u8], &mut Self) -> Walked<()>) -> Walked<()> {
        self.nested(b'{', b'}', |it| {
            let key = it.string()?;
            it.take(b':', "a key has no `:`")?;
            visit(key, it)
        })
    }

    pub fn array(&mut self, visit: impl FnMut(&mut Self) -> Walked<()>) -> Walked<()> {
        self.nested(b'[', b']', visit)
    }

    fn nested(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Walked<()>) -> Walked<()> {
        self.take(open, "another kind of value was expected")?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(NotJson("it is nested too deeply"));
        }
        if self.peek() != Some(close) {
            loop {
                item(self)?;
                if self.peek() != Some(b',') {
                    break;
                }
                self.left = &self.left[1..];
            }
        }
        self.depth -= 1;
        self.take(close, "a list or an object is not closed")
    }

    /// The characters between the quotes, as written.
    pub fn string(&mut self) -> Walked<&'a [u8]> {
        self.take(b'"', "a text was expected")?;
        let whole = self.left;
        let mut from = 0;
        loop {
            let at = from + memchr2(b'"', b'\\', &whole[from..]).ok_or(NotJson("a text is not closed"))?;
            if whole[at] == b'"' {
                self.left = &whole[at + 1..];
                return Ok(&whole[..at]);
            }
            from = (at + 2).min(whole.len());
        }
    }

    /// A number, `true`, `false` or `null`, as written.
    pub fn scalar(&mut self) -> Walked<&'a [u8]> {
        self.peek();
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let (word, left) = self.left.split_at(self.left.iter().take_while(is_part).count());
        self.left = left;
        match word {
            b"true" | b"false" | b"null" | [b'-' | b'0'..=b'9', ..] => Ok(word),
            _ => Err(NotJson("a value was expected")),
        }
    }

    /// An unsigned integer, also as a text or with `.0`; `u64::MAX` on overflow. Any other value is skipped and gives
    /// `None`.
    pub fn number(&mut self) -> Walked<Option<u64>> {
        let word = match self.peek() {
            Some(b'0'..=b'9') => self.scalar()?,
            Some(b'"') => self.string()?,
            _ => return self.skip().map(|()| None),
        };
        let digits = word.strip_suffix(b".0").unwrap_or(word);
        let is_whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        Ok(is_whole.then(|| number.unwrap_or(u64::MAX)))
    }

    /// A text; `None` for anything else, which is stepped over.
    pub fn text(&mut self) -> Walked<Option<&'a [u8]>> {
        if self.peek() == Some(b'"') {
            return self.string().map(Some);
        }
        self.skip().map(|()| None)
    }

    /// Steps over a value and returns it as written.
    pub fn raw(&mut self) -> Walked<&'a [u8]> {
        self.peek();
        let whole = self.left;
        self.skip()?;
        Ok(&whole[..whole.len() - self.left.len()])
    }

    pub fn skip(&mut self) -> Walked<()> {
        match self.peek() {
            Some(b'{') => self.object(|_, it| it.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b'"') => self.string().map(drop),
            Some(_) => self.scalar().map(drop),
            None => Err(NotJson("it ends too early")),
        }
    }

    /// Fails unless the input is exhausted.
    pub fn end(&mut self) -> Walked<()> {
        if self.peek().is_some() { Err(NotJson("something follows the value")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5).prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_json_is_walked_to_its_end(value in any_json(), pretty: bool) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let mut json = Json::new(text.as_bytes());
            prop_assert_eq!(json.raw(), Ok(text.as_bytes()));
            prop_assert_eq!(json.end(), Ok(()));
        }

        #[test]
        fn a_cut_object_is_refused(value in any_json(), at: prop::sample::Index) {
            let text = format!("{{\"key\":{value}}}");
            let cut = &text.as_bytes()[..at.index(text.len())];
            let mut json = Json::new(cut);
            prop_assert!(json.skip().is_err());
        }

        #[test]
        fn no_bytes_make_the_json_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Json::new(&bytes).skip();
        }
    }

    #[test]
    fn counts_are_whole_numbers_in_any_form() {
        for (text, number) in [
            ("8", Some(8)),
            ("8.0", Some(8)),
            ("\"8\"", Some(8)),
            ("99999999999999999999", Some(u64::MAX)),
            ("8.5", None),
            ("-8", None),
            ("\"\"", None),
            ("\"+8\"", None),
            ("null", None),
        ] {
            let mut json = Json::new(text.as_bytes());
            assert_eq!((json.number(), json.end()), (Ok(number), Ok(())), "{text}");
        }
    }

    #[test]
    fn keys_inside_texts_are_no_keys() {
        let text = br#"{"a":"\"usage\":{\"n\":9}","usage":{"n":3}}"#;
        let mut actual = None;
        Json::new(text)
            .object(|key, it| match key {
                b"usage" => it.object(|_, it| it.number().map(|n| actual = n)),
                _ => it.skip(),
            })
            .unwrap();
        assert_eq!(actual, Some(3));
    }
}
