//! The registry of models: their providers, limits and prices (S1 4.1, `ModelRegistry`).

use std::collections::BTreeMap;
use std::fmt;

use pilothouse_domain::value::{CycleDirection, ThinkingLevel};
use serde::{Deserialize, Serialize};

use super::info::ModelInfo;
use super::price::Price;
use super::table;

/// A key that is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// For requests to the provider only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Protocol of a provider, or a provider whose protocol differs in details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Anthropic's Messages API and compatible servers.
    AnthropicMessages,
    /// `OpenAI`'s Chat Completions API and compatible servers.
    OpenaiChat,
    OpenaiResponses,
    Gemini,
    /// Gemini and Claude on Google's Vertex AI. The key is an access token, and the base URL names project and location.
    Vertex,
    /// The Converse API of Amazon Bedrock, with a Bedrock API key. The base URL names the region.
    Bedrock,
    /// Ollama and other local servers, with Chat Completions and without a key.
    Ollama,
    Openrouter,
    Deepseek,
    Moonshot,
    Mistral,
    Xai,
    Zai,
    Groq,
}

impl Api {
    /// `None` if it depends on the account.
    pub const fn default_base_url(self) -> Option<&'static str> {
        Some(match self {
            Self::AnthropicMessages => "https://api.anthropic.com/v1/",
            Self::OpenaiChat | Self::OpenaiResponses => "https://api.openai.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Vertex | Self::Bedrock => return None,
            Self::Ollama => "http://127.0.0.1:11434/v1/",
            Self::Openrouter => "https://openrouter.ai/api/v1/",
            Self::Deepseek => "https://api.deepseek.com/v1/",
            Self::Moonshot => "https://api.moonshot.ai/v1/",
            Self::Mistral => "https://api.mistral.ai/v1/",
            Self::Xai => "https://api.x.ai/v1/",
            Self::Zai => "https://api.z.ai/api/paas/v4/",
            Self::Groq => "https://api.groq.com/openai/v1/",
        })
    }

    const fn needs_key(self) -> bool {
        !matches!(self, Self::Ollama)
    }

    /// Whether the provider demands the plain thoughts of a reply with a tool call in later requests.
    const fn returns_thoughts(self) -> bool {
        matches!(self, Self::Deepseek | Self::Moonshot | Self::Mistral | Self::Zai)
    }
}

/// Providers that are configured by their key alone: name, protocol, and the variable of the key.
const KEYED: [(&str, Api, &str); 8] = [
    ("gemini", Api::Gemini, "GEMINI_API_KEY"),
    ("openrouter", Api::Openrouter, "OPENROUTER_API_KEY"),
    ("deepseek", Api::Deepseek, "DEEPSEEK_API_KEY"),
    ("moonshot", Api::Moonshot, "MOONSHOT_API_KEY"),
    ("mistral", Api::Mistral, "MISTRAL_API_KEY"),
    ("xai", Api::Xai, "XAI_API_KEY"),
    ("zai", Api::Zai, "ZAI_API_KEY"),
    ("groq", Api::Groq, "GROQ_API_KEY"),
];

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfig {
    /// First part of `provider/model`.
    pub name: String,
    pub api: Api,
    /// Base URL up to and including `v1/`. Default: the vendor's. A missing trailing slash is added.
    #[serde(default)]
    pub base_url: Option<String>,
    /// Without a key, the provider's models are not available, unless it needs none.
    #[serde(default)]
    pub api_key: Option<Secret>,
    /// Whether the provider needs no key. Always so with [`Api::Ollama`].
    #[serde(default)]
    pub keyless: bool,
    /// Whether the provider gets the plain thoughts (`reasoning_content`) of the model's replies back. Default: as the
    /// provider demands.
    #[serde(default)]
    pub returns_thoughts: Option<bool>,
    /// Models that are added to the built-in ones, or replace them.
    #[serde(default)]
    pub models: Vec<ModelConfig>,
}

impl ProviderConfig {
    pub fn is_available(&self) -> bool {
        self.api_key.is_some() || self.keyless || !self.api.needs_key()
    }

    pub(crate) fn returns_thoughts(&self) -> bool {
        self.returns_thoughts.unwrap_or(self.api.returns_thoughts())
    }

    /// Whether the provider's models run on a machine of the owner and cost nothing.
    fn is_local(&self) -> bool {
        self.api == Api::Ollama && self.api_key.is_none()
    }
}

