//! Prometheus text, as far as a node writes it.
//!
//! Owns the parser. A line that is none is passed over: a newer node may say more than is known here.

use std::collections::BTreeMap;

/// Lines that are looked at: far above what a node of a hundred cores says.
const LINES_MAX: usize = 200_000;

/// One series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    labels: Vec<(String, String)>,
    /// The number.
    pub(crate) value: f64,
}

impl Series {
    /// The value of a label; empty where there is none.
    pub(crate) fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }
}

/// A page, by the names of its metrics; the series of each in the page's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page(BTreeMap<String, Vec<Series>>);

impl Page {
    /// Reads a page.
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines().take(LINES_MAX).filter(|line| !line.starts_with('#')) {
            if let Some((name, series)) = parse_line(line) {
                page.0.entry(name.to_owned()).or_default().push(series);
            }
        }
        page
    }

    /// The series of one metric.
    pub(crate) fn series(&self, name: &str) -> &[Series] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The metric that has one series.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.series(name).first().map(|series| series.value)
    }
}

fn parse_line(line: &str) -> Option<(&str, Series)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    // A time stamp may follow.
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((name, Series { labels, value }))
}

/// The labels up to the closing bracket, and what follows it.
fn parse_labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, behind) = parse_quoted(quoted)?;
        labels.push((name.to_owned(), value));
        rest = behind;
    }
}

/// The text up to the closing quote, and what follows it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_values_are_read_and_other_lines_passed_over() {
        let page = Page::parse(
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 12\n\
             b{core=\"0\"} 1.5\nb{core=\"1\",le=\"+Inf\"} 2e3 1700000000\n\
             c{topic=\"a\\\\b\\\"c\\nd}\"} 7\n\nd\ne{x=\"1 2\nf{} 3\ng NaN\nh one\n",
        );
        assert_eq!(page.value("a_total"), Some(12.0));
        let b = page.series("b");
        assert_eq!((b[0].label("core"), b[0].value), ("0", 1.5));
        assert_eq!((b[1].label("le"), b[1].value), ("+Inf", 2000.0));
        assert_eq!(b[1].label("no"), "");
        assert_eq!(page.series("c")[0].label("topic"), "a\\b\"c\nd}");
        assert_eq!(page.value("f"), Some(3.0));
        assert!(page.value("g").is_some_and(f64::is_nan));
        for name in ["d", "e", "h", ""] {
            assert_eq!(page.series(name), [], "{name}");
        }
    }
}
