//! The structure of an archive, read entry by entry.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

use base64::Engine as _;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::ImportError;
use crate::multipart::{self, FormField};
use crate::request::Body;

/// Larger bodies are dropped while they are read.
const TEXT_BYTES_MAX: usize = 2 << 20;
const PAGES_MAX: usize = 1000;

/// Everything of an archive but its entries.
#[derive(Debug, Default)]
pub(super) struct Archive {
    pages: Vec<Page>,
    creator: String,
}

#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    id: String,
    #[serde(default)]
    title: String,
}

impl Archive {
    /// The title of a page, if it has one.
    pub(super) fn title(&self, id: &str) -> Option<String> {
        let page = self.pages.iter().find(|page| page.id == id)?;
        let title: String = page.title.trim().chars().filter(|c| !c.is_control()).take(100).collect();
        (!title.is_empty() && title != page.id).then_some(title)
    }

    pub(super) fn first_title(&self) -> Option<String> {
        self.title(&self.pages.first()?.id)
    }

    pub(super) fn creator(&self) -> String {
        let name: String = self.creator.chars().take(60).collect();
        if name.is_empty() { "an unknown program".to_owned() } else { name }
    }
}

#[derive(Deserialize)]
pub(super) struct Entry {
    #[serde(default, rename = "startedDateTime")]
    pub(super) started: String,
    /// Milliseconds.
    #[serde(default)]
    pub(super) time: Option<f64>,
    #[serde(default, rename = "pageref")]
    pub(super) page: Option<String>,
    #[serde(default, rename = "_resourceType")]
    pub(super) kind: Option<String>,
    pub(super) request: Request,
    pub(super) response: Response,
}

#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: Vec<NameValuePair>,
    #[serde(default, rename = "postData")]
    pub(super) post_data: Option<PostData>,
    /// How many bytes the body had; -1 if that is not known.
    #[serde(default, rename = "bodySize")]
    body_size: Option<f64>,
}

impl Request {
    /// Whether the request had a body, by what the archive says of its length.
    pub(super) fn had_body(&self) -> bool {
        let stated = self.header("content-length").and_then(|length| length.trim().parse::<u64>().ok());
        stated.is_some_and(|length| length > 0) || self.body_size.is_some_and(|size| size > 0.0)
    }

    /// How many bytes the body had, if that is known.
    pub(super) fn body_bytes(&self) -> Option<usize> {
        self.body_size.filter(|size| *size >= 0.0).map(|size| size as usize)
    }

    /// What of the request a step does not have: for notes.
    pub(super) fn notes(&self) -> Vec<&'static str> {
        let authority = self.url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
        let stated = self.header("content-length").and_then(|length| length.trim().parse::<usize>().ok());
        let data = self.post_data.as_ref();
        // In Base64, or with signs that are written in other bytes, there is another length.
        let recorded = data.filter(|data| data.encoding.is_none()).and_then(|data| data.text.text.as_deref());
        let recorded = recorded.filter(|text| text.is_ascii() && !text.is_empty()).map(str::len);
        let is_cut = stated.zip(recorded).is_some_and(|(stated, recorded)| recorded < stated);
        let typed = |data: &PostData| {
            data.params.iter().any(|part| part.file_name.is_none() && part.content_type.is_some())
        };
        [
            (
                authority.is_some_and(|authority| authority.contains('@')),
                "the log-in in a URL is left out: write `auth` into the deployment",
            ),
            (
                data.is_some_and(|data| data.file.is_some()),
                "bodies are in files beside the recording (`_file`): send them with `file`, or record again with \
                 `record_har_content: embed`",
            ),
            (is_cut, "the recording has only the beginning of a body: its Content-Length is larger"),
            (
                data.is_some_and(typed),
                "the content types of fields without a file are left out: the parts of a form are sent as text",
            ),
        ]
        .into_iter()
        .filter_map(|(applies, note)| applies.then_some(note))
        .collect()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| header.value.as_str())
    }
}

