//! Replaces values that differ between runs by names, so that the recordings of all runs are equal.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regex_lite::{Captures, Regex};

/// Replaces ids, times, addresses and secrets. An id has the same name wherever it occurs.
pub(super) struct Normalizer {
    known: Vec<(String, String)>,
    ids: HashMap<String, String>,
    cursor: Regex,
    rules: Vec<(Regex, &'static str)>,
    id: Regex,
}

impl Normalizer {
    /// `known` are pairs of a text and its replacement.
    pub(super) fn new(known: Vec<(String, String)>) -> Self {
        let regex = |pattern: &str| Regex::new(pattern).unwrap();
        Self {
            known,
            ids: HashMap::new(),
            cursor: regex(r#"((?:"nextCursor":"|cursor=))([A-Za-z0-9_-]{40,})"#),
            rules: [
                // Times in another format stay, so that a change of the format fails the comparison.
                (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "<time>"),
                (r"(ph_<[^<>]+>\.\d+\.)[0-9a-f]{64}", "${1}<hmac>"),
                (r"(<[^<>]+>\.<[^<>]+>\.)[0-9a-f]{64}", "${1}<hmac>"),
                (r"whsec_[A-Za-z0-9+/=]+", "whsec_<secret>"),
                (r#"("(?:envelopeKey|signature)":")[0-9a-f]{64}""#, "${1}<64 hex digits>\""),
                (r#"("(?:keyId|kid)":")[^"]+""#, "${1}<key>\""),
                (r#"("sidecarVersion":")\d+\.\d+\.\d+""#, "${1}<version>\""),
                (r"(, version )\d+\.\d+\.\d+", "${1}<version>"),
                (r#"("receipt":")[^"]+""#, "${1}<receipt>\""),
                (r#"("elapsedSeconds":)\d+"#, "${1}<seconds>"),
                // Ids count differently.
                (r#"("estimatedTokens":)\d+"#, "${1}<tokens>"),
                (r#"("durationMs":)\d+"#, "${1}<milliseconds>"),
                // The acknowledgements before it may be received in one batch or in several.
                (r#"("lastSequence":)\d+"#, "${1}<sequence>"),
                (r#"("estimatedSizeBytes":)\d+"#, "${1}<bytes>"),
                // A reaction records the release of a slot, before or after the response.
                (r#"("cursor":"j)\d+"#, "${1}<entry>"),
                (r"('d':')[A-Za-z0-9_-]{16}'", "${1}<digest>'"),
            ]
            .map(|(pattern, with)| (regex(pattern), with))
            .into(),
            id: regex(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        }
    }

    /// Names an id. Ids without a name get a number.
    pub(super) fn name(&mut self, id: &str, name: &str) {
        self.ids.entry(id.to_owned()).or_insert_with(|| format!("<{name}>"));
    }

    /// Replaces a text in everything that is normalized from now on.
    pub(super) fn replace(&mut self, text: &str, by: &str) {
        self.known.push((text.to_owned(), by.to_owned()));
    }

    /// Replaces all known texts, ids, cursors and patterns.
    pub(super) fn normalize(&mut self, text: &str) -> String {
        // Shows the JSON of a cursor instead of its base64, so that its content is compared.
        let decoded = |found: &Captures<'_>| {
            let content = URL_SAFE_NO_PAD.decode(&found[2]).ok().and_then(|c| String::from_utf8(c).ok());
            match content.filter(|content| content.starts_with('{')) {
                Some(content) => format!("{}<cursor {}>", &found[1], content.replace('"', "'")),
                None => found[0].to_owned(),
            }
        };
        let mut text = self.cursor.replace_all(text, decoded).into_owned();
        for (known, name) in &self.known {
            text = text.replace(known, name);
        }
        let ids = &mut self.ids;
        let mut text = self
            .id
            .replace_all(&text, |found: &Captures<'_>| {
                let next = ids.len() + 1;
                ids.entry(found[0].to_owned()).or_insert_with(|| format!("<id {next}>")).clone()
            })
            .into_owned();
        for (pattern, with) in &self.rules {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        text
    }
}
