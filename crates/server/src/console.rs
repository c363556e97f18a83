//! The console's three files, inside the binary. `cargo xtask console` makes them; this build never does.
//!
//! The files are at fixed addresses and are asked for again each time, by their tag. Whatever else is asked for is not
//! found: a missing script is never answered with a page.

use crate::{code, problem::Problem, query::Named};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use std::{io::Write, sync::LazyLock};

/// Everything comes from here, nothing is inline.
const POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// One file as it goes over the wire.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    plain: &'static [u8],
    packed: Vec<u8>,
    tag: String,
}

impl Asset {
    fn new(name: &'static str, media_type: &'static str, plain: &'static [u8]) -> Asset {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(plain).expect("memory takes everything");
        let packed = packed.finish().expect("memory takes everything");
        let digest = Sha256::digest(plain);
        let tag: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Asset { name, media_type, plain, packed, tag: format!("\"{tag}\"") }
    }
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new(
            "index.html",
            "text/html; charset=utf-8",
            include_bytes!("../../../console/dist/index.html"),
        ),
        Asset::new(
            "app.js",
            "text/javascript; charset=utf-8",
            include_bytes!("../../../console/dist/app.js"),
        ),
        Asset::new("app.css", "text/css; charset=utf-8", include_bytes!("../../../console/dist/app.css")),
    ]
});

/// The page, whatever place in the console the address names.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    serve(&ASSETS[0], &headers)
}

/// A script or a style.
pub(crate) async fn file(headers: HeaderMap, Named(name): Named<String>) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let nothing = || Problem::new(code::ROUTE_NOT_FOUND, "there is nothing at this address");
    found.map(|asset| serve(asset, &headers)).ok_or_else(nothing)
}

fn serve(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let says = |name: header::HeaderName, text: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(text))
    };
    let mut response = if says(header::IF_NONE_MATCH, &asset.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if says(header::ACCEPT_ENCODING, "gzip") {
        ([(header::CONTENT_ENCODING, "gzip")], asset.packed.as_slice()).into_response()
    } else {
        asset.plain.into_response()
    };
    let answer = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&asset.tag) {
        answer.insert(header::ETAG, tag);
    }
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    answer.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
