use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

/// Fields in the order of recording.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        self.0.insert(camel_case(field.name()), value);
    }
}

/// Converts a field name to the spelling of the API.
fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut up = false;
    for c in name.chars() {
        match c {
            '_' => up = true,
            c if up => {
                up = false;
                out.extend(c.to_uppercase());
            }
            c => out.push(c),
        }
    }
    out
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, pilothouse_app::error_chain(value).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::camel_case;

    #[test]
    fn field_names_match_the_api() {
        assert_eq!(camel_case("request_id"), "requestId");
        assert_eq!(camel_case("session"), "session");
        assert_eq!(camel_case("a_b_c"), "aBC");
    }
}
