//! Reading the items that an index lists. Indexes contain keys only and may lag behind the table.

use std::collections::HashMap;

use super::attributes::{self, Attributes};
use crate::table::{Index, Item, Key, Position, Query, TableError};

pub(super) struct Named {
    /// Keys of the items without duplicates. An item that moves while the index is read may be listed twice, and `DynamoDB` refuses
    /// duplicate keys.
    pub keys: Vec<Attributes>,
    /// Position of each item, in the order of the index.
    pub places: Vec<(Key, Position)>,
}

pub(super) fn read(index: Option<Index>, named: &[Attributes]) -> Result<Named, TableError> {
    let mut keys = HashMap::with_capacity(named.len());
    let mut places = Vec::with_capacity(named.len());
    for place in named {
        let at = attributes::position(index, place.clone())?;
        let key = Key { partition: at.partition.clone(), sort: at.sort.clone() };
        keys.insert(key.clone(), attributes::key_of(place)?);
        places.push((key, at));
    }
    Ok(Named { keys: keys.into_values().collect(), places })
}

/// Whether the item is still at that place in the index.
pub(super) fn is_listed(query: &Query, item: &Item, at: &Position) -> bool {
    let place = match query.index {
        Some(Index::Listing) => &item.listing,
        Some(Index::Due) => &item.due,
        None => return true,
    };
    place.as_ref().is_some_and(|place| {
        place.partition == query.partition && Some(&place.sort) == at.index_sort.as_ref()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    fn place(sort: &str, listed_at: &str) -> Attributes {
        [("pk", "S#1"), ("sk", sort), ("l1p", "V#1"), ("l1s", listed_at)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())))
            .collect()
    }

    #[test]
    fn item_named_twice_is_read_once() {
        let named = [place("a", "1"), place("b", "2"), place("a", "3")];
        let Named { keys, places } = read(Some(Index::Listing), &named).unwrap();
        let mut sorts: Vec<_> = keys.iter().map(|key| key["sk"].as_s().unwrap().as_str()).collect();
        sorts.sort_unstable();
        assert_eq!(sorts, ["a", "b"]);
        let order: Vec<_> = places.iter().map(|(key, at)| (&*key.sort, at.index_sort.as_deref())).collect();
        assert_eq!(order, [("a", Some("1")), ("b", Some("2")), ("a", Some("3"))]);
    }
}
