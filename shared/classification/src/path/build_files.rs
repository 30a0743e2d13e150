//! Files that decide what builds and tests run.

use super::names::matches_name;

/// Names of files whose commands or code a build, a test or an installation runs. Source files and tests are not among them: an
/// agent changes those before each test.
const NAMES: &[&str] = &[
    "Makefile",
    "makefile",
    "GNUmakefile",
    "*.mk",
    "justfile",
    "Justfile",
    "Taskfile.yml",
    "Rakefile",
    "Gemfile",
    "CMakeLists.txt",
    "*.cmake",
    "meson.build",
    "BUILD",
    "BUILD.bazel",
    "WORKSPACE",
    "build.rs",
    "Cargo.toml",
    "rust-toolchain.toml",
    "package.json",
    ".npmrc",
    ".yarnrc.yml",
    "*.config.js",
    "*.config.cjs",
    "*.config.mjs",
    "*.config.ts",
    ".eslintrc*",
    ".mocharc*",
    "conftest.py",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "tox.ini",
    "pytest.ini",
    "noxfile.py",
    "sitecustomize.py",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "gradlew",
    "mvnw",
    "build.xml",
    "Dockerfile",
    "Directory.Build.props",
    "*.csproj",
    "configure",
];

pub(super) fn is_build_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_tool_setting = path.contains("/.cargo/") || path.contains("/.mvn/");
    is_tool_setting || NAMES.iter().any(|pattern| matches_name(pattern, name))
}
