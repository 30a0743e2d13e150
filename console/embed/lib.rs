//! The files of the web console, which the build script bundles with Node.js (decision 86), and the headers of responses with them. The
//! embedded server and the deployment in AWS serve the same files with the same headers.

/// A file of the console other than its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// The path in URLs, with its leading slash.
    pub path: &'static str,
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
}

/// The console as it was built.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    /// The HTML page of the embedded server.
    pub page: &'static str,
    /// Sorted by path.
    pub assets: &'static [Asset],
}

/// The content type of the page.
pub const HTML: &str = "text/html; charset=utf-8";

/// The content security policy: only files of this server, no inline script or style, and no text as HTML. The policy for trusted types
/// gives the address of the worker for notifications only.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types pilothouse-push";

/// Further headers of every response with a file.
pub const SECURITY_HEADERS: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// A browser keeps such a file, and asks each time whether it has changed.
pub const REVALIDATED: &str = "no-cache";

/// A browser keeps such a file for a year, and does not ask again.
pub const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The part of the page that names the profile, by which the console knows how to log in and to follow streams.
const EMBEDDED_PROFILE: &str = r#"name="pilothouse-profile" content="embedded""#;
const CLOUD_PROFILE: &str = r#"name="pilothouse-profile" content="aws""#;

/// The folder of files whose names contain a hash of their content.
const HASHED: &str = "/assets/";

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The console, or the reason why this build does not include it.
pub const fn console() -> Result<&'static Console, &'static str> {
    match &CONSOLE {
        Ok(console) => Ok(console),
        Err(reason) => Err(reason),
    }
}

impl Console {
    pub fn asset(&self, path: &str) -> Option<&'static Asset> {
        let found = self.assets.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
        self.assets.get(found)
    }

    /// The HTML page of a deployment in AWS.
    pub fn cloud_page(&self) -> String {
        self.page.replace(EMBEDDED_PROFILE, CLOUD_PROFILE)
    }
}

impl Asset {
    /// Whether the content of the path never changes.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with(HASHED)
    }

    pub fn cache_control(&self) -> &'static str {
        if self.is_immutable() { IMMUTABLE } else { REVALIDATED }
    }

    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("webmanifest") => "application/manifest+json",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE_OF_TWO: Console = Console {
        page: "",
        assets: &[Asset { path: "/a.svg", gzip: b"" }, Asset { path: "/assets/b-1.js", gzip: b"" }],
    };

    #[test]
    fn asset_is_found_by_its_whole_path() {
        let script = CONSOLE_OF_TWO.asset("/assets/b-1.js").unwrap();
        assert!(script.is_immutable());
        assert_eq!(script.content_type(), "text/javascript; charset=utf-8");
        assert!(!CONSOLE_OF_TWO.asset("/a.svg").unwrap().is_immutable());
        for unknown in ["/", "/assets", "/assets/b-1.j", "/assets/../a.svg"] {
            assert_eq!(CONSOLE_OF_TWO.asset(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_files_with_a_hash_in_their_name_are_immutable() {
        let cache_of = |path| Asset { path, gzip: b"" }.cache_control();
        assert!(cache_of("/assets/app-1.js").contains("immutable"));
        assert_eq!(cache_of("/push-worker.js"), "no-cache");
    }

    #[test]
    fn policy_allows_no_inline_content() {
        assert!(CONTENT_SECURITY_POLICY.contains("script-src 'self'; style-src 'self';"));
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe") && !CONTENT_SECURITY_POLICY.contains("nonce"));
        assert!(!CONTENT_SECURITY_POLICY.contains("  "), "{CONTENT_SECURITY_POLICY}");
    }

    #[test]
    fn page_names_the_profile_that_serves_it() {
        let Ok(console) = console() else { return };
        assert_eq!(console.page.matches(EMBEDDED_PROFILE).count(), 1);
        let page = console.cloud_page();
        assert!(page.contains(CLOUD_PROFILE) && !page.contains(EMBEDDED_PROFILE));
    }

    #[test]
    fn a_built_console_has_a_page_without_inline_content_and_its_files() {
        let Ok(console) = console() else { return };
        assert!(!console.page.contains("<style") && !console.page.contains(" style="));
        let scripts = console.page.matches("<script").count();
        assert_eq!(console.page.matches(" src=\"/assets/").count(), scripts, "{}", console.page);
        assert!(console.assets.is_sorted_by_key(|asset| asset.path));
        let script =
            console.assets.iter().find(|asset| asset.content_type().starts_with("text/javascript")).unwrap();
        assert!(
            console.page.contains("/assets/") && script.gzip.starts_with(&[0x1f, 0x8b]),
            "{}",
            script.path
        );
    }
}
