use std::collections::HashMap;

/// `--name value` pairs, and `--direct` alone.
pub struct Options(HashMap<String, String>);

impl Options {
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut values = HashMap::new();
        while let Some(name) = arguments.next() {
            let Some(key) = name.strip_prefix("--") else {
                return Err(format!("unexpected argument {name}"));
            };
            let value = if key == "direct" {
                String::new()
            } else {
                arguments.next().ok_or(format!("{name} needs a value"))?
            };
            values.insert(key.to_string(), value);
        }
        Ok(Self(values))
    }

    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or(format!("--{name} is missing"))
    }

    pub fn text_or<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    pub fn number(&self, name: &str) -> Result<usize, String> {
        self.text(name)?.parse().map_err(|_| format!("--{name} needs a number"))
    }

    pub fn number_or(&self, name: &str, default: usize) -> Result<usize, String> {
        if self.0.contains_key(name) { self.number(name) } else { Ok(default) }
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
