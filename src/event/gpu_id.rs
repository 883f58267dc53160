//! One GPU that a run may lease: by its number on the machine, or an instance of a divided GPU (MIG) by its UUID.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// As `CUDA_VISIBLE_DEVICES` takes it: `3`, `MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuId {
    Index(u32),
    /// The bytes of its UUID.
    Mig([u8; 16]),
}

/// The text names no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number nor MIG-<uuid>, as `nvidia-smi -L` prints it")]
pub struct GpuIdError(String);

const PREFIX: &str = "MIG-";
/// Hexadecimal digits in the parts of a UUID.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

impl GpuId {
    /// Its number, unless it is a part of a GPU.
    pub const fn index(self) -> Option<u32> {
        match self {
            Self::Index(index) => Some(index),
            Self::Mig(_) => None,
        }
    }

    /// `0,1,3`
    pub fn list(gpus: &[Self]) -> String {
        gpus.iter().map(Self::to_string).collect::<Vec<_>>().join(",")
    }
}

impl From<u32> for GpuId {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

impl FromStr for GpuId {
    type Err = GpuIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || GpuIdError(text.to_owned());
        let Some(uuid) = text.strip_prefix(PREFIX) else {
            return text.parse().map(Self::Index).map_err(|_| wrong());
        };
        let is_uuid =
            uuid.split('-').map(str::len).eq(PARTS) && uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        let digits: String = uuid.chars().filter(|c| *c != '-').collect();
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid).ok_or_else(wrong)?;
        Ok(Self::Mig(number.to_be_bytes()))
    }
}

impl fmt::Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match self {
            Self::Index(index) => return write!(f, "{index}"),
            Self::Mig(bytes) => bytes,
        };
        let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
        let mut from = 0;
        f.write_str("MIG")?;
        for digits_of_part in PARTS {
            write!(f, "-{}", &digits[from..from + digits_of_part])?;
            from += digits_of_part;
        }
        Ok(())
    }
}

impl Serialize for GpuId {
    /// A number, or a text for an instance.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => to.serialize_u32(*index),
            Self::Mig(_) => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for GpuId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Index(u32),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Index(index) => Ok(Self::Index(index)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIG: &str = "MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";

    #[test]
    fn numbers_and_instances_are_read_and_written_as_nvidia_does() {
        for text in ["0", "13", MIG] {
            let id: GpuId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::from_str::<GpuId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        }
        assert_eq!(serde_json::to_string(&GpuId::Index(3)).unwrap(), "3");
        for wrong in ["", "-1", "MIG-", "MIG-1", "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f", &MIG[..20]] {
            assert!(wrong.parse::<GpuId>().is_err(), "{wrong}");
        }
        assert_eq!(GpuId::list(&[GpuId::Index(1), MIG.parse().unwrap()]), format!("1,{MIG}"));
    }
}
