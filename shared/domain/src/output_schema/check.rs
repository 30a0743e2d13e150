//! Compares a result with a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{OutputViolation, Rules, Schema};
use crate::text::cut;

/// In characters, for values of an `enum` in a message.
const MAX_VALUES: usize = 200;
/// In characters, because the paths are stored with the session.
const MAX_PATH: usize = 400;

/// Names up to `most` violations.
pub(super) fn check(schema: &Schema, value: &Value, most: usize) -> Vec<OutputViolation> {
    let mut checker = Checker { found: Vec::new(), most };
    checker.schema(schema, value, "");
    checker.found
}

fn fits(schema: &Schema, value: &Value) -> bool {
    check(schema, value, 1).is_empty()
}

struct Checker {
    found: Vec<OutputViolation>,
    most: usize,
}

impl Checker {
    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        if !self.is_full() {
            self.found.push(OutputViolation { path: cut(path, MAX_PATH), message: message.into() });
        }
    }

    const fn is_full(&self) -> bool {
        self.found.len() >= self.most
    }

    fn schema(&mut self, schema: &Schema, value: &Value, path: &str) {
        if self.is_full() {
            return;
        }
        match schema {
            Schema::Any => {}
            Schema::Never => self.wrong(path, "is not allowed"),
            Schema::Rules(rules) => self.rules(rules, value, path),
        }
    }

    fn rules(&mut self, rules: &Rules, value: &Value, path: &str) {
        if !rules.types.is_empty() && !rules.types.iter().any(|kind| kind.is_of(value)) {
            let names: Vec<_> = rules.types.iter().map(|kind| kind.name()).collect();
            // Further rules would only repeat that the type is another one.
            return self.wrong(path, format!("must be of type {}", names.join(" or ")));
        }
        for allowed in rules.values.iter().filter(|allowed| !allowed.texts.contains(&canonical(value))) {
            self.wrong(path, format!("must be one of: {}", cut(&allowed.shown, MAX_VALUES)));
        }
        for part in &rules.all_of {
            self.schema(part, value, path);
        }
        if let Some(parts) = &rules.any_of
            && !parts.iter().any(|part| fits(part, value))
        {
            self.wrong(path, "matches none of the schemas in `anyOf`");
        }
        if let Some(parts) = &rules.one_of {
            match parts.iter().filter(|part| fits(part, value)).count() {
                1 => {}
                0 => self.wrong(path, "matches none of the schemas in `oneOf`"),
                many => self.wrong(path, format!("matches {many} schemas in `oneOf` instead of one")),
            }
        }
        if rules.not.as_ref().is_some_and(|schema| fits(schema, value)) {
            self.wrong(path, "matches the schema in `not`");
        }
        match value {
            Value::Object(fields) => self.object(rules, fields, path),
            Value::Array(items) => self.array(rules, items, path),
            Value::String(text) => self.text(rules, text, path),
            Value::Number(number) => self.number(rules, number.as_f64().unwrap_or(f64::NAN), path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn object(&mut self, rules: &Rules, fields: &Map<String, Value>, path: &str) {
        for name in rules.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.wrong(&below(path, name), "is required");
        }
        self.count(rules.min_properties, rules.max_properties, fields.len(), path, "fields");
        for (name, field) in fields {
            let declared = rules.properties.iter().find(|(known, _)| known == name);
            match (declared, &rules.additional_properties) {
                (Some((_, schema)), _) | (None, Some(schema)) => {
                    self.schema(schema, field, &below(path, name));
                }
                (None, None) => {}
            }
        }
    }

    fn array(&mut self, rules: &Rules, items: &[Value], path: &str) {
        self.count(rules.min_items, rules.max_items, items.len(), path, "items");
        if rules.unique_items && items.iter().map(canonical).collect::<BTreeSet<_>>().len() < items.len() {
            self.wrong(path, "must not contain an item twice");
        }
        if let Some(schema) = &rules.items {
            for (at, item) in items.iter().enumerate() {
                self.schema(schema, item, &format!("{path}/{at}"));
            }
        }
    }

    fn text(&mut self, rules: &Rules, text: &str, path: &str) {
        self.count(rules.min_length, rules.max_length, text.chars().count(), path, "characters");
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.wrong(path, format!("must match the pattern {}", cut(pattern.as_str(), MAX_VALUES)));
        }
    }

    fn number(&mut self, rules: &Rules, number: f64, path: &str) {
        if let Some(least) = rules.minimum.filter(|least| number < *least) {
            self.wrong(path, format!("must be at least {least}"));
        }
        if let Some(most) = rules.maximum.filter(|most| number > *most) {
            self.wrong(path, format!("must be at most {most}"));
        }
        if let Some(limit) = rules.exclusive_minimum.filter(|limit| number <= *limit) {
            self.wrong(path, format!("must be greater than {limit}"));
        }
        if let Some(limit) = rules.exclusive_maximum.filter(|limit| number >= *limit) {
            self.wrong(path, format!("must be less than {limit}"));
        }
    }

    fn count(&mut self, least: Option<u64>, most: Option<u64>, count: usize, path: &str, what: &str) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(least) = least.filter(|least| count < *least) {
            self.wrong(path, format!("must have at least {least} {what}, but has {count}"));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            self.wrong(path, format!("must have at most {most} {what}, but has {count}"));
        }
    }
}

/// A text that equal values share: the order of fields and the form of numbers do not matter.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .map(|(name, field)| format!("{}:{}", Value::from(name.as_str()), canonical(field)))
                .collect();
            fields.sort_unstable();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        Value::Number(number) if !number.is_f64() => number.to_string(),
        Value::Number(number) => match number.as_f64() {
            // A whole number has the same text with and without a fraction. The sum has no negative zero.
            Some(float) if float.fract() == 0.0 => format!("{:.0}", float + 0.0),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", cut(&name.replace('~', "~0").replace('/', "~1"), 80))
}
