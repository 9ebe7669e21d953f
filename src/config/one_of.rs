//! Maps with exactly one key, which selects the type of the value: `runner: { constant: … }`.

/// Defines an enum for such a map, with its reader, its writer and its schema. To add a variant, add a line.
macro_rules! one_of {
    (
        #[doc = $about:literal]
        pub enum $name:ident {
            $($(#[doc = $doc:literal])+ $key:literal => $variant:ident($type:ty),)+
        }
    ) => {
        #[doc = $about]
        #[derive(Clone, Debug)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant($type),)+
        }

        impl $name {
            /// The key of this variant.
            #[must_use]
            pub fn key(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $key,)+
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct OneKey;
                impl<'de> serde::de::Visitor<'de> for OneKey {
                    type Value = $name;
                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(formatter, "a map with one of the keys {}", [$($key),+].join(", "))
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        use serde::de::Error as _;
                        let value = match map.next_key::<String>()?.as_deref() {
                            $(Some($key) => $name::$variant(map.next_value()?),)+
                            Some(other) => return Err(A::Error::unknown_field(other, &[$($key),+])),
                            None => return Err(A::Error::invalid_length(0, &self)),
                        };
                        match map.next_key::<String>()? {
                            Some(_) => Err(A::Error::invalid_length(2, &self)),
                            None => Ok(value),
                        }
                    }
                }
                deserializer.deserialize_map(OneKey)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(Some(1))?;
                match self {
                    $(Self::$variant(value) => map.serialize_entry($key, value)?,)+
                }
                map.end()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = serde_json::Map::new();
                $(
                    let kind = generator.subschema_for::<$type>();
                    let property = serde_json::json!({
                        "anyOf": [kind, { "type": "null" }],
                        "description": concat!($($doc),+).trim()
                    });
                    properties.insert($key.to_owned(), property);
                )+
                schemars::json_schema!({
                    "type": "object",
                    "additionalProperties": false,
                    "properties": properties,
                    "description": $about.trim(),
                    "minProperties": 1,
                    "maxProperties": 1
                })
            }
        }
    };
}

pub(super) use one_of;
