//! The parameters and conditions of all templates. A template declares the ones that it uses.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

struct Parameter {
    name: &'static str,
    /// None: the parameter is required.
    default: Option<&'static str>,
    pattern: Option<&'static str>,
    /// Empty: all values that match the pattern are allowed.
    allowed: &'static [&'static str],
    number: bool,
    about: &'static str,
}

const TEXT: Parameter =
    Parameter { name: "", default: None, pattern: None, allowed: &[], number: false, about: "" };

const ALL: &[Parameter] = &[
    Parameter {
        name: "Prefix",
        default: Some("pilothouse"),
        pattern: Some("^[a-z][a-z0-9-]{0,19}$"),
        about: "What the names of all resources begin with",
        ..TEXT
    },
    Parameter {
        name: "Architecture",
        default: Some("arm64"),
        allowed: &["arm64", "x86_64"],
        about: "The processors that the artifact is built for",
        ..TEXT
    },
    Parameter { name: "CodeBucket", about: "The bucket of the artifact", ..TEXT },
    Parameter { name: "CodeKey", about: "The artifact, named by its SHA-256", ..TEXT },
    Parameter { name: "Bucket", about: "The bucket of large bodies", ..TEXT },
    Parameter { name: "SecretArn", about: "The root secret that keys are derived from", ..TEXT },
    Parameter { name: "TableStreamArn", about: "The stream of the table", ..TEXT },
    Parameter { name: "SidecarRoleArn", about: "The role that sidecars get credentials of", ..TEXT },
    Parameter { name: "WorkerRoleArn", about: "The role that workers get credentials of", ..TEXT },
    Parameter {
        name: "OwnIssuer",
        default: Some("true"),
        allowed: &["true", "false"],
        about: "Whether the deployment has an issuer of its own: a bucket with the public keys of its operator",
        ..TEXT
    },
    Parameter { name: "Issuer", about: "Who signs the tokens of owners", ..TEXT },
    Parameter { name: "Audience", default: Some("pilothouse"), about: "Whom the tokens are for", ..TEXT },
    Parameter {
        name: "JwksUrl",
        default: Some(""),
        about: "Where the issuer's public keys are, when not at its usual place",
        ..TEXT
    },
    Parameter { name: "ApiId", about: "The HTTP API", ..TEXT },
    Parameter { name: "ApiUrl", about: "The address of the HTTP API", ..TEXT },
    Parameter {
        name: "AllowedOrigins",
        default: Some(""),
        about: "Origins, separated by commas, whose pages may call the HTTP API; when empty, none",
        ..TEXT
    },
    Parameter { name: "StreamApiId", about: "The WebSocket API", ..TEXT },
    Parameter {
        name: "StreamEndpoint",
        about: "Where functions push to the connections of the WebSocket API",
        ..TEXT
    },
    Parameter {
        name: "Operators",
        default: Some(""),
        about: "Owners, separated by commas, who may redrive dead letters and whose workers may serve everybody",
        ..TEXT
    },
    Parameter {
        name: "WebhookReach",
        default: Some("public"),
        allowed: &["public", "loopback", "private"],
        about: "How far the webhooks of owners may lead: to public addresses, also to the function itself, also to private networks",
        ..TEXT
    },
    Parameter {
        name: "WebPushContact",
        default: Some(""),
        about: "Your contact for the push services of browsers, a mailto: or https: URL; Apple's service requires one",
        ..TEXT
    },
    Parameter {
        name: "ModelUrl",
        default: Some(""),
        about: "The endpoint of the model that reviews coherence issues, such as https://api.openai.com/v1; when empty, there are no such reviews",
        ..TEXT
    },
    Parameter {
        name: "ModelProtocol",
        default: Some("openai"),
        allowed: &["openai", "anthropic"],
        about: "The protocol of that endpoint: Chat Completions or Messages",
        ..TEXT
    },
    Parameter { name: "Model", default: Some(""), about: "The name of that model", ..TEXT },
    Parameter {
        name: "ModelPrice",
        default: Some(""),
        pattern: Some("^([0-9.]+/[0-9.]+)?$"),
        about: "Dollars for a million input and output tokens of that model, such as 0.15/0.6; when empty, its list price",
        ..TEXT
    },
    Parameter {
        name: "ModelKeyArn",
        default: Some(""),
        about: "A secret of Secrets Manager whose text is the key of that endpoint; when empty, requests have no key",
        ..TEXT
    },
    Parameter {
        name: "EmbeddingsUrl",
        default: Some(""),
        about: "The endpoint of the model that embeds texts for coherence checks, such as https://api.openai.com/v1; when empty, they are compared by their words",
        ..TEXT
    },
    Parameter {
        name: "EmbeddingsModel",
        default: Some("text-embedding-3-small"),
        about: "The name of that model",
        ..TEXT
    },
    Parameter {
        name: "EmbeddingsPrice",
        default: Some(""),
        pattern: Some("^[0-9.]*$"),
        about: "Dollars for a million tokens of that model, such as 0.02; when empty, its cost is not known",
        ..TEXT
    },
    Parameter {
        name: "EmbeddingsKeyArn",
        default: Some(""),
        about: "A secret of Secrets Manager whose text is the key of that endpoint; when empty, requests have no key",
        ..TEXT
    },
    Parameter {
        name: "Runtime",
        default: Some("workers"),
        allowed: &["workers", "ecs"],
        about: "What runs sidecars",
        ..TEXT
    },
    Parameter { name: "EcsCluster", default: Some(""), about: "The cluster that sidecars run in", ..TEXT },
    Parameter { name: "EcsTaskDefinition", default: Some(""), about: "The task that a sidecar is", ..TEXT },
    Parameter {
        name: "EcsSubnets",
        default: Some(""),
        about: "The subnets of sidecars, separated by commas",
        ..TEXT
    },
    Parameter {
        name: "EcsSecurityGroup",
        default: Some(""),
        about: "The security group of sidecars",
        ..TEXT
    },
    Parameter {
        name: "EcsPublicAddresses",
        default: Some("false"),
        allowed: &["true", "false"],
        about: "Whether sidecars get public addresses: in a public subnet they reach nothing without",
        ..TEXT
    },
    Parameter {
        name: "EcsDurableWorkspace",
        default: Some("false"),
        allowed: &["true", "false"],
        about: "Whether the folders of sessions are on a volume that outlives tasks",
        ..TEXT
    },
    Parameter {
        name: "EcsLeaseSeconds",
        default: Some(""),
        pattern: Some("^[0-9]*$"),
        about: "Seconds without an accepted publish after which a sidecar ends its run; when empty, 3600 where folders outlive tasks, else 60",
        ..TEXT
    },
    Parameter { name: "EcsImage", about: "The image of sidecars with their agents", ..TEXT },
    Parameter {
        name: "AgentSecretsArn",
        default: Some(""),
        about: "The secret of Secrets Manager with the secrets of agents as JSON; when empty, agents have none",
        ..TEXT
    },
    Parameter { name: "EcsVpc", about: "The network of sidecars", ..TEXT },
    Parameter {
        name: "DefaultAdapter",
        default: Some("native"),
        pattern: Some("^[A-Za-z0-9._-]{1,50}$"),
        about: "The adapter of sessions that name none",
        ..TEXT
    },
    Parameter {
        name: "AllowedModels",
        default: Some(""),
        about: "Ids of the models that sessions may use, separated by commas, with `*` at the end for any ending. Empty: all models",
        ..TEXT
    },
    Parameter {
        name: "DeadlineDivisor",
        default: Some(""),
        pattern: Some("^[0-9]*$"),
        about: "Divides all limits of waiting, for tests",
        ..TEXT
    },
    Parameter {
        name: "LogFilter",
        default: Some(""),
        about: "What functions log, as a filter of tracing; when empty, what they find worth it",
        ..TEXT
    },
    Parameter {
        name: "PlatformLogLevel",
        default: Some("WARN"),
        allowed: &["DEBUG", "INFO", "WARN"],
        about: "What Lambda itself logs of functions: with INFO, a report of each invocation; with WARN, of failed ones",
        ..TEXT
    },
    Parameter {
        name: "TracesEndpoint",
        default: Some(""),
        about: "A collector of traces that speaks OTLP over HTTP; when empty, no spans are sent",
        ..TEXT
    },
    Parameter {
        name: "LogDays",
        default: Some("30"),
        number: true,
        about: "How many days logs are kept",
        ..TEXT
    },
    Parameter {
        name: "RetentionDays",
        default: Some("90"),
        number: true,
        about: "How many days raw events, activity, notifications and the decision log are kept: 15 to 3650",
        ..TEXT
    },
    Parameter {
        name: "BlobDays",
        default: Some("90"),
        number: true,
        about: "How many days large bodies are kept",
        ..TEXT
    },
    Parameter { name: "AlarmEmail", default: Some(""), about: "Who is told of alarms", ..TEXT },
];

