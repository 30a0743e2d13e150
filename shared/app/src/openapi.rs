//! Builds the OpenAPI 3.1 document from the declarations of functions.

use pilothouse_api::ProblemDocument;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::function::requirements::Profiles;
use crate::function::{CallerKind, HttpFunction, Verb};

/// Returns the OpenAPI document of these functions, without those for sidecars, which are not part of the API. `x-profile` marks
/// functions that only one profile includes.
pub fn document(functions: &[&HttpFunction]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let problem = generator.subschema_for::<ProblemDocument>();
    let mut paths: Map<String, Value> = Map::new();
    for function in functions.iter().filter(|f| f.caller != CallerKind::Sidecar) {
        let input = function.input.map(|schema| schema(&mut generator));
        let output = function.output.map(|schema| schema(&mut generator));
        let operation = operation(
            function,
            input.map(Value::from),
            output.map(Value::from).as_ref(),
            &Value::from(problem.clone()),
        );
        let path = paths.entry(function.path.to_owned()).or_insert_with(|| json!({}));
        if let Some(methods) = path.as_object_mut() {
            methods.insert(function.verb.as_str().to_lowercase(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pilothouse",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The control plane for long-running AI agent sessions.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "owner": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" },
                "agent": { "type": "http", "scheme": "bearer", "description": "The API key of a session" },
            },
        },
    })
}

/// Whether requests to a path are repeatable and unversioned, so that they accept neither an idempotency key nor a precondition.
fn is_the_same_when_repeated(path: &str) -> bool {
    [
        "/api/workers/",
        "/api/operations/",
        "/api/notifications/",
        "/api/webhooks/{id}",
        "/api/artifacts/uploads",
    ]
    .iter()
    .any(|begin| path.starts_with(begin))
}

fn operation(
    function: &HttpFunction,
    input: Option<Value>,
    output: Option<&Value>,
    problem: &Value,
) -> Value {
    let mut parameters: Vec<Value> = path_parameters(function.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": place(function.path, name) }))
        .collect();
    parameters.extend(function.query.iter().map(|name| {
        let schema = if *name == "limit" {
            json!({ "type": "integer", "minimum": 1, "maximum": 200, "default": 50 })
        } else {
            json!({ "type": "string" })
        };
        json!({ "name": name, "in": "query", "schema": schema })
    }));
    let changes = function.verb != Verb::Get && !is_the_same_when_repeated(function.path);
    if changes && matches!(function.caller, CallerKind::Owner | CallerKind::Agent) {
        parameters.push(header(
            "Idempotency-Key",
            "A retry with the same key receives the response to the first request.",
            &json!({ "type": "string", "minLength": 1, "maxLength": 255 }),
        ));
    }
    if changes && function.caller == CallerKind::Owner {
        parameters.push(header(
            "If-Match",
            "The `ETag` that the request is based on. If the object has changed since, the response is 412.",
            &json!({ "type": "string", "pattern": r#"^(\*|(W/)?"[0-9]{1,19}")$"# }),
        ));
    }
    let mut responses = Map::new();
    for status in function.statuses {
        let content = output.map(|schema| json!({ "application/json": { "schema": schema } }));
        responses.insert(
            status.to_string(),
            json!({ "description": function.summary, "content": content.unwrap_or(json!({})) }),
        );
    }
    for (status, description) in refusals(function) {
        responses.insert(
            status.to_owned(),
            json!({ "description": description, "content": { "application/problem+json": { "schema": problem } } }),
        );
    }
    let mut operation = json!({
        "operationId": function.name,
        "summary": function.summary,
        "parameters": parameters,
        "responses": responses,
        "security": match function.caller {
            CallerKind::Owner => json!([{ "owner": [] }]),
            CallerKind::Agent => json!([{ "agent": [] }]),
            CallerKind::Sidecar | CallerKind::Anyone => json!([]),
        },
    });
    if let Some(fields) = operation.as_object_mut() {
        if let Some(schema) = input {
            let content = json!({ "application/json": { "schema": schema } });
            fields.insert("requestBody".to_owned(), json!({ "content": content }));
        }
        let only = match function.requirements.profiles {
            Profiles::Both => None,
            Profiles::Embedded => Some("embedded"),
            Profiles::Aws => Some("aws"),
        };
        if let Some(profile) = only {
            fields.insert("x-profile".to_owned(), json!(profile));
        }
    }
    operation
}

fn header(name: &str, description: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "header", "description": description, "schema": schema })
}

fn place(path: &str, name: &str) -> Value {
    match name {
        "id" if path.starts_with("/api/workers") => {
            json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })
        }
        "sha256" => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
        name if name == "id" || name.ends_with("Id") => json!({ "type": "string", "format": "uuid" }),
        _ => json!({ "type": "string", "minLength": 1 }),
    }
}

/// The error statuses of a function (decision 5) with their descriptions.
fn refusals(function: &HttpFunction) -> Vec<(&'static str, &'static str)> {
    let known = function.caller != CallerKind::Anyone;
    let changes = known && function.verb != Verb::Get;
    let mut refusals = Vec::new();
    let mut may = |when: bool, status, description| {
        if when {
            refusals.push((status, description));
        }
    };
    may(known, "401", "The caller is not authenticated");
    may(known, "404", "The object does not exist or belongs to another owner");
    may(changes, "409", "Its state does not allow the request, or a concurrent change came first");
    may(
        changes && function.caller == CallerKind::Owner,
        "412",
        "The object has changed since the `ETag` of `If-Match`",
    );
    may(changes, "413", "The request body is too large");
    may(true, "422", "The request is invalid; the problem document lists every violation");
    may(changes, "429", "The rate limit is exceeded; `Retry-After` has the seconds to wait");
    may(true, "5XX", "The server failed to process the request");
    refusals
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}
