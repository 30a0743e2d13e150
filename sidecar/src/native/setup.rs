//! Assembles an agent from a configuration: models, tools, prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pilothouse_agent::bash::{BashConfig, BashRunner};
use pilothouse_agent::context_files::ContextFiles;
use pilothouse_agent::event::SessionEvent;
use pilothouse_agent::model::genai::{Connections, GenaiModel};
use pilothouse_agent::model::info::ModelInfo;
use pilothouse_agent::model::registry::{ModelRegistry, RegistryError};
use pilothouse_agent::resources::{ResourceLoader, Resources};
use pilothouse_agent::session::{AgentSession, ContextSettings, SessionConfig, SessionError, Start};
use pilothouse_agent::tool::SharedTool;
use pilothouse_agent::tool::builtin::builtin_tools;
use pilothouse_agent::workspace::{Environment, Workspace};
use pilothouse_domain::text::ModelId;
use pilothouse_wire::RawEvent;
use pilothouse_wire::command::AgentSessionConfig;
use tokio::sync::mpsc;

use super::additions::{Additions, Launch};
use super::allowed::allow_list;
use super::governor::DriverGovernor;
use super::options::Options;
use super::prompt;
use super::saved_state::SavedState;
use super::toolbox::Toolbox;
use crate::adapter::{AdapterError, AgentContext, EventSink};
use crate::kit::agent_process::secrets;
use crate::kit::handoff;
use crate::kit::models;
use crate::kit::notices::{notice, sub_agents_left_out};
use crate::own_tools::{Destination, OwnTools, PlanMode, Requests, SubmitTool, Submitted, submit_output};
use crate::process::in_process::AgentThread;
use crate::process::{Processes, environment, git};

/// Parts that survive a new configuration.
pub(super) struct Setup {
    pub requests: Requests,
    pub submitted: Submitted,
    plan_mode: PlanMode,
    own_tools: OwnTools,
    /// Names of Pilothouse's own tools.
    own_names: BTreeSet<String>,
    registry: Arc<ModelRegistry>,
    connections: Connections,
    processes: Processes,
    thread: Option<AgentThread>,
    governor: DriverGovernor,
    /// Whether the control plane authorizes tool calls.
    governed: bool,
    events: EventSink,
    /// Folder for complete outputs that are too long to show.
    outputs: PathBuf,
    notices: Mutex<Vec<String>>,
}

pub(super) type Opened = (AgentSession, mpsc::UnboundedReceiver<SessionEvent>);

impl Setup {
    pub(super) fn new(
        context: &AgentContext,
        governor: DriverGovernor,
        governed: bool,
        connections: Connections,
    ) -> Result<Self, AdapterError> {
        let registry = models::registry(|name| std::env::var(name).ok(), &context.events)?;
        let thread = context.processes.file_thread();
        let outputs = Path::new(&context.launch.session_home).join("outputs");
        context.processes.folder(&outputs).map_err(|e| AdapterError::Agent(e.to_string()))?;
        let (requests, plan_mode, own_tools) =
            (Requests::default(), PlanMode::default(), OwnTools::of(context)?);
        let tools = own_tools.native(&requests, &plan_mode, false);
        let names = tools.iter().map(|tool| tool.spec().name.clone());
        Ok(Self {
            outputs,
            notices: Mutex::default(),
            own_names: names.chain([submit_output::NAME.to_owned()]).collect(),
            requests,
            submitted: Submitted::default(),
            plan_mode,
            own_tools,
            registry: Arc::new(registry),
            connections,
            processes: context.processes.clone(),
            thread: thread.map_err(|e| AdapterError::Agent(e.to_string()))?,
            governor,
            governed,
            events: context.events.clone(),
        })
    }

    /// Whether the tool is Pilothouse's own. No other tool of the agent can take its name.
    pub(super) fn is_own_tool(&self, name: &str) -> bool {
        self.own_names.contains(name)
    }

