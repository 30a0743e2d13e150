//! What is exported under `docs/` is what the code says.

use std::path::PathBuf;

use pilothouse_functions::catalogue::{CallerKind, http_functions};
use serde_json::Value;

use crate::server::Server;

/// The variable that exports anew.
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

/// Sidecars of other makes are written by these schemas.
#[test]
fn the_exported_schemas_of_the_wire_are_up_to_date() {
    for (file, schema) in pilothouse_wire::schema::all() {
        is_exported(&format!("wire/{file}"), &Value::from(schema));
    }
}

/// The snapshot shows every change of the API in review.
#[test]
fn the_exported_openapi_document_is_up_to_date() {
    is_exported("openapi.json", &pilothouse_functions::openapi::document());
}

/// Every reference in a document leads somewhere in it.
fn all_references_resolve(document: &Value, within: &Value) {
    match within {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let pointer = reference
                    .strip_prefix('#')
                    .unwrap_or_else(|| panic!("{reference} leads out of the document"));
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            fields.values().for_each(|value| all_references_resolve(document, value));
        }
        Value::Array(items) => items.iter().for_each(|item| all_references_resolve(document, item)),
        _ => {}
    }
}

/// The served document has every function of the API, and none of those that only sidecars call.
#[tokio::test]
async fn the_served_document_is_openapi_3_1_and_whole() {
    let server = Server::start(1).await;
    let document = server.api_with(None).get("/openapi.json").await.expect(200).body;
    assert_eq!(document, pilothouse_functions::openapi::document());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    all_references_resolve(&document, &document);
    assert!(document["paths"].as_object().unwrap().keys().all(|path| !path.starts_with("/internal")));

    let mut operations = 0;
    for function in http_functions() {
        let method = function.method.as_str().to_lowercase();
        let operation = &document["paths"][function.path][&method];
        if function.caller == CallerKind::Sidecar {
            assert!(operation.is_null(), "{} is no part of the API", function.name);
            continue;
        }
        operations += 1;
        assert_eq!(operation["operationId"], function.name);
        assert!(operation["summary"].is_string());
        for status in function.answers {
            let answer = &operation["responses"][status.to_string()];
            assert!(answer["description"].is_string(), "{} does not say what {status} is", function.name);
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
    assert_eq!(listed, operations, "nothing is listed that is not there");
}
