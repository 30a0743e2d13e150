//! Declares the event enums of the aggregates.

/// Declares the events of an aggregate: `Variant = "NameInS0" { fields }`. The serialized form has the name as its `type`.
macro_rules! aggregate_events {
    ($(#[$meta:meta])* pub enum $events:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty),* $(,)?
        },)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "type", rename_all_fields = "camelCase")]
        pub enum $events {
            $(
                $(#[$doc])*
                #[serde(rename = $name)]
                $variant { $($(#[$field_doc])* $field: $ty),* },
            )*
        }

        impl $events {
            /// Names of all events.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Name of the event in S0 8.6.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name,)* }
            }
        }
    };
}

pub(crate) use aggregate_events;
