//! Minimal HTTP servers that act as the Runtime API and as a cloud.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

pub(crate) struct Request {
    /// The request line and the headers, in lowercase.
    pub(crate) head: String,
    #[allow(dead_code)] // the bench reads only heads
    pub(crate) body: String,
}

pub(crate) enum FakeResponse {
    /// Status, headers in whole lines, body.
    Now(&'static str, String, String),
    /// No response; the connection stays open.
    Never,
}

impl FakeResponse {
    pub(crate) fn json(status: &'static str, body: &str) -> Self {
        Self::Now(status, "content-type: application/x-amz-json-1.0\r\n".to_owned(), body.to_owned())
    }
}

/// Starts a server on a free port and returns its address. It runs until the process ends.
pub(crate) fn serve(handle: impl Fn(&Request) -> FakeResponse + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handle = handle.clone();
            std::thread::spawn(move || connection(stream, &handle));
        }
    });
    address
}

fn connection(stream: TcpStream, handle: &impl Fn(&Request) -> FakeResponse) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut writer = stream.try_clone().ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let request = Request { head, body: String::from_utf8_lossy(&body).into_owned() };
        match handle(&request) {
            FakeResponse::Never => std::thread::park(),
            FakeResponse::Now(status, headers, body) => {
                let length = body.len();
                let response =
                    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
                writer.write_all(response.as_bytes()).ok()?;
            }
        }
    }
}

/// The environment variables that Lambda and a local cloud set for a function.
pub(crate) fn environment(function: &str, runtime_api: &str, cloud: &str) -> Vec<(&'static str, String)> {
    let endpoint = format!("http://{cloud}");
    [
        ("_HANDLER", function),
        ("AWS_LAMBDA_RUNTIME_API", runtime_api),
        ("AWS_LAMBDA_FUNCTION_NAME", function),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ENDPOINT_URL", &endpoint),
        ("PILOTHOUSE_PREFIX", "test"),
        ("PILOTHOUSE_TABLE", "test"),
        ("PILOTHOUSE_BUCKET", "test"),
        ("PILOTHOUSE_SECRET_ARN", "test"),
        ("PILOTHOUSE_BUS", "test"),
        ("PILOTHOUSE_TOPIC_ARN", "arn:aws:sns:eu-central-1:1:test"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into()
}
