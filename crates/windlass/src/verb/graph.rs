//! Pictures, for `windlass def graph` and `windlass instance graph`: drawn by the server, written to a file or standard
//! output.

use super::Context;
use crate::{client::Ask, failure::Failure};
use std::path::{Path, PathBuf};

const FORMATS: [&str; 5] = ["svg", "png", "mermaid", "json", "elk"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the picture is written as; the ending of --to, or svg, unless given
    #[arg(long, value_parser = FORMATS)]
    format: Option<String>,
    /// Where it is written to, instead of standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Which way it goes
    #[arg(long, value_parser = ["left-right", "top-bottom"])]
    direction: Option<String>,
    /// For light or dark pages; what the reader's system says unless given
    #[arg(long, value_parser = ["auto", "light", "dark"])]
    theme: Option<String>,
    /// Pixels of a PNG for one unit, 1 to 4
    #[arg(long, value_name = "N")]
    scale: Option<u32>,
}

impl Args {
    fn format(&self) -> &str {
        let ending = self.to.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        let ending = match ending {
            Some("mmd") => Some("mermaid"),
            Some(ending) => FORMATS.into_iter().find(|format| *format == ending),
            None => None,
        };
        self.format.as_deref().or(ending).unwrap_or(FORMATS[0])
    }
}

/// Asks for the picture at `path` and writes it; `from` is an older version to compare with.
pub(crate) async fn draw(
    context: &Context,
    path: &str,
    args: &Args,
    from: Option<String>,
) -> Result<(), Failure> {
    let ask = Ask::get(path)
        .query("format", args.format())
        .query_if("from", from)
        .query_if("direction", args.direction.clone())
        .query_if("theme", args.theme.clone())
        .query_if("scale", args.scale.map(|scale| scale.to_string()));
    let picture = context.client.ask(ask).await?.body;
    match &args.to {
        None => context.out.data(&picture),
        Some(file) => std::fs::write(file, &picture)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", file.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_the_file_says_what_is_written() {
        let format = |to: Option<&str>, format: Option<&str>| {
            let args = Args {
                format: format.map(str::to_owned),
                to: to.map(PathBuf::from),
                direction: None,
                theme: None,
                scale: None,
            };
            args.format().to_owned()
        };
        assert_eq!(format(None, None), "svg");
        assert_eq!(format(Some("a.png"), None), "png");
        assert_eq!(format(Some("a.mmd"), None), "mermaid");
        assert_eq!(format(Some("a.txt"), None), "svg");
        assert_eq!(format(Some("a.png"), Some("elk")), "elk");
    }
}
