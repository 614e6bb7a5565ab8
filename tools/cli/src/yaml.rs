//! YAML, for people who read it and programs that want it: what JSON would say, in blocks.
//!
//! Owns the writing. Every text that could be read as something else, by any reader of YAML 1.1 or 1.2, is quoted.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value with its fields in their own order, which a map of `serde_json` would lose.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// As JSON writes it, which YAML reads the same: null, numbers, true and false.
    Plain(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// One document.
pub(crate) fn write_document(sink: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_vec(value)?;
    let node: Node = serde_json::from_slice(&json)?;
    sink.write_all(b"---\n")?;
    write_block(sink, &node, 0)
}

/// Writes `node` on lines of its own, indented by `depth`.
fn write_block(sink: &mut dyn Write, node: &Node, depth: usize) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    match node {
        Node::List(items) if !items.is_empty() => {
            for item in items {
                write!(sink, "{indent}-")?;
                write_after(sink, item, depth, Head::Dash)?;
            }
            Ok(())
        }
        Node::Map(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                write!(sink, "{indent}{}:", text(key))?;
                write_after(sink, value, depth, Head::Key)?;
            }
            Ok(())
        }
        short => writeln!(sink, "{indent}{}", flow(short)),
    }
}

/// What stands before a value in its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    Dash,
    Key,
}

fn write_after(sink: &mut dyn Write, node: &Node, depth: usize, head: Head) -> io::Result<()> {
    match node {
        // The first field of a map goes behind the dash, the others under it.
        Node::Map(fields) if head == Head::Dash && !fields.is_empty() => {
            let mut block = Vec::new();
            write_block(&mut block, node, depth + 1)?;
            let first = (depth + 1) * 2;
            sink.write_all(b" ")?;
            sink.write_all(block.get(first..).unwrap_or_default())
        }
        Node::List(items) if !items.is_empty() => {
            sink.write_all(b"\n")?;
            write_block(sink, node, depth + 1)
        }
        Node::Map(fields) if !fields.is_empty() => {
            sink.write_all(b"\n")?;
            write_block(sink, node, depth + 1)
        }
        short => writeln!(sink, " {}", flow(short)),
    }
}

fn flow(node: &Node) -> String {
    match node {
        Node::Plain(plain) => plain.clone(),
        Node::Text(value) => text(value),
        Node::List(_) => "[]".to_owned(),
        Node::Map(_) => "{}".to_owned(),
    }
}

/// Words that some reader takes for null or a truth value.
const WORDS: [&str; 12] =
    ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", "nan", "inf"];

/// A text as it is where it can be nothing else, else in JSON's quotes, which YAML reads the same.
fn text(value: &str) -> String {
    let starts_well = value.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./ ".contains(one);
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(value));
    if starts_well && !is_word && value.chars().all(is_plain) && !value.ends_with(' ') {
        return value.to_owned();
    }
    serde_json::Value::from(value).to_string()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain("null".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Plain(serde_json::Value::from(value).to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(value: &impl Serialize) -> String {
        let mut written = Vec::new();
        write_document(&mut written, value).unwrap();
        String::from_utf8(written).unwrap()
    }

    #[derive(Serialize)]
    struct Inner {
        zeta: i32,
        alpha: Option<&'static str>,
        list: Vec<i32>,
    }

    #[test]
    fn values_are_blocks_in_the_order_of_their_fields() {
        let inner = |zeta| Inner { zeta, alpha: None, list: vec![1, 2] };
        assert_eq!(yaml(&inner(3)), "---\nzeta: 3\nalpha: null\nlist:\n  - 1\n  - 2\n");
        let list = vec![inner(1), Inner { zeta: -2, alpha: Some("a b"), list: vec![] }];
        let expected = "---\n- zeta: 1\n  alpha: null\n  list:\n    - 1\n    - 2\n\
                        - zeta: -2\n  alpha: a b\n  list: []\n";
        assert_eq!(yaml(&list), expected);
        assert_eq!(yaml(&vec![vec![1], vec![]]), "---\n-\n  - 1\n- []\n");
        assert_eq!(yaml(&Vec::<i32>::new()), "---\n[]\n");
        assert_eq!(yaml(&"x"), "---\nx\n");
    }

    #[test]
    fn a_text_is_quoted_where_it_could_be_something_else() {
        let check = |value: &str, expected: &str| assert_eq!(text(value), expected, "{value}");
        check("orders", "orders");
        check("/var/lib/corelog", "/var/lib/corelog");
        check("a-b_c.d e", "a-b_c.d e");
        for quoted in
            ["", "1", "-1", "1.5", "yes", "No", "NULL", "~", "y", "*", "- a", "a: b", "a #b"]
        {
            check(quoted, &format!("\"{quoted}\""));
        }
        for quoted in ["a ", "0x1f", "=x", "@x", "käse", "1e3", ".5", "PLAINTEXT://:1", "{}", "[a"]
        {
            check(quoted, &format!("\"{quoted}\""));
        }
        check("a\nb", "\"a\\nb\"");
        check("say \"hi\"", "\"say \\\"hi\\\"\"");
    }
}
