//! The endpoint of the model, from the environment. Each host reads the key from a place of its own.

use std::fmt;

use pilothouse_domain::Usd;
use pilothouse_domain::text::ModelId;

/// The address of the endpoint. Without it, the control plane asks no model.
const URL: &str = "PILOTHOUSE_MODEL_URL";
const PROTOCOL: &str = "PILOTHOUSE_MODEL_PROTOCOL";
const MODEL: &str = "PILOTHOUSE_MODEL";
const PRICE: &str = "PILOTHOUSE_MODEL_PRICE";

/// The protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelProtocol {
    /// Chat Completions of `OpenAI`, which many other servers speak.
    #[default]
    OpenAi,
    /// Messages of Anthropic.
    Anthropic,
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    pub input: Usd,
    pub output: Usd,
}

impl Default for ModelPrice {
    /// The prices that S2 uses in its estimates.
    fn default() -> Self {
        Self { input: Usd::whole(3), output: Usd::whole(15) }
    }
}

/// The endpoint of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSettings {
    /// The address that paths of the protocol are appended to, such as `https://api.openai.com/v1`.
    pub url: String,
    pub protocol: ModelProtocol,
    /// The model, unless a project names another one.
    pub model: ModelId,
    /// The price of every model that is asked; `None`: the price in the table of models.
    pub price: Option<ModelPrice>,
}

/// The key of an endpoint. It is not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelKey(pub String);

impl fmt::Debug for ModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelKey(…)")
    }
}

/// Every violation, each a sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct InvalidModelSettings(pub Vec<String>);

impl ModelSettings {
    /// Reads the settings; `None` if the server has no model.
    ///
    /// # Errors
    /// Every violation.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, InvalidModelSettings> {
        let text = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let Some(url) = text(URL) else { return Ok(None) };
        let mut wrong: Vec<_> = wrong_address(URL, &url).into_iter().collect();
        let protocol = match text(PROTOCOL).as_deref() {
            None | Some("openai") => ModelProtocol::OpenAi,
            Some("anthropic") => ModelProtocol::Anthropic,
            Some(other) => {
                wrong.push(format!("{PROTOCOL} is `openai` or `anthropic`, not `{other}`"));
                ModelProtocol::default()
            }
        };
        let model = text(MODEL).ok_or_else(|| format!("{MODEL} is missing: it names the model of {URL}"));
        let model = model.and_then(|text| ModelId::parse(text).map_err(|error| format!("{MODEL} {error}")));
        let price = text(PRICE).map_or(Ok(None), |text| {
            let invalid = || {
                format!(
                    "{PRICE} has the dollars for a million input and output tokens, like `3/15`, not `{text}`"
                )
            };
            text.parse().map(Some).map_err(|()| invalid())
        });
        match (model, price) {
            (Ok(model), Ok(price)) if wrong.is_empty() => {
                let url = url.trim_end_matches('/').to_owned();
                Ok(Some(Self { url, protocol, model, price }))
            }
            (model, price) => {
                wrong.extend(model.err().into_iter().chain(price.err()));
                Err(InvalidModelSettings(wrong))
            }
        }
    }
}

/// The violation of an address in the variable `name`.
pub(super) fn wrong_address(name: &str, url: &str) -> Option<String> {
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    (!is_address).then(|| format!("{name} is an address like https://api.openai.com/v1, not `{url}`"))
}

impl std::str::FromStr for ModelPrice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (input, output) = text.split_once('/').ok_or(())?;
        let usd = |text: &str| text.trim().parse::<Usd>().map_err(drop);
        Ok(Self { input: usd(input)?, output: usd(output)? })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<ModelSettings>, InvalidModelSettings> {
        ModelSettings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn server_without_an_address_has_no_model() {
        assert_eq!(read(&[(MODEL, "sonnet"), (PRICE, "cheap")]), Ok(None));
    }

    #[test]
    fn address_and_model_are_enough() {
        let settings = read(&[(URL, "https://models.example/v1/"), (MODEL, "mini")]).unwrap().unwrap();
        assert_eq!(settings.url, "https://models.example/v1");
        assert_eq!((settings.protocol, settings.price), (ModelProtocol::OpenAi, None));
        let priced = [(URL, "http://m"), (MODEL, "m"), (PROTOCOL, "anthropic"), (PRICE, "0.15/0.6")];
        let settings = read(&priced).unwrap().unwrap();
        assert_eq!(settings.protocol, ModelProtocol::Anthropic);
        assert_eq!(settings.price.unwrap().input.to_string(), "0.15");
    }

    #[test]
    fn every_invalid_setting_is_named() {
        let wrong = read(&[(URL, "models"), (PROTOCOL, "soap"), (PRICE, "3")]).unwrap_err().to_string();
        for part in [URL, "`openai` or `anthropic`, not `soap`", "PILOTHOUSE_MODEL is missing", "not `3`"] {
            assert!(wrong.contains(part), "{wrong}");
        }
    }

    #[test]
    fn key_is_not_shown() {
        assert!(!format!("{:?}", ModelKey("sk-secret".to_owned())).contains("secret"));
    }
}
