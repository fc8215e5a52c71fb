//! Keys of a file that have one value or a list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// One value, or a list of them.
#[derive(Clone, Debug)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> OneOrMany<T> {
    pub fn into_values(self) -> Vec<T> {
        self.0
    }
}

/// Written by hand, because an untagged enum would lose the error of a value and its position.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Values<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Values<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or a list of values")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Vec<T>, E> {
                T::deserialize(value.into_deserializer()).map(|value| vec![value])
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Vec<T>, E> {
                T::deserialize(value.into_deserializer()).map(|value| vec![value])
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Vec<T>, E> {
                T::deserialize(value.into_deserializer()).map(|value| vec![value])
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Vec<T>, E> {
                T::deserialize(value.into_deserializer()).map(|value| vec![value])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list))
            }
        }

        from.deserialize_any(Values(PhantomData)).map(OneOrMany)
    }
}
