//! Cursors of lists. They are opaque, and valid only for one list, filter and owner (decision 5).

use pilothouse_api::Page;
use pilothouse_domain::ProjectId;
use pilothouse_store::table::{Index, Position};
use pilothouse_store::{Listing, cursor};

use crate::http::PageRequest;
use crate::http::request::Parameters;
use crate::problem::Problem;

/// Reads of the index after which a request responds with what it found, if it found anything.
const READS: usize = 5;

/// The scope of a cursor: a list with a filter, in a partition of the Listing index or of the table itself.
#[derive(Debug, Clone)]
pub struct Scope {
    list: String,
    index: Option<Index>,
    partition: String,
}

impl Scope {
    /// A list in a partition of the Listing index.
    pub fn new(list: &str, partition: String) -> Self {
        Self { list: list.to_owned(), index: Some(Index::Listing), partition }
    }

    /// A list in a partition of the table itself.
    pub fn of_table(list: &str, partition: String) -> Self {
        Self { list: list.to_owned(), index: None, partition }
    }

    #[must_use]
    pub fn filtered(mut self, filter: &str) -> Self {
        self.list = format!("{}?{filter}", self.list);
        self
    }

    /// A list of a project with filters that the request names.
    #[must_use]
    pub fn filtered_by(self, project: ProjectId, parameters: &Parameters, filters: &[&str]) -> Self {
        let part = |name: &&str| format!("&{name}={}", parameters.text(name).unwrap_or_default());
        let filters: String = filters.iter().map(part).collect();
        self.filtered(&format!("projectId={project}{filters}"))
    }

    fn cursor(&self) -> cursor::Scope<'_> {
        cursor::Scope { list: &self.list, index: self.index, partition: &self.partition }
    }

    pub fn decode(&self, page: &PageRequest) -> Result<Option<Position>, Problem> {
        let decode = |text| {
            self.cursor().decode(text).map_err(|error| Problem::invalid("cursor", format!("is {error}")))
        };
        page.cursor.as_deref().map(decode).transpose()
    }

    /// Returns a page of what `keep` returns for the items that `read` lists. The page may be short although more follow, but it is
    /// empty only at the end of the list. Fails if the cursor belongs to another list or filter.
    pub async fn read<T, V, E, F>(
        &self,
        page: &PageRequest,
        read: impl Fn(usize, Option<Position>) -> F,
        keep: impl Fn(T) -> Option<V>,
    ) -> Result<Page<V>, Problem>
    where
        Problem: From<E>,
        F: Future<Output = Result<Listing<T>, E>>,
    {
        let mut after = self.decode(page)?;
        let mut items = Vec::new();
        let mut reads = 0;
        while reads < READS || items.is_empty() {
            reads += 1;
            // Never more than fit on the page, so that the cursor is the position of the last item that was examined.
            let listing = read(page.limit - items.len(), after).await?;
            items.extend(listing.items.into_iter().filter_map(&keep));
            after = listing.next;
            if after.is_none() || items.len() >= page.limit {
                break;
            }
        }
        Ok(self.page(items, after))
    }

    pub fn page<T>(&self, items: Vec<T>, next: Option<Position>) -> Page<T> {
        Page { items, next_cursor: next.map(|position| self.encode(&position)) }
    }

    pub fn encode(&self, position: &Position) -> String {
        self.cursor().encode(position)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Reads a list whose first match is the item `first`, one item at a time.
    async fn read(first: usize, length: usize) -> (Page<usize>, usize) {
        let scope = Scope::new("numbers", "owner".to_owned());
        let reads = Cell::new(0);
        let read = |_, _| {
            let item = reads.get();
            reads.set(item + 1);
            let position = || Position {
                partition: "owner".to_owned(),
                sort: item.to_string(),
                index_sort: Some(item.to_string()),
            };
            let next = (item + 1 < length).then(position);
            async move { Ok::<_, Problem>(Listing { items: vec![item], next }) }
        };
        let page = PageRequest { limit: 10, cursor: None };
        let page = scope.read(&page, read, |item| (item >= first).then_some(item)).await;
        (page.unwrap(), reads.get())
    }

    #[tokio::test]
    async fn page_is_empty_only_at_the_end_of_the_list() {
        let (page, _) = read(READS + 3, 100).await;
        assert_eq!(page.items, [READS + 3]);
        assert!(page.next_cursor.is_some());
        let (page, reads) = read(100, 50).await;
        assert!(page.items.is_empty() && page.next_cursor.is_none());
        assert_eq!(reads, 50);
    }

    #[tokio::test]
    async fn page_with_matches_ends_after_a_bounded_number_of_reads() {
        let (page, reads) = read(0, 100).await;
        assert_eq!((page.items.len(), reads), (READS, READS));
        assert!(page.next_cursor.is_some());
    }
}
