//! The browsers in which an owner is logged in to the web console, in one item (decision 99).

use pilothouse_domain::UserId;
use pilothouse_domain::console_login::ConsoleLogins;

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::Store;

impl Commit {
    pub fn console_logins(
        &mut self,
        owner: &UserId,
        logins: &Loaded<ConsoleLogins>,
    ) -> Result<(), StoreError> {
        let row = item(layout::console_logins(owner), "console-logins", body(&logins.value)?);
        self.push(guarded(row, logins.version), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// The browsers in which an owner is logged in.
    pub async fn console_logins(&self, owner: &UserId) -> Result<Loaded<ConsoleLogins>, StoreError> {
        let known = self.load(&layout::console_logins(owner)).await?;
        Ok(known.unwrap_or_else(|| Loaded::new(ConsoleLogins::default())))
    }
}
