use proptest::prelude::*;
use serde_json::json;

use super::*;

fn paths(schema: Value) -> Vec<String> {
    OutputSchema::new(schema).violations().into_iter().map(|(path, _)| path).collect()
}

fn violations(schema: Value, result: &Value) -> Vec<(String, String)> {
    let found = OutputSchema::new(schema).check(Some(result)).into_iter();
    found.map(|OutputViolation { path, message }| (path, message)).collect()
}

fn invoice() -> Value {
    json!({
        "type": "object",
        "required": ["number", "lines"],
        "additionalProperties": false,
        "properties": {
            "number": { "type": "string", "pattern": "^R-[0-9]+$" },
            "lines": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/line" } },
        },
        "$defs": { "line": {
            "type": "object", "required": ["price"],
            "properties": { "price": { "type": "number", "minimum": 0 } },
        } },
    })
}

#[test]
fn result_that_matches_has_no_violations() {
    assert_eq!(paths(invoice()), [""; 0]);
    let result = json!({ "number": "R-1", "lines": [{ "price": 2.5, "note": "tea" }] });
    assert_eq!(violations(invoice(), &result), []);
}

#[test]
fn every_violation_of_a_result_has_its_path() {
    let result = json!({ "number": "1", "lines": [{ "price": -1 }, {}, 3], "paid": true });
    let expected = [
        ("/number", "must match the pattern ^R-[0-9]+$"),
        ("/lines/0/price", "must be at least 0"),
        ("/lines/1/price", "is required"),
        ("/lines/2", "must be of type object"),
        ("/paid", "is not allowed"),
    ];
    assert_eq!(
        violations(invoice(), &result),
        expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
    );
    let missing = OutputSchema::new(invoice()).check(None);
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].place(), "the result");
}

#[test]
fn at_most_twenty_violations_are_named() {
    let schema = json!({ "type": "object", "additionalProperties": { "items": { "type": "string" } } });
    let result = json!({ "all": vec![1; 1000] });
    assert_eq!(violations(schema, &result).len(), OutputSchema::MAX_NAMED);
}

#[test]
fn keywords_that_are_not_enforced_are_violations() {
    let schema = json!({
        "type": ["text"],
        "properties": {
            "a": { "multipleOf": 2 },
            "b": { "pattern": "(" },
            "c": { "$ref": "https://example.com/schema" },
            "d": 3,
            "e": { "minLength": -1, "$defs": {} },
        },
        "anyOf": [],
        "unevaluatedProperties": false,
        "title": "Free", "format": "date",
        "$defs": { "unused": { "if": true } },
    });
    let expected = [
        "type",
        "properties.a.multipleOf",
        "properties.b.pattern",
        "properties.c.$ref",
        "properties.d",
        "properties.e.minLength",
        "properties.e.$defs",
        "anyOf",
        "unevaluatedProperties",
        "$defs.unused.if",
    ];
    assert_eq!(paths(schema), expected);
}

#[test]
fn recursive_deep_large_and_exploding_schemas_are_refused() {
    let recursive = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } });
    assert_eq!(paths(recursive), ["$defs.a.items.$ref"]);
    let deep = (0..40).fold(json!({}), |inner, _| json!({ "items": inner }));
    assert_eq!(OutputSchema::new(deep).violations()[0].1, SchemaViolation::TooDeep { max: 32 });
    let large = json!({ "description": "x".repeat(OutputSchema::MAX_BYTES) });
    assert_eq!(OutputSchema::new(large).violations()[0].1, SchemaViolation::TooLarge { max_kib: 16 });
    // Each definition doubles the one before it.
    let double = |n: usize| json!({ "allOf": [{ "$ref": format!("#/$defs/{n}") }, { "$ref": format!("#/$defs/{n}") }] });
    let definitions: serde_json::Map<_, _> = (0..25).map(|n| (n.to_string(), double(n + 1))).collect();
    let exploding = OutputSchema::new(json!({ "$ref": "#/$defs/0", "$defs": definitions }));
    assert!(exploding.violations().iter().any(|(_, it)| *it == SchemaViolation::TooManyParts { max: 2000 }));
    assert_eq!(paths(json!(true)), [""]);
}

#[test]
fn numbers_and_objects_are_compared_by_value() {
    assert_eq!(violations(json!({ "const": 1 }), &json!(1.0)), []);
    assert_eq!(violations(json!({ "enum": [{ "a": 1, "b": 2 }] }), &json!({ "b": 2, "a": 1 })), []);
    assert_eq!(violations(json!({ "uniqueItems": true }), &json!([1, 1.0])).len(), 1);
    assert_eq!(violations(json!({ "const": 0 }), &json!(-0.0)), []);
    assert_eq!(violations(json!({ "enum": [1, 2], "const": 1 }), &json!(2)).len(), 1);
}

/// Schemas in the supported vocabulary.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({ "type": "string", "minLength": 1, "maxLength": 2 })),
        Just(json!({ "type": ["integer", "null"], "maximum": 5 })),
        Just(json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 3 })),
        Just(json!({ "enum": ["a", 1, null, [1]] })),
        Just(json!({ "const": { "x": 1 } })),
        Just(json!({ "pattern": "^a" })),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(x, y, closed)| json!({
                "type": "object", "properties": { "x": x, "y": y }, "required": ["x"], "additionalProperties": !closed,
            })),
            (inner.clone(), 0_u8..3).prop_map(
                |(items, most)| json!({ "type": "array", "items": items, "maxItems": most, "uniqueItems": true })
            ),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "anyOf": [a, b] })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "oneOf": [a, b] })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "allOf": [a, b] })),
            inner.prop_map(|not| json!({ "not": not })),
        ]
    })
}

fn results() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-1_i64..7).prop_map(Value::from),
        Just(json!(1.0)),
        Just(json!(2.5)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            (inner.clone(), inner.clone()).prop_map(|(x, y)| json!({ "x": x, "y": y })),
            inner.prop_map(|x| json!({ "x": x })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_are_those_of_a_complete_validator(schema in schemas(), result in results()) {
        let expected = jsonschema::is_valid(&schema, &result);
        prop_assert_eq!(OutputSchema::new(schema).check(Some(&result)).is_empty(), expected);
    }
}
