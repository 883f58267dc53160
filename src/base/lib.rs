//! What every other crate builds on: errors, events, files, settings, statistics, and numbers as text.
//!
//! ```text
//!  units ← files ← event
//!    ↑ spec, stats          diag
//! ```
//!
//! Pure but for `files`, which reads; nothing here starts a program, uses the network or prints.

/// An enum whose variants have names in files and messages: `Variant = "name"`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[doc = $about:literal])* $(#[default $($none:tt)?])? $variant:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[doc = $about])* $(#[default $($none)?])? #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Every variant, in its order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in files and messages.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// What it means: its own documentation.
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("" $(, $about)*).trim_ascii(),)*
                }
            }
        }
    };
}

/// Reads and writes a type as the text that it is displayed as and parsed from.
#[macro_export]
macro_rules! text_serde {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub mod diag;
pub mod event;
pub mod files;
pub mod spec;
pub mod stats;
pub mod units;

pub use attributes::omit_empty;

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[crate::omit_empty]
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Settings {
        name: Option<String>,
        list: Vec<Option<u32>>,
        #[serde(default)]
        written: Vec<u32>,
        count: u32,
    }

    #[test]
    fn what_is_empty_is_not_written_and_is_read_as_empty() {
        let empty = Settings { name: None, list: Vec::new(), written: Vec::new(), count: 0 };
        let full = Settings { name: Some("n".to_owned()), list: vec![None, Some(1)], written: vec![2], count: 3 };
        let texts = [r#"{"written":[],"count":0}"#, r#"{"name":"n","list":[null,1],"written":[2],"count":3}"#];
        for (settings, text) in [empty, full].iter().zip(texts) {
            assert_eq!(serde_json::to_string(settings).unwrap(), text);
            assert_eq!(serde_json::from_str::<Settings>(text).unwrap(), *settings);
        }
    }
}
