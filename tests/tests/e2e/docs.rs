//! The exported files under `docs/` must match the code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pilothouse_app::function::CallerKind;
use pilothouse_functions::catalog::HTTP_FUNCTIONS;
use serde_json::Value;

use crate::server::Server;

const EXPORT: &str = "PILOTHOUSE_EXPORT";

fn is_exported(file: &str, document: &Value) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
    let text = serde_json::to_string_pretty(document).unwrap() + "\n";
    if std::env::var_os(EXPORT).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let exported = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(exported == text, "docs/{file} is out of date; run the tests with {EXPORT}=1 to export it");
}

/// Authors of other sidecars rely on these schemas.
#[test]
fn exported_wire_schemas_are_up_to_date() {
    for (file, schema) in pilothouse_wire::schema::all() {
        is_exported(&format!("wire/{file}"), &Value::from(schema));
    }
}

/// The snapshot makes every change of the API visible in review.
#[test]
fn the_exported_openapi_document_is_up_to_date() {
    is_exported("openapi.json", &pilothouse_functions::catalog::openapi::document());
}

fn collect_fields<'a>(schema: &'a Value, into: &mut BTreeSet<&'a str>) {
    match schema {
        Value::Object(parts) => {
            if let Some(Value::Object(properties)) = parts.get("properties") {
                into.extend(properties.keys().map(String::as_str));
            }
            parts.values().for_each(|part| collect_fields(part, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_fields(item, into)),
        _ => {}
    }
}

/// Decision 4. One field has the name of a kind of decisions, which is a value of an enum.
#[test]
fn fields_of_the_api_are_in_camel_case() {
    let document = pilothouse_functions::catalog::openapi::document();
    let mut fields = BTreeSet::new();
    collect_fields(&document, &mut fields);
    assert!(fields.len() > 500, "the fields were not read: {}", fields.len());
    let is_camel_case = |field: &str| {
        field.starts_with(|first: char| first.is_ascii_lowercase())
            && field.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let others: Vec<_> = fields.into_iter().filter(|field| !is_camel_case(field)).collect();
    assert_eq!(others, ["tool_approval"]);
}

fn all_references_resolve(document: &Value, within: &Value) {
    match within {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let pointer = reference
                    .strip_prefix('#')
                    .unwrap_or_else(|| panic!("{reference} points outside of the document"));
                assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
            }
            fields.values().for_each(|value| all_references_resolve(document, value));
        }
        Value::Array(items) => items.iter().for_each(|item| all_references_resolve(document, item)),
        _ => {}
    }
}

/// The served document lists every function of the API except those for sidecars.
#[tokio::test]
async fn served_document_is_complete_openapi_3_1() {
    let server = Server::start(1).await;
    let document = server.api_with(None).get("/openapi.json").await.expect(200).body;
    assert_eq!(document, pilothouse_functions::catalog::openapi::document());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    all_references_resolve(&document, &document);
    assert!(document["paths"].as_object().unwrap().keys().all(|path| !path.starts_with("/internal")));

    let mut operations = 0;
    for function in HTTP_FUNCTIONS {
        let method = function.verb.as_str().to_lowercase();
        let operation = &document["paths"][function.path][&method];
        if function.caller == CallerKind::Sidecar {
            assert!(operation.is_null(), "{} is not part of the API", function.name);
            continue;
        }
        operations += 1;
        assert_eq!(operation["operationId"], function.name);
        assert!(operation["summary"].is_string());
        for status in function.statuses {
            let response = &operation["responses"][status.to_string()];
            assert!(response["description"].is_string(), "{} does not describe {status}", function.name);
        }
        for refusal in ["422", "5XX"] {
            let content = &operation["responses"][refusal]["content"];
            assert!(content["application/problem+json"]["schema"].is_object(), "{}", function.name);
        }
        assert_eq!(operation["requestBody"].is_object(), function.input.is_some(), "{}", function.name);
        let declared: Vec<_> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|p| p["in"] == "path")
            .map(|p| format!("{{{}}}", p["name"].as_str().unwrap()))
            .collect();
        let named: Vec<_> = function.path.split('/').filter(|part| part.starts_with('{')).collect();
        assert_eq!(declared, named, "{}", function.name);
        let open = operation["security"].as_array().unwrap().is_empty();
        assert_eq!(open, function.caller == CallerKind::Anyone, "{}", function.name);
    }
    let listed: usize = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|methods| methods.as_object().unwrap().len())
        .sum();
    assert_eq!(listed, operations, "the document lists only existing functions");
}
