//! Tests how `CloudFront` serves the web console from its bucket. The local cloud forwards no requests to the APIs behind the distribution;
//! `console/tests/cloud.spec.ts` covers how the page uses them.

use reqwest::{Method, Response};

use crate::deployment::{ConsoleDeployment, Deployment};

/// The response to a browser.
async fn get(to: &Deployment, console: &ConsoleDeployment, path: &str) -> Response {
    let host = console.url.strip_prefix("https://").unwrap();
    let request = to.http.get(format!("{}{path}", to.endpoint)).header("host", host);
    // What a proxy with TLS tells the local cloud, which has none.
    request.header("x-forwarded-proto", "https").send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

#[tokio::test]
#[ignore = "needs a deployment on a local cloud that evaluates policies"]
async fn console_is_served_from_its_private_bucket() {
    let to = Deployment::open().await;
    let Some(console) = &to.console else {
        eprintln!("not tested: the deployment has no web console");
        return;
    };
    let page = get(&to, console, "/sessions/019a0000-0000-7000-8000-000000000000").await;
    assert_eq!(page.status(), 200);
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&page, "cache-control"), "no-cache");
    let policy = header(&page, "content-security-policy");
    assert!(policy.contains("script-src 'self'; style-src 'self';"), "{policy}");
    assert!(header(&page, "strict-transport-security").starts_with("max-age="));
    assert_eq!(header(&page, "x-content-type-options"), "nosniff");
    assert_eq!(header(&page, "cross-origin-opener-policy"), "same-origin");
    let text = page.text().await.unwrap();
    assert!(text.contains(r#"name="pilothouse-profile" content="aws""#), "{text}");

    let (_, script) = text.split_once(" src=\"").unwrap();
    let script = get(&to, console, script.split('"').next().unwrap()).await;
    assert_eq!(script.status(), 200);
    assert_eq!(header(&script, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&script, "content-encoding"), "gzip");
    assert!(header(&script, "cache-control").contains("immutable"));
    assert_eq!(get(&to, console, "/assets/missing.js").await.status(), 403);

    // This function may read the other bucket of the deployment.
    let function = to.with_role(&to.role_of("gateway-images").await.unwrap()).await;
    let response = function.send(&to.s3(Method::GET, &console.bucket, "index.html", "")).await;
    assert!(response.denied(), "{} {}", response.status, response.text);
}
