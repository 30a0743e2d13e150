//! Schemas of the components that share a file, and their migration.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::OpenError;

/// Schema of a component, as the list of its migration steps. Released steps never change; changes are appended as new steps.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    pub component: &'static str,
    pub steps: &'static [&'static str],
}

/// Runs the steps that the file does not have yet, each in its own transaction.
pub(crate) fn migrate(conn: &mut Connection, schemas: &[Schema]) -> Result<(), OpenError> {
    for schema in schemas {
        let component = schema.component;
        let at = |step: usize| move |source| OpenError::Migrate { component, step, source };
        let found = version(conn, component).map_err(at(0))?;
        if found > schema.steps.len() {
            return Err(OpenError::TooNew { component, found, known: schema.steps.len() });
        }
        for (index, sql) in schema.steps.iter().enumerate().skip(found) {
            run_step(conn, component, index + 1, sql).map_err(at(index + 1))?;
        }
    }
    Ok(())
}

fn version(conn: &Connection, component: &str) -> rusqlite::Result<usize> {
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_steps (component TEXT PRIMARY KEY, step INTEGER NOT NULL) WITHOUT ROWID",
    )?;
    let step = conn
        .query_row("SELECT step FROM schema_steps WHERE component = ?1", [component], |row| row.get(0))
        .optional()?;
    Ok(step.unwrap_or(0))
}

fn run_step(conn: &mut Connection, component: &str, step: usize, sql: &str) -> rusqlite::Result<()> {
    let tx = conn.transaction()?;
    tx.execute_batch(sql)?;
    tx.execute(
        "INSERT OR REPLACE INTO schema_steps (component, step) VALUES (?1, ?2)",
        params![component, step],
    )?;
    tx.commit()
}
