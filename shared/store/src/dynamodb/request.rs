use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem};
use pilothouse_domain::Timestamp;

use super::attributes::{attributes, key, key_names, number, text};
use super::errors;
use crate::range::Bounds;
use crate::table::{Condition, Query, TableError, Write};

#[derive(Default)]
pub(super) struct Expression {
    pub(super) text: Option<String>,
    pub(super) values: Option<HashMap<String, AttributeValue>>,
}

impl Expression {
    fn new<const N: usize>(text: String, values: [(&str, AttributeValue); N]) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { text: Some(text), values: Some(values) }
    }
}

/// Condition expression of a write. Expired items count as absent.
pub(super) fn condition(condition: Condition, now: Timestamp) -> Expression {
    let now = (":now", number(now.as_millis()));
    match condition {
        Condition::Always => Expression::default(),
        Condition::Absent => Expression::new("attribute_not_exists(pk) OR xm <= :now".to_owned(), [now]),
        Condition::Version(version) => Expression::new(
            "v = :v AND (attribute_not_exists(xm) OR xm > :now)".to_owned(),
            [(":v", number(version)), now],
        ),
    }
}

/// One write of a transaction; `None` for a check without a condition.
pub(super) fn transact_item(
    table: &str,
    write: Write,
    now: Timestamp,
) -> Result<Option<TransactWriteItem>, TableError> {
    let item = TransactWriteItem::builder();
    let item = match write {
        Write::Put(put, when) => {
            let Expression { text, values } = condition(when, now);
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(attributes(put)))
                .set_condition_expression(text)
                .set_expression_attribute_values(values);
            item.put(put.build().map_err(errors::engine)?)
        }
        Write::Delete(at, when) => {
            let Expression { text, values } = condition(when, now);
            let delete = Delete::builder()
                .table_name(table)
                .set_key(Some(key(&at)))
                .set_condition_expression(text)
                .set_expression_attribute_values(values);
            item.delete(delete.build().map_err(errors::engine)?)
        }
        Write::Check(_, Condition::Always) => return Ok(None),
        Write::Check(at, when) => {
            let Expression { text, values } = condition(when, now);
            let check = ConditionCheck::builder()
                .table_name(table)
                .set_key(Some(key(&at)))
                .set_condition_expression(text)
                .set_expression_attribute_values(values);
            item.condition_check(check.build().map_err(errors::engine)?)
        }
    };
    Ok(Some(item.build()))
}

pub(super) fn key_condition(query: &Query, bounds: Bounds) -> Expression {
    let (partition, sort) = key_names(query.index);
    let p = (":p", text(&query.partition));
    match bounds {
        Bounds::Empty | Bounds::All => Expression::new(format!("{partition} = :p"), [p]),
        Bounds::Prefix(prefix) => Expression::new(
            format!("{partition} = :p AND begins_with({sort}, :s)"),
            [p, (":s", text(prefix))],
        ),
        Bounds::Between(from, to) => Expression::new(
            format!("{partition} = :p AND {sort} BETWEEN :f AND :t"),
            [p, (":f", text(from)), (":t", text(to))],
        ),
    }
}
