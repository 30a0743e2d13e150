//! The content of a prompt: texts and images.

use serde_json::{Value, json};

use crate::kit::images::LoadedImage;

/// How many bytes of text an image counts as. Providers count a large image as about 1,600 tokens.
const IMAGE_BYTES: usize = 6_400;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) texts: Vec<String>,
    pub(super) images: Vec<LoadedImage>,
}

impl Prompt {
    pub(super) fn of_text(text: impl Into<String>) -> Self {
        Self { texts: vec![text.into()], images: Vec::new() }
    }

    /// This prompt and `next` as one.
    pub(super) fn followed_by(mut self, next: Self) -> Self {
        self.texts.extend(next.texts);
        self.images.extend(next.images);
        self
    }

    /// Content blocks of the protocol. The images come last.
    pub(super) fn blocks(&self) -> Vec<Value> {
        let texts = self.texts.iter().map(|text| json!({ "type": "text", "text": text }));
        let images = self
            .images
            .iter()
            .map(|image| json!({ "type": "image", "mimeType": image.media_type, "data": image.base64 }));
        texts.chain(images).collect()
    }

    /// Estimate for the meter.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(String::len).sum();
        texts.saturating_add(self.images.len().saturating_mul(IMAGE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::value::ImageType;

    use super::*;

    #[test]
    fn images_follow_the_texts_of_a_prompt() {
        let image = LoadedImage { media_type: ImageType::Png, size_bytes: 3, base64: "AAAA".into() };
        let prompt = Prompt { texts: vec!["intro".into(), "look".into()], images: vec![image] };
        let expected = [
            json!({ "type": "text", "text": "intro" }),
            json!({ "type": "text", "text": "look" }),
            json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }),
        ];
        assert_eq!(prompt.blocks(), expected);
        assert_eq!(prompt.bytes(), "introlook".len() + IMAGE_BYTES, "whatever the size of the file");
    }
}
