//! The cluster and the task definition for sidecars on ECS, only with `Runtime=ecs`. The task has no permissions; a sidecar gets
//! credentials for its run from the control plane.

use pilothouse_wire::secrets::VARIABLE;
use serde_json::{Value, json};

use crate::names::role_name;
use crate::template::{Stack, attribute, named, only_if, reference, sub};

const CONTAINER: &str = "sidecar";
/// The condition that agents have secrets.
const AGENT_SECRETS: &str = "HasAgentSecrets";

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("containers", "sidecars as ECS tasks");
    stack.add("Cluster", "AWS::ECS::Cluster", json!({ "ClusterName": reference("Prefix") }));
    stack.add(
        "SidecarLog",
        "AWS::Logs::LogGroup",
        json!({ "LogGroupName": sub("/ecs/${Prefix}-sidecar"), "RetentionInDays": reference("LogDays") }),
    );
    // The task role has no permissions. The execution role starts the task.
    stack.add("TaskRole", "AWS::IAM::Role", role("task", &json!([])));
    stack.add(
        "TaskStartRole",
        "AWS::IAM::Role",
        role(
            "task-start",
            &json!([
                { "Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": [attribute("SidecarLog", "Arn")] },
                // The login to the registry cannot be limited to resources.
                { "Effect": "Allow", "Action": ["ecr:GetAuthorizationToken"], "Resource": ["*"] },
                {
                    "Effect": "Allow",
                    "Action": ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
                    "Resource": [sub("arn:${AWS::Partition}:ecr:${AWS::Region}:${AWS::AccountId}:repository/*")],
                },
                // ECS reads the secrets of agents before the container starts.
                only_if(AGENT_SECRETS, &json!({
                    "Effect": "Allow",
                    "Action": ["secretsmanager:GetSecretValue"],
                    "Resource": [reference("AgentSecretsArn")],
                })),
            ]),
        ),
    );
    stack.add(
        "Task",
        "AWS::ECS::TaskDefinition",
        json!({
            "Family": named("sidecar"),
            "RequiresCompatibilities": ["FARGATE"],
            "NetworkMode": "awsvpc",
            "Cpu": "1024",
            "Memory": "4096",
            "RuntimePlatform": {
                "OperatingSystemFamily": "LINUX",
                "CpuArchitecture": { "Fn::If": ["IsArm", "ARM64", "X86_64"] },
            },
            "TaskRoleArn": attribute("TaskRole", "Arn"),
            "ExecutionRoleArn": attribute("TaskStartRole", "Arn"),
            "ContainerDefinitions": [{
                "Name": CONTAINER,
                "Image": reference("EcsImage"),
                "Essential": true,
                "Secrets": only_if(AGENT_SECRETS, &json!([{
                    "Name": VARIABLE,
                    "ValueFrom": reference("AgentSecretsArn"),
                }])),
                // The maximum of Fargate: the agent ends within 45 s, and the spool is sent for another minute.
                "StopTimeout": 120,
                // Reaps orphans of the agent and forwards signals to the sidecar.
                "LinuxParameters": { "InitProcessEnabled": true },
                "LogConfiguration": {
                    "LogDriver": "awslogs",
                    "Options": {
                        "awslogs-group": reference("SidecarLog"),
                        "awslogs-region": reference("AWS::Region"),
                        "awslogs-stream-prefix": CONTAINER,
                    },
                },
            }],
        }),
    );
    // A sidecar accepts no connections and makes only outgoing HTTPS requests.
    stack.add(
        "SidecarNetwork",
        "AWS::EC2::SecurityGroup",
        json!({
            "GroupDescription": "Sidecars: out, never in",
            "VpcId": reference("EcsVpc"),
            "SecurityGroupEgress": [{ "IpProtocol": "-1", "CidrIp": "0.0.0.0/0", "Description": "Agents reach what their work needs" }],
        }),
    );
    stack.output("EcsCluster", &reference("Cluster"));
    stack.output("EcsTaskDefinition", &named("sidecar"));
    stack.output("EcsSecurityGroup", &attribute("SidecarNetwork", "GroupId"));
    stack
}

fn role(name: &str, statements: &Value) -> Value {
    let mut role = json!({
        "RoleName": sub(role_name(name)),
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": { "Service": "ecs-tasks.amazonaws.com" },
                "Condition": { "StringEquals": { "aws:SourceAccount": reference("AWS::AccountId") } },
            }],
        },
    });
    if statements.as_array().is_some_and(|statements| !statements.is_empty()) {
        role["Policies"] = json!([{
            "PolicyName": name,
            "PolicyDocument": { "Version": "2012-10-17", "Statement": statements },
        }]);
    }
    role
}