fn all_conditions() -> Vec<(&'static str, Value)> {
    let given = |name: &str| json!({ "Fn::Not": [{ "Fn::Equals": [{ "Ref": name }, ""] }] });
    let equals = |name: &str, value: &str| json!({ "Fn::Equals": [{ "Ref": name }, value] });
    vec![
        ("HasOwnIssuer", equals("OwnIssuer", "true")),
        ("HasJwksUrl", given("JwksUrl")),
        ("HasOperators", given("Operators")),
        ("HasWebPushContact", given("WebPushContact")),
        ("HasAllowedOrigins", given("AllowedOrigins")),
        ("HasModel", given("ModelUrl")),
        ("HasModelPrice", given("ModelPrice")),
        ("HasModelKey", given("ModelKeyArn")),
        ("HasEmbeddings", given("EmbeddingsUrl")),
        ("HasEmbeddingsPrice", given("EmbeddingsPrice")),
        ("HasEmbeddingsKey", given("EmbeddingsKeyArn")),
        ("HasDeadlineDivisor", given("DeadlineDivisor")),
        ("HasAgentSecrets", given("AgentSecretsArn")),
        ("HasAlarmEmail", given("AlarmEmail")),
        ("HasLogFilter", given("LogFilter")),
        ("HasTracesEndpoint", given("TracesEndpoint")),
        ("RunsOnEcs", equals("Runtime", "ecs")),
        ("IsArm", equals("Architecture", "arm64")),
    ]
}

