//! One repository of a Hugging Face hub, queried over HTTP, and which of its files are wanted.

use std::env;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RANGE};
use reqwest::{Client, Response, StatusCode};

use super::index::{HubIndex, WeightsFile, stays_inside};
use base::diag::with_causes;
use base::event::Failure;
use base::units::{credentials, size, url_path_part, userinfo, without_credentials};
use plan::manifest::model::Weights;
use runner::store::PathError;

const USUAL: &str = "https://huggingface.co";
/// A connection that gives nothing for this long is given up.
const SILENCE: Duration = Duration::from_mins(1);
/// The most time and bytes for a list of files: a hub's answer is untrusted.
const LISTING_TIME: Duration = Duration::from_mins(5);
const LARGEST_LISTING: usize = 64 << 20;

/// A repository and how to query it.
#[derive(Clone, Debug)]
pub(super) struct Hub {
    client: Client,
    /// With the user and password that `HF_ENDPOINT` may hold: only requests have them.
    endpoint: String,
    name: String,
    token: Option<String>,
}

/// Why a file did not come.
#[derive(Debug)]
pub(super) enum FetchError {
    /// The connection broke; another attempt may go on from here.
    Broken(String),
    /// No other attempt will help.
    Final(Box<Failure>),
}

/// A disk that does not take it will not take it from another connection.
impl From<PathError> for FetchError {
    fn from(error: PathError) -> Self {
        Self::Final(Box::new(error.into()))
    }
}

impl Hub {
    /// `HF_ENDPOINT` if set, else the public hub.
    pub(super) fn new(name: &str, token: Option<String>) -> Result<Self, Failure> {
        let endpoint = env::var("HF_ENDPOINT").ok().filter(|text| !text.is_empty()).unwrap_or_else(|| USUAL.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        // Another part of the program may have set it before; there is only one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        if let Some(token) = &token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| Failure::refused("the hub's token has invalid characters"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder()
            .user_agent(concat!("regatta/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(Duration::from_secs(30))
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| Failure::refused(format!("no HTTP client: {}", chain(&error))))?;
        Ok(Self { client, endpoint, name: name.to_owned(), token })
    }

    /// What no message and no log may show.
    pub(super) fn secrets(&self) -> impl Iterator<Item = String> {
        let userinfo = userinfo(&self.endpoint).filter(|_| credentials(&self.endpoint).is_some()).map(str::to_owned);
        self.token.clone().into_iter().chain(userinfo).chain(credentials(&self.endpoint))
    }

    /// Its address as it may be shown.
    fn shown(&self) -> String {
        without_credentials(&self.endpoint)
    }

    /// Lists the files of a revision, with sizes and digests.
    pub(super) async fn index(&self, revision: &str) -> Result<HubIndex, Failure> {
        let path = format!("api/models/{}/revision/{}?blobs=true", self.name, url_path_part(revision));
        let url = format!("{}/{path}", self.endpoint);
        let answer = async {
            let request = self.client.get(&url).timeout(LISTING_TIME);
            let response = request.send().await.map_err(|error| FetchError::Broken(chain(&error)))?;
            let response = self.check_status(response, &format!("revision `{revision}`"))?;
            read_listing(&listing(response).await?, &format!("{}/{path}", self.shown()))
        };
        answer.await.map_err(|lost| match lost {
            FetchError::Broken(why) => Failure::system(format!("{} cannot be queried: {why}", self.shown()))
                .hint("is there a network? HF_ENDPOINT names another hub, `weights.path` a folder"),
            FetchError::Final(failure) => *failure,
        })
    }

    /// A file's bytes from an offset on: the response, and whether it begins there or at 0.
    pub(super) async fn file(
        &self,
        commit: &str,
        file: &WeightsFile,
        from: u64,
    ) -> Result<(Response, bool), FetchError> {
        let path = file.path.split('/').map(url_path_part).collect::<Vec<_>>().join("/");
        let url = format!("{}/{}/resolve/{commit}/{path}", self.endpoint, self.name);
        let mut request = self.client.get(&url);
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        let response = request.send().await.map_err(|error| FetchError::Broken(chain(&error)))?;
        let response = self.check_status(response, &file.path)?;
        let is_rest = from > 0 && response.status() == StatusCode::PARTIAL_CONTENT;
        Ok((response, is_rest))
    }

    /// The response, if it is the requested one.
    fn check_status(&self, response: Response, what: &str) -> Result<Response, FetchError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (code, message) = (header("x-error-code").to_owned(), header("x-error-message").to_owned());
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT
        {
            return Err(FetchError::Broken(format!("{status} {message}").trim().to_owned()));
        }
        Err(FetchError::Final(Box::new(self.refusal(status, &code, &message, what))))
    }

    /// What the hub's messages mean for the user.
    fn refusal(&self, status: StatusCode, code: &str, message: &str, what: &str) -> Failure {
        let (endpoint, name) = (self.shown(), &self.name);
        let page = format!("{endpoint}/{name}");
        let suffix = if message.is_empty() { String::new() } else { format!(" ({message})") };
        let failure = |text: String| Failure::refused(format!("{name}: {text}{suffix}"));
        match (status, code) {
            (_, "GatedRepo") | (StatusCode::FORBIDDEN, _) if self.token.is_some() => {
                failure("the token is valid, but its owner has no access".to_owned()).hint(format!(
                    "accept the license at {page} with that account; it may take a while until it is \
                     granted"
                ))
            }
            (_, "GatedRepo") | (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) if self.token.is_none() => {
                failure("the hub requires authentication, but no token is set".to_owned()).hint(format!(
                    "accept the license at {page}, make a token at {endpoint}/settings/tokens, and set HF_TOKEN; is \
                     the name spelled right?"
                ))
            }
            (StatusCode::UNAUTHORIZED, _) => failure("the hub does not accept the token".to_owned()).hint(format!(
                "make a new one at {endpoint}/settings/tokens and set HF_TOKEN; the license is accepted at {page}"
            )),
            (StatusCode::NOT_FOUND, "RevisionNotFound") => failure(format!("there is no {what}")),
            (StatusCode::NOT_FOUND, _) => {
                failure(format!("not found ({what})")).hint(format!("check {page}: owner/name, as shown there"))
            }
            _ => failure(format!("{what}: the hub answers {status}")),
        }
    }
}

/// A list of files; a hub that sends more than any list has is not read further.
async fn listing(mut response: Response) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(|error| FetchError::Broken(chain(&error)))? {
        bytes.extend_from_slice(&more);
        if bytes.len() > LARGEST_LISTING {
            return Err(FetchError::Broken(format!(
                "its list of files has more than {}",
                size(LARGEST_LISTING as u64)
            )));
        }
    }
    Ok(bytes)
}