#[derive(Deserialize)]
pub(super) struct NameValuePair {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

#[derive(Deserialize)]
pub(super) struct PostData {
    #[serde(default, rename = "mimeType")]
    mime_type: String,
    #[serde(default)]
    text: Text,
    #[serde(default)]
    params: Vec<Parameter>,
    /// `base64`, which some recorders write for bodies as HAR does for answers.
    #[serde(default)]
    encoding: Option<String>,
    /// The file beside the archive that has the body, as Playwright writes it (`record_har_content: attach`).
    #[serde(default, rename = "_file")]
    file: Option<String>,
}

/// A field of a form.
#[derive(Deserialize)]
struct Parameter {
    name: String,
    #[serde(default)]
    value: Option<String>,
    #[serde(default, rename = "fileName")]
    file_name: Option<String>,
    #[serde(default, rename = "contentType")]
    content_type: Option<String>,
}

impl Parameter {
    fn field(self) -> FormField {
        match self.file_name {
            Some(file) => {
                FormField::stand_in(&self.name, &file, self.content_type.as_deref().unwrap_or_default())
            }
            None => FormField::text(self.name, self.value.unwrap_or_default()),
        }
    }
}

impl PostData {
    /// The body; `bytes`: its length in bytes, as the archive says.
    ///
    /// # Errors
    /// A scenario cannot hold it: what it has, for a note.
    pub(super) fn body(mut self, bytes: Option<usize>) -> Result<Body, &'static str> {
        if let Some(text) = self.text.text.as_mut().filter(|_| self.encoding.is_none())
            && let Some(sent) = sent_as_bytes(text, bytes)
        {
            *text = String::from_utf8(sent).map_err(|_| NOT_TEXT)?;
        }
        let is_multipart = self.mime_type.to_ascii_lowercase().starts_with("multipart/form-data");
        if is_multipart && !self.params.is_empty() {
            let fields: Vec<FormField> = self.params.into_iter().map(Parameter::field).collect();
            let fits = multipart::fits(&fields);
            return if fits {
                Ok(Body::Multipart(fields))
            } else {
                Err("with more than 100 fields in a form")
            };
        }
        let form = || {
            let encoded = |field: &Parameter| {
                let value = field.value.as_deref().unwrap_or_default();
                let [name, value] = [&field.name, value].map(base::percent::encode);
                format!("{name}={value}")
            };
            self.params.iter().map(encoded).collect::<Vec<_>>().join("&")
        };
        let text = match self.text.text.as_deref().filter(|text| !text.is_empty()) {
            Some(text) => decoded(text, self.encoding.as_deref()).ok_or(NOT_TEXT)?,
            None => form(),
        };
        if text.is_empty() {
            return Ok(Body::Empty);
        }
        Ok(Body::of_text(text, Some(self.mime_type).filter(|mime| !mime.is_empty())))
    }
}

const NOT_TEXT: &str = "with a body that is not text: send it with `file`";

/// The bytes of a body that a recorder such as mitmproxy wrote with a sign for each byte; `None` for a text. The length that
/// the archive states tells them apart.
fn sent_as_bytes(text: &str, bytes: Option<usize>) -> Option<Vec<u8>> {
    let bytes = bytes.filter(|bytes| *bytes != text.len())?;
    let sent: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    sent.filter(|sent| sent.len() == bytes)
}

/// A text as it was sent; `None` if it was no text.
pub(super) fn decoded(text: &str, encoding: Option<&str>) -> Option<String> {
    if !encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")) {
        return Some(text.to_owned());
    }
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).ok()?).ok()
}

#[derive(Deserialize)]
pub(super) struct Response {
    #[serde(default)]
    pub(super) status: Option<i64>,
    #[serde(default)]
    pub(super) headers: Vec<NameValuePair>,
    #[serde(default)]
    pub(super) content: ResponseContent,
}

#[derive(Default, Deserialize)]
pub(super) struct ResponseContent {
    #[serde(default, rename = "mimeType")]
    pub(super) mime_type: String,
    #[serde(default)]
    pub(super) text: Text,
    #[serde(default)]
    pub(super) encoding: Option<String>,
}

