use serde_json::{Value, json};

use crate::names::topic;
use crate::template::{only_if, reference};

/// The variables. They are the same for all functions, because one artifact reads them in one place.
pub(crate) fn variables() -> Value {
    let given = |condition: &str, parameter: &str| only_if(condition, &reference(parameter));
    json!({
        "PILOTHOUSE_PREFIX": reference("Prefix"),
        "PILOTHOUSE_TABLE": reference("Prefix"),
        "PILOTHOUSE_BUCKET": reference("Bucket"),
        "PILOTHOUSE_SECRET_ARN": reference("SecretArn"),
        "PILOTHOUSE_ISSUER": reference("Issuer"),
        "PILOTHOUSE_AUDIENCE": reference("Audience"),
        "PILOTHOUSE_JWKS_URL": given("HasJwksUrl", "JwksUrl"),
        "PILOTHOUSE_API_URL": reference("ApiUrl"),
        "PILOTHOUSE_WS_ENDPOINT": reference("StreamEndpoint"),
        "PILOTHOUSE_SIDECAR_ROLE_ARN": reference("SidecarRoleArn"),
        "PILOTHOUSE_WORKER_ROLE_ARN": reference("WorkerRoleArn"),
        "PILOTHOUSE_BUS": reference("Prefix"),
        "PILOTHOUSE_TOPIC_ARN": topic("notices"),
        "PILOTHOUSE_WEBHOOK_REACH": reference("WebhookReach"),
        "PILOTHOUSE_WEB_PUSH_CONTACT": given("HasWebPushContact", "WebPushContact"),
        "PILOTHOUSE_MODEL_URL": given("HasModel", "ModelUrl"),
        "PILOTHOUSE_MODEL_PROTOCOL": given("HasModel", "ModelProtocol"),
        "PILOTHOUSE_MODEL": given("HasModel", "Model"),
        "PILOTHOUSE_MODEL_PRICE": given("HasModelPrice", "ModelPrice"),
        "PILOTHOUSE_MODEL_KEY_ARN": given("HasModelKey", "ModelKeyArn"),
        "PILOTHOUSE_EMBEDDINGS_URL": given("HasEmbeddings", "EmbeddingsUrl"),
        "PILOTHOUSE_EMBEDDINGS_MODEL": given("HasEmbeddings", "EmbeddingsModel"),
        "PILOTHOUSE_EMBEDDINGS_PRICE": given("HasEmbeddingsPrice", "EmbeddingsPrice"),
        "PILOTHOUSE_EMBEDDINGS_KEY_ARN": given("HasEmbeddingsKey", "EmbeddingsKeyArn"),
        "PILOTHOUSE_OPERATORS": given("HasOperators", "Operators"),
        "PILOTHOUSE_RUNTIME": reference("Runtime"),
        "PILOTHOUSE_ECS_CLUSTER": given("RunsOnEcs", "EcsCluster"),
        "PILOTHOUSE_ECS_TASK_DEFINITION": given("RunsOnEcs", "EcsTaskDefinition"),
        "PILOTHOUSE_ECS_SUBNETS": given("RunsOnEcs", "EcsSubnets"),
        "PILOTHOUSE_ECS_SECURITY_GROUP": given("RunsOnEcs", "EcsSecurityGroup"),
        "PILOTHOUSE_ECS_PUBLIC_ADDRESSES": given("RunsOnEcs", "EcsPublicAddresses"),
        "PILOTHOUSE_ECS_DURABLE_WORKSPACE": given("RunsOnEcs", "EcsDurableWorkspace"),
        "PILOTHOUSE_ECS_LEASE_SECONDS": given("RunsOnEcs", "EcsLeaseSeconds"),
        "PILOTHOUSE_DEADLINE_DIVISOR": given("HasDeadlineDivisor", "DeadlineDivisor"),
        "PILOTHOUSE_DEFAULT_ADAPTER": reference("DefaultAdapter"),
        "PILOTHOUSE_ALLOWED_MODELS": reference("AllowedModels"),
        "PILOTHOUSE_RETENTION_DAYS": reference("RetentionDays"),
        "RUST_LOG": given("HasLogFilter", "LogFilter"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": given("HasTracesEndpoint", "TracesEndpoint"),
    })
}
