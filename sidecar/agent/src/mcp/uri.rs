//! URIs of servers.

use percent_encoding::percent_decode_str;

/// How to reach the server of a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program with its arguments: `stdio:///usr/bin/lint?arg=--fast&arg=x`.
    Program {
        path: String,
        args: Vec<String>,
    },
    Http(String),
}

impl Endpoint {
    /// `None` if the transport is not supported.
    pub fn parse(uri: &str) -> Option<Self> {
        let (scheme, rest) = uri.split_once(':')?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Some(Self::Http(uri.to_owned())),
            "stdio" | "file" => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
                let args =
                    query.split('&').filter_map(|pair| pair.strip_prefix("arg=")).map(decoded).collect();
                let path = decoded(path);
                (!path.is_empty()).then_some(Self::Program { path, args })
            }
            _ => None,
        }
    }

    /// The program's or the host's name.
    pub fn short_name(&self) -> String {
        let part = match self {
            Self::Program { path, .. } => path.rsplit('/').next(),
            Self::Http(url) => {
                url.split("//").nth(1).and_then(|rest| rest.split(['/', ':', '?', '#']).next())
            }
        };
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = part.unwrap_or_default().chars().map(letter).take(20).collect();
        let name = name.trim_matches('-');
        if name.is_empty() { "tools".to_owned() } else { name.to_owned() }
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_programs_and_hosts() {
        let program = Endpoint::parse("stdio:///opt/a%20b?arg=-x&arg=1%262").unwrap();
        let args = vec!["-x".to_owned(), "1&2".to_owned()];
        assert_eq!(program, Endpoint::Program { path: "/opt/a b".into(), args });
        assert_eq!(program.short_name(), "a-b");
        let http = Endpoint::parse("https://tools.example.com:8443/mcp?x=1").unwrap();
        assert_eq!(http.short_name(), "tools-example-com");
        for unknown in ["ws://tools.example.com/", "stdio:", "none", "sse://x"] {
            assert_eq!(Endpoint::parse(unknown), None, "{unknown}");
        }
    }
}