/// A text that is dropped if it is large.
#[derive(Default)]
pub(super) struct Text {
    pub(super) text: Option<String>,
    pub(super) is_too_large: bool,
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = Text;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                let is_too_large = text.len() > TEXT_BYTES_MAX;
                Ok(Text { text: (!is_too_large).then(|| text.to_owned()), is_too_large })
            }
            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// Reads an archive; `take` gets every entry.
pub(super) fn read(input: impl Read, mut take: impl FnMut(Entry)) -> Result<Archive, ImportError> {
    let (is_zip, input) = looks_like_zip(input)
        .map_err(|error| ImportError::new(format!("this file cannot be read: {error}"), "check the file"))?;
    let limited = without_mark(input)
        .map_err(|error| ImportError::new(format!("this file cannot be read: {error}"), "check the file"))?;
    let limited = limited.take(super::BYTES_MAX);
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(limited));
    let mut archive = Archive::default();
    let mut has_entries = false;
    let result = Document { take: &mut take, archive: &mut archive, has_entries: &mut has_entries }
        .deserialize(&mut deserializer);
    result.map_err(|error| {
        if is_zip {
            return ImportError::new(
                "this is a ZIP archive",
                "unpack it, and give the HAR file that is in it",
            );
        }
        let what = format!("this is not an HTTP archive that can be read: {error}");
        ImportError::new(what, "save it again as HAR, with content")
    })?;
    if !has_entries {
        return Err(ImportError::new("this JSON has no `log` with `entries`", "give a HAR file"));
    }
    Ok(archive)
}

/// Whether the bytes begin as a ZIP archive does, and all of the bytes.
fn looks_like_zip(mut input: impl Read) -> std::io::Result<(bool, impl Read)> {
    const BEGINS: &[u8] = b"PK\x03\x04";
    let mut first = Vec::new();
    input.by_ref().take(BEGINS.len() as u64).read_to_end(&mut first)?;
    Ok((first == BEGINS, std::io::Cursor::new(first).chain(input)))
}

/// The same bytes without a byte order mark.
fn without_mark(mut input: impl Read) -> std::io::Result<impl Read> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let mut first = Vec::new();
    input.by_ref().take(MARK.len() as u64).read_to_end(&mut first)?;
    if first == MARK {
        first.clear();
    }
    Ok(std::io::Cursor::new(first).chain(input))
}

/// The outer map, whose `log` counts.
struct Document<'a, F> {
    take: &'a mut F,
    archive: &'a mut Archive,
    has_entries: &'a mut bool,
}

impl<'de, F: FnMut(Entry)> DeserializeSeed<'de> for Document<'_, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Entry)> Visitor<'de> for Document<'_, F> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map with `log`")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "log" {
                let log = Log { take: self.take, archive: self.archive, has_entries: self.has_entries };
                map.next_value_seed(log)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Log<'a, F> {
    take: &'a mut F,
    archive: &'a mut Archive,
    has_entries: &'a mut bool,
}

impl<'de, F: FnMut(Entry)> DeserializeSeed<'de> for Log<'_, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Entry)> Visitor<'de> for Log<'_, F> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map with `entries`")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        #[derive(Deserialize)]
        struct Creator {
            #[serde(default)]
            name: String,
        }
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "entries" => {
                    *self.has_entries = true;
                    map.next_value_seed(Items::new(|entry: Entry| (self.take)(entry)))?;
                }
                "pages" => {
                    let pages = &mut self.archive.pages;
                    map.next_value_seed(Items::new(|page: Page| {
                        if pages.len() < PAGES_MAX {
                            pages.push(page);
                        }
                    }))?;
                }
                "creator" => self.archive.creator = map.next_value::<Creator>()?.name,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A list whose items are given away one by one.
struct Items<T, F>(F, PhantomData<T>);

impl<T, F: FnMut(T)> Items<T, F> {
    fn new(take: F) -> Self {
        Self(take, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Items<T, F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Items<T, F> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}
