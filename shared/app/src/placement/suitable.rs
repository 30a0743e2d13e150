//! Whether any place can run an agent with certain requirements (decision 92).

use std::collections::BTreeMap;

use pilothouse_domain::placement::RunNeeds;
use pilothouse_domain::project_agent::{AgentBrief, UnmetRequirement, WorkspaceOffer, WorkspaceRequirements};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::{AgentSession, UserId};
use pilothouse_store::{Store, StoreError};
use pilothouse_wire::launch::LaunchRequest;

use crate::App;
use crate::placement::facts::worker_offer;
use crate::placement::{AssignmentError, WorkerAssigner};
use crate::problem::Problem;

/// The number of workers per read.
const PAGE: usize = 100;
/// Most places that a refusal describes.
const MAX_DESCRIBED: usize = 5;
/// The name of the place of the runtime in messages.
const BUILT_IN: &str = "the built-in runtime";

impl App {
    /// Refuses a brief whose requirements no place satisfies. Unreachable workers count, because runs wait for them. `labels` are those of
    /// the session. Returns warnings about a brief without requirements.
    ///
    /// # Errors
    /// [`Problem::Invalid`] names the unmet requirements of each place. `root` is the path of the brief.
    pub async fn check_workspace(
        &self,
        owner: &UserId,
        labels: &BTreeMap<String, String>,
        brief: &AgentBrief,
        root: &str,
    ) -> Result<Vec<String>, Problem> {
        if let Some(needed) = &brief.workspace_requirements {
            return match self.lacking(owner, labels, needed).await? {
                None => Ok(Vec::new()),
                Some(lacking) => {
                    let field = format!("{root}workspaceRequirements");
                    Err(Problem::invalid(&field, format!("no worker satisfies them: {lacking}")))
                }
            };
        }
        let capabilities = WorkspaceRequirements::inferred(&brief.allowed_tools, brief.role.as_str());
        if capabilities.is_empty() {
            return Ok(Vec::new());
        }
        let names = capabilities.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let needed = WorkspaceRequirements {
            mounts: Vec::new(),
            capabilities,
            resource_limits: None,
            base_image: None,
        };
        let lacking = self.lacking(owner, labels, &needed).await?;
        let warning = |lacking: String| {
            format!(
                "the brief has no `workspaceRequirements`; its tools and role suggest {names}, and no worker has them: {lacking}"
            )
        };
        Ok(lacking.map(warning).into_iter().collect())
    }

    /// Refuses changed requirements that the session of an agent cannot have. A session that has run stays where its folders are
    /// (decision 23), so only that place counts. Its free disk does not, because the files of the session use it. For any other session
    /// see [`Self::check_workspace`].
    ///
    /// # Errors
    /// [`Problem::Invalid`] names the unmet requirements. `root` is the path of the brief.
    pub async fn check_place(
        &self,
        session: &AgentSession,
        brief: &AgentBrief,
        root: &str,
    ) -> Result<(), Problem> {
        let Some(needed) = &brief.workspace_requirements else { return Ok(()) };
        let Some((place, offer)) = self.place_of(session).await? else {
            let labels = &session.settings().labels;
            return self.check_workspace(session.owner_id(), labels, brief, root).await.map(drop);
        };
        let unmet = needed.unmet_except_disk(&offer);
        if unmet.is_empty() {
            return Ok(());
        }
        let why = format!("the session of the agent stays where it has run: {}", lacks(&place, &unmet));
        Err(Problem::invalid(&format!("{root}workspaceRequirements"), why))
    }

    /// The place where a session stays, with its offer. `None` if it has run nowhere, or only another session of its agent can run.
    async fn place_of(&self, session: &AgentSession) -> Result<Option<(String, WorkspaceOffer)>, Problem> {
        use AgentSessionStatus as S;
        if matches!(session.status(), S::Completed | S::Cancelled | S::ContextExhausted) {
            return Ok(None);
        }
        let home = match self.store.session_worker(session.id()).await? {
            Some(home) => self.store.worker(&home).await?,
            None => None,
        };
        if let Some(home) = home {
            let worker = home.value;
            return Ok(Some((format!("the worker {}", worker.key.id.as_str()), worker.workspace)));
        }
        let has_folders = self.runtime.has_folders_of(session.id());
        Ok(has_folders.then(|| (BUILT_IN.to_owned(), self.runtime.workspace().unwrap_or_default())))
    }

    /// The unmet requirements of each place. `None` if a place satisfies all.
    async fn lacking(
        &self,
        owner: &UserId,
        labels: &BTreeMap<String, String>,
        needed: &WorkspaceRequirements,
    ) -> Result<Option<String>, Problem> {
        let labels = super::launch_request::worker_labels(labels);
        let needs = RunNeeds { owner, labels: &labels, workspace: Some(needed) };
        let mut described = Vec::new();
        if let Some(offer) = self.runtime.workspace().filter(|_| labels.is_empty()) {
            let unmet = needed.unmet(&offer);
            if unmet.is_empty() {
                return Ok(None);
            }
            described.push(lacks(BUILT_IN, &unmet));
        }
        let Some(of_workers) = lacking_workers(&self.store, &needs).await? else { return Ok(None) };
        described.extend(of_workers);
        if described.is_empty() {
            return Ok(Some("there is none".to_owned()));
        }
        described.truncate(MAX_DESCRIBED);
        Ok(Some(described.join("; ")))
    }
}

impl WorkerAssigner {
    /// Whether a registered worker suits a run, whatever its load. Unreachable workers count.
    pub(super) async fn has_suitable_worker(&self, request: &LaunchRequest) -> Result<bool, AssignmentError> {
        let Some(session) = self.session_of(request).await? else { return Ok(false) };
        let owner = session.owner_id();
        let (labels, workspace) = (&request.worker_labels, request.workspace.as_deref());
        let lacking = lacking_workers(&self.store, &RunNeeds { owner, labels, workspace }).await?;
        Ok(lacking.is_none())
    }
}

/// The unmet requirements of each registered worker that serves the owner. `None` if one satisfies all.
async fn lacking_workers(store: &Store, needs: &RunNeeds<'_>) -> Result<Option<Vec<String>>, StoreError> {
    let mut described = Vec::new();
    for of_owner in [true, false] {
        let mut after = None;
        loop {
            let page = if of_owner {
                store.workers(needs.owner, PAGE, after).await?
            } else {
                store.shared_workers(PAGE, after).await?
            };
            for worker in &page.items {
                let offer = worker_offer(&worker.value);
                if offer.suits(needs) {
                    return Ok(None);
                }
                let unmet = needs.workspace.map(|needed| needed.unmet(offer.workspace)).unwrap_or_default();
                described.push(lacks(&format!("the worker {}", worker.value.key.id.as_str()), &unmet));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(Some(described))
}

fn lacks(place: &str, unmet: &[UnmetRequirement]) -> String {
    let unmet: Vec<_> = unmet.iter().map(ToString::to_string).collect();
    let why =
        if unmet.is_empty() { "it lacks the labels of the session".to_owned() } else { unmet.join(", ") };
    format!("{place}: {why}")
}
