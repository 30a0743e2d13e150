//! The table of functions for review, `infra/functions.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use pilothouse_app::function::Trigger;
use pilothouse_app::function::requirements::AssumedRole;
use serde_json::Value;

use crate::contexts::{Deployed, context, deployed};
use crate::permissions::{Grant, grants};
use crate::roles;

const INTRODUCTION: &str = "\
# Functions of the AWS profile

Generated from the catalog of functions: `PILOTHOUSE_EXPORT=1 cargo nextest run --workspace -E 'test(up_to_date)'`. Review changes of this
file as changes of permissions. `JWT` marks the routes whose owner's token the HTTP API verifies before the function runs.
";

pub fn overview() -> String {
    let functions = deployed();
    let mut text = INTRODUCTION.to_owned();
    let mut stacks: Vec<_> = functions.iter().map(|function| context(function.name)).collect();
    stacks.sort_unstable();
    stacks.dedup();
    for stack in stacks {
        table(&mut text, &format!("Stack `{stack}`"), &["function", "trigger", "MB", "s", "may"]);
        for function in functions.iter().filter(|function| context(function.name) == stack) {
            let memory = function.requirements.memory_mb.to_string();
            let timeout = function.requirements.timeout_seconds.to_string();
            row(&mut text, &[code(function.name), triggers(function), memory, timeout, names(function)]);
        }
    }
    table(&mut text, "Roles of sidecars and workers", &["role", "issued by", "actions", "on"]);
    for (role, assumed, statements) in [
        ("sidecar", AssumedRole::Sidecar, roles::sidecar_statements().to_vec()),
        ("worker", AssumedRole::Worker, roles::worker_statements().to_vec()),
    ] {
        let issuers = functions.iter().filter(|it| it.requirements.access.assumes.contains(&assumed));
        let issuers = list(issuers.map(|function| code(function.name)));
        for statement in &statements {
            row(
                &mut text,
                &[role.to_owned(), issuers.clone(), actions(statement), resources(statement, &[])],
            );
        }
    }
    table(&mut text, "Permissions", &["permission", "actions", "on"]);
    for (permission, allowed) in permissions(&functions) {
        for (actions, resources) in allowed {
            row(&mut text, &[permission.to_owned(), actions, resources]);
        }
    }
    text
}

/// The actions and resources of each permission. Names of queues, roles and functions are placeholders.
fn permissions(functions: &[Deployed]) -> BTreeMap<&'static str, BTreeSet<(String, String)>> {
    let mut permissions: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for function in functions {
        for Grant { name, on, statement } in grants(function) {
            let allowed = (actions(&statement), resources(&statement, &on));
            permissions.entry(name).or_default().insert(allowed);
        }
    }
    permissions
}

fn triggers(function: &Deployed) -> String {
    let route = function.route.iter().map(|route| {
        let authorizer = if route.by_token { ", JWT" } else { "" };
        format!("{}{authorizer}", code(&route.key))
    });
    let others = function.triggers.iter().map(|trigger| match trigger {
        Trigger::Queue(name) => format!("queue {}", code(name)),
        Trigger::Stream => "stream of the table".to_owned(),
        Trigger::Schedule => "every minute".to_owned(),
        Trigger::WebSocket(key) => format!("WebSocket {}", code(key)),
        Trigger::Authorizer => "authorizer of the WebSocket API".to_owned(),
        Trigger::TaskStopped => "stopped ECS task".to_owned(),
    });
    list(route.chain(others))
}

/// The names of a function's permissions, without the first one: all functions write their log.
fn names(function: &Deployed) -> String {
    let mut names: Vec<String> = Vec::new();
    for Grant { name, on, .. } in grants(function).into_iter().skip(1) {
        let on = on.iter().map(|on| code(on)).collect::<Vec<_>>().join(" ");
        let name = format!("{name} {on}").trim_end().to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    list(names)
}

fn actions(statement: &Value) -> String {
    list(strings(&allowed(statement)["Action"]).map(code))
}

/// The resources of a statement and its conditions. Each of `placeholders` is shown as `…`.
fn resources(statement: &Value, placeholders: &[String]) -> String {
    let resource = |resource: &Value| {
        let arn = resource["Fn::Sub"].as_str().or(resource["Ref"].as_str()).or(resource.as_str());
        let arn = arn.unwrap_or_default();
        // Partition, region and account are those of the deployment: `arn:partition:service:region:account:resource`.
        let short = match arn.replace("AWS::", "").splitn(6, ':').collect::<Vec<_>>()[..] {
            [_, _, service, _, _, resource] => format!("{service}:{resource}"),
            _ => arn.to_owned(),
        };
        code(&placeholders.iter().fold(short, |short, name| short.replace(name.as_str(), "…")))
    };
    let of_statement = allowed(statement);
    let resources: BTreeSet<_> =
        of_statement["Resource"].as_array().into_iter().flatten().map(resource).collect();
    let mut text = list(resources);
    if let Some(condition) = of_statement.get("Condition") {
        let _ = write!(text, " where {}", code(&condition.to_string()));
    }
    if let Some(condition) = statement["Fn::If"][0].as_str() {
        let _ = write!(text, " if {}", code(condition));
    }
    text
}

/// The statement without its deployment condition.
fn allowed(statement: &Value) -> &Value {
    statement["Fn::If"].get(1).unwrap_or(statement)
}

fn strings(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn table(text: &mut String, title: &str, columns: &[&str]) {
    let _ = write!(text, "\n## {title}\n\n| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
}

fn row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}
