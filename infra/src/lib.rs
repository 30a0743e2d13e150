//! The templates of the AWS profile, made from the catalog of functions.
//!
//! A deployment consists of sibling stacks, `{prefix}-{stack}`. Outputs of a stack are parameters of the following ones;
//! `infra/deploy` passes them by name. There are no exports, so each stack can be changed independently.
//!
//! | stack | content |
//! |---|---|
//! | `data` | table, bucket, root secret, queues with their dead letters, topic, event bus, issuer's bucket, roles of sidecars and workers |
//! | `containers` | cluster and task definition for sidecars on ECS |
//! | `api` | the HTTP API: a route and an integration for each function, and the JWT authorizer |
//! | `stream` | the WebSocket API of the live stream |
//! | `console` | the web console: bucket and distribution, in front of both APIs |
//! | one for each context | functions, each with its role, log group, event sources and permissions |
//! | `operations` | alarms and dashboard |
//!
//! The APIs are deployed before the functions, which need their addresses. The APIs refer to functions by ARNs that are known in
//! advance; the stacks of functions contain the permissions to invoke them.

mod api;
mod console;
pub mod console_files;
mod containers;
mod contexts;
mod data;
mod environment;
mod functions;
mod names;
mod operations;
mod overview;
mod parameters;
mod permissions;
mod queues;
mod roles;
mod sources;
mod stream;
mod table;
mod template;
mod topics;

pub use contexts::{Deployed, context, deployed};
pub use names::logical;
pub use overview::overview;
pub use template::Stack;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub fn stacks() -> Vec<Stack> {
    let mut stacks =
        vec![data::stack(), containers::stack(), api::stack(), stream::stack(), console::stack()];
    stacks.extend(functions::stacks());
    stacks.push(operations::stack());
    stacks
}

pub fn manifest() -> Value {
    let stacks: Vec<_> = stacks().iter().map(|stack| stack.name.clone()).collect();
    let functions: Vec<_> = deployed().iter().map(|function| function.name).collect();
    json!({ "stacks": stacks, "functions": functions })
}

/// The content of the templates and of `manifest.json`, by file name.
pub fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> =
        stacks().iter().map(|stack| (format!("{}.json", stack.name), text(&stack.document()))).collect();
    files.push(("manifest.json".to_owned(), text(&manifest())));
    files
}

/// The text of a document with sorted fields. The order of `serde_json` depends on features that other crates enable.
fn text(document: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields: BTreeMap<_, _> =
                    fields.iter().map(|(name, value)| (name, sorted(value))).collect();
                fields.into_iter().map(|(name, value)| (name.clone(), value)).collect()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    format!("{:#}\n", sorted(document))
}
