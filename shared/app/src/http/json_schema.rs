//! Checks whether a JSON document is a JSON Schema, by the meta-schema of draft 2020-12 and the differences of older drafts
//! (`definitions`, `dependencies`, lists under `items`, numbers under `exclusiveMinimum`).
//!
//! The meta-schema defines the type of each keyword's value and allows unknown keywords. The table below does the same, which is
//! enough to check the inputs of tools. A full validator would add a regular expression engine to every function.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 64;
/// Most reported violations.
const MAX_NAMED: usize = 20;

#[derive(Clone, Copy)]
enum Takes {
    Text,
    Flag,
    Number,
    PositiveNumber,
    Count,
    List,
    UniqueTexts,
    Vocabulary,
    Types,
    Schema,
    SchemaOrSchemas,
    Schemas,
    NamedSchemas,
    SchemasOrTexts,
    TextsByName,
}

fn keyword(name: &str) -> Option<Takes> {
    use Takes as T;
    Some(match name {
        "$schema" | "$id" | "id" | "$ref" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$comment"
        | "title" | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => T::Text,
        "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => T::Flag,
        "maximum" | "minimum" | "exclusiveMaximum" | "exclusiveMinimum" => T::Number,
        "multipleOf" => T::PositiveNumber,
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxContains" | "minContains"
        | "maxProperties" | "minProperties" => T::Count,
        "enum" | "examples" => T::List,
        "required" => T::UniqueTexts,
        "$vocabulary" => T::Vocabulary,
        "type" => T::Types,
        "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "additionalProperties"
        | "additionalItems"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => T::Schema,
        "items" => T::SchemaOrSchemas,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => T::Schemas,
        "$defs" | "definitions" | "properties" | "patternProperties" | "dependentSchemas" => T::NamedSchemas,
        "dependencies" => T::SchemasOrTexts,
        "dependentRequired" => T::TextsByName,
        _ => return None,
    })
}

/// Lists everything that keeps `schema` from being a JSON Schema, each with its position as a JSON Pointer.
pub fn violations(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Looker { found: &mut found }.schema(schema, "", 0);
    found
}

struct Looker<'a> {
    found: &'a mut Vec<String>,
}