/// A model in a configuration. Missing values come from the built-in table, or else from the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelConfig {
    /// The model's id at its provider.
    pub id: String,
    /// Limit for input and output tokens together. Default: 128,000.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// Limit for output tokens. Default: 8,192.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
    /// Default: unknown.
    #[serde(default)]
    pub price: Option<Price>,
    /// Whether the model sees images. Default: yes.
    #[serde(default)]
    pub vision: Option<bool>,
    /// Whether the model can think before it answers. Default: no.
    #[serde(default)]
    pub thinking: Option<bool>,
    /// The lowest and the highest level of thinking that the model accepts, besides none. Default: all levels.
    #[serde(default)]
    pub thinking_levels: Option<(ThinkingLevel, ThinkingLevel)>,
}

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// No provider offers the model.
    #[error("no provider offers the model `{0}`")]
    Unknown(String),
    /// The model's provider has no key.
    #[error("the provider `{0}` has no key")]
    NoKey(String),
    /// No provider has a key.
    #[error("no model is available: no provider has a key")]
    Nothing,
}

#[derive(Debug, Clone, Default)]
pub struct ModelRegistry {
    providers: Vec<ProviderConfig>,
    models: Vec<ModelInfo>,
}

impl ModelRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider, or replaces the one with the same name. A vendor's own provider (`anthropic`, `openai`)
    /// includes the built-in models.
    #[must_use]
    pub fn with(mut self, provider: ProviderConfig) -> Self {
        self.models.retain(|model| model.provider != provider.name);
        self.providers.retain(|known| known.name != provider.name);
        let mut models: BTreeMap<usize, ModelInfo> =
            table::models(&provider.name).into_iter().enumerate().collect();
        for config in &provider.models {
            let known = models.iter().find(|(_, model)| model.id == config.id).map(|(at, _)| *at);
            let known_model = known.and_then(|at| models.get(&at)).cloned();
            let base = known_model.unwrap_or_else(|| unlisted(&provider, &config.id));
            let model = configured(config, base);
            models.insert(known.unwrap_or(models.len()), model);
        }
        self.models.extend(models.into_values());
        self.providers.push(provider);
        self
    }

    /// Creates the providers `anthropic` and `openai` from the keys `ANTHROPIC_API_KEY` and `OPENAI_API_KEY` and the
    /// base URLs `ANTHROPIC_BASE_URL` (without `v1/`, as Anthropic's own programs expect it) and `OPENAI_BASE_URL`.
    /// `OPENAI_API=chat` selects Chat Completions for the latter, which most compatible servers need.
    ///
    /// Other providers are added if their key is set; Bedrock and Vertex AI need the place of the account, too, and
    /// Ollama its address (`OLLAMA_HOST`).
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let provider = |name: &str, api, key: &str, base_url: Option<String>| ProviderConfig {
            name: name.into(),
            api,
            base_url,
            api_key: set(key).map(Secret::new),
            keyless: false,
            returns_thoughts: None,
            models: Vec::new(),
        };
        let anthropic = env("ANTHROPIC_BASE_URL").map(|url| format!("{}/v1/", url.trim_end_matches('/')));
        let openai = match env("OPENAI_API").as_deref() {
            Some("chat") => Api::OpenaiChat,
            _ => Api::OpenaiResponses,
        };
        let mut registry = Self::new()
            .with(provider("anthropic", Api::AnthropicMessages, "ANTHROPIC_API_KEY", anthropic))
            .with(provider("openai", openai, "OPENAI_API_KEY", env("OPENAI_BASE_URL")));
        for (name, api, key) in KEYED {
            if set(key).is_some() {
                registry = registry.with(provider(name, api, key, None));
            }
        }
        if let (Some(_), Some(region)) = (set("AWS_BEARER_TOKEN_BEDROCK"), set("AWS_REGION")) {
            let base_url = format!("https://bedrock-runtime.{region}.amazonaws.com/");
            let bedrock = provider("bedrock", Api::Bedrock, "AWS_BEARER_TOKEN_BEDROCK", Some(base_url));
            registry = registry.with(bedrock);
        }
        if let (Some(_), Some(project)) = (set("VERTEX_API_KEY"), set("VERTEX_PROJECT_ID")) {
            let location = set("VERTEX_LOCATION");
            let host = location.as_deref().map_or_else(String::new, |location| format!("{location}-"));
            let location = location.as_deref().unwrap_or("global");
            let base_url = format!(
                "https://{host}aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/"
            );
            registry = registry.with(provider("vertex", Api::Vertex, "VERTEX_API_KEY", Some(base_url)));
        }
        if let Some(host) = set("OLLAMA_HOST") {
            let scheme = if host.contains("://") { "" } else { "http://" };
            let base_url = format!("{scheme}{}/v1/", host.trim_end_matches('/'));
            registry = registry.with(provider("ollama", Api::Ollama, "OLLAMA_API_KEY", Some(base_url)));
        }
        registry
    }

    pub fn providers(&self) -> &[ProviderConfig] {
        &self.providers
    }

    pub fn provider(&self, name: &str) -> Option<&ProviderConfig> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// Finds a model, whether or not it is available.
    pub fn find(&self, provider: &str, id: &str) -> Option<&ModelInfo> {
        self.models.iter().find(|model| model.provider == provider && model.id == id)
    }

    /// Finds the price of a model by any of its names, available or not: `id`, `provider/id`, an id with a date, and
    /// names that agents derive from it (`id/effort`, `id[effort]`).
    pub fn price(&self, name: &str) -> Option<Price> {
        let name = name.rsplit_once('|').map_or(name, |(_, name)| name);
        let name = name.split_once(['[', '(']).map_or(name, |(name, _)| name).trim();
        let behind = name.split_once('/').map_or(name, |(_, id)| id);
        let before = name.rsplit_once('/').map_or(name, |(id, _)| id);
        let known = |id: &&str| self.models.iter().find(|model| model.id == *id || model.name() == *id);
        let model = [name, behind, before].iter().find_map(known).cloned();
        let dated = || {
            let unlisted = self.providers.iter().map(|provider| self.unlisted(&provider.name, behind));
            unlisted.into_iter().find(|model| model.price.is_some())
        };
        let listed = model.or_else(dated).and_then(|model| model.price);
        listed.or_else(|| [name, behind, before].iter().find_map(|id| pilothouse_model_table::price(id)))
    }

    pub fn models(&self) -> &[ModelInfo] {
        &self.models
    }

    /// The models whose provider has a key, in order.
    pub fn available(&self) -> impl Iterator<Item = &ModelInfo> {
        self.models.iter().filter(|model| self.is_available(&model.provider))
    }

    /// Finds the available model for `provider/id` or for an id alone. Accepts an unlisted model from the named
    /// provider, or from the only available one, because providers add models all the time.
    pub fn resolve(&self, name: &str) -> Result<ModelInfo, RegistryError> {
        if let Some((provider, id)) = name.split_once('/')
            && let Some(provider) = self.provider(provider)
        {
            let known = self.find(&provider.name, id).cloned();
            return self.if_available(known.unwrap_or_else(|| self.unlisted(&provider.name, id)));
        }
        let mut same = self.models.iter().filter(|model| model.id == name);
        let first = same.clone().next();
        if let Some(model) = same.find(|model| self.is_available(&model.provider)).or(first) {
            return self.if_available(model.clone());
        }
        let mut available = self.providers.iter().filter(|provider| self.is_available(&provider.name));
        match (available.next(), available.next()) {
            (Some(only), None) => Ok(self.unlisted(&only.name, name)),
            _ => Err(RegistryError::Unknown(name.into())),
        }
    }

    /// The available model after or before `current`, wrapping around.
    pub fn cycle(&self, current: &ModelInfo, direction: CycleDirection) -> Result<ModelInfo, RegistryError> {
        let available: Vec<&ModelInfo> = self.available().collect();
        let count = available.len();
        if count == 0 {
            return Err(RegistryError::Nothing);
        }
        let at = available.iter().position(|m| m.provider == current.provider && m.id == current.id);
        let next = match (at, direction) {
            (Some(at), CycleDirection::Forward) => (at + 1) % count,
            (Some(at), CycleDirection::Backward) => (at + count - 1) % count,
            (None, CycleDirection::Forward) => 0,
            (None, CycleDirection::Backward) => count - 1,
        };
        available.get(next).map(|model| (*model).clone()).ok_or(RegistryError::Nothing)
    }

    /// Describes a model that is not listed. A known id with a date counts as the known model, and `vendor/id` of a
    /// gateway as the vendor's model.
    fn unlisted(&self, provider: &str, id: &str) -> ModelInfo {
        let dated = |model: &&ModelInfo| {
            let rest = id.strip_prefix(model.id.as_str()).and_then(|rest| rest.strip_prefix('-'));
            model.provider == provider
                && rest.is_some_and(|date| date.len() >= 8 && date.bytes().all(is_of_date))
        };
        let like = self.models.iter().find(dated).cloned();
        let of_vendor = || {
            let (vendor, id) = id.split_once('/')?;
            table::of_vendor(vendor, id)
        };
        if let Some(like) = like.or_else(of_vendor) {
            return ModelInfo { provider: provider.into(), id: id.into(), ..like };
        }
        self.provider(provider).map_or_else(|| assumed(provider, id), |provider| unlisted(provider, id))
    }

    fn is_available(&self, provider: &str) -> bool {
        self.provider(provider).is_some_and(ProviderConfig::is_available)
    }

    fn if_available(&self, model: ModelInfo) -> Result<ModelInfo, RegistryError> {
        if self.is_available(&model.provider) { Ok(model) } else { Err(RegistryError::NoKey(model.provider)) }
    }
}

