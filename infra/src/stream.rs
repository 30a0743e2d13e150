//! The WebSocket API of the live stream. A function authorizes connections, and each route invokes a function.

use pilothouse_app::function::Trigger;
use serde_json::json;

use crate::console::STREAM_STAGE;
use crate::contexts::deployed;
use crate::names::{invocation, logical};
use crate::template::{Stack, named, reference, sub};

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("stream", "the WebSocket API of the live stream");
    stack.add(
        "StreamApi",
        "AWS::ApiGatewayV2::Api",
        json!({
            "Name": named("stream"),
            "ProtocolType": "WEBSOCKET",
            "RouteSelectionExpression": "$request.body.action",
        }),
    );
    for function in deployed() {
        let id = logical(function.name);
        for trigger in &function.triggers {
            match trigger {
                // No identity source: the token is in the header or, from browsers, in the query, and API Gateway would
                // require all named sources.
                Trigger::Authorizer => stack.add(
                    "Owners",
                    "AWS::ApiGatewayV2::Authorizer",
                    json!({
                        "ApiId": reference("StreamApi"),
                        "Name": "owners",
                        "AuthorizerType": "REQUEST",
                        "AuthorizerUri": invocation(function.name),
                    }),
                ),
                Trigger::WebSocket(key) => {
                    stack.add(
                        format!("{id}Integration"),
                        "AWS::ApiGatewayV2::Integration",
                        json!({
                            "ApiId": reference("StreamApi"),
                            "IntegrationType": "AWS_PROXY",
                            "IntegrationUri": invocation(function.name),
                        }),
                    );
                    let mut route = json!({
                        "ApiId": reference("StreamApi"),
                        "RouteKey": key,
                        "OperationName": function.name,
                        "Target": sub(format!("integrations/${{{id}Integration}}")),
                        "AuthorizationType": "NONE",
                    });
                    // A connection is authorized once, when it is opened.
                    if *key == "$connect" {
                        route["AuthorizationType"] = json!("CUSTOM");
                        route["AuthorizerId"] = reference("Owners");
                    }
                    stack.add(format!("{id}Route"), "AWS::ApiGatewayV2::Route", route);
                }
                Trigger::Queue(_) | Trigger::Stream | Trigger::Schedule | Trigger::TaskStopped => {}
            }
        }
    }
    stack.add(
        "Stage",
        "AWS::ApiGatewayV2::Stage",
        json!({
            "ApiId": reference("StreamApi"),
            "StageName": STREAM_STAGE,
            "AutoDeploy": true,
            "DefaultRouteSettings": { "ThrottlingBurstLimit": 500, "ThrottlingRateLimit": 250 },
        }),
    );
    stack.output("StreamApiId", &reference("StreamApi"));
    let host = format!("${{StreamApi}}.execute-api.${{AWS::Region}}.${{AWS::URLSuffix}}/{STREAM_STAGE}");
    stack.output("StreamUrl", &sub(format!("wss://{host}")));
    stack.output("StreamEndpoint", &sub(format!("https://{host}")));
    stack
}
