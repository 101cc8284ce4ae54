//! How long a file and a function may be.

use super::Violation;
use std::path::Path;

/// Lines of one file, inline test modules not counted.
const FILE_LINES_MAX: usize = 700;
/// Lines of one function body that hold code; the same figure and meaning as clippy's `too_many_lines`.
const FUNCTION_LINES_MAX: usize = 70;

/// Both limits for one file; `code` is masked.
pub(crate) fn check(path: &Path, code: &str) -> Vec<Violation> {
    let tests = test_modules(code);
    let in_tests: usize = tests.iter().map(|(from, to)| to - from + 1).sum();
    let lines = code.lines().count() - in_tests;
    let mut found = Vec::new();
    if lines > FILE_LINES_MAX {
        let rule =
            format!("file has {lines} lines without its tests, allowed are {FILE_LINES_MAX}");
        found.push(Violation::new(path, 1, rule));
    }
    for function in functions(code) {
        if function.lines > FUNCTION_LINES_MAX {
            let rule = format!(
                "function {} has {} lines of code, allowed are {FUNCTION_LINES_MAX}",
                function.name, function.lines
            );
            found.push(Violation::new(path, function.at, rule));
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Line number, from 1.
    at: usize,
    lines: usize,
}

fn line_of(code: &str, offset: usize) -> usize {
    code[..offset].matches('\n').count() + 1
}

/// Offset just behind the block that opens at or after `from`; `None` if a `;` comes first.
fn block(code: &str, from: usize) -> Option<(usize, usize)> {
    let (mut depth, mut round, mut open) = (0_usize, 0_i32, None);
    for (at, c) in code[from..].char_indices().map(|(i, c)| (from + i, c)) {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' if open.is_none() && round == 0 => return None,
            '{' => {
                open.get_or_insert(at);
                depth += 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if let (0, Some(open)) = (depth, open) {
                    return Some((open, at + 1));
                }
            }
            _ => {}
        }
    }
    None
}

/// First and last line of each `#[cfg(test)] mod … { … }`.
fn test_modules(code: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let rest = code[at + attribute.len()..].trim_start();
        if !rest.starts_with("mod ") {
            continue;
        }
        if let Some((_, end)) = block(code, at + attribute.len()) {
            found.push((line_of(code, at), line_of(code, end)));
        }
    }
    found
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, keyword) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + keyword.len()..];
        let ident = |c: &char| c.is_alphanumeric() || *c == '_';
        let name: String = rest.chars().take_while(ident).collect();
        if name.is_empty() {
            continue; // a function pointer type
        }
        if let Some((open, end)) = block(code, at) {
            let body = &code[open + 1..end - 1];
            let lines = body.lines().filter(|l| !l.trim().is_empty()).count();
            let at = line_of(code, at);
            found.push(Function { name, at, lines });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_code_lines() {
        let code = "trait T { fn none(&self) -> [u8; 3]; }\n\nfn one<T>() where T: X {\n  a;\n\n  b {\n  }\n}\n";
        let want = Function {
            name: "one".to_owned(),
            at: 3,
            lines: 3,
        };
        assert_eq!(functions(code), [want]);
    }

    #[test]
    fn a_function_of_71_code_lines_is_too_long_and_one_of_70_is_not() {
        let of = |n: usize| format!("fn f() {{\n{}}}\n", "x;\n\n".repeat(n));
        assert_eq!(check(Path::new("a.rs"), &of(70)), []);
        let found = check(Path::new("a.rs"), &of(71));
        assert_eq!(
            found[0].to_string(),
            "a.rs:1: function f has 71 lines of code, allowed are 70"
        );
    }

    #[test]
    fn inline_tests_do_not_count_for_the_file() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(900));
        assert_eq!(check(Path::new("a.rs"), &tests), []);
        let found = check(Path::new("a.rs"), &"x;\n".repeat(701));
        assert_eq!(found.len(), 1);
    }
}
