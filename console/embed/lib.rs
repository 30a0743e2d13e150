//! The files of the web console, which the build script bundles with Node.js (decision 86).

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
    /// The HTML page, with [`NONCE`] in it.
    pub page: &'static str,
    /// Sorted by path.
    pub assets: &'static [Asset],
}

/// The placeholder in the page that each response replaces by a fresh nonce for styles.
pub const NONCE: &str = "pilothouse-nonce";

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
}

impl Asset {
    /// Whether the content of the path never changes.
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with(HASHED)
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
    fn a_built_console_has_a_page_with_a_nonce_and_its_files() {
        let Ok(console) = console() else { return };
        assert!(console.page.contains(NONCE));
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