const CONTEXT_WINDOW: u64 = 128_000;
const MAX_OUTPUT: u64 = 8_192;

const fn is_of_date(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'-'
}

fn unlisted(provider: &ProviderConfig, id: &str) -> ModelInfo {
    let price = provider.is_local().then(Price::default);
    ModelInfo { price, ..assumed(&provider.name, id) }
}

fn assumed(provider: &str, id: &str) -> ModelInfo {
    ModelInfo {
        provider: provider.into(),
        id: id.into(),
        context_window: CONTEXT_WINDOW,
        max_output_tokens: MAX_OUTPUT,
        price: None,
        vision: true,
        thinking: false,
        lowest_thinking: ThinkingLevel::Minimal,
        highest_thinking: ThinkingLevel::Max,
        limits_assumed: true,
    }
}

fn configured(config: &ModelConfig, base: ModelInfo) -> ModelInfo {
    let levels = (base.lowest_thinking, base.highest_thinking);
    let (lowest_thinking, highest_thinking) = config.thinking_levels.unwrap_or(levels);
    ModelInfo {
        context_window: config.context_window.unwrap_or(base.context_window),
        max_output_tokens: config.max_output_tokens.unwrap_or(base.max_output_tokens),
        price: config.price.or(base.price),
        vision: config.vision.unwrap_or(base.vision),
        thinking: config.thinking.unwrap_or(base.thinking),
        lowest_thinking,
        highest_thinking,
        limits_assumed: base.limits_assumed && config.context_window.is_none(),
        ..base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(name: &str, key: Option<&str>, models: &[&str]) -> ProviderConfig {
        let model = |id: &&str| ModelConfig {
            id: (*id).into(),
            context_window: Some(1_000),
            max_output_tokens: None,
            price: None,
            vision: None,
            thinking: None,
            thinking_levels: None,
        };
        ProviderConfig {
            name: name.into(),
            api: Api::OpenaiChat,
            base_url: None,
            api_key: key.map(Secret::new),
            keyless: false,
            returns_thoughts: None,
            models: models.iter().map(model).collect(),
        }
    }

    #[test]
    fn cycling_covers_only_the_available_models() {
        let registry = ModelRegistry::new()
            .with(provider("one", Some("k"), &["a", "b"]))
            .with(provider("none", None, &["c"]))
            .with(provider("two", Some("k"), &["d"]));
        let mut model = registry.resolve("one/a").unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            model = registry.cycle(&model, CycleDirection::Forward).unwrap();
            seen.push(model.name());
        }
        assert_eq!(seen, ["one/b", "two/d", "one/a"]);
        assert_eq!(registry.cycle(&model, CycleDirection::Backward).unwrap().name(), "two/d");
    }

    #[test]
    fn model_without_a_key_is_unavailable_and_names_the_key() {
        let registry = ModelRegistry::new().with(provider("none", None, &["c"]));
        assert_eq!(registry.resolve("none/c"), Err(RegistryError::NoKey("none".into())));
        assert_eq!(registry.resolve("c"), Err(RegistryError::NoKey("none".into())));
        assert_eq!(registry.resolve("x"), Err(RegistryError::Unknown("x".into())));
        assert_eq!(registry.available().count(), 0);
    }

    #[test]
    fn unlisted_model_uses_the_only_provider_with_a_key() {
        let registry =
            ModelRegistry::new().with(provider("one", Some("k"), &[])).with(provider("none", None, &[]));
        let model = registry.resolve("brand/new").unwrap();
        assert_eq!((model.provider.as_str(), model.id.as_str()), ("one", "brand/new"));
    }

    #[test]
    fn configuration_overrides_the_built_in_table() {
        let mut config = provider("anthropic", Some("k"), &[]);
        let known = ModelRegistry::new().with(config.clone()).models()[0].clone();
        config.models = vec![ModelConfig {
            id: known.id.clone(),
            context_window: Some(42),
            max_output_tokens: None,
            price: None,
            vision: None,
            thinking: None,
            thinking_levels: None,
        }];
        let registry = ModelRegistry::new().with(config);
        let model = registry.find("anthropic", &known.id).unwrap();
        assert_eq!(model, &ModelInfo { context_window: 42, ..known });
    }

    #[test]
    fn level_is_clamped_to_what_the_model_accepts() {
        use ThinkingLevel::{High, Low, Max, Medium, Minimal, Off};
        let registry = ModelRegistry::new().with(provider("openai", Some("k"), &[]));
        let clamped =
            |model: &str| ThinkingLevel::ALL.map(|level| registry.resolve(model).unwrap().level(level));
        assert_eq!(clamped("gpt-4.1"), [Off; 6]);
        assert_eq!(clamped("gpt-5.1"), [Off, Low, Low, Medium, High, High]);
        assert_eq!(clamped("gpt-5"), [Off, Minimal, Low, Medium, High, High]);
        assert_eq!(clamped("gpt-5.4"), [Off, Low, Low, Medium, High, Max]);
    }

    #[test]
    fn only_a_model_without_known_limits_is_assumed() {
        let mut config = provider("openai", Some("k"), &["mine"]);
        config.models.push(ModelConfig {
            id: "other".into(),
            context_window: None,
            ..config.models[0].clone()
        });
        let registry = ModelRegistry::new().with(config).with(provider("openrouter", Some("k"), &[]));
        for (model, assumed) in [
            ("openai/gpt-5.1", false),
            ("openai/gpt-5.1-2025-11-13", false),
            ("openai/mine", false),
            ("openai/other", true),
            ("openai/brand-new", true),
            ("openrouter/anthropic/claude-opus-4.5", false),
        ] {
            assert_eq!(registry.resolve(model).unwrap().limits_assumed, assumed, "{model}");
        }
        let routed = registry.resolve("openrouter/anthropic/claude-opus-4.5").unwrap();
        assert_eq!(
            (routed.name().as_str(), routed.context_window),
            ("openrouter/anthropic/claude-opus-4.5", 200_000)
        );
    }

    #[test]
    fn providers_come_from_their_variables() {
        let set = [
            ("GEMINI_API_KEY", "k"),
            ("DEEPSEEK_API_KEY", ""),
            ("AWS_BEARER_TOKEN_BEDROCK", "k"),
            ("AWS_REGION", "eu-west-1"),
            ("VERTEX_API_KEY", "k"),
            ("VERTEX_PROJECT_ID", "p"),
            ("OLLAMA_HOST", "127.0.0.1:11434"),
        ];
        let registry = ModelRegistry::from_env(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        assert!(registry.resolve("gemini/gemini-2.5-pro").unwrap().vision);
        assert!(registry.provider("deepseek").is_none());
        let base = |name: &str| registry.provider(name).unwrap().base_url.clone().unwrap();
        assert_eq!(base("bedrock"), "https://bedrock-runtime.eu-west-1.amazonaws.com/");
        assert_eq!(base("vertex"), "https://aiplatform.googleapis.com/v1/projects/p/locations/global/");
        let local = registry.resolve("ollama/qwen3").unwrap();
        assert_eq!(
            (local.price, base("ollama").as_str()),
            (Some(Price::default()), "http://127.0.0.1:11434/v1/")
        );
    }

    #[test]
    fn dated_model_inherits_from_the_undated_one() {
        let registry = ModelRegistry::new().with(provider("anthropic", Some("k"), &[]));
        let dated = registry.resolve("anthropic/claude-sonnet-4-5-20250929").unwrap();
        let known = registry.resolve("claude-sonnet-4-5").unwrap();
        assert_eq!(dated, ModelInfo { id: "claude-sonnet-4-5-20250929".into(), ..known });
    }

    #[test]
    fn key_is_never_displayed() {
        let registry = ModelRegistry::new().with(provider("one", Some("sk-very-secret"), &["a"]));
        assert!(!format!("{registry:?}").contains("very-secret"));
    }
}