pub(crate) fn conditions_in(body: &Value) -> Value {
    let mut named = BTreeSet::new();
    walk(body, &mut |field, value| match (field, value) {
        ("Condition", Value::String(name)) => drop(named.insert(name.clone())),
        ("Fn::If", Value::Array(parts)) => {
            named.extend(parts.first().and_then(Value::as_str).map(str::to_owned));
        }
        _ => {}
    });
    let conditions = all_conditions().into_iter().filter(|(name, _)| named.contains(*name));
    Value::Object(conditions.map(|(name, value)| (name.to_owned(), value)).collect())
}

pub(crate) fn parameters_in(parts: &[&Value]) -> Value {
    let mut named = BTreeSet::new();
    for part in parts {
        walk(part, &mut |field, value| match (field, value) {
            ("Ref", Value::String(name)) => drop(named.insert(name.clone())),
            ("Fn::Sub", Value::String(text)) => named.extend(variables(text)),
            _ => {}
        });
    }
    let parameters = ALL.iter().filter(|parameter| named.contains(parameter.name));
    Value::Object(parameters.map(|parameter| (parameter.name.to_owned(), declaration(parameter))).collect())
}

fn declaration(parameter: &Parameter) -> Value {
    let mut fields = Map::from_iter([
        ("Type".to_owned(), json!(if parameter.number { "Number" } else { "String" })),
        ("Description".to_owned(), json!(parameter.about)),
    ]);
    if let Some(default) = parameter.default {
        fields.insert("Default".to_owned(), json!(default));
    }
    if let Some(pattern) = parameter.pattern {
        fields.insert("AllowedPattern".to_owned(), json!(pattern));
    }
    if !parameter.allowed.is_empty() {
        fields.insert("AllowedValues".to_owned(), json!(parameter.allowed));
    }
    Value::Object(fields)
}

/// The names in `${…}` of a text.
fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split("${").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned()))
}

fn walk(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                visit(field, value);
                walk(value, visit);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}
