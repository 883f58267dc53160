//! `KEY=VALUE`: a parameter as typed, or with dots a value of the manifest: `tuning.kv_fraction=0.8`.

use std::str::FromStr;

use base::diag::ErrorText;

/// One parameter, or one value by its place, given on the command line. The manifest decides which values are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValueArg {
    pub key: String,
    pub value: String,
}

/// Why an argument is no setting, with what to try.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueArgError {
    #[error(
        "{}",
        ErrorText::new(format_args!("`{}` is not KEY=VALUE", .0))
            .hint(format_args!("write `{}=VALUE`; `regatta show MANIFEST` lists the parameters", .0))
    )]
    NoEquals(String),
    #[error(
        "{}",
        ErrorText::new(format_args!("`{}` has no name before the `=`", .0))
            .hint("write KEY=VALUE, for example `system=h200-x8`")
    )]
    NoKey(String),
    #[error(
        "{}",
        ErrorText::new(format_args!(
            "`{}` cannot be the name of a parameter: {:?} is not allowed in it", .key, .found
        ))
        .hint(format_args!(
            "names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside{}", .also
        ))
    )]
    BadKey { key: String, found: char, also: &'static str },
}

impl FromStr for KeyValueArg {
    type Err = KeyValueArgError;

    /// Everything after the first `=` is the value, so `filter=a=b` is `a=b`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let Some((key, value)) = word.split_once('=') else {
            return Err(KeyValueArgError::NoEquals(word.to_owned()));
        };
        let Some(first) = key.chars().next() else {
            return Err(KeyValueArgError::NoKey(word.to_owned()));
        };
        let starts = first.is_alphabetic() || first == '_';
        let odd = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let bad = if starts { key.chars().find(|c| odd(*c)) } else { Some(first) };
        // A dot leads somewhere: not twice in a row, not at the end.
        let bad = bad.or_else(|| key.split('.').any(str::is_empty).then_some('.'));
        if let Some(found) = bad {
            let also = if found.is_whitespace() { "; there is no space around the `=`" } else { "" };
            return Err(KeyValueArgError::BadKey { key: key.to_owned(), found, also });
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

/// `--rehearse`
pub(super) fn rehearsal(is_asked: bool) -> Option<KeyValueArg> {
    is_asked.then(|| KeyValueArg { key: "rehearse".to_owned(), value: "true".to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_equals_sign_splits() {
        let setting: KeyValueArg = "filter=a=b".parse().expect("a setting");
        assert_eq!((setting.key.as_str(), setting.value.as_str()), ("filter", "a=b"));
        assert_eq!("empty=".parse::<KeyValueArg>().expect("a setting").value, "");
    }

    #[test]
    fn every_mistake_says_what_to_try() {
        let hints: Vec<String> = ["system", "=h200", "sys tem=1", "2x=1", "a..b=1", "a.=1"]
            .iter()
            .map(|word| word.parse::<KeyValueArg>().expect_err("no setting").to_string())
            .collect();
        insta::assert_snapshot!(hints.join("\n"), @r"
        `system` is not KEY=VALUE
          hint: write `system=VALUE`; `regatta show MANIFEST` lists the parameters
        `=h200` has no name before the `=`
          hint: write KEY=VALUE, for example `system=h200-x8`
        `sys tem` cannot be the name of a parameter: ' ' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside; there is no space around the `=`
        `2x` cannot be the name of a parameter: '2' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        `a..b` cannot be the name of a parameter: '.' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        `a.` cannot be the name of a parameter: '.' is not allowed in it
          hint: names are letters, digits, `_` and `-`, and start with a letter or `_`; dots lead to a value inside
        ");
    }

    proptest! {
        #[test]
        fn what_was_parsed_reads_back(key in "[a-z_][a-z0-9_-]{0,8}", value in ".*") {
            let setting: KeyValueArg = format!("{key}={value}").parse().expect("a setting");
            prop_assert_eq!(setting, KeyValueArg { key, value });
        }

        #[test]
        fn nothing_typed_makes_it_panic(word in ".*") {
            let _ = word.parse::<KeyValueArg>();
        }
    }
}
