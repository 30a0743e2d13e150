//! Credentials of STS: a role with permissions for all runs, restricted to one run by a session policy.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sts::Client;
use aws_sdk_sts::types::Credentials;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp};
use pilothouse_wire::gateway::RunCredentials;
use pilothouse_wire::worker::QueueCredentials;
use serde_json::{Value, json};

use super::{CredentialVendor, VendError};

/// Life of credentials. One hour is the maximum for a role that was assumed from another role.
const CREDENTIAL_LIFETIME: Duration = Duration::from_hours(1);

/// Names and addresses of a deployment's resources.
#[derive(Debug, Clone)]
pub struct StsSettings {
    /// Prefix of the deployment's queue names, before a dash.
    pub prefix: String,
    pub region: String,
    /// Endpoint of all services, if it is not the region's own (local cloud).
    pub endpoint: Option<String>,
    pub bucket: String,
    pub sidecar_role: String,
    pub worker_role: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the ARN of a role")]
pub struct InvalidRole(pub String);

#[derive(Debug, Clone)]
pub struct StsVendor {
    client: Client,
    settings: StsSettings,
    partition: String,
    account: String,
}

impl StsVendor {
    /// Issues credentials for the resources of a deployment, in the account of the sidecars' role.
    pub fn new(client: Client, settings: StsSettings) -> Result<Self, InvalidRole> {
        let parts: Vec<&str> = settings.sidecar_role.splitn(6, ':').collect();
        let [_, partition, "iam", _, account, _] = parts[..] else {
            return Err(InvalidRole(settings.sidecar_role.clone()));
        };
        let (partition, account) = (partition.to_owned(), account.to_owned());
        Ok(Self { client, settings, partition, account })
    }

    fn queue_arn(&self, queue: &str) -> String {
        let (partition, account, StsSettings { region, prefix, .. }) =
            (&self.partition, &self.account, &self.settings);
        format!("arn:{partition}:sqs:{region}:{account}:{prefix}-{queue}")
    }

    fn queue_url(&self, queue: &str) -> String {
        let StsSettings { region, prefix, endpoint, .. } = &self.settings;
        let domain = if self.partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
        let base = endpoint.clone().unwrap_or_else(|| format!("https://sqs.{region}.{domain}"));
        format!("{}/{}/{prefix}-{queue}", base.trim_end_matches('/'), self.account)
    }

    async fn assume(&self, role: &str, name: String, policy: &Value) -> Result<Credentials, VendError> {
        let output = self
            .client
            .assume_role()
            .role_arn(role)
            .role_session_name(name)
            .duration_seconds(i32::try_from(CREDENTIAL_LIFETIME.as_secs()).unwrap_or(3600))
            .policy(policy.to_string())
            .send()
            .await
            .map_err(|error| VendError::Service(Box::new(error)))?;
        output.credentials.ok_or(VendError::NoCredentials)
    }

    fn policy_of_run(&self, session: AgentSessionId, run: RunId) -> Value {
        let [events, blobs] = self.publish_statements(session);
        policy(&[events, (RECEIVING, self.queue_arn(&commands_queue_of(run))), blobs])
    }

    fn policy_of_drain(&self, session: AgentSessionId) -> Value {
        policy(&self.publish_statements(session))
    }

    fn publish_statements(&self, session: AgentSessionId) -> [(&'static [&'static str], String); 2] {
        let (partition, bucket) = (&self.partition, &self.settings.bucket);
        [
            (&["sqs:SendMessage*"], self.queue_arn(EVENTS)),
            (&["s3:PutObject"], format!("arn:{partition}:s3:::{bucket}/{}*", blob_prefix_of(session))),
        ]
    }

    async fn granted(
        &self,
        session: AgentSessionId,
        run: RunId,
        policy: &Value,
    ) -> Result<RunCredentials, VendError> {
        let credentials = self.assume(&self.settings.sidecar_role, format!("run-{run}"), policy).await?;
        Ok(RunCredentials {
            expires_at: ends(&credentials),
            access_key_id: credentials.access_key_id,
            secret_access_key: credentials.secret_access_key,
            session_token: credentials.session_token,
            region: self.settings.region.clone(),
            endpoint: self.settings.endpoint.clone(),
            events_queue_url: self.queue_url(EVENTS),
            commands_queue_url: self.queue_url(&commands_queue_of(run)),
            bucket: self.settings.bucket.clone(),
            blob_prefix: blob_prefix_of(session),
        })
    }

    fn policy_of_queue(&self, queue: &str) -> Value {
        policy(&[(RECEIVING, self.queue_arn(queue))])
    }
}

