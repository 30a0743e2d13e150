//! Images in requests: their checks, and their bytes among the blobs of their session (decision 100).

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::{ImageInput, Violations};
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::{self, whole_body};
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::value::{ContentHash, ImageType, MessageImage};
use pilothouse_store::blob::BlobKey;
use pilothouse_wire::keys::sha256_hex;

use crate::large_body::LargeBody;

/// Most bytes of a body: 4 MB of images in base64, and the other fields.
const MAX_BODY_BYTES: usize = 5_700_000;

/// A JSON body that may contain images, with the hash that identifies the request under an idempotency key.
pub(crate) struct BodyWithImages<T> {
    pub(crate) input: T,
    pub(crate) hash: String,
    /// Occupies memory until the images are stored.
    _large: Option<LargeBody>,
}

impl<T: Deserr<Violations>, S: Send + Sync> FromRequest<S> for BodyWithImages<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let sent = request.into_body();
        let is_small = sent.size_hint().upper().is_some_and(|bytes| bytes <= body::MAX_BODY_BYTES as u64);
        if is_small {
            let bytes = whole_body(sent, body::MAX_BODY_BYTES).await?;
            return Ok(Self { input: body::read(&bytes)?, hash: sha256_hex(&bytes), _large: None });
        }
        let large = LargeBody::read(sent, MAX_BODY_BYTES).await?;
        let (input, hash) = (body::read(&large.bytes)?, sha256_hex(&large.bytes));
        Ok(Self { input, hash, _large: Some(large) })
    }
}

/// A decoded image.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedImage {
    media_type: ImageType,
    bytes: Bytes,
    sha256: ContentHash,
}

impl ReceivedImage {
    /// The error is a field with its violation.
    fn read(image: &ImageInput) -> Result<Self, (&'static str, String)> {
        let bytes = STANDARD.decode(&image.base64).map_err(|_| ("base64", "is not base64".to_owned()))?;
        if ImageType::of(&bytes) != Some(image.media_type) {
            return Err(("mediaType", "is not the type of the bytes".to_owned()));
        }
        let sha256 = ContentHash::parse(sha256_hex(&bytes)).map_err(|wrong| ("base64", wrong.to_string()))?;
        Ok(Self { media_type: image.media_type, bytes: bytes.into(), sha256 })
    }

    fn reference(&self, session_id: AgentSessionId) -> MessageImage {
        let (sha256, size_bytes) = (self.sha256.clone(), self.bytes.len() as u64);
        MessageImage { media_type: self.media_type, sha256, size_bytes, session_id }
    }
}

/// Decodes the images of a request. Fails with a violation for each one that is not an image, and if they are too many or too
/// large together.
pub(crate) fn received(images: &[ImageInput]) -> Result<Vec<ReceivedImage>, Problem> {
    let mut violations = Vec::new();
    let mut violated = |field: String, message: String| violations.push(Violation { field, message });
    if images.len() > MessageImage::MAX_IMAGES {
        violated("images".to_owned(), format!("must have at most {} entries", MessageImage::MAX_IMAGES));
    }
    let mut received = Vec::with_capacity(images.len());
    for (at, image) in images.iter().enumerate() {
        match ReceivedImage::read(image) {
            Ok(image) => received.push(image),
            Err((field, message)) => violated(format!("images[{at}].{field}"), message),
        }
    }
    let bytes: u64 = received.iter().map(|image| image.bytes.len() as u64).sum();
    if bytes > MessageImage::MAX_BYTES {
        let most = MessageImage::MAX_BYTES;
        violated("images".to_owned(), format!("have {bytes} bytes, but may have at most {most}"));
    }
    if violations.is_empty() { Ok(received) } else { Err(Problem::Invalid(violations)) }
}

/// The references to images that [`store`] stores.
pub(crate) fn references(images: &[ReceivedImage], session: AgentSessionId) -> Vec<MessageImage> {
    images.iter().map(|image| image.reference(session)).collect()
}

/// The key of an image.
pub(crate) fn blob_key(image: &MessageImage) -> Result<BlobKey, Problem> {
    let prefix = format!("sessions/{}", image.session_id);
    BlobKey::with_digest(&prefix, image.sha256.as_str()).map_err(Problem::internal)
}

/// Stores the bytes. The caller does this just before it commits the references: no reference names a missing image, and a refused request
/// leaves no image.
pub(crate) async fn store(
    app: &App,
    images: &[ReceivedImage],
    session: AgentSessionId,
) -> Result<(), Problem> {
    for image in images {
        let key = blob_key(&image.reference(session))?;
        app.blobs.put(&key, image.bytes.clone()).await.map_err(Problem::internal)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn image(media_type: ImageType, bytes: &[u8]) -> ImageInput {
        ImageInput { media_type, base64: STANDARD.encode(bytes) }
    }

    fn fields(images: &[ImageInput]) -> Vec<String> {
        match received(images) {
            Err(Problem::Invalid(all)) => all.into_iter().map(|violation| violation.field).collect(),
            Err(other) => vec![other.to_string()],
            Ok(_) => Vec::new(),
        }
    }

    #[test]
    fn every_wrong_image_is_reported() {
        let broken = ImageInput { media_type: ImageType::Png, base64: "???".to_owned() };
        let images = [image(ImageType::Png, PNG), broken, image(ImageType::Gif, PNG)];
        assert_eq!(fields(&images), ["images[1].base64", "images[2].mediaType"]);
        assert_eq!(fields(&images[..1]), Vec::<String>::new());
    }

    #[test]
    fn number_and_size_of_images_are_limited() {
        let many = vec![image(ImageType::Png, PNG); MessageImage::MAX_IMAGES + 1];
        assert_eq!(fields(&many), ["images"]);
        let mut large = PNG.to_vec();
        large.resize(2_000_001, 0);
        let large = image(ImageType::Png, &large);
        assert_eq!(fields(std::slice::from_ref(&large)), Vec::<String>::new());
        assert_eq!(fields(&[large.clone(), large]), ["images"]);
    }

    #[test]
    fn reference_names_the_bytes() {
        let session = AgentSessionId::new(uuid::Uuid::from_u128(7));
        let images = received(&[image(ImageType::Png, PNG)]).unwrap();
        let reference = references(&images, session).remove(0);
        assert_eq!((reference.size_bytes, reference.sha256.as_str()), (8, sha256_hex(PNG).as_str()));
        assert_eq!(blob_key(&reference).unwrap().as_str(), format!("sessions/{session}/{}", sha256_hex(PNG)));
    }
}
