//! The templates of the AWS profile, made from the catalogue of functions.
//!
//! A deployment is a row of sibling stacks, `{prefix}-{stack}`, wired by parameters: outputs of one are parameters of the
//! next (`infra/deploy` hands them on by name). Nothing is exported and imported, so each can be changed alone.
//!
//! | stack | what it holds |
//! |---|---|
//! | `data` | table, bucket, root secret, queues with their dead letters, topic, event bus, issuer's bucket, vended roles |
//! | `containers` | cluster and task definition, where sidecars run as ECS tasks |
//! | `api` | the HTTP API: a route and an integration a function, and the JWT authorizer |
//! | `stream` | the WebSocket API of the live stream |
//! | one a context | functions, each with its role, log group, event sources and permissions |
//! | `operations` | alarms and dashboard |
//!
//! The APIs come before the functions, which are told their addresses; they name the functions by ARNs that are known
//! beforehand, and the permissions to call stand beside the functions.

mod api;
mod containers;
mod contexts;
mod data;
mod environment;
mod functions;
mod names;
mod operations;
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
pub use template::Stack;

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Every stack, in the order of deployment.
pub fn stacks() -> Vec<Stack> {
    let mut stacks = vec![data::stack(), containers::stack(), api::stack(), stream::stack()];
    stacks.extend(functions::stacks());
    stacks.push(operations::stack());
    stacks
}

/// The list that `infra/deploy` goes by: the names of the stacks in order, and of the functions.
pub fn manifest() -> Value {
    let stacks: Vec<_> = stacks().iter().map(|stack| stack.name.clone()).collect();
    let functions: Vec<_> = deployed().iter().map(|function| function.name).collect();
    json!({ "stacks": stacks, "functions": functions })
}

/// Every file of `infra/templates`, by name, with what it holds.
pub fn files() -> Vec<(String, String)> {
    let mut files: Vec<_> =
        stacks().iter().map(|stack| (format!("{}.json", stack.name), text(&stack.document()))).collect();
    files.push(("manifest.json".to_owned(), text(&manifest())));
    files
}

/// The text of a document, with its fields in the order of their names: how `serde_json` orders them depends on what else
/// is built.
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
