//! The seed of a server's sampling.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The seed of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(deny_unknown_fields)]
pub enum RandomSeed {
    /// The same for every request.
    Fixed(u64),
    /// `true`: one for each request, drawn with the bench's seed and the request's number.
    PerRequest(bool),
}

impl<'de> Deserialize<'de> for RandomSeed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Seed {
            Fixed(u64),
            PerRequest(bool),
        }
        /// Results that were written before have the word alone.
        #[derive(Deserialize)]
        enum Word {
            #[serde(rename = "per_request")]
            PerRequest,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Seed(Seed),
            Word(Word),
        }
        Ok(match Written::deserialize(from)? {
            Written::Seed(Seed::Fixed(seed)) => Self::Fixed(seed),
            Written::Seed(Seed::PerRequest(each)) => Self::PerRequest(each),
            Written::Word(Word::PerRequest) => Self::PerRequest(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written_now_and_as_it_was_before() {
        for seed in [RandomSeed::Fixed(7), RandomSeed::PerRequest(true)] {
            let text = serde_json::to_string(&seed).unwrap();
            assert_eq!(serde_json::from_str::<RandomSeed>(&text).unwrap(), seed, "{text}");
        }
        assert_eq!(serde_json::from_str::<RandomSeed>("\"per_request\"").unwrap(), RandomSeed::PerRequest(true));
        assert!(serde_json::from_str::<RandomSeed>("\"each\"").is_err());
    }
}
