/// The query of a request, in the order in which it was sent. Of parameters of one name the first
/// counts.
pub type Query = [(String, String)];

/// In which language names are wanted: two letters, in lower case.
pub struct Language(pub String);

impl Language {
    /// The error names the parameter, and says what is wrong with it.
    pub fn read(query: &Query) -> Result<Self, String> {
        match value(query, "language") {
            Some(code)
                if code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphabetic()) =>
            {
                Ok(Self(code.to_ascii_lowercase()))
            }
            found => Err(wrong("language", "two letters", found)),
        }
    }
}

/// Which city is wanted.
pub struct CityId(pub i64);

impl CityId {
    /// The error names the parameter, and says what is wrong with it.
    pub fn read(query: &Query) -> Result<Self, String> {
        let found = value(query, "id");
        let id = found.and_then(|text| text.parse().ok());
        id.map(Self).ok_or_else(|| wrong("id", "an integer of 64 bits", found))
    }
}

/// Both, or all that is wrong with them.
pub fn city_and_language(query: &Query) -> Result<(CityId, Language), String> {
    match (CityId::read(query), Language::read(query)) {
        (Ok(id), Ok(language)) => Ok((id, language)),
        (Err(id), Err(language)) => Err(format!("{id}; {language}")),
        (Err(wrong), Ok(_)) | (Ok(_), Err(wrong)) => Err(wrong),
    }
}

fn value<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn wrong(name: &str, wanted: &str, found: Option<&str>) -> String {
    match found {
        None => format!("{name} is missing: it must be {wanted}"),
        Some(text) => format!("{name} is {text:?}: it must be {wanted}"),
    }
}
