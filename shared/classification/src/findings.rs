//! The result of the classification.

use pilothouse_domain::effect::{ActionKind, BlastRadius, Confidence, Effect, Effects, Severity};
use serde::Serialize;

use crate::path::{Access, BaseFolders};

/// One effect with the part of the call that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub effect: Effect,
    /// The program, path or option, cut to [`Finding::MAX_SUBJECT`] characters.
    pub subject: String,
}

impl Finding {
    pub const MAX_SUBJECT: usize = 200;
}

/// The effects of a tool call and where they come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Classification {
    pub effects: Effects,
    /// The first [`Classification::MAX_FINDINGS`] findings. `effects` has the effects of all.
    pub findings: Vec<Finding>,
    /// Build files that the call changes. A caller passes those of earlier calls to
    /// [`Context::after_changes`](crate::Context::after_changes).
    pub changed_build_files: Vec<String>,
    /// Name of the project's pattern that the tool matches.
    pub pattern: Option<String>,
    /// Whether an approval must give a reason (S2, `requiresRationale`).
    pub requires_rationale: bool,
}

impl Classification {
    pub const MAX_FINDINGS: usize = 20;
    pub const MAX_BUILD_FILES: usize = 20;
}

/// Collects effects while a call is inspected.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    effects: Option<Effects>,
    findings: Vec<Finding>,
    changed_build_files: Vec<String>,
}

impl Collector {
    pub(crate) fn add(&mut self, effect: Effect, subject: &str) {
        match &mut self.effects {
            Some(effects) => effects.insert(effect),
            None => self.effects = Some(Effects::one(effect)),
        }
        if self.findings.len() < Classification::MAX_FINDINGS {
            let shown = subject.chars().map(crate::marks::visible);
            let finding = Finding { effect, subject: shown.take(Finding::MAX_SUBJECT).collect() };
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    /// A part of the call that nothing is known about.
    pub(crate) fn unclassified(&mut self, subject: &str) {
        self.add(Effect::UNCLASSIFIED, subject);
    }

    /// An access to a path. Returns whether it changes a file whose content may be code.
    pub(crate) fn access(
        &mut self,
        places: &BaseFolders<'_>,
        folder: &str,
        path: &str,
        access: Access,
    ) -> bool {
        let (absolute, effect) = places.effect(folder, path, access);
        self.add(effect, path);
        if !matches!(access, Access::Create | Access::Update) {
            return false;
        }
        let is_new = self.changed_build_files.len() < Classification::MAX_BUILD_FILES
            && !self.changed_build_files.contains(&absolute);
        if is_new && places.is_build_file(&absolute) {
            self.changed_build_files.push(absolute);
        }
        may_be_code(path)
    }

    /// Effects of a call without a finding are those of printing something.
    pub(crate) fn finish(self) -> Classification {
        Classification {
            effects: self.effects.unwrap_or_else(|| Effects::one(INERT)),
            findings: self.findings,
            changed_build_files: self.changed_build_files,
            pattern: None,
            requires_rationale: false,
        }
    }
}

/// Files with these endings, and streams, contain no code that a build runs.
fn may_be_code(path: &str) -> bool {
    !path.starts_with("/dev/")
        && ![".log", ".txt", ".md", ".csv", ".out"].iter().any(|end| path.ends_with(end))
}

/// Changes nothing and reads no files.
pub(crate) const INERT: Effect = Effect {
    action_kind: ActionKind::Analyze,
    severity: Severity::Warning,
    blast_radius: BlastRadius::Trivial,
    confidence: Confidence::percent(95),
};
