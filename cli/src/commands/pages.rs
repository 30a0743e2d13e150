//! Reads lists page by page.

use pilothouse_api::Page;
use pilothouse_client::ApiError;
use pilothouse_client::inputs::PageQuery;

use crate::error::CliError;

/// All items that `read` lists.
pub(super) async fn all<T>(
    limit: u32,
    read: impl AsyncFn(&PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Vec<T>, CliError> {
    up_to(usize::MAX, limit, read).await
}

/// The first `wanted` items that `read` lists, in pages of `limit` items.
pub(super) async fn up_to<T>(
    wanted: usize,
    limit: u32,
    read: impl AsyncFn(&PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Vec<T>, CliError> {
    let (mut items, mut slice) = (Vec::new(), PageQuery { limit: Some(limit), cursor: None });
    loop {
        let page = read(&slice).await?;
        items.extend(page.items);
        slice.cursor = page.next_cursor;
        if slice.cursor.is_none() || items.len() >= wanted {
            items.truncate(wanted);
            return Ok(items);
        }
    }
}
