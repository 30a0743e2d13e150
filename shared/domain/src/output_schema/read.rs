//! Reads a schema. References are resolved, so that a check needs no other part of the document.

use regex_lite::RegexBuilder;
use serde_json::{Map, Value};

use super::{Allowed, JsonType, OutputSchema, Rules, Schema, SchemaViolation};

/// Most memory of a compiled pattern, in bytes.
const MAX_REGEX_MEMORY: usize = 256 * 1024;
/// Keywords that describe and do not constrain.
const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "examples",
    "default",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "$defs",
];

/// The schema, and what is wrong with it. Wrong parts accept everything.
pub(super) fn read(schema: &Value) -> (Schema, Vec<(String, SchemaViolation)>) {
    let mut reader = Reader { root: schema, found: Vec::new(), references: Vec::new(), parts: 0 };
    if schema.to_string().len() > OutputSchema::MAX_BYTES {
        reader.wrong("", SchemaViolation::TooLarge { max_kib: OutputSchema::MAX_BYTES / 1024 });
        return (Schema::Any, reader.found);
    }
    if !schema.is_object() {
        reader.wrong("", SchemaViolation::NotAnObject);
        return (Schema::Any, reader.found);
    }
    let read = reader.schema(schema, "", 0);
    reader.unused_definitions();
    (read, reader.found)
}

struct Reader<'a> {
    root: &'a Value,
    found: Vec<(String, SchemaViolation)>,
    /// Names of the definitions that are being read.
    references: Vec<&'a str>,
    parts: usize,
}

impl<'a> Reader<'a> {
    /// A definition is read for each reference to it, and its violations are reported once.
    fn wrong(&mut self, path: &str, violation: SchemaViolation) {
        let found = (path.to_owned(), violation);
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    fn schema(&mut self, value: &'a Value, path: &str, depth: usize) -> Schema {
        self.parts += 1;
        if self.parts > OutputSchema::MAX_PARTS {
            self.wrong("", SchemaViolation::TooManyParts { max: OutputSchema::MAX_PARTS });
            return Schema::Any;
        }
        if depth > OutputSchema::MAX_DEPTH {
            self.wrong(path, SchemaViolation::TooDeep { max: OutputSchema::MAX_DEPTH });
            return Schema::Any;
        }
        match value {
            Value::Bool(true) => Schema::Any,
            Value::Bool(false) => Schema::Never,
            Value::Object(keywords) => {
                let mut rules = Rules::default();
                for (keyword, value) in keywords {
                    self.keyword(&mut rules, keyword, value, &below(path, keyword), depth + 1);
                }
                Schema::Rules(Box::new(rules))
            }
            _ => {
                self.wrong(path, SchemaViolation::NotASchema);
                Schema::Any
            }
        }
    }

    fn keyword(&mut self, rules: &mut Rules, keyword: &str, value: &'a Value, path: &str, depth: usize) {
        match keyword {
            "type" => rules.types = self.types(value, path),
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() => rules.values.push(Allowed::new(values)),
                _ => self.wrong(path, SchemaViolation::Expected("a list of one value or more")),
            },
            "const" => rules.values.push(Allowed::new(std::slice::from_ref(value))),
            "$ref" => rules.all_of.push(self.reference(value, path, depth)),
            "allOf" => rules.all_of.extend(self.schemas(value, path, depth)),
            "anyOf" => rules.any_of = Some(self.schemas(value, path, depth)),
            "oneOf" => rules.one_of = Some(self.schemas(value, path, depth)),
            "not" => rules.not = Some(self.schema(value, path, depth)),
            "properties" => rules.properties = self.named_schemas(value, path, depth),
            "additionalProperties" => rules.additional_properties = Some(self.schema(value, path, depth)),
            "required" => rules.required = self.texts(value, path),
            "minProperties" => rules.min_properties = self.count(value, path),
            "maxProperties" => rules.max_properties = self.count(value, path),
            "items" => rules.items = Some(self.schema(value, path, depth)),
            "minItems" => rules.min_items = self.count(value, path),
            "maxItems" => rules.max_items = self.count(value, path),
            "uniqueItems" => match value.as_bool() {
                Some(unique) => rules.unique_items = unique,
                None => self.wrong(path, SchemaViolation::Expected("`true` or `false`")),
            },
            "minLength" => rules.min_length = self.count(value, path),
            "maxLength" => rules.max_length = self.count(value, path),
            "pattern" => match value.as_str().map(pattern) {
                Some(Ok(pattern)) => rules.pattern = Some(pattern),
                Some(Err(error)) => self.wrong(path, SchemaViolation::Pattern(error.to_string())),
                None => self.wrong(path, SchemaViolation::Expected("a string")),
            },
            "minimum" => rules.minimum = self.number(value, path),
            "maximum" => rules.maximum = self.number(value, path),
            "exclusiveMinimum" => rules.exclusive_minimum = self.number(value, path),
            "exclusiveMaximum" => rules.exclusive_maximum = self.number(value, path),
            "$defs" if depth > 1 => self.wrong(path, SchemaViolation::Unsupported),
            annotation if ANNOTATIONS.contains(&annotation) => {}
            _ => self.wrong(path, SchemaViolation::Unsupported),
        }
    }

