//! Made-up names and addresses, from the lists of the crate `fake`.
//!
//! Each value takes one draw, which seeds a generator of its own. The values may change with the version of `fake`.

use fake::Fake as _;
use fake::faker::{address::raw as address, company::raw as company, internet::raw as internet};
use fake::faker::{lorem::raw as lorem, name::raw as name, phone_number::raw as phone};
use fake::locales::EN;
use fake::rand::SeedableRng as _;
use fake::rand::rngs::ChaCha8Rng;
use minijinja::Error;

use super::allowance::invalid;
use super::draws::draw;

/// The kinds that `fake(kind)` knows.
pub const KINDS: [&str; 16] = [
    "name",
    "first_name",
    "last_name",
    "email",
    "username",
    "phone",
    "company",
    "job",
    "street",
    "house_number",
    "city",
    "zip",
    "state",
    "country",
    "word",
    "sentence",
];

pub(super) fn fake(kind: &str) -> Result<String, Error> {
    let mut random = ChaCha8Rng::seed_from_u64(draw());
    let random = &mut random;
    Ok(match kind {
        "name" => name::Name(EN).fake_with_rng(random),
        "first_name" => name::FirstName(EN).fake_with_rng(random),
        "last_name" => name::LastName(EN).fake_with_rng(random),
        // At example.com and its kind, which have no owner.
        "email" => internet::SafeEmail(EN).fake_with_rng(random),
        "username" => internet::Username(EN).fake_with_rng(random),
        "phone" => phone::PhoneNumber(EN).fake_with_rng(random),
        "company" => company::CompanyName(EN).fake_with_rng(random),
        "job" => company::Profession(EN).fake_with_rng(random),
        "street" => address::StreetName(EN).fake_with_rng(random),
        "house_number" => address::BuildingNumber(EN).fake_with_rng(random),
        "city" => address::CityName(EN).fake_with_rng(random),
        "zip" => address::ZipCode(EN).fake_with_rng(random),
        "state" => address::StateName(EN).fake_with_rng(random),
        "country" => address::CountryName(EN).fake_with_rng(random),
        "word" => lorem::Word(EN).fake_with_rng(random),
        "sentence" => lorem::Sentence(EN, 4..10).fake_with_rng(random),
        _ => {
            return Err(invalid(format!("fake(kind) does not know `{kind}`; it knows {}", KINDS.join(", "))));
        }
    })
}
