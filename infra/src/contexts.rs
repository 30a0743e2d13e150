//! The functions of the AWS profile and their stacks.

use pilothouse_app::function::{CallerKind, Requirements, Trigger};
use pilothouse_functions::catalog::{EVENT_FUNCTIONS, cloud_functions};

#[derive(Debug, Clone)]
pub struct Deployed {
    pub name: &'static str,
    pub summary: &'static str,
    pub requirements: Requirements,
    /// Set for a function with an HTTP trigger.
    pub route: Option<Route>,
    /// Empty for a function with an HTTP trigger.
    pub triggers: Vec<Trigger>,
}

#[derive(Debug, Clone)]
pub struct Route {
    /// `POST /api/agents/sessions`.
    pub key: String,
    /// Whether the API verifies an owner's token. Functions verify the keys of agents and sidecars.
    pub by_token: bool,
}

/// All functions of the AWS profile, in the order of the catalog.
pub fn deployed() -> Vec<Deployed> {
    let of_http = cloud_functions().into_iter().map(|function| Deployed {
        name: function.name,
        summary: function.summary,
        requirements: function.requirements,
        route: Some(Route {
            key: format!("{} {}", function.verb.as_str(), function.path),
            by_token: function.caller == CallerKind::Owner,
        }),
        triggers: Vec::new(),
    });
    let of_events = EVENT_FUNCTIONS.iter().filter(|function| function.requirements.profiles.in_aws());
    of_http
        .chain(of_events.map(|function| Deployed {
            name: function.name,
            summary: function.summary,
            requirements: function.requirements,
            route: None,
            triggers: function.triggers().collect(),
        }))
        .collect()
}

/// The stack of a function, by the first word of its name. A word that is not listed has a separate stack.
pub fn context(function: &str) -> &str {
    match function.split('-').next().unwrap_or(function) {
        "sessions" | "pool" => "sessions",
        "messages" | "requests" | "plan" => "messages",
        "records" | "openapi" => "records",
        "agent" | "gateway" | "workers" => "runs",
        "announce" | "deliver" | "notifications" | "webhooks" | "web" | "settings" | "events" => "telling",
        "intake" | "relay" | "react" | "clock" | "dead" | "deadletters" => "engine",
        "push" | "stream" => "live",
        "coherence" | "trust" | "tick" => "projects",
        other => other,
    }
}
