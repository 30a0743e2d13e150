//! The HTTP API, with one route for each function. The API verifies owners' tokens; functions verify the keys of agents and
//! sidecars.

use serde_json::{Value, json};

use crate::contexts::deployed;
use crate::names::{function as arn_of, logical};
use crate::template::{Stack, attribute, only_if, reference, sub};

/// CORS settings for the allowed origins. Tokens are sent in a header, so cookies are not allowed.
fn cors() -> Value {
    json!({
        "AllowOrigins": { "Fn::Split": [",", reference("AllowedOrigins")] },
        "AllowMethods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
        "AllowHeaders": ["authorization", "content-type", "idempotency-key", "if-match", "traceparent"],
        "ExposeHeaders": ["etag", "idempotency-replayed"],
        "MaxAge": 600,
    })
}

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("api", "the HTTP API");
    stack.add(
        "Api",
        "AWS::ApiGatewayV2::Api",
        json!({
            "Name": reference("Prefix"),
            "ProtocolType": "HTTP",
            "Description": "Pilothouse",
            "CorsConfiguration": only_if("HasAllowedOrigins", &cors()),
        }),
    );
    stack.add(
        "Owners",
        "AWS::ApiGatewayV2::Authorizer",
        json!({
            "ApiId": reference("Api"),
            "Name": "owners",
            "AuthorizerType": "JWT",
            "IdentitySource": ["$request.header.Authorization"],
            "JwtConfiguration": { "Issuer": reference("Issuer"), "Audience": [reference("Audience")] },
        }),
    );
    stack.add(
        "AccessLog",
        "AWS::Logs::LogGroup",
        json!({ "LogGroupName": sub("/aws/apigateway/${Prefix}"), "RetentionInDays": reference("LogDays") }),
    );
    let line = json!({
        "requestId": "$context.requestId",
        "at": "$context.requestTimeEpoch",
        "route": "$context.routeKey",
        "status": "$context.status",
        "error": "$context.error.message",
        "integrationError": "$context.integrationErrorMessage",
        "milliseconds": "$context.responseLatency",
    });
    stack.add(
        "Stage",
        "AWS::ApiGatewayV2::Stage",
        json!({
            "ApiId": reference("Api"),
            "StageName": "$default",
            "AutoDeploy": true,
            "DefaultRouteSettings": { "ThrottlingBurstLimit": 500, "ThrottlingRateLimit": 250 },
            "AccessLogSettings": { "DestinationArn": attribute("AccessLog", "Arn"), "Format": line.to_string() },
        }),
    );
    for function in deployed() {
        let Some(route) = &function.route else { continue };
        let id = logical(function.name);
        let integration = format!("{id}Integration");
        stack.add(
            &integration,
            "AWS::ApiGatewayV2::Integration",
            json!({
                "ApiId": reference("Api"),
                "IntegrationType": "AWS_PROXY",
                "IntegrationUri": arn_of(function.name),
                "PayloadFormatVersion": "2.0",
                "TimeoutInMillis": 29_000,
            }),
        );
        let mut properties = json!({
            "ApiId": reference("Api"),
            "RouteKey": route.key,
            "OperationName": function.name,
            "Target": sub(format!("integrations/${{{integration}}}")),
        });
        if route.by_token {
            properties["AuthorizationType"] = json!("JWT");
            properties["AuthorizerId"] = reference("Owners");
        } else {
            properties["AuthorizationType"] = json!("NONE");
        }
        stack.add(format!("{id}Route"), "AWS::ApiGatewayV2::Route", properties);
    }
    stack.output("ApiId", &reference("Api"));
    stack.output("ApiUrl", &attribute("Api", "ApiEndpoint"));
    stack
}
