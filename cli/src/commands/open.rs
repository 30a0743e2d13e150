//! `pilothouse open`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use pilothouse_api::console;
use pilothouse_client::ApiError;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde_json::json;

use crate::context::{Context, write, write_json};
use crate::error::CliError;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::profile::{Place, Profile};

/// A file in the data folder that redirects the browser to the link. Other programs can read command lines, but not this file.
const PAGE: &str = "console-link.html";

/// Open the web console in a browser, logged in.
///
/// If the browser fails to start, prints the link. The link works once, within 15 minutes. With --profile aws, it contains a token, which
/// is valid for an hour.
#[derive(Debug, Args)]
pub struct Open {
    /// The session to show: its id, 4 or more characters of it, or @last [default: the inbox]
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Print the link only
    #[arg(long)]
    pub print: bool,
    /// Print the link as a QR code, for the camera of a phone. The phone must reach the address of --url
    #[arg(long, conflicts_with = "print")]
    pub qr: bool,
}

impl Open {
    pub(super) async fn run(self, ctx: &Context, globals: &Globals) -> Result<Exit, CliError> {
        let path = match &self.session {
            Some(session) => Some(format!("/sessions/{}", ctx.session_id(session).await?)),
            None => None,
        };
        let (link, expires_in_seconds) = match globals.profile {
            Profile::Embedded => {
                let code = ctx.client.console_code().await?;
                let link = console::link(ctx.client.base().as_str(), &code.code, path.as_deref());
                (link, Some(code.expires_in_seconds))
            }
            Profile::Aws => (cloud_link(ctx, globals, path.as_deref())?, None),
        };
        if ctx.json {
            write_json(&json!({ "url": link, "expiresInSeconds": expires_in_seconds }))?;
        } else if self.qr {
            write(&format!("{}\n{link}\n", qr_code(&link)?))?;
        } else if !self.print && std::io::stdout().is_terminal() && show(&link, globals)? {
            write("The console opens in your browser.\n")?;
        } else {
            write(&format!("{link}\n"))?;
        }
        Ok(Exit::Done)
    }
}

/// A link to the console of a deployment in AWS. It has no token if only the identity provider of the deployment has one.
fn cloud_link(ctx: &Context, globals: &Globals, path: Option<&str>) -> Result<String, CliError> {
    let console = Place::of(globals)?.console_url.ok_or_else(|| {
        CliError::Usage(
            "this deployment has no web console; deploy it with `infra/deploy --console yes`, or name the file of the deployment with --deployment"
                .into(),
        )
    })?;
    let token = match ctx.client.token() {
        Ok(token) => Some(token),
        Err(ApiError::NoCredentials) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(console::token_link(&console, token.as_deref(), path))
}

/// The link as a QR code of half blocks, dark on light, for terminals of any colours.
fn qr_code(link: &str) -> Result<String, CliError> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L)
        .map_err(|error| CliError::Usage(format!("the link does not fit into a QR code: {error}")))?;
    let blocks = code.render::<Dense1x2>().build();
    let lines: Vec<_> = blocks.lines().map(|line| format!("\x1b[30;107m{line}\x1b[0m")).collect();
    Ok(lines.join("\n") + "\n")
}

/// Opens the link in the browser. Returns false if that failed.
fn show(link: &str, globals: &Globals) -> Result<bool, CliError> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let Some(folder) = globals.data_folder().filter(|folder| folder.is_dir()) else { return Ok(false) };
    let page = write_page(&folder.join(PAGE), link)?;
    let started = Command::new(program)
        .arg(page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(started.is_ok_and(|status| status.success()))
}

/// Writes the redirect. Only the user can read it, like all files of the data folder.
fn write_page(path: &Path, link: &str) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::File { path: path.to_owned(), source };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    // `&` is the only special character of HTML in the link.
    let link = link.replace('&', "&amp;");
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><title>Pilothouse</title>\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\"><a href=\"{link}\">Open the console</a>"
    )
    .map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(path.to_owned())
}