    /// Opens the conversation in the given file, or a new one.
    pub(super) async fn open(
        &self,
        config: &AgentSessionConfig,
        saved_state: &SavedState,
        conversation: Option<PathBuf>,
    ) -> Result<Opened, AdapterError> {
        let options = Options::read(&config.adapter_options)?;
        let failed = |e: SessionError| AdapterError::Agent(e.to_string());
        // Checked first, so that no conversation is created without a usable model.
        let model = self.model(&config.model_id)?;
        let language_model = Arc::new(GenaiModel::over(self.connections.clone(), Arc::clone(&self.registry)));
        let mut session = SessionConfig::new(
            &config.working_directory,
            saved_state.conversations(),
            language_model,
            Arc::clone(&self.registry),
        );
        session.model = Some(model.clone());
        session.thinking = config.thinking_level.unwrap_or(options.thinking_level);
        let folder = Path::new(&config.working_directory);
        let own = folder.join(".pilothouse");
        let places = ResourceLoader {
            skills: vec![own.join("skills"), folder.join(".agents/skills"), folder.join(".claude/skills")],
            prompts: vec![own.join("prompts")],
        };
        let (resources, context) = self.load(places, folder.to_owned()).await?;
        let git = git::state(&self.processes, folder).await;
        session.system_prompt = prompt::system(config, git.as_deref(), &context);
        let project =
            if options.uses_project_servers(config, self.governed) { context.mcp_servers() } else { None };
        let additions = self.additions(config, &options, project).await?;
        let bash = self.bash(folder, &options.env);
        session.tools = self.tools(config, &additions, &bash)?;
        if !additions.instructions.is_empty() {
            session.system_prompt = format!("{}\n\n{}", session.system_prompt, additions.instructions);
        }
        session.extensions = additions.extensions;
        session.governor = Arc::new(self.governor.clone());
        session.steering_mode = options.steering_mode.into();
        let policy = config.policies.session_policy;
        session.max_turns =
            options.max_turns.into_iter().chain(policy.and_then(|policy| policy.max_turns)).min();
        session.context = ContextSettings {
            policy: config.options.context_policy,
            threshold_percent: options.context_limit_percent,
            budget_tokens: policy.and_then(|policy| policy.context_budget_tokens),
            recent_turns: policy.and_then(|policy| policy.recent_turns()),
            handoff_prompt: Some(handoff::request(None)),
            ..ContextSettings::default()
        };
        session.retry = options.retry();
        session.bash = Some(bash);
        session.shell_prefix = options.shell_prefix;
        let notices = resources.notices().iter().chain(context.notices()).cloned();
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).extend(notices);
        session.resources = Arc::new(resources);
        let start = conversation.map_or(Start::New { parent: None }, Start::File);
        let (session, session_events) = AgentSession::open(session, start).map_err(failed)?;
        // A continued conversation keeps its settings, unless the owner has chosen others since.
        let state = session.state();
        if let Some(warning) = assumed_limits(&state.model) {
            self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
        }
        if config.model_id != ModelId::adapter_default().as_str() && state.model.name() != model {
            session.set_model(&model).map_err(failed)?;
        }
        if let Some(level) = config.thinking_level.filter(|level| *level != state.thinking) {
            session.set_thinking_level(level).map_err(failed)?;
        }
        Ok((session, session_events))
    }

    /// Reads skills, templates and the instructions of the project with the agent's rights, because the agent can put
    /// links among them.
    async fn load(
        &self,
        places: ResourceLoader,
        folder: PathBuf,
    ) -> Result<(Resources, ContextFiles), AdapterError> {
        let failed = |e: std::io::Error| AdapterError::Agent(e.to_string());
        let read = move || (places.load(), ContextFiles::load(&folder));
        match &self.thread {
            Some(thread) => thread.run(async move { read() }).await.map_err(failed),
            None => Ok(read()),
        }
    }

    async fn additions(
        &self,
        config: &AgentSessionConfig,
        options: &Options,
        project: Option<&str>,
    ) -> Result<Additions, AdapterError> {
        let folder = Path::new(&config.working_directory);
        let launch = Launch {
            folder,
            environment: self.environment(&options.env),
            guard: self.processes.guard(),
            events: &self.events,
            requests: &self.requests,
            project,
        };
        Additions::start(config, options, launch).await.map_err(AdapterError::Configuration)
    }

    fn tools(
        &self,
        config: &AgentSessionConfig,
        additions: &Additions,
        bash: &BashRunner,
    ) -> Result<Vec<SharedTool>, AdapterError> {
        let folder = Path::new(&config.working_directory);
        let allowed = allow_list(&config.allowed_tools)?;
        let toolbox = Toolbox {
            governor: &self.governor,
            plan_mode: &self.plan_mode,
            thread: self.thread.as_ref(),
            allowed: &allowed,
        };
        let mut tools = toolbox.working(self.builtin(folder, additions, bash)?);
        let submit = SubmitTool::new(
            Destination::Turn(self.submitted.clone()),
            self.processes.clone(),
            self.thread.clone(),
            folder.to_owned(),
        );
        tools.extend(toolbox.own(vec![Arc::new(submit)]));
        let own =
            self.own_tools.native(&self.requests, &self.plan_mode, config.options.plan_approval_required);
        tools.extend(toolbox.own(own));
        // Configuring an addition allows its tools.
        tools.extend(toolbox.own(additions.tools.clone()));
        tools.extend(toolbox.own(additions.extensions.tools()));
        Ok(tools)
    }

    /// The built-in tools: file access within the working directory, and commands as the agent's user.
    fn builtin(
        &self,
        folder: &Path,
        additions: &Additions,
        bash: &BashRunner,
    ) -> Result<Vec<SharedTool>, AdapterError> {
        let mut readable = vec![self.outputs.clone()];
        readable.extend(additions.extensions.resources().skills);
        let workspace = Workspace::new(folder, &readable)
            .map_err(|e| AdapterError::Configuration(format!("the working directory: {e}")))?;
        Ok(builtin_tools(&Arc::new(workspace), bash))
    }

    /// The environment of the agent's programs, with the variables of the option `env`.
    fn environment(&self, env: &BTreeMap<String, String>) -> Environment {
        let configured: Vec<_> = environment::CHOSEN.iter().map(|name| (*name).to_owned()).collect();
        let environment = Environment::of_this_process(&configured);
        let environment = match self.processes.user() {
            Some(user) => environment.with("HOME", user.home()),
            None => environment,
        };
        let folders = self.processes.folder_variables();
        let environment =
            folders.into_iter().fold(environment, |environment, (name, path)| environment.with(name, path));
        secrets(env).for_each(|secret| self.events.keep_secret(secret));
        let own = env.iter().chain(self.processes.secrets());
        own.fold(environment, |environment, (name, value)| environment.with_own(name, value))
    }

    /// The problems of assembling the agent with this configuration. Clears those of reading files.
    pub(super) fn notices(&self, config: &AgentSessionConfig) -> Vec<RawEvent> {
        let notices = std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        let notices = notices.into_iter().map(|summary| notice("agent_setup", summary));
        notices.chain(sub_agents_left_out(config, "the native agent starts no subagents")).collect()
    }

    fn bash(&self, folder: &Path, env: &BTreeMap<String, String>) -> BashRunner {
        let mut config = BashConfig::new(folder, self.environment(env), &self.outputs);
        config.guard = self.processes.guard().clone();
        BashRunner::new(config)
    }

    /// Resolves a model name. If the choice is left to the adapter, this is the first available model.
    pub(super) fn model(&self, name: &str) -> Result<String, AdapterError> {
        let model = if name == ModelId::adapter_default().as_str() {
            self.registry.available().next().cloned().ok_or(RegistryError::Nothing)
        } else {
            self.registry.resolve(name)
        };
        model.map(|model| model.name()).map_err(|e| AdapterError::Configuration(e.to_string()))
    }

    /// Discards open requests and submitted output of a turn that ended without completing.
    pub(super) fn withdraw(&self) {
        self.requests.close();
        self.submitted.take();
    }

    pub(super) fn settings(&self, session: &AgentSession) -> RawEvent {
        let state = session.state();
        RawEvent::AgentSettings {
            model_id: state.model.name(),
            thinking_level: Some(state.model.level(state.thinking)),
            available_models: self.registry.available().map(ModelInfo::name).collect(),
        }
    }
}

/// A warning about a model whose limits are not known.
pub(super) fn assumed_limits(model: &ModelInfo) -> Option<String> {
    let ModelInfo { context_window, max_output_tokens, .. } = model;
    model.limits_assumed.then(|| {
        format!(
            "the model {} is not known: a context window of {context_window} tokens and replies of at most \
             {max_output_tokens} are assumed; describe it in PILOTHOUSE_MODELS",
            model.name()
        )
    })
}
