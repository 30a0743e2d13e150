//! Redirections and assignments.

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Severity};

use super::walk::Walker;
use crate::marks::UNKNOWN;
use crate::path::Access;
use crate::syntax::{Assignment, Redirect};

/// `/dev/tcp/host/port` of bash.
const OPENS_SOCKET: Effect = Effect {
    action_kind: ActionKind::Network,
    severity: Severity::Critical,
    blast_radius: BlastRadius::Large,
    confidence: Confidence::percent(50),
};

impl Walker<'_> {
    pub(super) fn redirect(&mut self, redirect: &Redirect) {
        let (word, access) = match redirect {
            Redirect::Read(word) => (word, Access::Read),
            Redirect::Write(word) => (word, Access::Update),
            Redirect::Text(word) => {
                self.text(word);
                return;
            }
        };
        for path in self.words(word) {
            if path.starts_with("/dev/tcp") || path.starts_with("/dev/udp") {
                self.findings.add(OPENS_SOCKET, &path);
            }
            self.access(&path, access);
        }
    }

    /// `runs_command`: whether the variable is set for a command or exported.
    pub(super) fn assignment(&mut self, assignment: &Assignment, runs_command: bool) {
        let name = &assignment.name;
        let is_array = assignment.values.len() > 1;
        let mut values = Vec::new();
        for word in &assignment.values {
            if is_array {
                values.extend(self.words(word));
            } else {
                values.push(self.text(word));
            }
        }
        for value in values {
            self.variable_effect(name, &value, runs_command);
            self.assign(name, if assignment.appends { UNKNOWN.to_string() } else { value });
        }
    }
}
