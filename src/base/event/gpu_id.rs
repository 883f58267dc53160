//! One GPU that a run may lease: by its number on the machine or its UUID, or an instance of a divided GPU (MIG) by its UUID.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// As `CUDA_VISIBLE_DEVICES` takes it: `3`, `GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f`, `MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuId {
    Index(u32),
    /// A whole GPU: the bytes of its UUID.
    Gpu([u8; 16]),
    /// An instance: the bytes of its UUID.
    Mig([u8; 16]),
}

/// The text names no GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a number nor GPU-<uuid> or MIG-<uuid>, as `nvidia-smi -L` prints it")]
pub struct GpuIdError(String);

const GPU: &str = "GPU-";
const MIG: &str = "MIG-";
/// Hexadecimal digits in the parts of a UUID.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];

impl GpuId {
    /// Whether the text is a UUID and no number, by its beginning.
    pub fn is_uuid(text: &str) -> bool {
        text.starts_with(GPU) || text.starts_with(MIG)
    }

    /// The GPUs of a `CUDA_VISIBLE_DEVICES`. As CUDA reads it, the list ends at what names no GPU, such as `-1` or `NoDevFiles`.
    ///
    /// # Errors
    /// A UUID in another form, such as its first digits: CUDA may know the GPU.
    pub fn visible(list: &str) -> Result<Vec<Self>, GpuIdError> {
        let mut gpus = Vec::new();
        for entry in list.split(',').map(str::trim) {
            match entry.parse() {
                Ok(gpu) if gpus.contains(&gpu) => {}
                Ok(gpu) => gpus.push(gpu),
                Err(error) if Self::is_uuid(entry) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(gpus)
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
        let (uuid, of_bytes): (&str, fn([u8; 16]) -> Self) = match (text.strip_prefix(GPU), text.strip_prefix(MIG)) {
            (Some(uuid), _) => (uuid, Self::Gpu),
            (_, Some(uuid)) => (uuid, Self::Mig),
            _ => return text.parse().map(Self::Index).map_err(|_| wrong()),
        };
        let is_uuid =
            uuid.split('-').map(str::len).eq(PARTS) && uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
        let digits: String = uuid.chars().filter(|c| *c != '-').collect();
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid).ok_or_else(wrong)?;
        Ok(of_bytes(number.to_be_bytes()))
    }
}

impl fmt::Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = match self {
            Self::Index(index) => return write!(f, "{index}"),
            Self::Gpu(bytes) => ("GPU", bytes),
            Self::Mig(bytes) => ("MIG", bytes),
        };
        let digits = format!("{:032x}", u128::from_be_bytes(*bytes));
        let mut from = 0;
        f.write_str(kind)?;
        for digits_of_part in PARTS {
            write!(f, "-{}", &digits[from..from + digits_of_part])?;
            from += digits_of_part;
        }
        Ok(())
    }
}

impl Serialize for GpuId {
    /// A number, or a UUID as text.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Index(index) => to.serialize_u32(*index),
            Self::Gpu(_) | Self::Mig(_) => to.collect_str(self),
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

    const WHOLE: &str = "GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";
    const INSTANCE: &str = "MIG-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f";

    #[test]
    fn numbers_and_uuids_are_read_and_written_as_nvidia_does() {
        for text in ["0", "13", WHOLE, INSTANCE] {
            let id: GpuId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::from_str::<GpuId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        }
        assert_eq!(serde_json::to_string(&GpuId::Index(3)).unwrap(), "3");
        for wrong in ["", "-1", "MIG-", "MIG-1", "GPU-8f9b3c5e", &INSTANCE[4..], &INSTANCE[..20]] {
            assert!(wrong.parse::<GpuId>().is_err(), "{wrong}");
        }
        assert_eq!(GpuId::list(&[GpuId::Index(1), INSTANCE.parse().unwrap()]), format!("1,{INSTANCE}"));
    }

    #[test]
    fn a_list_of_visible_gpus_ends_where_cuda_ends_it() {
        let visible = |list: &str| GpuId::visible(list).map(|gpus| GpuId::list(&gpus));
        for (list, gpus) in [
            ("0,1", "0,1"),
            (" 2 , 0", "2,0"),
            ("2,-1,3", "2"),
            ("0,x,1", "0"),
            ("1,1", "1"),
            ("", ""),
            ("NoDevFiles", ""),
        ] {
            assert_eq!(visible(list).as_deref(), Ok(gpus), "{list}");
        }
        let both = format!("{WHOLE},{INSTANCE}");
        assert_eq!(visible(&both), Ok(both));
        // CUDA takes the first digits, and older drivers name instances by their GPU.
        assert_eq!(visible("0,GPU-8f9b"), Err(GpuIdError("GPU-8f9b".to_owned())));
        assert!(visible("MIG-GPU-8f9b3c5e-2f0a-5b1d-9c3e-1a2b3c4d5e6f/1/0").is_err());
    }
}
