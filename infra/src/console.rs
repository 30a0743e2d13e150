//! The web console: a private bucket with its files, and a distribution of `CloudFront` in front of the bucket and of both APIs, so that
//! the page needs no other origin (decision 86).

use pilothouse_console::{CONTENT_SECURITY_POLICY, SECURITY_HEADERS};
use serde_json::{Value, json};

use crate::names::{execute_api, regional};
use crate::template::{Stack, attribute, private_bucket, reference, sub};

/// The function that maps addresses of the application to the page.
const PAGE_FUNCTION: &str = include_str!("../console/page.js");

/// Policies that AWS manages. `CachingOptimized` keeps a file as long as its `Cache-Control` says.
const CACHING_OPTIMIZED: &str = "658327ea-f89d-4fab-a63d-7e88639e58f6";
const CACHING_DISABLED: &str = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad";
/// `AllViewerExceptHostHeader`, for API Gateway, which refuses the name of the distribution.
const ALL_BUT_THE_HOST: &str = "b689b0a8-53d0-40ab-baf2-38738e2966ac";

/// The stage of the WebSocket API. `CloudFront` forwards the path of a request, so the console connects to this path.
pub(crate) const STREAM_STAGE: &str = "live";

/// `CloudFront` keeps responses with these statuses for ten seconds by default, also where it keeps no others. The key of a kept response
/// does not contain the token, so an owner would receive the response to another one.
const ERRORS: [u16; 10] = [400, 403, 404, 405, 414, 500, 501, 502, 503, 504];

const READS: [&str; 2] = ["GET", "HEAD"];
const ALL_METHODS: [&str; 7] = ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE"];

pub(crate) fn stack() -> Stack {
    let mut stack = Stack::new("console", "the web console");
    add_bucket(&mut stack);
    add_headers(&mut stack);
    stack.add(
        "Page",
        "AWS::CloudFront::Function",
        json!({
            "Name": regional("page"),
            "AutoPublish": true,
            "FunctionCode": PAGE_FUNCTION,
            "FunctionConfig": { "Comment": "Addresses of the console get its page", "Runtime": "cloudfront-js-2.0" },
        }),
    );
    stack.add(
        "Access",
        "AWS::CloudFront::OriginAccessControl",
        json!({
            "OriginAccessControlConfig": {
                "Name": regional("console"),
                "OriginAccessControlOriginType": "s3",
                "SigningBehavior": "always",
                "SigningProtocol": "sigv4",
            },
        }),
    );
    stack.add(
        "Distribution",
        "AWS::CloudFront::Distribution",
        json!({ "DistributionConfig": distribution() }),
    );
    stack.output("ConsoleBucket", &reference("Files"));
    stack.output("ConsoleUrl", &sub("https://${Distribution.DomainName}"));
    stack
}

/// The bucket. Only the distribution can read it, and only over TLS.
fn add_bucket(stack: &mut Stack) {
    let name = sub("${Prefix}-console-${AWS::AccountId}-${AWS::Region}");
    stack.add("Files", "AWS::S3::Bucket", private_bucket(&name));
    let distribution = "arn:${AWS::Partition}:cloudfront::${AWS::AccountId}:distribution/${Distribution}";
    stack.add(
        "FilesPolicy",
        "AWS::S3::BucketPolicy",
        json!({
            "Bucket": reference("Files"),
            "PolicyDocument": {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Principal": { "Service": "cloudfront.amazonaws.com" },
                        "Action": ["s3:GetObject"],
                        "Resource": [sub("${Files.Arn}/*")],
                        "Condition": { "StringEquals": { "aws:SourceArn": sub(distribution) } },
                    },
                    {
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": ["s3:*"],
                        "Resource": [attribute("Files", "Arn"), sub("${Files.Arn}/*")],
                        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
                    },
                ],
            },
        }),
    );
}

/// The headers of the embedded server, and HSTS, because a distribution always has TLS.
fn add_headers(stack: &mut Stack) {
    let mut security = json!({
        "ContentSecurityPolicy": { "ContentSecurityPolicy": CONTENT_SECURITY_POLICY, "Override": true },
        "StrictTransportSecurity": { "AccessControlMaxAgeSec": 31_536_000, "Override": true },
    });
    let mut others = Vec::new();
    for (name, value) in SECURITY_HEADERS {
        match name {
            // `CloudFront` has own settings for these, and refuses them as other headers. The only value of the first one is `nosniff`.
            "x-content-type-options" => security["ContentTypeOptions"] = json!({ "Override": true }),
            "referrer-policy" => {
                security["ReferrerPolicy"] = json!({ "ReferrerPolicy": value, "Override": true });
            }
            _ => others.push(json!({ "Header": name, "Value": value, "Override": true })),
        }
    }
    stack.add(
        "Headers",
        "AWS::CloudFront::ResponseHeadersPolicy",
        json!({
            "ResponseHeadersPolicyConfig": {
                "Name": regional("console"),
                "SecurityHeadersConfig": security,
                "CustomHeadersConfig": { "Items": others },
            },
        }),
    );
}

fn distribution() -> Value {
    json!({
        "Comment": sub("Pilothouse ${Prefix}"),
        "Enabled": true,
        "HttpVersion": "http2and3",
        "IPV6Enabled": true,
        "Origins": [
            {
                "Id": "files",
                "DomainName": attribute("Files", "RegionalDomainName"),
                "OriginAccessControlId": reference("Access"),
                "S3OriginConfig": { "OriginAccessIdentity": "" },
            },
            api_origin("api", "ApiId"),
            api_origin("stream", "StreamApiId"),
        ],
        "DefaultCacheBehavior": {
            "TargetOriginId": "files",
            "ViewerProtocolPolicy": "redirect-to-https",
            "AllowedMethods": READS,
            "Compress": true,
            "CachePolicyId": CACHING_OPTIMIZED,
            "ResponseHeadersPolicyId": reference("Headers"),
            "FunctionAssociations":
                [{ "EventType": "viewer-request", "FunctionARN": attribute("Page", "FunctionARN") }],
        },
        "CacheBehaviors": [
            api_behavior("/api/*", "api", &ALL_METHODS),
            api_behavior("/openapi.json", "api", &READS),
            api_behavior(&format!("/{STREAM_STAGE}"), "stream", &READS),
        ],
        "CustomErrorResponses": ERRORS.map(|status| json!({ "ErrorCode": status, "ErrorCachingMinTTL": 0 })),
        "ViewerCertificate": { "CloudFrontDefaultCertificate": true },
    })
}

fn api_origin(id: &str, api: &str) -> Value {
    json!({
        "Id": id,
        "DomainName": execute_api(api),
        "CustomOriginConfig": { "OriginProtocolPolicy": "https-only", "OriginSSLProtocols": ["TLSv1.2"] },
    })
}

/// Forwards all requests to an API, with their tokens. A redirection would send a token twice, so requests without TLS are refused.
fn api_behavior(path: &str, origin: &str, methods: &[&str]) -> Value {
    json!({
        "PathPattern": path,
        "TargetOriginId": origin,
        "ViewerProtocolPolicy": "https-only",
        "AllowedMethods": methods,
        "Compress": false,
        "CachePolicyId": CACHING_DISABLED,
        "OriginRequestPolicyId": ALL_BUT_THE_HOST,
    })
}
