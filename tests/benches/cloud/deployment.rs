//! A deployment, as `infra/deploy` describes it.

use pilothouse_tests::Description;

/// What is needed of the description.
pub(crate) struct Deployment {
    pub(crate) prefix: String,
    pub(crate) api_url: String,
    pub(crate) endpoint: String,
    description: Description,
}

impl Deployment {
    /// Reads `target/deploy/{prefix}.json`.
    pub(crate) fn open(endpoint: &str, prefix: &str) -> Self {
        let description = Description::read(format!("target/deploy/{prefix}.json"));
        let value = |name| description.value(name).to_owned();
        let (prefix, api_url, here) = (value("Prefix"), value("ApiUrl"), value("Endpoint"));
        assert_eq!(here, endpoint, "{prefix} is of another cloud");
        Self { prefix, api_url, endpoint: here, description }
    }

    /// A token for an owner.
    pub(crate) fn token(&self, owner: &str) -> String {
        self.description.token(owner)
    }
}