/// An answer that is whole and of another shape will be the same again; one that is cut or no JSON may be a proxy's, or
/// the network's.
pub(super) fn read_listing(bytes: &[u8], from: &str) -> Result<HubIndex, FetchError> {
    let unusable = |why: String| {
        FetchError::Final(Box::new(Failure::refused(format!("the answer of {from} is not usable: {why}"))))
    };
    let answer = serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() {
            unusable(error.to_string())
        } else {
            FetchError::Broken(format!("its answer cannot be read: {error}"))
        }
    })?;
    HubIndex::read(answer).map_err(|why| unusable(why.to_string()))
}

/// An error with its causes; URLs of storage are long and hold signatures.
pub(super) fn chain(error: &reqwest::Error) -> String {
    let text = with_causes(if error.is_timeout() { "it fell silent".to_owned() } else { String::new() }, error);
    if text.is_empty() { "the connection broke".to_owned() } else { text }
}

/// The files of a repository that are wanted; never none, and each in the output folder.
pub(super) fn chosen(index: &HubIndex, weights: &Weights) -> Result<Vec<WeightsFile>, Failure> {
    let is_chosen = choice(weights)?;
    let wanted: Vec<WeightsFile> = index.files.iter().filter(|file| is_chosen(&file.path)).cloned().collect();
    if wanted.is_empty() {
        let names: Vec<&str> = index.files.iter().map(|file| file.path.as_str()).take(20).collect();
        return Err(Failure::refused("none of its files is selected").hint(format!("it has {}", names.join(", "))));
    }
    wanted.iter().try_for_each(|file| stays_inside(&file.path))?;
    Ok(wanted)
}

/// Whether a file is one of those that `include` and `exclude` leave.
pub(super) fn choice(weights: &Weights) -> Result<impl Fn(&str) -> bool, Failure> {
    let (include, exclude) = (globs(&weights.include)?, globs(&weights.exclude)?);
    Ok(move |name: &str| (include.is_empty() || include.is_match(name)) && !exclude.is_match(name))
}

fn globs(patterns: &[String]) -> Result<globset::GlobSet, Failure> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        set.add(globset::Glob::new(pattern).map_err(|error| Failure::refused(error.to_string()))?);
    }
    set.build().map_err(|error| Failure::refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::FailureKind;

    #[tokio::test]
    async fn a_listing_is_read_up_to_its_limit() {
        let response = |size: usize| Response::from(http::Response::new(vec![b' '; size]));
        assert_eq!(listing(response(LARGEST_LISTING)).await.unwrap().len(), LARGEST_LISTING);
        let Err(FetchError::Broken(why)) = listing(response(LARGEST_LISTING + 1)).await else { panic!("it was read") };
        assert_eq!(why, "its list of files has more than 67.1 MB");
    }

    #[test]
    fn a_listing_of_another_shape_is_no_matter_of_the_network() {
        let many = format!(r#"{{"siblings":[{}{{}}]}}"#, "{},".repeat(100_000));
        for (answer, expected) in [(r#"{"sha":7}"#, "invalid type"), (many.as_str(), "it lists more than 100000 files")]
        {
            let Err(FetchError::Final(failure)) = read_listing(answer.as_bytes(), "hub/api") else {
                panic!("{expected}")
            };
            assert_eq!(failure.kind, FailureKind::Refused);
            let text = format!("{failure:?}");
            assert!(text.contains("the answer of hub/api is not usable: ") && text.contains(expected), "{text}");
        }
        for answer in ["{\"sha\":", "<html>"] {
            assert!(matches!(read_listing(answer.as_bytes(), "hub/api"), Err(FetchError::Broken(_))), "{answer}");
        }
    }
}
