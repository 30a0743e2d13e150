//! Conversions of value objects that are written as strings.

/// Implements the conversions from and to a string and `Display`, and the JSON Schema if one is given.
///
/// The object is parsed by a function of `String`, and its field contains the text.
macro_rules! string_value {
    ($name:ident.$field:tt, $error:ty, $parse:expr $(, $schema:tt)?) => {
        impl TryFrom<String> for $name {
            type Error = $error;
            fn try_from(text: String) -> Result<Self, $error> {
                $parse(text)
            }
        }

        impl From<$name> for String {
            fn from(object: $name) -> Self {
                object.$field
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.$field)
            }
        }

        $(impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        })?
    };
}

pub(crate) use string_value;
