//! `windlass api`: any request of the REST API, so that nothing is out of the command line's reach.

use super::{Context, read_json};
use crate::{client::Ask, failure::Failure};

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass api GET /me\n  \
    windlass api GET '/instances?status=faulted&limit=5'\n  \
    windlass api POST /instances --data '{\"definition\":{\"namespace\":\"examples\",\"name\":\"provisioning\"}}'\n  \
    windlass api GET /metrics\n\n\
    The API is described at /api/docs of the server.")]
pub(crate) struct Args {
    /// GET, POST, DELETE, …
    #[arg(value_name = "METHOD")]
    method: String,
    /// Path with query; /api/v1 is put in front unless it begins with /api, /healthz, /readyz or /metrics
    #[arg(value_name = "PATH")]
    path: String,
    /// Body as JSON, @file or @- for stdin
    #[arg(long, short, value_name = "JSON|@FILE")]
    data: Option<String>,
    /// A header, as 'Name: value'; may be given several times
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let method = args.method.to_uppercase().parse();
    let method = method.map_err(|_| Failure::usage(format!("{:?} is no HTTP method", args.method)))?;
    let mut ask = Ask::new(method, full_path(&args.path));
    for header in &args.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| Failure::usage(format!("{header:?} is no header: write 'Name: value'")))?;
        ask = ask.header(name.trim(), value.trim());
    }
    if let Some(data) = &args.data {
        ask = ask.json(&read_json(data, "--data")?);
    }
    let answer = context.client.ask(ask).await?;
    if answer.body.is_empty() { Ok(()) } else { context.out.data(&answer.body) }
}

fn full_path(path: &str) -> String {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let whole = ["/api/", "/healthz", "/readyz", "/metrics", "/docs/"];
    if whole.iter().any(|start| path.starts_with(start)) { path } else { format!("/api/v1{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_completed() {
        assert_eq!(full_path("me"), "/api/v1/me");
        assert_eq!(full_path("/instances?limit=1"), "/api/v1/instances?limit=1");
        assert_eq!(full_path("/api/v1/me"), "/api/v1/me");
        assert_eq!(full_path("/metrics"), "/metrics");
    }
}
