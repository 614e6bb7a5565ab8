//! Markup that is well formed whatever is put into it.
//!
//! Owns escaping: tags and names of attributes are our own words, every value and every text is foreign. What is written is read
//! alike by an HTML and an XML parser.

/// A document in the making.
#[derive(Debug, Default)]
pub(super) struct Markup(String);

/// Names and values of an element's attributes.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// An element and what is in it.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        content: impl FnOnce(&mut Self),
    ) {
        self.open(tag, attributes);
        self.0.push('>');
        content(self);
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
    }

    /// An element that holds text.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |markup| markup.text(text));
    }

    /// An element that holds nothing.
    pub(super) fn void(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.0.push_str("/>");
    }

    /// Text.
    pub(super) fn text(&mut self, text: &str) {
        for character in text.chars() {
            self.character(character);
        }
    }

    /// Words of ours that are markup already.
    pub(super) fn verbatim(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// The document.
    pub(super) fn finish(self) -> String {
        self.0
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            self.text(value);
            self.0.push('"');
        }
    }

    fn character(&mut self, character: char) {
        match character {
            '&' => self.0.push_str("&amp;"),
            '<' => self.0.push_str("&lt;"),
            '>' => self.0.push_str("&gt;"),
            '"' => self.0.push_str("&quot;"),
            '\'' => self.0.push_str("&#39;"),
            // Neither parser takes these; and text that runs the other way could make a line say what it does not.
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                self.0.push('\u{fffd}');
            }
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.push('\u{fffd}'),
            other => self.0.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_and_no_value_ends_what_it_stands_in() {
        let hostile =
            "</p><script>alert(1)</script>\"' onload='x' &amp; \u{0}\u{1b}[2J\u{202e}\u{ffff}";
        let mut markup = Markup::default();
        markup.leaf("p", &[("title", hostile)], hostile);
        let escaped = "&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=&#39;x&#39; &amp;amp; \
                       \u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}";
        assert_eq!(markup.finish(), format!("<p title=\"{escaped}\">{escaped}</p>"));
    }

    #[test]
    fn elements_nest_and_close() {
        let mut markup = Markup::default();
        markup.element("g", &[], |markup| markup.void("path", &[("d", "M0 0")]));
        assert_eq!(markup.finish(), "<g><path d=\"M0 0\"/></g>");
    }
}
