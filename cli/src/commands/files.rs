//! Reads the files that arguments name.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use pilothouse_client::inputs::ImageUpload;
use serde_json::Value;

use crate::error::CliError;

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> CliError {
    move |source| CliError::File { path: path.to_owned(), source }
}

/// The absolute path, which the server needs. The path must exist.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    path.canonicalize().map_err(file_error(path))
}

/// Reads a script, which is sent inline: the server may be on another machine, and errors are reported earlier.
pub(super) fn read_json(path: &Path) -> Result<Value, CliError> {
    let bytes = std::fs::read(path).map_err(file_error(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| CliError::Usage(format!("{} is not JSON: {e}", path.display())))
}

/// Reads images, whose bytes are sent.
pub(super) fn read_images(paths: &[PathBuf]) -> Result<Vec<ImageUpload>, CliError> {
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        ImageUpload::of(&bytes).ok_or_else(|| {
            CliError::Usage(format!("{} is not a PNG, JPEG, GIF or WebP image", path.display()))
        })
    };
    paths.iter().map(read).collect()
}

pub(super) fn read_input() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(file_error(Path::new("standard input")))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let (image, text) = (dir.path().join("a.txt"), dir.path().join("b.png"));
        std::fs::write(&image, b"GIF89a").unwrap();
        std::fs::write(&text, "no image").unwrap();
        let read = read_images(std::slice::from_ref(&image)).unwrap();
        assert_eq!(read[0].media_type.to_string(), "image/gif");
        let error = read_images(&[image, text]).unwrap_err();
        assert!(error.to_string().ends_with("b.png is not a PNG, JPEG, GIF or WebP image"), "{error}");
        assert!(matches!(read_images(&[dir.path().join("c")]), Err(CliError::File { .. })));
    }
}