    fn types(&mut self, value: &Value, path: &str) -> Vec<JsonType> {
        let names = match value {
            Value::Array(names) if !names.is_empty() => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let types: Vec<_> = names.iter().filter_map(|name| JsonType::named(name.as_str()?)).collect();
        if types.len() != names.len() {
            let types =
                "`null`, `boolean`, `integer`, `number`, `string`, `array` or `object`, or a list of these";
            self.wrong(path, SchemaViolation::Expected(types));
        }
        types
    }

    fn reference(&mut self, value: &'a Value, path: &str, depth: usize) -> Schema {
        let name = value.as_str().and_then(|text| text.strip_prefix("#/$defs/"));
        let definitions = self.definitions();
        let found = name.zip(definitions).and_then(|(name, all)| all.get_key_value(name));
        let Some((name, definition)) = found else {
            self.wrong(path, SchemaViolation::UnknownReference);
            return Schema::Any;
        };
        if self.references.contains(&name.as_str()) {
            self.wrong(path, SchemaViolation::Recursive);
            return Schema::Any;
        }
        self.references.push(name);
        let read = self.schema(definition, &below("$defs", name), depth);
        self.references.pop();
        read
    }

    fn definitions(&self) -> Option<&'a Map<String, Value>> {
        self.root.get("$defs").and_then(Value::as_object)
    }

    /// Reads all definitions, so that the violations of unused ones are named as well.
    fn unused_definitions(&mut self) {
        match (self.root.get("$defs"), self.definitions()) {
            (Some(_), None) => self.wrong("$defs", SchemaViolation::Expected("an object with schemas")),
            (_, definitions) => {
                for (name, definition) in definitions.into_iter().flatten() {
                    self.references.push(name);
                    self.schema(definition, &below("$defs", name), 1);
                    self.references.pop();
                }
            }
        }
    }

    fn schemas(&mut self, value: &'a Value, path: &str, depth: usize) -> Vec<Schema> {
        match value.as_array() {
            Some(all) if !all.is_empty() => all
                .iter()
                .enumerate()
                .map(|(at, one)| self.schema(one, &format!("{path}[{at}]"), depth))
                .collect(),
            _ => {
                self.wrong(path, SchemaViolation::Expected("a list of one schema or more"));
                Vec::new()
            }
        }
    }

    fn named_schemas(&mut self, value: &'a Value, path: &str, depth: usize) -> Vec<(String, Schema)> {
        let Some(all) = value.as_object() else {
            self.wrong(path, SchemaViolation::Expected("an object with schemas"));
            return Vec::new();
        };
        all.iter().map(|(name, one)| (name.clone(), self.schema(one, &below(path, name), depth))).collect()
    }

    fn texts(&mut self, value: &Value, path: &str) -> Vec<String> {
        let all = value.as_array().into_iter().flatten().map(|text| text.as_str().map(str::to_owned));
        match all.collect::<Option<Vec<_>>>() {
            Some(texts) if value.is_array() => texts,
            _ => {
                self.wrong(path, SchemaViolation::Expected("a list of strings"));
                Vec::new()
            }
        }
    }

    fn count(&mut self, value: &Value, path: &str) -> Option<u64> {
        if value.as_u64().is_none() {
            self.wrong(path, SchemaViolation::Expected("a whole number that is not negative"));
        }
        value.as_u64()
    }

    fn number(&mut self, value: &Value, path: &str) -> Option<f64> {
        if value.as_f64().is_none() {
            self.wrong(path, SchemaViolation::Expected("a number"));
        }
        value.as_f64()
    }
}

fn pattern(text: &str) -> Result<regex_lite::Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(MAX_REGEX_MEMORY).build()
}

fn below(path: &str, name: &str) -> String {
    let name = crate::text::cut(name, 80);
    if path.is_empty() { name } else { format!("{path}.{name}") }
}
