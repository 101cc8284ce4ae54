//! Listing of sandboxes: filters, order, pages. Pure over a snapshot of the registry.

use crate::error::ApiError;
use crate::sandbox::Facts;
use api::e2b::PAGE_ITEMS_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use std::cmp::Ordering;

/// Order by start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// A checked query of the second generation's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) metadata: Vec<(String, String)>,
    /// Whether running sandboxes are wanted; paused ones do not exist yet.
    pub(crate) running: bool,
    pub(crate) order: Order,
    pub(crate) started_after: Option<Timestamp>,
    pub(crate) template: Option<String>,
    pub(crate) limit: usize,
    pub(crate) after: Option<(Timestamp, String)>,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            metadata: Vec::new(),
            running: true,
            order: Order::default(),
            started_after: None,
            template: None,
            limit: PAGE_ITEMS_MAX,
            after: None,
        }
    }
}

/// The pairs of a query string or form.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(key), form_decode(value))
        })
        .collect()
}

fn form_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The metadata filter: a form inside a query value, whose keys and values SDKs quote once more.
fn metadata(value: &str) -> Vec<(String, String)> {
    pairs(value)
        .into_iter()
        .map(|(key, value)| (percent_decode(&key), percent_decode(&value)))
        .collect()
}

impl Query {
    /// Reads the query string of the second generation.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut query = Self::default();
        let mut states: Vec<String> = Vec::new();
        for (key, value) in pairs(text) {
            match key.as_str() {
                "metadata" => query.metadata.extend(metadata(&value)),
                "state" => states.extend(value.split(',').map(str::to_owned)),
                "order" => query.order = order(&value)?,
                "startedAfter" => query.started_after = Some(time(&value)?),
                "template" => query.template = template(&value)?,
                "limit" => query.limit = limit(&value)?,
                "nextToken" if !value.is_empty() => query.after = Some(cursor(&value)?),
                _ => {}
            }
        }
        for state in &states {
            if !matches!(state.as_str(), "running" | "paused") {
                let text = format!("state {state:?} is not running or paused");
                return Err(ApiError::invalid(text));
            }
        }
        query.running = states.is_empty() || states.iter().any(|s| s == "running");
        Ok(query)
    }

    /// Reads the query string of the first generation: metadata alone, no pages.
    pub(crate) fn parse_v1(text: &str) -> Self {
        let filters = pairs(text)
            .into_iter()
            .filter(|(key, _)| key == "metadata")
            .flat_map(|(_, value)| metadata(&value))
            .collect();
        Self {
            metadata: filters,
            limit: usize::MAX,
            ..Self::default()
        }
    }

    fn wants(&self, facts: &Facts) -> bool {
        let pair = |(k, v): &(String, String)| facts.metadata.get(k) == Some(v);
        self.running
            && self.metadata.iter().all(pair)
            && self.started_after.is_none_or(|t| facts.started_at >= t)
            && self.template.as_ref().is_none_or(|t| {
                *t == facts.template_id || facts.alias.as_ref().is_some_and(|a| t == a)
            })
    }

    fn compare(&self, a: (Timestamp, &str), b: (Timestamp, &str)) -> Ordering {
        match self.order {
            Order::Ascending => a.cmp(&b),
            Order::Descending => b.cmp(&a),
        }
    }

    /// Sorts out and sorts; returns the page, the token of the next one, and how many match in all.
    pub(crate) fn page<T>(
        &self,
        items: Vec<T>,
        facts: impl Fn(&T) -> &Facts,
    ) -> (Vec<T>, Option<String>, usize) {
        fn key(facts: &Facts) -> (Timestamp, &str) {
            (facts.started_at, facts.id.as_str())
        }
        let mut found: Vec<T> = items.into_iter().filter(|i| self.wants(facts(i))).collect();
        let total = found.len();
        found.sort_by(|a, b| self.compare(key(facts(a)), key(facts(b))));
        if let Some((time, id)) = &self.after {
            found.retain(|i| self.compare(key(facts(i)), (*time, id)).is_gt());
        }
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| more).map(|last| {
            let (time, id) = key(facts(last));
            URL_SAFE_NO_PAD.encode(format!("{time}__{id}"))
        });
        (found, next, total)
    }
}

fn order(value: &str) -> Result<Order, ApiError> {
    match value {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        other => Err(ApiError::invalid(format!(
            "order {other:?} is not asc or desc"
        ))),
    }
}

fn time(value: &str) -> Result<Timestamp, ApiError> {
    // A '+' of the offset that was not escaped arrives as a space.
    let text = value.replace(' ', "+");
    text.parse().map_err(|e| {
        ApiError::invalid(format!(
            "startedAfter {value:?} is not an RFC 3339 time: {e}"
        ))
    })
}

fn template(value: &str) -> Result<Option<String>, ApiError> {
    if value.contains(':') {
        let text = format!("template {value:?}: a tag is not allowed in this filter");
        return Err(ApiError::invalid(text));
    }
    Ok(Some(value.to_lowercase()).filter(|v| !v.is_empty()))
}

pub(crate) fn limit(value: &str) -> Result<usize, ApiError> {
    match value.parse() {
        Ok(limit) if (1..=PAGE_ITEMS_MAX).contains(&limit) => Ok(limit),
        _ => Err(ApiError::invalid(format!(
            "limit is {value}, allowed are 1 to {PAGE_ITEMS_MAX}"
        ))),
    }
}

fn cursor(value: &str) -> Result<(Timestamp, String), ApiError> {
    let parsed = || {
        let bytes = URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (time, id) = text.split_once("__")?;
        Some((time.parse().ok()?, id.to_owned()))
    };
    parsed().ok_or_else(|| {
        ApiError::invalid(format!(
            "nextToken {value:?} is not one that a listing gave"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_decoded_once_more_than_the_query() {
        let query = Query::parse("metadata=a%252520b%3Dc%252526d%26x%3Dy").expect("valid");
        let expected = [("a b", "c&d"), ("x", "y")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(query.metadata, expected);
    }

    #[test]
    fn states_come_as_a_list_or_repeated() {
        for text in ["state=running%2Cpaused", "state=paused&state=running", ""] {
            assert!(Query::parse(text).expect(text).running, "{text}");
        }
        assert!(!Query::parse("state=paused").expect("valid").running);
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, word) in [
            ("limit=0", "limit is 0"),
            ("limit=101", "1 to 100"),
            ("limit=x", "limit is x"),
            ("state=dead", "\"dead\""),
            ("order=up", "\"up\""),
            ("startedAfter=yesterday", "RFC 3339"),
            ("nextToken=%21", "nextToken"),
            ("template=a%3Ab", "tag"),
        ] {
            let error = Query::parse(text).expect_err(text).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
