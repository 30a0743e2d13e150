//! Cursors of lists. They are opaque, and valid only for one list, filter and owner (decision 5).

use pilothouse_api::Page;
use pilothouse_store::cursor;
use pilothouse_store::table::{Index, Position};

use crate::http::PageRequest;
use crate::problem::Problem;

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

    fn cursor(&self) -> cursor::Scope<'_> {
        cursor::Scope { list: &self.list, index: self.index, partition: &self.partition }
    }

    pub fn decode(&self, page: &PageRequest) -> Result<Option<Position>, Problem> {
        let decode = |text| {
            self.cursor().decode(text).map_err(|error| Problem::invalid("cursor", format!("is {error}")))
        };
        page.cursor.as_deref().map(decode).transpose()
    }

    pub fn page<T>(&self, items: Vec<T>, next: Option<Position>) -> Page<T> {
        Page { items, next_cursor: next.map(|position| self.encode(&position)) }
    }

    pub fn encode(&self, position: &Position) -> String {
        self.cursor().encode(position)
    }
}
