//! A config.pbtxt as its text: every byte is kept, every field has its position, and an edit changes one value.

use std::ops::Range;

use super::tree::{PbtxtField, PbtxtShape, PbtxtValue, parse};
use super::{PbtxtError, quoted, schema};
use crate::proto::inference::ModelConfig;

/// A text that follows the syntax. [`PbtxtDocument::config`] checks whether it follows the schema.
#[derive(Clone, Debug)]
pub struct PbtxtDocument {
    text: String,
    fields: Vec<PbtxtField>,
}

/// A step on the way to a value.
#[derive(Clone, Copy, Debug)]
pub enum PbtxtStep<'a> {
    /// The field of this name.
    Name(&'a str),
    /// The n-th of a repeated field, counted from 0 over all places where it is written.
    Nth(usize),
    /// The entry of a map with this key: all of `{ key: … value: … }`.
    Key(&'a str),
}

impl PbtxtDocument {
    pub fn parse(text: impl Into<String>) -> Result<Self, PbtxtError> {
        let text = text.into();
        let fields = parse(&text)?;
        Ok(Self { text, fields })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The typed config, as far as it can be read, and every error.
    pub fn config(&self) -> (ModelConfig, Vec<PbtxtError>) {
        let (message, mut wrong) = schema::read(&self.text, &self.fields);
        match message.transcode_to() {
            Ok(config) => (config, wrong),
            Err(error) => {
                wrong.push(PbtxtError::new(&self.text, 0..0, error.to_string(), ""));
                (ModelConfig::default(), wrong)
            }
        }
    }

    /// Where the value at the end of this way is. Where the way is not there to its end: the last place on it.
    pub fn place(&self, way: &[PbtxtStep<'_>]) -> Range<usize> {
        let (bytes, _) = self.walk(way);
        bytes
    }

    /// Like `place`, only if the way is there to its end.
    pub fn find(&self, way: &[PbtxtStep<'_>]) -> Option<Range<usize>> {
        let (bytes, whole) = self.walk(way);
        whole.then_some(bytes)
    }

    /// Writes another value in the place of one that is there. The rest of the text stays as it is.
    pub fn set(&mut self, way: &[PbtxtStep<'_>], literal: &str) -> Result<(), PbtxtError> {
        match self.find(way) {
            Some(bytes) => self.splice(bytes, literal),
            None => Err(PbtxtError::new(&self.text, self.place(way), "no such field", "")),
        }
    }

    /// Sets the text of a parameter of the model, at its place or on a line of its own at the end.
    pub fn set_parameter(&mut self, key: &str, value: &str) -> Result<(), PbtxtError> {
        let way = [
            PbtxtStep::Name("parameters"),
            PbtxtStep::Key(key),
            PbtxtStep::Name("value"),
            PbtxtStep::Name("string_value"),
        ];
        if let Some(bytes) = self.find(&way) {
            return self.splice(bytes, &quoted(value));
        }
        let newline = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let line =
            format!("{newline}parameters {{ key: {} value: {{ string_value: {} }} }}\n", quoted(key), quoted(value));
        self.splice(self.text.len()..self.text.len(), &line)
    }

    fn splice(&mut self, bytes: Range<usize>, literal: &str) -> Result<(), PbtxtError> {
        let mut text = self.text.clone();
        text.replace_range(bytes, literal);
        *self = Self::parse(text)?;
        Ok(())
    }

    fn walk(&self, way: &[PbtxtStep<'_>]) -> (Range<usize>, bool) {
        let mut fields: &[PbtxtField] = &self.fields;
        let mut bytes = 0..0;
        let mut named: Vec<&PbtxtValue> = Vec::new();
        for step in way {
            match step {
                PbtxtStep::Name(name) => {
                    let here: Vec<&PbtxtField> = fields.iter().filter(|field| field.name == *name).collect();
                    let Some(last) = here.last() else { return (bytes, false) };
                    named = here.iter().flat_map(|field| &field.values).collect();
                    bytes = match named.as_slice() {
                        [one] if !last.is_list => one.bytes.clone(),
                        _ => here[0].at.clone(),
                    };
                    fields = named.last().map_or(&[], |value| value.fields());
                }
                PbtxtStep::Nth(index) => {
                    let Some(value) = named.get(*index) else { return (bytes, false) };
                    bytes = value.bytes.clone();
                    fields = value.fields();
                }
                PbtxtStep::Key(key) => {
                    let entry = named.iter().rfind(|value| key_of(value.fields()).as_deref() == Some(key));
                    let Some(value) = entry else { return (bytes, false) };
                    bytes = value.bytes.clone();
                    fields = value.fields();
                }
            }
        }
        (bytes, true)
    }
}

/// Every key of a map is a text or a number.
fn key_of(entry: &[PbtxtField]) -> Option<String> {
    let key = entry.iter().rfind(|field| field.name == "key")?.values.last()?;
    match &key.shape {
        PbtxtShape::Text(bytes) => String::from_utf8(bytes.clone()).ok(),
        PbtxtShape::Bare(word) => Some(word.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pbtxt;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    const TEXT: &str = "# who it is\nname: \"m\" ; max_batch_size :8 # small\n\
        input [{name:'x'  dims: [ -1 , 4 ]}, { name: \"y\" }]\ninput < name: \"z\" >\n\
        parameters { key: \"a\" value { string_value: \"1\" '2' } }\n";

    #[test]
    fn an_edit_changes_its_value_and_nothing_else() {
        let mut document = PbtxtDocument::parse(TEXT).unwrap();
        assert_eq!(document.text(), TEXT);
        document.set(&[PbtxtStep::Name("max_batch_size")], "16").unwrap();
        document.set(&[PbtxtStep::Name("input"), PbtxtStep::Nth(2), PbtxtStep::Name("name")], "\"w\"").unwrap();
        document
            .set(&[PbtxtStep::Name("input"), PbtxtStep::Nth(0), PbtxtStep::Name("dims"), PbtxtStep::Nth(1)], "5")
            .unwrap();
        document.set_parameter("a", "3").unwrap();
        document.set_parameter("b", "new").unwrap();
        let expected = TEXT
            .replace(":8", ":16")
            .replace("\"z\"", "\"w\"")
            .replace("-1 , 4", "-1 , 5")
            .replace("\"1\" '2'", "\"3\"")
            + "parameters { key: \"b\" value: { string_value: \"new\" } }\n";
        assert_eq!(document.text(), expected);
        assert!(document.set(&[PbtxtStep::Name("backend")], "\"python\"").is_err());
    }

    #[test]
    fn a_way_that_ends_early_is_its_last_place() {
        let document = PbtxtDocument::parse(TEXT).unwrap();
        let way = [PbtxtStep::Name("input"), PbtxtStep::Nth(1), PbtxtStep::Name("dims")];
        assert_eq!(&TEXT[document.place(&way)], "{ name: \"y\" }");
        assert_eq!(document.find(&way), None);
    }

    #[test]
    fn an_edit_that_breaks_the_text_is_not_made() {
        let mut document = PbtxtDocument::parse(TEXT).unwrap();
        assert!(document.set(&[PbtxtStep::Name("name")], "\"").is_err());
        assert_eq!(document.text(), TEXT);
    }

    proptest! {
        #[test]
        fn any_text_that_is_read_is_kept(text in "[a-z_\\[\\]{}<>:,;\"'#$0-9\\n -]{0,80}") {
            if let Ok(document) = PbtxtDocument::parse(text.clone()) {
                prop_assert_eq!(document.text(), text);
            }
        }

        #[test]
        fn the_value_that_was_set_is_the_one_that_is_read(size in 0i32.., value in "\\PC{0,12}") {
            let mut document = PbtxtDocument::parse(TEXT).unwrap();
            document.set(&[PbtxtStep::Name("max_batch_size")], &size.to_string()).unwrap();
            document.set_parameter("a", &value).unwrap();
            let config = pbtxt::read_as_server(document.text()).unwrap();
            prop_assert_eq!(config.max_batch_size, size);
            prop_assert_eq!(&config.parameters["a"].string_value, &value);
        }
    }
}