const EVENTS: &str = "events.fifo";
/// Permissions for receiving from a queue.
const RECEIVING: &[&str] = &["sqs:ReceiveMessage", "sqs:DeleteMessage*", "sqs:ChangeMessageVisibility*"];

fn commands_queue_of(run: RunId) -> String {
    format!("commands-{run}.fifo")
}

fn blob_prefix_of(session: AgentSessionId) -> String {
    format!("sessions/{session}/")
}

fn policy(statements: &[(&[&str], String)]) -> Value {
    let statement = |(actions, resource): &(&[&str], String)| json!({ "Effect": "Allow", "Action": actions, "Resource": resource });
    json!({ "Version": "2012-10-17", "Statement": statements.iter().map(statement).collect::<Vec<_>>() })
}

fn ends(credentials: &Credentials) -> Timestamp {
    Timestamp::from_millis(credentials.expiration().to_millis().unwrap_or(0))
}

#[async_trait]
impl CredentialVendor for StsVendor {
    async fn for_run(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError> {
        self.granted(session, run, &self.policy_of_run(session, run)).await
    }

    async fn for_drain(&self, session: AgentSessionId, run: RunId) -> Result<RunCredentials, VendError> {
        self.granted(session, run, &self.policy_of_drain(session)).await
    }

    async fn for_queue(&self, queue: &str) -> Result<QueueCredentials, VendError> {
        let policy = self.policy_of_queue(queue);
        // The name appears in audit logs: letters, digits and `-` of the queue's name.
        let name = queue.trim_end_matches(".fifo").chars().take(64).collect();
        let credentials = self.assume(&self.settings.worker_role, name, &policy).await?;
        Ok(QueueCredentials {
            expires_at: ends(&credentials),
            access_key_id: credentials.access_key_id,
            secret_access_key: credentials.secret_access_key,
            session_token: credentials.session_token,
            region: self.settings.region.clone(),
            endpoint: self.settings.endpoint.clone(),
            queue_url: self.queue_url(queue),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use aws_sdk_sts::config::{BehaviorVersion, Config};

    use super::*;

    fn vendor(endpoint: Option<&str>) -> StsVendor {
        let config = Config::builder().behavior_version(BehaviorVersion::v2026_01_12()).build();
        let settings = StsSettings {
            prefix: "ph".into(),
            region: "eu-central-1".into(),
            endpoint: endpoint.map(str::to_owned),
            bucket: "bodies".into(),
            sidecar_role: "arn:aws:iam::123456789012:role/ph-sidecar".into(),
            worker_role: "arn:aws:iam::123456789012:role/ph-worker".into(),
        };
        StsVendor::new(Client::from_conf(config), settings).unwrap()
    }

    #[test]
    fn policy_grants_only_the_queues_and_folder_of_one_run() {
        let session = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let run = "01900000-0000-7000-8000-000000000002".parse().unwrap();
        let policy = vendor(None).policy_of_run(session, run);
        let resources: Vec<_> =
            policy["Statement"].as_array().unwrap().iter().map(|s| s["Resource"].as_str().unwrap()).collect();
        assert_eq!(
            resources,
            [
                "arn:aws:sqs:eu-central-1:123456789012:ph-events.fifo",
                "arn:aws:sqs:eu-central-1:123456789012:ph-commands-01900000-0000-7000-8000-000000000002.fifo",
                "arn:aws:s3:::bodies/sessions/01900000-0000-7000-8000-000000000001/*",
            ]
        );
        let actions = policy["Statement"][0]["Action"].as_array().unwrap();
        assert_eq!(actions, &["sqs:SendMessage*"], "a sidecar does not read the events of others");
        assert!(policy.to_string().len() < 2048, "STS limits the size of a policy");
        let leftovers = vendor(None).policy_of_drain(session);
        let resources: Vec<_> =
            leftovers["Statement"].as_array().unwrap().iter().map(|s| &s["Resource"]).collect();
        assert_eq!(resources, [&policy["Statement"][0]["Resource"], &policy["Statement"][2]["Resource"]]);
    }

    #[test]
    fn addresses_are_regional_or_of_the_local_cloud() {
        assert_eq!(
            vendor(None).queue_url("worker-x.fifo"),
            "https://sqs.eu-central-1.amazonaws.com/123456789012/ph-worker-x.fifo"
        );
        assert_eq!(
            vendor(Some("http://127.0.0.1:4566/")).queue_url("worker-x.fifo"),
            "http://127.0.0.1:4566/123456789012/ph-worker-x.fifo"
        );
    }

    #[test]
    fn invalid_role_is_refused() {
        let settings = StsSettings { sidecar_role: "ph-sidecar".into(), ..vendor(None).settings };
        assert!(StsVendor::new(vendor(None).client, settings).is_err());
    }
}
