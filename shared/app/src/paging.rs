//! Cursors of lists. They are opaque, and valid only for one list, filter and owner (decision 5).

use pilothouse_api::Page;
use pilothouse_domain::ProjectId;
use pilothouse_store::table::{Index, Position};
use pilothouse_store::{Listing, cursor};

use crate::http::PageRequest;
use crate::http::request::Parameters;
use crate::problem::Problem;

/// Pages of the index that one request reads.
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

    /// Returns a page of what `keep` returns for the items that `read` lists. The page may be short although more follow, because the
    /// number of reads per request is bounded. Fails if the cursor belongs to another list or filter.
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
        for _ in 0..READS {
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
