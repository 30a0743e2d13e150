//! The files of the console for `infra/deploy`: one folder for each set of headers, in the order of the upload.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use pilothouse_console::{Console, HTML, REVALIDATED};
use serde_json::{Value, json};

/// The list of the uploads, for `infra/deploy`.
const LIST: &str = "uploads.json";
const PAGE: &str = "index.html";

/// Files that are uploaded with the same headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    pub content_type: &'static str,
    pub cache_control: &'static str,
    /// Whether the files are compressed with gzip. `CloudFront` compresses the others.
    pub is_gzip: bool,
    /// Names without a leading slash, and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

/// All files of the console. The page is the last one: it must not name a file that is not there yet.
pub fn uploads(console: &Console) -> Vec<Upload> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for asset in console.assets {
        let key = (asset.cache_control() == REVALIDATED, asset.content_type(), asset.cache_control());
        let name = asset.path.trim_start_matches('/').to_owned();
        groups.entry(key).or_default().push((name, asset.gzip.to_vec()));
    }
    let assets = groups.into_iter().map(|((_, content_type, cache_control), files)| Upload {
        content_type,
        cache_control,
        is_gzip: true,
        files,
    });
    let page = Upload {
        content_type: HTML,
        cache_control: REVALIDATED,
        is_gzip: false,
        files: vec![(PAGE.to_owned(), console.cloud_page().into_bytes())],
    };
    assets.chain([page]).collect()
}

/// Writes the files, and a list of the folders with their headers.
pub fn write(uploads: &[Upload], folder: &Path) -> io::Result<()> {
    let mut list = Vec::new();
    for (number, upload) in uploads.iter().enumerate() {
        let name = number.to_string();
        for (file, content) in &upload.files {
            let path = folder.join(&name).join(file);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, content)?;
        }
        list.push(entry(&name, upload));
    }
    std::fs::write(folder.join(LIST), format!("{:#}\n", Value::from(list)))
}

fn entry(folder: &str, upload: &Upload) -> Value {
    json!({
        "folder": folder,
        "contentType": upload.content_type,
        "cacheControl": upload.cache_control,
        "contentEncoding": if upload.is_gzip { "gzip" } else { "" },
    })
}
