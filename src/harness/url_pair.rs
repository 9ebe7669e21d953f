//! A comparison of two URLs without any file: the scenario, and a deployment for each.

use serde_json::Value;

use super::error::HarnessError;
use super::options::YamlFile;
use super::url_run::{UrlRun, hide_options, split, written};
use plan::overrides::LoadShape;

/// What two URLs amount to, for [`super::ab::AbOptions`].
#[derive(Clone, Debug)]
pub struct UrlPair {
    /// The request that both get.
    pub scenario: YamlFile,
    /// The deployments of A and B.
    pub deployments: [YamlFile; 2],
}

impl UrlRun {
    /// The comparison of this URL with another one. What their paths end with is the request, and what is before it belongs to
    /// each side: `http://h/v1/orders` and `http://h/v2/orders` both get `/orders`.
    ///
    /// # Errors
    /// A URL is malformed, or they ask for different things.
    pub fn pair(&self, other: &str, shape: &LoadShape) -> Result<UrlPair, HarnessError> {
        let ((a_origin, a_path), (b_origin, b_path)) = (split(&self.url)?, split(other)?);
        let differ = |what: &str| {
            HarnessError::usage(format!("the URLs of A and B have different {what}")).remedy(
                "give both the same request, such as http://old:8080/orders and http://new:8080/orders",
            )
        };
        let kind = |url: &str| {
            (Self::is_grpc(url), url.get(..2).map(str::to_ascii_lowercase) == Some("ws".to_owned()))
        };
        if kind(&self.url) != kind(other) {
            return Err(differ("protocols"));
        }
        let query = |path: &str| path.split_once('?').map(|(_, options)| options.to_owned());
        let options = query(&a_path);
        if options != query(&b_path) {
            return Err(differ("options after `?`"));
        }
        let plain = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
        let (a_path, b_path) = (plain(&a_path), plain(&b_path));
        let request = common_end(&a_path, &b_path).ok_or_else(|| differ("paths"))?;
        let whole = match &options {
            Some(options) => format!("{request}?{options}"),
            None => request.to_owned(),
        };
        hide_options(&whole);
        let mut scenario = self.scenario(&whole, shape, None)?;
        let method = scenario["title"].as_str().and_then(|title| title.split(' ').next()).unwrap_or_default();
        scenario["title"] = Value::from(format!("{method} {request}"));
        let side = |origin: &str, path: &str| {
            let base = format!("{origin}{}", path.strip_suffix(request).unwrap_or_default());
            written(&self.deployment(&base)).map(|text| YamlFile::text("deployment of the URL", text))
        };
        let deployments = [side(a_origin, &a_path)?, side(b_origin, &b_path)?];
        Ok(UrlPair { scenario: YamlFile::text("scenario of the URL", written(&scenario)?), deployments })
    }
}

/// The whole segments that both paths end with; `None` if their last ones differ.
fn common_end<'p>(a: &'p str, b: &str) -> Option<&'p str> {
    let mut end = None;
    for (at, _) in a.match_indices('/').rev() {
        if !b.ends_with(&a[at..]) {
            break;
        }
        end = Some(&a[at..]);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_urls_are_a_request_and_two_deployments() {
        for (a, b, request, bases) in [
            ("http://a:1/orders", "http://b:2/orders", "get: /orders", ["http://a:1", "http://b:2"]),
            (
                "http://a:1/v1/orders?x=1",
                "http://a:1/v2/orders?x=1",
                "get: /orders?x=1",
                ["http://a:1/v1", "http://a:1/v2"],
            ),
            ("http://a:1", "http://b:2/", "get: /", ["http://a:1", "http://b:2"]),
            ("http://a:1/a/x/y", "http://a:1/b/x/y", "get: /x/y", ["http://a:1/a", "http://a:1/b"]),
        ] {
            let url = UrlRun { url: a.to_owned(), ..UrlRun::default() };
            let pair = url.pair(b, &LoadShape::default()).unwrap();
            let plain = |file: &YamlFile| file.given_text().unwrap().replace(['"', '\''], "");
            assert!(plain(&pair.scenario).contains(&format!("{request}\n")), "{}", plain(&pair.scenario));
            for (deployment, base) in pair.deployments.iter().zip(bases) {
                assert!(plain(deployment).contains(&format!("default: {base}\n")), "{}", plain(deployment));
            }
        }
        for (a, b, what) in [
            ("http://a/x", "http://b/y", "paths"),
            ("http://a/x?a=1", "http://b/x?a=2", "options"),
            ("http://a/x", "grpc://b/p.S/M", "protocols"),
        ] {
            let url = UrlRun { url: a.to_owned(), ..UrlRun::default() };
            let error = url.pair(b, &LoadShape::default()).err().unwrap().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
