//! Files of the pages: styles, scripts, pictures. They are part of the program.

use std::sync::LazyLock;

use actix_web::{
    HttpResponse,
    body::BoxBody,
    http::{
        StatusCode,
        header::{self, HeaderMap, HeaderValue},
    },
};
use bytes::Bytes;
use nearhead_tenants::secret::SecretDigest;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// All files.
static ASSETS: &[Asset] = &[
    Asset {
        name: "style.css",
        content_type: STYLE,
        content: include_bytes!("pages/assets/style.css"),
    },
    Asset {
        name: "page.js",
        content_type: SCRIPT,
        content: include_bytes!("pages/assets/page.js"),
    },
    Asset {
        name: "charts.js",
        content_type: SCRIPT,
        content: include_bytes!("pages/assets/charts.js"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        content: include_bytes!("pages/assets/icon.svg"),
    },
    Asset {
        name: "uPlot.min.css",
        content_type: STYLE,
        content: include_bytes!("pages/assets/uPlot.min.css"),
    },
    Asset {
        name: "uPlot.min.js",
        content_type: SCRIPT,
        content: include_bytes!("pages/assets/uPlot.min.js"),
    },
    // What uPlot asks of those who distribute it.
    Asset {
        name: "uPlot.LICENSE",
        content_type: "text/plain; charset=utf-8",
        content: include_bytes!("pages/assets/uPlot.LICENSE"),
    },
];

/// A file.
#[derive(Clone, Copy, Debug)]
struct Asset {
    /// Its name, the end of its path.
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

/// What the names of versions are made of: the first bytes of a digest. A new version has a new
/// address, so that a browser may keep the old one for good.
static VERSIONS: LazyLock<Vec<String>> = LazyLock::new(|| ASSETS.iter().map(version).collect());

fn version(asset: &Asset) -> String {
    // Files are text, or their digest is that of a text which stands for them.
    let digest = SecretDigest::of(&String::from_utf8_lossy(asset.content));
    let hex = String::from(digest);
    hex[..12].to_owned()
}

/// The address of a file in pages: its path, and its version.
pub(super) fn url(name: &str) -> String {
    let known = ASSETS.iter().position(|asset| asset.name == name);
    match known.and_then(|at| VERSIONS.get(at)) {
        Some(version) => format!("/assets/{name}?v={version}"),
        None => format!("/assets/{name}"),
    }
}

/// The answer to a request for a file; `None` if there is none of this name.
pub(super) fn serve(name: &str, query: &str, headers: &HeaderMap) -> Option<HttpResponse> {
    let at = ASSETS.iter().position(|asset| asset.name == name)?;
    let (asset, version) = (ASSETS.get(at)?, VERSIONS.get(at)?);
    let tag = format!("\"{version}\"");
    let known = headers.get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_known {
        true => HttpResponse::new(StatusCode::NOT_MODIFIED),
        false => HttpResponse::new(StatusCode::OK)
            .set_body(BoxBody::new(Bytes::from_static(asset.content))),
    };
    let cached = match query.strip_prefix("v=") == Some(version) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(asset.content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cached));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    Some(response)
}
