use aws_sdk_ecs::operation::run_task::builders::RunTaskFluentBuilder;
use aws_sdk_ecs::types::{
    AssignPublicIp, AwsVpcConfiguration, ContainerOverride, KeyValuePair, LaunchType, NetworkConfiguration,
    PropagateTags, Tag, TaskOverride,
};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::keys::GatewayToken;

use super::runtime::{EcsRuntime, EcsSettings};
use super::{CONTAINER, group_of};

impl EcsRuntime {
    pub(super) fn request(
        &self,
        session: AgentSessionId,
        run: RunId,
        token: &GatewayToken,
    ) -> RunTaskFluentBuilder {
        let EcsSettings { cluster, task_definition, .. } = &self.settings;
        let (session_id, run_id) = (session.to_string(), run.to_string());
        let variables = [
            ("PILOTHOUSE_URL", self.url.as_str()),
            ("PILOTHOUSE_SESSION_ID", &session_id),
            ("PILOTHOUSE_RUN_ID", &run_id),
            ("PILOTHOUSE_TOKEN", token.as_str()),
        ];
        let environment =
            variables.map(|(name, value)| KeyValuePair::builder().name(name).value(value).build());
        let sidecar =
            ContainerOverride::builder().name(CONTAINER).set_environment(Some(environment.into())).build();
        let tags = [("pilothouse:session", session_id.as_str()), ("pilothouse:run", &run_id)];
        self.client
            .run_task()
            .cluster(cluster)
            .task_definition(task_definition)
            .count(1)
            .launch_type(LaunchType::Fargate)
            .client_token(&run_id)
            .started_by(&run_id)
            .group(group_of(session))
            .overrides(TaskOverride::builder().container_overrides(sidecar).build())
            .propagate_tags(PropagateTags::TaskDefinition)
            .set_tags(Some(tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).into()))
            .set_network_configuration(self.network())
    }

    fn network(&self) -> Option<NetworkConfiguration> {
        let EcsSettings { subnets, security_groups, public_addresses, .. } = &self.settings;
        if subnets.is_empty() {
            return None;
        }
        let public = if *public_addresses { AssignPublicIp::Enabled } else { AssignPublicIp::Disabled };
        let vpc = AwsVpcConfiguration::builder()
            .set_subnets(Some(subnets.clone()))
            .set_security_groups(Some(security_groups.clone()))
            .assign_public_ip(public);
        // The builder fails only without subnets.
        vpc.build().ok().map(|vpc| NetworkConfiguration::builder().awsvpc_configuration(vpc).build())
    }
}
