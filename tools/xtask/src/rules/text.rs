//! Rust source with comments and literals blanked, so that a rule finds code and nothing else.
//!
//! Owns a scanner that knows comments, strings, raw strings, characters and lifetimes. Lines keep their numbers and
//! columns. It never parses: a rule that needs a syntax tree does not belong here.

use std::iter::Peekable;
use std::str::Chars;

/// The code of `text`: the same lines, with every comment and literal replaced by spaces.
pub(crate) fn code(text: &str) -> String {
    let mut scanner = Scanner { rest: text.chars().peekable(), code: String::new() };
    scanner.run();
    scanner.code
}

/// Whether `line` holds `word` with no identifier character on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    code: String,
}

impl Scanner<'_> {
    fn run(&mut self) {
        while let Some(character) = self.rest.next() {
            match character {
                '/' if self.rest.peek() == Some(&'/') => self.line_comment(),
                '/' if self.rest.peek() == Some(&'*') => self.block_comment(),
                '"' => self.string(),
                'r' if self.starts_raw_string() => self.raw_string(),
                '\'' => self.quote(),
                _ => self.code.push(character),
            }
        }
    }

    fn blank(&mut self, character: char) {
        self.code.push(if character == '\n' { '\n' } else { ' ' });
    }

    fn blank_next(&mut self) -> Option<char> {
        let character = self.rest.next()?;
        self.blank(character);
        Some(character)
    }

    fn line_comment(&mut self) {
        self.blank(' ');
        while self.rest.peek().is_some_and(|character| *character != '\n') {
            self.blank_next();
        }
    }

    fn block_comment(&mut self) {
        self.blank(' ');
        self.blank_next();
        let mut depth = 1_usize;
        while depth > 0 {
            match self.blank_next() {
                Some('*') if self.rest.peek() == Some(&'/') => depth -= 1,
                Some('/') if self.rest.peek() == Some(&'*') => depth += 1,
                Some(_) => continue,
                None => return,
            }
            self.blank_next();
        }
    }

    fn string(&mut self) {
        self.blank(' ');
        while let Some(character) = self.blank_next() {
            match character {
                '\\' => {
                    self.blank_next();
                }
                '"' => return,
                _ => {}
            }
        }
    }

    /// `r` opens a raw string where hashes and a quote follow, and it ends no identifier (`br` and `cr` aside).
    fn starts_raw_string(&self) -> bool {
        let mut ahead = self.rest.clone();
        while ahead.peek() == Some(&'#') {
            ahead.next();
        }
        let mut before = self.code.chars().rev();
        let prefix = before.next().filter(|character| character.is_alphanumeric());
        let starts_word = match prefix {
            None => true,
            Some('b' | 'c') => !before.next().is_some_and(char::is_alphanumeric),
            Some(_) => false,
        };
        starts_word && ahead.peek() == Some(&'"')
    }

    fn raw_string(&mut self) {
        self.blank(' ');
        let mut hashes = 0;
        while self.rest.peek() == Some(&'#') {
            self.blank_next();
            hashes += 1;
        }
        self.blank_next();
        while let Some(character) = self.blank_next() {
            if character != '"' {
                continue;
            }
            let mut seen = 0;
            while seen < hashes && self.rest.peek() == Some(&'#') {
                self.blank_next();
                seen += 1;
            }
            if seen == hashes {
                return;
            }
        }
    }

    /// A character literal, or the tick of a lifetime or label.
    fn quote(&mut self) {
        let mut ahead = self.rest.clone();
        let is_literal = match ahead.next() {
            Some('\\') => true,
            Some(_) => ahead.next() == Some('\''),
            None => false,
        };
        if !is_literal {
            self.code.push('\'');
            return;
        }
        self.blank(' ');
        while let Some(character) = self.blank_next() {
            match character {
                '\\' => {
                    self.blank_next();
                }
                '\'' => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let check = |text: &str, expected: &str| assert_eq!(code(text), expected, "{text}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check("f(\"wire::\\\"x\") + 1", "f(           ) + 1");
        check("r#\"a\"b\"# z", "         z");
        check("br\"a\" z", "b     z");
        check("var\"a\" z", "var    z");
        check("'a' '\\'' 'life x", "         'life x");
        check("let c = '\"'; g()", "let c =    ; g()");
        check("/* open", "       ");
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("use wire::Frame;", "wire"));
        assert!(has_word("wire", "wire"));
        assert!(!has_word("use rewire::Frame;", "wire"));
        assert!(!has_word("wired", "wire"));
        assert!(has_word("rewire + wire", "wire"));
    }
}
