use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use pilothouse_domain::Timestamp;

use super::packing;
use crate::table::{Index, Item, Key, Position, Query, TableError};

pub(super) type Attributes = HashMap<String, AttributeValue>;

/// An item of the table that this program did not write.
#[derive(Debug, thiserror::Error)]
#[error("the attribute `{0}` of an item is missing or of the wrong type")]
struct Malformed(&'static str);

fn malformed(name: &'static str) -> TableError {
    TableError::Engine(Box::new(Malformed(name)))
}

pub(super) const fn index_name(index: Index) -> &'static str {
    match index {
        Index::Listing => "listing",
        Index::Due => "due",
    }
}

/// Names of partition and sort key, of the table or an index.
pub(super) const fn key_names(index: Option<Index>) -> (&'static str, &'static str) {
    match index {
        None => ("pk", "sk"),
        Some(Index::Listing) => ("l1p", "l1s"),
        Some(Index::Due) => ("d1p", "d1s"),
    }
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub(super) fn key(key: &Key) -> Attributes {
    HashMap::from([("pk".to_owned(), text(&key.partition)), ("sk".to_owned(), text(&key.sort))])
}

pub(super) fn attributes(item: Item) -> Attributes {
    let Item { key, kind, version, listing, due, expires_at, body } = item;
    let mut attributes = Attributes::with_capacity(12);
    let mut set = |name: &str, value| drop(attributes.insert(name.to_owned(), value));
    set("pk", text(key.partition));
    set("sk", text(key.sort));
    set("k", text(kind));
    set("v", number(version));
    match packing::pack(&body) {
        Some(packed) => set("p", AttributeValue::B(Blob::new(packed))),
        None => set("b", text(body)),
    }
    for (index, place) in [(Index::Listing, listing), (Index::Due, due)] {
        if let Some(place) = place {
            let (partition, sort) = key_names(Some(index));
            set(partition, text(place.partition));
            set(sort, text(place.sort));
        }
    }
    if let Some(at) = expires_at {
        let millis = at.as_millis();
        set("x", number(millis.div_euclid(1000) + i64::from(millis.rem_euclid(1000) > 0)));
        set("xm", number(millis));
    }
    attributes
}

pub(super) fn item(mut attributes: Attributes) -> Result<Item, TableError> {
    let a = &mut attributes;
    Ok(Item {
        key: Key { partition: required(a, "pk")?, sort: required(a, "sk")? },
        kind: required(a, "k")?,
        version: parsed(a, "v")?.ok_or_else(|| malformed("v"))?,
        listing: place(a, Index::Listing)?,
        due: place(a, Index::Due)?,
        expires_at: parsed(a, "xm")?.map(Timestamp::from_millis),
        body: body(a)?,
    })
}

fn body(attributes: &mut Attributes) -> Result<String, TableError> {
    let unpacked = match (attributes.remove("p"), attributes.remove("z")) {
        (None, None) => return required(attributes, "b"),
        (Some(AttributeValue::B(packed)), _) => packing::unpack(packed.as_ref()),
        (Some(_), _) => return Err(malformed("p")),
        (None, Some(AttributeValue::B(deflated))) => packing::unpack_plain(deflated.as_ref()),
        (None, Some(_)) => return Err(malformed("z")),
    };
    unpacked.map_err(|error| TableError::Engine(Box::new(error)))
}

/// Size of names and values as `DynamoDB` computes it: a number takes one byte for two digits, and one more.
pub(super) fn bytes(attributes: &Attributes) -> usize {
    let value = |value: &AttributeValue| match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::B(blob) => blob.as_ref().len(),
        _ => 1,
    };
    attributes.iter().map(|(name, of)| name.len() + value(of)).sum()
}

/// Primary key of an item that an index lists.
pub(super) fn key_of(attributes: &Attributes) -> Result<Attributes, TableError> {
    let mut key = Attributes::with_capacity(2);
    for name in ["pk", "sk"] {
        let value = attributes.get(name).ok_or_else(|| malformed(name))?;
        key.insert(name.to_owned(), value.clone());
    }
    Ok(key)
}

fn place(attributes: &mut Attributes, index: Index) -> Result<Option<Key>, TableError> {
    let (partition, sort) = key_names(Some(index));
    if !attributes.contains_key(partition) {
        return Ok(None);
    }
    Ok(Some(Key { partition: required(attributes, partition)?, sort: required(attributes, sort)? }))
}

fn required(attributes: &mut Attributes, name: &'static str) -> Result<String, TableError> {
    match attributes.remove(name) {
        Some(AttributeValue::S(value)) => Ok(value),
        _ => Err(malformed(name)),
    }
}

fn parsed<T: std::str::FromStr>(
    attributes: &Attributes,
    name: &'static str,
) -> Result<Option<T>, TableError> {
    match attributes.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(value)) => value.parse().map(Some).map_err(|_| malformed(name)),
        Some(_) => Err(malformed(name)),
    }
}

pub(super) fn start_key(query: &Query, after: &Position) -> Attributes {
    let mut start = key(&Key { partition: after.partition.clone(), sort: after.sort.clone() });
    if let (Some(_), Some(index_sort)) = (query.index, &after.index_sort) {
        let (partition, sort) = key_names(query.index);
        start.insert(partition.to_owned(), text(&query.partition));
        start.insert(sort.to_owned(), text(index_sort));
    }
    start
}

pub(super) fn position(index: Option<Index>, mut key: Attributes) -> Result<Position, TableError> {
    let index_sort = match index {
        None => None,
        Some(_) => Some(required(&mut key, key_names(index).1)?),
    };
    Ok(Position { partition: required(&mut key, "pk")?, sort: required(&mut key, "sk")?, index_sort })
}
