//! The deployment under test: its address, its root credentials, and its API.

use std::path::PathBuf;
use std::time::Duration;

use pilothouse_tests::Description;
use pilothouse_wire::gateway::RunCredentials;
use reqwest::Method;
use serde_json::Value;

use crate::caller::Caller;

/// Names another description of the deployment.
const VARIABLE: &str = "PILOTHOUSE_CLOUD_DEPLOYMENT";
const USUAL: &str = "target/deploy/ph-auth.json";
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The web console of a deployment.
pub(crate) struct ConsoleDeployment {
    pub(crate) url: String,
    pub(crate) bucket: String,
}

/// A deployment on a local cloud that evaluates policies.
pub(crate) struct Deployment {
    pub(crate) http: reqwest::Client,
    pub(crate) endpoint: String,
    pub(crate) region: String,
    pub(crate) account: String,
    pub(crate) prefix: String,
    pub(crate) table: String,
    pub(crate) stream_arn: String,
    pub(crate) bucket: String,
    pub(crate) code_bucket: String,
    pub(crate) issuer_bucket: String,
    pub(crate) secret_arn: String,
    pub(crate) sidecar_role: String,
    pub(crate) worker_role: String,
    pub(crate) topic: String,
    pub(crate) bus: String,
    pub(crate) stream_endpoint: String,
    /// Whether sidecars are ECS tasks.
    pub(crate) on_ecs: bool,
    /// `None` if it was deployed without.
    pub(crate) console: Option<ConsoleDeployment>,
    api_url: String,
    description: Description,
}

impl Deployment {
    /// Panics if the cloud allows all requests.
    pub(crate) async fn open() -> Self {
        let file = std::env::var_os(VARIABLE).map_or_else(|| USUAL.into(), PathBuf::from);
        let description = Description::read(file);
        let value = |name: &str| description.value(name).to_owned();
        // Without decompression, which hides the encoding of a response.
        let http =
            reqwest::Client::builder().no_proxy().no_gzip().timeout(Duration::from_mins(1)).build().unwrap();
        let endpoint = value("Endpoint");
        assert!(endpoint.starts_with("http://127.0.0.1:"), "{endpoint} is not a local cloud");
        let health = http.get(format!("{endpoint}/_ministack/health")).send().await.unwrap();
        let health: Value = serde_json::from_str(&health.text().await.unwrap()).unwrap();
        assert_eq!(
            health["auth"], "enabled",
            "{endpoint} evaluates no policies; start it with `localstack/up --auth`"
        );
        let sidecar_role = value("SidecarRoleArn");
        let console = description
            .find("ConsoleUrl")
            .map(|url| ConsoleDeployment { url: url.to_owned(), bucket: value("ConsoleBucket") });
        Self {
            http,
            region: value("Region"),
            account: sidecar_role.split(':').nth(4).unwrap().to_owned(),
            prefix: value("Prefix"),
            table: value("TableName"),
            stream_arn: value("TableStreamArn"),
            bucket: value("Bucket"),
            code_bucket: value("CodeBucket"),
            issuer_bucket: value("IssuerBucket"),
            secret_arn: value("SecretArn"),
            worker_role: value("WorkerRoleArn"),
            topic: value("NoticesTopicArn"),
            bus: value("EventBusName"),
            stream_endpoint: value("StreamEndpoint"),
            on_ecs: value("Runtime") == "ecs",
            console,
            api_url: value("ApiUrl"),
            endpoint,
            sidecar_role,
            description,
        }
    }

    pub(crate) fn root(&self) -> Caller {
        Caller::new(&self.http, &self.region, "test", "test", None)
    }

    /// Assumes a role. The local cloud allows this to its root if the role trusts a service.
    pub(crate) async fn with_role(&self, role: &str) -> Caller {
        let response = self.root().send(&self.assume(role)).await;
        let part = |name: &str| {
            response.element(name).unwrap_or_else(|| panic!("{role} cannot be assumed: {}", response.text))
        };
        let (id, secret) = (part("AccessKeyId"), part("SecretAccessKey"));
        Caller::new(&self.http, &self.region, id, secret, Some(part("SessionToken")))
    }

    pub(crate) fn with_credentials(&self, credentials: &RunCredentials) -> Caller {
        let RunCredentials { access_key_id, secret_access_key, session_token, .. } = credentials;
        Caller::new(&self.http, &self.region, access_key_id, secret_access_key, Some(session_token))
    }

    /// `None` if the function is not deployed.
    pub(crate) async fn role_of(&self, function: &str) -> Option<String> {
        let configuration = self.lambda(Method::GET, function, "/configuration", "");
        let response = self.root().send(&configuration).await;
        (response.status != 404).then(|| response.done()["Role"].as_str().unwrap().to_owned())
    }

    pub(crate) fn queue(&self, logical: &str) -> String {
        format!("{}-{logical}", self.prefix)
    }

    pub(crate) fn token(&self, owner: &str) -> String {
        self.description.token(owner)
    }

    /// With any bearer token. Returns the status, and the body if it is JSON.
    pub(crate) async fn api(&self, method: Method, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.api_url.trim_end_matches('/')));
        let request = request.bearer_auth(token).header("content-type", "application/json");
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }
}
