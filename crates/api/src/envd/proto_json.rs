//! The rules of proto3 JSON that plain serde does not know: base64 bytes, 64-bit numbers as strings,
//! `null` as the zero value.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const LENIENT_CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT_CONFIG);
const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT_CONFIG);

/// A `bytes` field: padded base64 out; either alphabet, padded or not, in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoBytes(pub Vec<u8>);

impl Serialize for ProtoBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for ProtoBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let engine = if text.contains(['-', '_']) {
            LENIENT_URL
        } else {
            LENIENT
        };
        engine.decode(text).map(Self).map_err(D::Error::custom)
    }
}

/// An `int64` field: a string out; a string or a number in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProtoInt64(pub i64);

impl ProtoInt64 {
    /// Whether it is left out on the wire.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl Serialize for ProtoInt64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProtoInt64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number(deserializer).map(Self)
    }
}

/// A number that may be written as a string; `null` is zero.
pub(super) fn number<'de, D, N>(deserializer: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i64> + Default,
{
    Ok(optional_number(deserializer)?.unwrap_or_default())
}

/// The same for an optional field: `null` is absent.
pub(super) fn optional_number<'de, D, N>(deserializer: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i64>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Text(String),
    }
    let value = match Option::<Written>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Written::Number(value)) => value,
        Some(Written::Text(text)) => text.parse().map_err(D::Error::custom)?,
    };
    let narrowed = N::try_from(value);
    narrowed
        .map(Some)
        .map_err(|_| D::Error::custom(format!("{value} is out of range")))
}

/// `null` reads as the zero value.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a field is left out on the wire.
pub(super) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_every_spelling_of_base64() {
        for text in ["\"+/8=\"", "\"+/8\"", "\"-_8=\"", "\"-_8\""] {
            let bytes: ProtoBytes = serde_json::from_str(text).unwrap();
            assert_eq!(bytes.0, [0xfb, 0xff], "{text}");
        }
        assert_eq!(
            serde_json::to_string(&ProtoBytes(vec![0xfb, 0xff])).unwrap(),
            "\"+/8=\""
        );
    }

    #[test]
    fn large_numbers_travel_as_strings_and_are_read_as_either() {
        let big = ProtoInt64(i64::MAX);
        let json = serde_json::to_string(&big).unwrap();
        assert_eq!(json, "\"9223372036854775807\"");
        assert_eq!(serde_json::from_str::<ProtoInt64>(&json).unwrap(), big);
        assert_eq!(serde_json::from_str::<ProtoInt64>("7").unwrap().0, 7);
        assert!(serde_json::from_str::<ProtoInt64>("\"seven\"").is_err());
    }
}