impl Looker<'_> {
    fn wrong(&mut self, place: &str, what: &str) {
        if self.found.len() < MAX_NAMED {
            let place = if place.is_empty() { "/" } else { place };
            self.found.push(format!("{place} {what}"));
        }
    }

    fn check(&mut self, fits: bool, place: &str, what: &str) {
        if !fits {
            self.wrong(place, what);
        }
    }

    fn schema(&mut self, value: &Value, place: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return self.wrong(place, "is nested too deeply");
        }
        match value {
            Value::Bool(_) => {}
            Value::Object(keywords) => {
                for (name, value) in keywords {
                    if let Some(takes) = keyword(name) {
                        self.keyword(takes, value, &format!("{place}/{}", escaped(name)), depth + 1);
                    }
                }
            }
            _ => self.wrong(place, "must be a schema: an object, `true` or `false`"),
        }
    }

    fn keyword(&mut self, takes: Takes, value: &Value, place: &str, depth: usize) {
        match takes {
            Takes::Text => self.check(value.is_string(), place, "must be a string"),
            Takes::Flag => self.check(value.is_boolean(), place, "must be `true` or `false`"),
            // Draft 4 has booleans for `exclusiveMinimum` and `exclusiveMaximum`.
            Takes::Number => {
                let flag =
                    value.is_boolean() && place.rsplit('/').next().is_some_and(|k| k.starts_with("excl"));
                self.check(value.is_number() || flag, place, "must be a number");
            }
            Takes::PositiveNumber => {
                let fits = value.as_f64().is_some_and(|n| n > 0.0);
                self.check(fits, place, "must be a number greater than 0");
            }
            Takes::Count => {
                let whole = |n: f64| n >= 0.0 && n.fract() == 0.0;
                self.check(value.as_f64().is_some_and(whole), place, "must be a whole number, at least 0");
            }
            Takes::List => self.check(value.is_array(), place, "must be a list"),
            Takes::UniqueTexts => self.unique_texts(value, place),
            Takes::Vocabulary => {
                let fits = value.as_object().is_some_and(|map| map.values().all(Value::is_boolean));
                self.check(fits, place, "must be an object of `true` and `false`");
            }
            Takes::Types => self.types(value, place),
            Takes::SchemaOrSchemas if value.is_array() => self.each(value, place, depth, false),
            Takes::Schema | Takes::SchemaOrSchemas => self.schema(value, place, depth),
            Takes::Schemas => self.each(value, place, depth, true),
            Takes::NamedSchemas => {
                self.each_of(value, place, |look, value, place| look.schema(value, place, depth));
            }
            Takes::SchemasOrTexts => self.each_of(value, place, |look, value, place| match value {
                Value::Array(_) => look.unique_texts(value, place),
                _ => look.schema(value, place, depth),
            }),
            Takes::TextsByName => self.each_of(value, place, Self::unique_texts),
        }
    }

    /// Checks a list of schemas. If `some`, it must not be empty.
    fn each(&mut self, value: &Value, place: &str, depth: usize, some: bool) {
        let Some(schemas) = value.as_array().filter(|schemas| !some || !schemas.is_empty()) else {
            return self.wrong(place, "must be a list of at least one schema");
        };
        for (at, schema) in schemas.iter().enumerate() {
            self.schema(schema, &format!("{place}/{at}"), depth);
        }
    }

    fn each_of(&mut self, value: &Value, place: &str, mut look: impl FnMut(&mut Self, &Value, &str)) {
        let none = Map::new();
        let named = value.as_object();
        self.check(named.is_some(), place, "must be an object");
        for (name, value) in named.unwrap_or(&none) {
            look(self, value, &format!("{place}/{}", escaped(name)));
        }
    }

    fn unique_texts(&mut self, value: &Value, place: &str) {
        let texts = value.as_array().filter(|texts| texts.iter().all(Value::is_string));
        let unique =
            texts.is_some_and(|texts| texts.iter().enumerate().all(|(at, text)| !texts[..at].contains(text)));
        self.check(unique, place, "must be a list of strings, each once");
    }

    fn types(&mut self, value: &Value, place: &str) {
        const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
        let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
        let fits = match value {
            Value::Array(types) => {
                !types.is_empty()
                    && types.iter().all(known)
                    && types.iter().enumerate().all(|(at, name)| !types[..at].contains(name))
            }
            one => known(one),
        };
        self.check(fits, place, &format!("must be one or some of {}, each once", TYPES.join(", ")));
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::violations;

    #[test]
    fn valid_schemas_are_accepted() {
        for good in [
            json!(true),
            json!({}),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "path": { "type": "string", "minLength": 1, "pattern": "^/" },
                    "lines": { "type": ["array", "null"], "items": { "type": "integer", "minimum": 0 } },
                    "type": { "const": 7, "multipleOf": 0.5, "maxLength": 3.0 },
                },
                "required": ["path"],
                "additionalProperties": false,
                "dependentRequired": { "a": ["b"] },
                "$defs": { "x": { "anyOf": [true, { "$ref": "#/$defs/x" }] } },
                "default": [1, "two"],
                "x-of-our-own": { "type": 7 },
            }),
            // Draft 7 and draft 4.
            json!({ "items": [{ "type": "string" }, {}], "definitions": {}, "dependencies": { "a": ["b"], "c": {} } }),
            json!({ "minimum": 1, "exclusiveMinimum": true }),
        ] {
            assert_eq!(violations(&good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn invalid_schema_is_reported_with_its_position() {
        let wrong = json!({
            "type": "text",
            "properties": {
                "a/b": { "type": ["string", "string"] },
                "c": 7,
                "d": { "items": { "minimum": "1" } },
            },
            "required": ["a", "a"],
            "anyOf": [],
            "allOf": [{ "not": null }],
            "maxLength": -1,
            "minLength": 1.5,
            "multipleOf": 0,
            "uniqueItems": "yes",
            "title": 1,
            "enum": {},
            "$defs": [],
            "dependentRequired": { "a": "b" },
        });
        let mut places: Vec<_> =
            violations(&wrong).into_iter().map(|v| v.split(' ').next().unwrap().to_owned()).collect();
        places.sort();
        assert_eq!(
            places,
            [
                "/$defs",
                "/allOf/0/not",
                "/anyOf",
                "/dependentRequired/a",
                "/enum",
                "/maxLength",
                "/minLength",
                "/multipleOf",
                "/properties/a~1b/type",
                "/properties/c",
                "/properties/d/items/minimum",
                "/required",
                "/title",
                "/type",
                "/uniqueItems",
            ]
        );
        assert_eq!(violations(&json!([])).len(), 1);
    }

    #[test]
    fn deep_schema_is_checked_in_bounded_time() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert_eq!(violations(&deep).len(), 1);
    }
}
