//! A scenario on standard input: `bench run -`.

use std::io::Read as _;
use std::path::Path;

use harness::HarnessError;
use harness::options::YamlFile;

/// A scenario is not larger than this, in bytes.
const SCENARIO_BYTES_MAX: u64 = 16 << 20;
/// How messages name it. Files that it names are looked up in the current directory.
const NAME: &str = "standard input";

/// The scenario at a path, or the text on standard input if the path is `-`.
///
/// # Errors
/// Standard input cannot be read, is empty or too large, or is not UTF-8.
pub(super) fn scenario(path: &Path) -> Result<YamlFile, HarnessError> {
    if path != Path::new("-") {
        return Ok(path.into());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(SCENARIO_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(HarnessError::cannot("read standard input"))?;
    if bytes.len() as u64 > SCENARIO_BYTES_MAX {
        return Err(HarnessError::usage("the scenario on standard input has more than 16 MiB")
            .remedy("give its rows in a file: `data:` names one"));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => {
            Err(HarnessError::usage("there is no scenario on standard input")
                .remedy("pipe one in, as in `bench run - < order.yaml`"))
        }
        Ok(text) => Ok(YamlFile::text(NAME, text)),
        Err(_) => {
            Err(HarnessError::usage("the scenario on standard input is not UTF-8").remedy("pipe in a text"))
        }
    }
}
