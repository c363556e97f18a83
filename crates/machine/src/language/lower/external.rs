//! What stands in documents elsewhere: functions by URL, functions of other catalogs, schemas.

use super::Lowering;
use crate::language::{
    Problem, Wanted,
    library::function_url,
    report::Place,
    shape::{self, unwrap_expression},
    source::{At, Sort},
};

impl<'t> Lowering<'t, '_> {
    /// The document at the URL. If it has not been fetched it is asked for, on behalf of `place`.
    pub(super) fn fetched(&mut self, place: Place, url: &str, what: &str) -> Option<At<'t>> {
        if let Some(tree) = self.library.get(url) {
            // One that could not be read is empty; that has been said.
            return (!tree.is_empty()).then(|| tree.root());
        }
        if !self.dry {
            let message = format!("{what} stands in another document, which is fetched at deploy: {url}");
            let problem = Problem::new(place, "not-fetched", message);
            self.report.wanted(Wanted { url: url.to_owned(), problem });
        }
        None
    }

    /// The URL of an endpoint that can be fetched while deploying.
    pub(super) fn fixed_url(&mut self, endpoint: At<'t>) -> Option<&'t str> {
        let uri = if endpoint.sort() == Sort::Object { endpoint.get("uri")? } else { endpoint };
        if let Some(authentication) = endpoint.get("authentication") {
            self.unsupported(
                authentication.key_place(),
                "authentication where something is fetched at deploy",
            );
            return None;
        }
        let text = uri.text()?;
        if unwrap_expression(text).is_some() || text.contains('{') {
            self.unsupported(uri.place(), "a computed address where something is fetched at deploy");
            return None;
        }
        Some(text)
    }

    /// The task of a function from elsewhere; none if it cannot be had, which has been said.
    pub(super) fn external_function(&mut self, name: &str, at: At<'t>) -> Option<At<'t>> {
        let url = match name.rsplit_once('@') {
            Some((function, catalog)) if !name.contains("://") => {
                let (function, version) = function.split_once(':').unwrap_or((function, ""));
                let declared = self.used("catalogs", catalog, at)?;
                let endpoint = declared.get("endpoint")?;
                let endpoint = self.fixed_url(endpoint)?;
                function_url(endpoint, function, version)
            }
            _ => name.to_owned(),
        };
        let task = self.fetched(at.place(), &url, &format!("the function `{name}`"))?;
        shape::check_task(task, self.report);
        Some(task)
    }
}
