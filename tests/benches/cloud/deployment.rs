//! A deployment as described by the file that `infra/deploy` writes.

use pilothouse_tests::Description;

/// The parts of the description that the bench needs.
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
        assert_eq!(here, endpoint, "the deployment {prefix} is on another cloud");
        Self { prefix, api_url, endpoint: here, description }
    }

    pub(crate) fn token(&self, owner: &str) -> String {
        self.description.token(owner)
    }
}
