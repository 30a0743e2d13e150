//! Which functions the cloud has, and which stack each stands in.

use pilothouse_functions::catalogue::{CallerKind, EVENT_FUNCTIONS, Needs, Trigger, cloud_functions};

/// A function of the cloud.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// The route that leads to it, when HTTP triggers it.
    pub route: Option<Route>,
    /// What triggers it otherwise.
    pub triggers: &'static [Trigger],
}

/// A route of the HTTP API.
#[derive(Debug, Clone)]
pub struct Route {
    /// `POST /api/agents/sessions`.
    pub key: String,
    /// Whether the API verifies an owner's token first. Agents and sidecars have keys that the function checks.
    pub by_token: bool,
}

/// Every function of the cloud, in the order of the catalogue.
pub fn deployed() -> Vec<Deployed> {
    let of_http = cloud_functions().into_iter().map(|function| Deployed {
        name: function.name,
        summary: function.summary,
        needs: function.needs,
        route: Some(Route {
            key: format!("{} {}", function.method, function.path),
            by_token: function.caller == CallerKind::Owner,
        }),
        triggers: &[],
    });
    let of_events = EVENT_FUNCTIONS.iter().filter(|function| function.needs.profiles.in_aws());
    of_http
        .chain(of_events.map(|function| Deployed {
            name: function.name,
            summary: function.summary,
            needs: function.needs,
            route: None,
            triggers: function.triggers,
        }))
        .collect()
}

/// The stack of a function: one a context, which the first word of its name tells. A context that is not named here has
/// a stack of its own.
pub fn context(function: &str) -> &str {
    match function.split('-').next().unwrap_or(function) {
        "sessions" | "pool" => "sessions",
        "messages" | "requests" | "plan" => "messages",
        "records" | "openapi" => "records",
        "agent" | "gateway" | "workers" => "runs",
        "announce" | "deliver" | "notifications" | "webhooks" | "events" => "telling",
        "intake" | "relay" | "react" | "clock" | "dead" | "deadletters" => "engine",
        "push" | "stream" => "live",
        other => other,
    }
}
