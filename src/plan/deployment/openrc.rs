//! The cloud that the variables of an `openrc` file describe, under the name that OpenStack's own clients give it
//! (openstacksdk, "Configuring OpenStack SDK Applications").
//!
//! It becomes a file of clouds in memory, so that its keys mean what they mean there.

use serde_json::{Map, Value, json};

use text::diagnostics::SourceText;

/// The cloud's name.
pub(super) const NAME: &str = "envvars";

/// Variables without `OS_`, with the key of a cloud that each sets.
const OF_CLOUD: [(&str, &str); 8] = [
    ("AUTH_TYPE", "auth_type"),
    ("REGION_NAME", "region_name"),
    ("ENDPOINT_TYPE", "endpoint_type"),
    ("INTERFACE", "interface"),
    ("CACERT", "cacert"),
    ("CERT", "cert"),
    ("KEY", "key"),
    ("INSECURE", "insecure"),
];

/// A file of clouds with only this one; `None` if nothing says where it is. `keys`: the keys of `auth`; the variable of
/// `user_id` is `OS_USER_ID`.
pub(super) fn clouds<'k>(
    variable: impl Fn(&str) -> Option<String>,
    keys: impl Iterator<Item = &'k str>,
) -> Option<SourceText> {
    let set = |name: &str| variable(&format!("OS_{name}")).filter(|value| !value.is_empty());
    set("AUTH_URL")?;
    let auth = keys.filter_map(|key| Some((key.to_owned(), json!(set(&key.to_uppercase())?))));
    let auth: Map<String, Value> = auth.collect();
    let of_cloud = OF_CLOUD.iter().filter_map(|(name, key)| Some(((*key).to_owned(), json!(set(name)?))));
    let mut cloud: Map<String, Value> = of_cloud.collect();
    cloud.insert("auth".to_owned(), Value::Object(auth));
    Some(SourceText::new("the variables OS_*", json!({ "clouds": { NAME: cloud } }).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_a_file_of_clouds() {
        let read = |set: &[(&str, &str)]| {
            let value =
                |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            clouds(value, ["auth_url", "user_id", "password"].into_iter()).map(|source| source.text)
        };
        assert_eq!(read(&[("OS_USER_ID", "u")]), None);
        assert_eq!(read(&[("OS_AUTH_URL", ""), ("OS_USER_ID", "u")]), None);
        let set = [
            ("OS_AUTH_URL", "http://k"),
            ("OS_PASSWORD", "a\"b"),
            ("OS_REGION_NAME", "R"),
            ("OS_USER_ID", ""),
        ];
        let expected = json!({ "clouds": { "envvars": {
            "region_name": "R", "auth": { "auth_url": "http://k", "password": "a\"b" } } } });
        assert_eq!(serde_json::from_str::<Value>(&read(&set).unwrap()).unwrap(), expected);
    }
}
